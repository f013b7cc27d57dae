//! Both ends of a connection, and what they share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::recv::Receiver;
use super::send::Sender;

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
pub(super) struct Pipe {
    bytes: VecDeque<u8>,
    bound: usize,
    left: Option<usize>,
    state: u64,
}

/// One end's hold on it.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Pipe>>);

/// A connection from rank `from` to rank `to`: its sending and its receiving end.
pub(crate) fn connect(from: usize, to: usize, terms: Terms) -> (Sender, Receiver) {
    let (bound, left) = (terms.bound_bytes.max(1), terms.lost_after);
    let pipe = Pipe { bytes: VecDeque::with_capacity(bound), bound, left, state: terms.seed };
    let shared = Shared(Arc::new(Mutex::new(pipe)));
    (Sender::new(to, shared.clone()), Receiver::new(from, shared))
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipe {
    /// Puts in some of `bytes`: how many; nothing if the connection is lost.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<usize> {
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
    pub(super) fn get(&mut self, max: usize) -> Option<Vec<u8>> {
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
