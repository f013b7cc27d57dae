//! A rank sleeps on one thing, whatever is to wake it.
//!
//! The sleeper says in its arena that it sleeps, looks once more whether there is something to do, and sleeps. Whoever
//! has done something that it may wait for looks whether it sleeps, and only then pays for a system call. Both put a
//! full fence between their write and their look, so that one of them sees the other: no ring is lost.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::futex;

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::net::wake::{self, Wake};
use crate::transport::shm::layout::DOORBELL;
use crate::transport::shm::map::Mapping;

const AWAKE: u32 = 0;
const IN_FUTEX: u32 = 1;
const IN_POLL: u32 = 2;

/// What a sleeper waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The bell alone: a futex.
    Bell,
    /// The bell and descriptors: an eventfd among them.
    BellAndFds,
}

/// Wakes a rank; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Ringer {
    head: Arc<Mapping>,
    event: Wake,
}

/// The event of a rank's bells in a communicator and in those made of it. A sleeper that has been woken, and resets it, passes it
/// on to those who are rung too.
#[derive(Debug)]
pub(crate) struct Event {
    wake: Wake,
    /// The heads of who sleeps on it.
    asleep: Mutex<Vec<Arc<Mapping>>>,
}

/// This rank's own bell.
#[derive(Debug)]
pub struct Doorbell {
    ringer: Ringer,
    event: Arc<Event>,
}

/// A rank that is about to sleep. Dropping it is waking up.
#[derive(Debug)]
pub struct Nap<'a> {
    bell: &'a Doorbell,
    mode: Mode,
}

impl Event {
    /// A new one.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self { wake: Wake::new()?, asleep: Mutex::default() }))
    }

    fn reset(&self) {
        self.wake.reset();
        if lock(&self.asleep).iter().any(|head| head.word(DOORBELL).load(Ordering::SeqCst) == AWAKE) {
            self.wake.set();
        }
    }
}

impl Ringer {
    /// For the rank whose arena's head and eventfd these are.
    pub(crate) fn new(head: Arc<Mapping>, event: Wake) -> Self {
        Self { head, event }
    }

    /// Of the same rank in another communicator that shares its event.
    pub(crate) fn over(&self, head: Arc<Mapping>) -> Self {
        Self { head, event: self.event.clone() }
    }

    /// Wakes the rank if it sleeps. What it is to see was written before.
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.word().load(Ordering::Relaxed) != AWAKE {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        match self.word().swap(AWAKE, Ordering::SeqCst) {
            AWAKE => {}
            IN_FUTEX => {
                let _ = futex::wake(self.word(), futex::Flags::empty(), 1);
            }
            _ => {
                self.event.set();
            }
        }
    }

    fn word(&self) -> &AtomicU32 {
        self.head.word(DOORBELL)
    }
}

impl Doorbell {
    /// In the arena with this head.
    pub(crate) fn new(head: Arc<Mapping>, event: Arc<Event>) -> Self {
        Self { ringer: Ringer::new(head, event.wake.clone()), event }
    }

    /// For this process's other threads.
    pub(crate) fn ringer(&self) -> Ringer {
        self.ringer.clone()
    }

    /// What wakes a rank that sleeps on descriptors too; to be sent to the peers.
    pub(crate) fn event(&self) -> &Wake {
        &self.event.wake
    }

    /// The same, for a communicator that is made of this one.
    pub(crate) fn shared_event(&self) -> Arc<Event> {
        Arc::clone(&self.event)
    }

    /// Resets the event of one that is awake.
    pub(crate) fn reset(&self) {
        self.event.reset();
    }

    /// Says that the rank sleeps. One thread at a time; after this, look again before [`Nap::sleep`].
    pub fn prepare(&self, mode: Mode) -> Nap<'_> {
        let word = if mode == Mode::Bell { IN_FUTEX } else { IN_POLL };
        self.ringer.word().store(word, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if mode == Mode::BellAndFds {
            lock(&self.event.asleep).push(Arc::clone(&self.ringer.head));
        }
        Nap { bell: self, mode }
    }
}

