//! How long the parts of a communicator's init take, as NCCL writes it at its end.

use std::time::{Duration, Instant};

use crate::clock;

/// How long the parts of an init take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    start: Instant,
    last: Instant,
    /// Until all have told of themselves.
    pub(super) bootstrap: Duration,
    /// The search.
    pub(super) graphs: Duration,
    /// From then until all have connected.
    pub(super) connections: Duration,
}

impl Spans {
    /// It begins.
    pub(super) fn begin() -> Self {
        let now = clock::now();
        let none = Duration::ZERO;
        Self { start: now, last: now, bootstrap: none, graphs: none, connections: none }
    }

    /// Since the last part.
    pub(super) fn lap(&mut self) -> Duration {
        let now = clock::now();
        now.saturating_duration_since(std::mem::replace(&mut self.last, now))
    }

    /// All of it, until now.
    pub(super) fn total(&self) -> Duration {
        clock::now().saturating_duration_since(self.start)
    }
}
