//! How new a view of the model is, told without waiting for the model.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A moment in the model's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Grows with everything that is heard, and with time: once a second at least.
    pub model: u64,
    /// Grows when subscribers are told that something changed.
    pub told: u64,
    /// Whether looking at the whole model takes milliseconds.
    pub is_large: bool,
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(super) struct Versions {
    model: AtomicU64,
    told: AtomicU64,
    n_processes: AtomicUsize,
}

impl Versions {
    pub(super) fn now(&self) -> Version {
        Version {
            model: self.model.load(Ordering::Acquire),
            told: self.told.load(Ordering::Acquire),
            is_large: self.n_processes.load(Ordering::Relaxed) >= LARGE_PROCESSES,
        }
    }

    /// The model is not as it was, or shows other durations.
    pub(super) fn changed(&self) {
        self.model.fetch_add(1, Ordering::Release);
    }

    /// Subscribers are about to look again.
    pub(super) fn told(&self) {
        self.told.fetch_add(1, Ordering::Release);
    }

    pub(super) fn has(&self, n_processes: usize) {
        self.n_processes.store(n_processes, Ordering::Relaxed);
    }
}

/// A list over fewer costs less than sending it.
const LARGE_PROCESSES: usize = 256;
