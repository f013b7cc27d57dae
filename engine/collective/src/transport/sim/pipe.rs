//! The bytes under way of a connection, which both ends share.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// What a connection is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Decides about every delay.
    pub(crate) seed: u64,
    /// Bytes under way at most; at least 1.
    pub(crate) bound_bytes: usize,
    /// Bytes after which the connection is lost.
    pub(crate) lost_after: Option<usize>,
}

/// Bytes under way.
#[derive(Debug)]
struct Pipe {
    bytes: VecDeque<u8>,
    bound: usize,
    left: Option<usize>,
    state: u64,
}

/// What the ends wait for.
#[derive(Debug)]
struct Waits {
    /// Readable while there is something to receive, or nothing ever again.
    filled: OwnedFd,
    /// Writable while there is room, or nobody needs any: else its counter is at the limit.
    room: OwnedFd,
}

/// One end's hold on it.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pipe: Arc<Mutex<Pipe>>,
    waits: Arc<Waits>,
}

impl Shared {
    /// A new one.
    pub(super) fn new(terms: Terms) -> Self {
        let (bound, left) = (terms.bound_bytes.max(1), terms.lost_after);
        let pipe = Pipe { bytes: VecDeque::with_capacity(bound), bound, left, state: terms.seed };
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let waits = Arc::new(Waits { filled: event(), room: event() });
        Self { pipe: Arc::new(Mutex::new(pipe)), waits }
    }

    /// Puts in some of `bytes`: how many; nothing if the connection is lost.
    pub(super) fn put(&self, bytes: &[u8]) -> Option<usize> {
        self.change(|pipe| pipe.put(bytes))
    }

    /// Takes out some bytes, `max` at most; nothing if the connection is lost and empty.
    pub(super) fn get(&self, max: usize) -> Option<Vec<u8>> {
        self.change(|pipe| pipe.get(max))
    }

    /// What the receiving end waits for.
    pub(super) fn filled(&self) -> BorrowedFd<'_> {
        self.waits.filled.as_fd()
    }

    /// What the sending end waits for.
    pub(super) fn room(&self) -> BorrowedFd<'_> {
        self.waits.room.as_fd()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Pipe) -> T) -> T {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let before = pipe.ready();
        let outcome = change(&mut pipe);
        let ready = pipe.ready();
        if ready.0 != before.0 {
            set(&self.waits.filled, ready.0, 1);
        }
        if ready.1 != before.1 {
            set(&self.waits.room, !ready.1, u64::MAX - 1);
        }
        outcome
    }
}

/// Makes an event's counter `value`, or 0.
fn set(event: &OwnedFd, on: bool, value: u64) {
    let _ = if on {
        rustix::io::write(event, &value.to_ne_bytes())
    } else {
        rustix::io::read(event, &mut [0_u8; 8])
    };
}

impl Pipe {
    /// Whether the receiving and the sending end have a reason to call.
    fn ready(&self) -> (bool, bool) {
        let lost = self.left == Some(0);
        (lost || !self.bytes.is_empty(), lost || self.bytes.len() < self.bound)
    }

    /// Puts in some of `bytes`: how many; nothing if the connection is lost.
    fn put(&mut self, bytes: &[u8]) -> Option<usize> {
        let room = (self.bound - self.bytes.len()).min(self.left.unwrap_or(usize::MAX));
        if self.left == Some(0) {
            return None;
        }
        let n = self.some_of(bytes.len().min(room));
        self.bytes.extend(bytes.iter().take(n));
        self.left = self.left.map(|left| left - n);
        Some(n)
    }

    /// Takes out some bytes, `max` at most; nothing if the connection is lost and empty.
    fn get(&mut self, max: usize) -> Option<Vec<u8>> {
        if self.left == Some(0) && self.bytes.is_empty() {
            return None;
        }
        let n = self.some_of(max.min(self.bytes.len()));
        Some(self.bytes.drain(..n).collect())
    }

    /// None of `n` in one of three calls, else any number of them. The generator is Marsaglia's xorshift64 (2003).
    fn some_of(&mut self, n: usize) -> usize {
        self.state = self.state.max(1);
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let any = usize::try_from(self.state >> 33).unwrap_or(0);
        if n == 0 || self.state.is_multiple_of(3) { 0 } else { 1 + any % n }
    }
}
