//! The order in which a communicator's launches run, whatever streams they are on: that of their issue, which NCCL asks
//! to be the same on all ranks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::lock::lock;

/// Tickets issued and finished. Who need not wait takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    issued: AtomicU64,
    finished: AtomicU64,
    waiting: AtomicU64,
    gate: Mutex<()>,
    changed: Condvar,
}

/// A turn; over when dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// The next ticket.
    pub(crate) fn issue(&self) -> u64 {
        self.issued.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits until all earlier tickets are finished.
    pub(crate) fn take(&self, ticket: u64) -> Turn<'_> {
        self.wait_for(ticket);
        Turn(self)
    }

    /// The turn of a launch that another thread has begun and left.
    pub(crate) fn go_on(&self) -> Turn<'_> {
        Turn(self)
    }

    /// Waits until all tickets that are out now are finished.
    pub(crate) fn wait_for_all(&self) {
        self.wait_for(self.issued.load(Ordering::SeqCst));
    }

    /// Whether no ticket is out.
    pub(crate) fn is_idle(&self) -> bool {
        self.finished.load(Ordering::SeqCst) == self.issued.load(Ordering::SeqCst)
    }

    fn wait_for(&self, finished: u64) {
        if self.finished.load(Ordering::SeqCst) >= finished {
            return;
        }
        let gate = lock(&self.gate);
        // Counted before the look inside, so that who finishes after that look sees somebody waiting.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let unfinished = |_: &mut ()| self.finished.load(Ordering::SeqCst) < finished;
        drop(self.changed.wait_while(gate, unfinished).unwrap_or_else(PoisonError::into_inner));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Turn<'_> {
    /// Leaves the launch unfinished, for whoever calls [`Turns::go_on`].
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.finished.fetch_add(1, Ordering::SeqCst);
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.0.gate));
            self.0.changed.notify_all();
        }
    }
}