impl Nap<'_> {
    /// Sleeps until the bell rings, one of `fds` is ready or `wait` is over; sooner, now and then, for no reason.
    pub fn sleep(self, fds: &[PollFd<'_>], wait: Duration) -> Result<()> {
        match self.mode {
            Mode::Bell => self.sleep_in_futex(wait),
            Mode::BellAndFds => self.sleep_in_poll(fds, wait),
        }
    }

    fn sleep_in_futex(&self, wait: Duration) -> Result<()> {
        use rustix::io::Errno;
        let wait = Timespec::try_from(wait).ok();
        match futex::wait(self.bell.ringer.word(), futex::Flags::empty(), IN_FUTEX, wait.as_ref()) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(Error::system("futex", &error.into())),
        }
    }

    /// It sleeps on the event no more.
    fn awake(&self) {
        if self.mode == Mode::BellAndFds {
            let head = &self.bell.ringer.head;
            lock(&self.bell.event.asleep).retain(|one| !Arc::ptr_eq(one, head));
        }
    }

    fn sleep_in_poll(&self, fds: &[PollFd<'_>], wait: Duration) -> Result<()> {
        let mut all = fds.to_vec();
        all.push(PollFd::new(self.bell.event(), PollFlags::IN));
        let slept = wake::sleep(&mut all, wait);
        // A ring that comes after this wakes the next sleep for no reason, which does no harm.
        self.awake();
        self.bell.reset();
        slept
    }
}

impl Drop for Nap<'_> {
    fn drop(&mut self) {
        self.awake();
        self.bell.ringer.word().store(AWAKE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use super::*;
    use crate::clock;
    use crate::transport::shm::map::{self, PAGE_BYTES};

    fn bell() -> Doorbell {
        bell_on(Event::new().unwrap())
    }

    fn bell_on(event: Arc<Event>) -> Doorbell {
        let fd = map::memfd("a test").unwrap();
        map::reserve(&fd, 0, PAGE_BYTES, "a test").unwrap();
        Doorbell::new(Arc::new(Mapping::new(&fd, 0, PAGE_BYTES, "a test").unwrap()), event)
    }

    /// Two threads pass a number to and fro, each asleep until the other has moved it. A lost ring would cost the whole
    /// wait of ten seconds.
    fn stress(mode: Mode) {
        play([bell(), bell()], mode);
    }

    fn play(bells: [Doorbell; 2], mode: Mode) {
        const ROUNDS: u64 = 20_000;
        let number = AtomicU64::new(0);
        let longest = thread::scope(|scope| {
            let play = |own: usize| {
                let (bells, number) = (&bells, &number);
                move || {
                    let mut longest = Duration::ZERO;
                    let turn = |at: u64| at % 2 == own as u64;
                    loop {
                        let started = clock::now();
                        while !turn(number.load(Ordering::Acquire)) {
                            let nap = bells[own].prepare(mode);
                            if !turn(number.load(Ordering::Acquire)) {
                                nap.sleep(&[], Duration::from_secs(10)).unwrap();
                            }
                        }
                        longest = longest.max(started.elapsed());
                        let at = number.fetch_add(1, Ordering::Release);
                        bells[1 - own].ringer.ring();
                        if at >= ROUNDS {
                            return longest;
                        }
                    }
                }
            };
            let threads = [scope.spawn(play(0)), scope.spawn(play(1))];
            threads.map(|thread| thread.join().unwrap()).into_iter().max().unwrap()
        });
        assert!(longest < Duration::from_secs(9), "{longest:?}");
    }

    #[test]
    fn no_ring_is_lost_in_a_futex() {
        stress(Mode::Bell);
    }

    #[test]
    fn no_ring_is_lost_in_a_poll() {
        stress(Mode::BellAndFds);
    }

    #[test]
    fn no_ring_is_lost_where_two_sleep_on_one_event() {
        let event = Event::new().unwrap();
        play([bell_on(Arc::clone(&event)), bell_on(event)], Mode::BellAndFds);
    }

    #[test]
    fn no_ring_is_lost_where_pairs_share_their_events() {
        let events = [Event::new().unwrap(), Event::new().unwrap()];
        thread::scope(|scope| {
            for _ in 0..2 {
                let bells = [0, 1].map(|at| bell_on(Arc::clone(&events[at])));
                scope.spawn(|| play(bells, Mode::BellAndFds));
            }
        });
    }

    #[test]
    fn a_descriptor_wakes_too() {
        let (bell, other) = (bell(), Wake::new().unwrap());
        other.set();
        let started = clock::now();
        let nap = bell.prepare(Mode::BellAndFds);
        nap.sleep(&[PollFd::new(&other, PollFlags::IN)], Duration::from_secs(10)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(9));
    }
}
