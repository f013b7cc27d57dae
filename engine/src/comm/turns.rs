//! The order in which a communicator's launches run, whatever streams they are on: that of their issue, which NCCL asks
//! to be the same on all ranks.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::net::control::lock;

/// Tickets issued and finished.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    counts: Mutex<Counts>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    issued: u64,
    finished: u64,
}

/// A turn; over when dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// The next ticket.
    pub(crate) fn issue(&self) -> u64 {
        let mut counts = lock(&self.counts);
        counts.issued += 1;
        counts.issued - 1
    }

    /// Waits until all earlier tickets are finished.
    pub(crate) fn take(&self, ticket: u64) -> Turn<'_> {
        self.wait(|counts| counts.finished < ticket);
        Turn(self)
    }

    /// Waits until all tickets that are out now are finished.
    pub(crate) fn wait_for_all(&self) {
        let issued = lock(&self.counts).issued;
        self.wait(|counts| counts.finished < issued);
    }

    /// Whether no ticket is out.
    pub(crate) fn is_idle(&self) -> bool {
        let counts = lock(&self.counts);
        counts.finished == counts.issued
    }

    fn wait(&self, until_not: impl Fn(&Counts) -> bool) {
        let waiting = |counts: &mut Counts| until_not(counts);
        drop(self.changed.wait_while(lock(&self.counts), waiting).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.counts).finished += 1;
        self.0.changed.notify_all();
    }
}
