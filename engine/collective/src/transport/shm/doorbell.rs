//! A rank sleeps on one thing, whatever is to wake it.
//!
//! The sleeper says in its arena that it sleeps, looks once more whether there is something to do, and sleeps. Whoever
//! has done something that it may wait for looks whether it sleeps, and only then pays for a system call. Both put a
//! full fence between their write and their look, so that one of them sees the other: no ring is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::futex;

use crate::error::{Error, Result};
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

/// This rank's own bell.
#[derive(Debug)]
pub struct Doorbell {
    ringer: Ringer,
}

/// A rank that is about to sleep. Dropping it is waking up.
#[derive(Debug)]
pub struct Nap<'a> {
    ringer: &'a Ringer,
    mode: Mode,
}

impl Ringer {
    /// For the rank whose arena's head and eventfd these are.
    pub(crate) fn new(head: Arc<Mapping>, event: Wake) -> Self {
        Self { head, event }
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
    pub(crate) fn new(head: Arc<Mapping>) -> Result<Self> {
        Ok(Self { ringer: Ringer::new(head, Wake::new()?) })
    }

    /// For this process's other threads.
    pub(crate) fn ringer(&self) -> Ringer {
        self.ringer.clone()
    }

    /// What wakes a rank that sleeps on descriptors too; to be sent to the peers.
    pub(crate) fn event(&self) -> &Wake {
        &self.ringer.event
    }

    /// Says that the rank sleeps. One thread at a time; after this, look again before [`Nap::sleep`].
    pub fn prepare(&self, mode: Mode) -> Nap<'_> {
        let word = if mode == Mode::Bell { IN_FUTEX } else { IN_POLL };
        self.ringer.word().store(word, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Nap { ringer: &self.ringer, mode }
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
        match futex::wait(self.ringer.word(), futex::Flags::empty(), IN_FUTEX, wait.as_ref()) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(Error::system("futex", &error.into())),
        }
    }

    fn sleep_in_poll(&self, fds: &[PollFd<'_>], wait: Duration) -> Result<()> {
        let mut all = fds.to_vec();
        all.push(PollFd::new(&self.ringer.event, PollFlags::IN));
        let slept = wake::sleep(&mut all, wait);
        // A ring that comes after this wakes the next sleep for no reason, which does no harm.
        self.ringer.event.reset();
        slept
    }
}

impl Drop for Nap<'_> {
    fn drop(&mut self) {
        self.ringer.word().store(AWAKE, Ordering::Relaxed);
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
        let fd = map::memfd("a test").unwrap();
        map::reserve(&fd, 0, PAGE_BYTES, "a test").unwrap();
        Doorbell::new(Arc::new(Mapping::new(&fd, 0, PAGE_BYTES, "a test").unwrap())).unwrap()
    }

    /// Two threads pass a number to and fro, each asleep until the other has moved it. A lost ring would cost the whole
    /// wait of ten seconds.
    fn stress(mode: Mode) {
        const ROUNDS: u64 = 20_000;
        let (bells, number) = ([bell(), bell()], AtomicU64::new(0));
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
    fn a_descriptor_wakes_too() {
        let (bell, other) = (bell(), Wake::new().unwrap());
        other.set();
        let started = clock::now();
        let nap = bell.prepare(Mode::BellAndFds);
        nap.sleep(&[PollFd::new(&other, PollFlags::IN)], Duration::from_secs(10)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(9));
    }
}
