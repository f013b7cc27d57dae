//! The crate's only clock. Everything else takes `now` or a [`Deadline`] as an argument.

use std::time::{Duration, Instant};

use rustix::time::ClockId;

/// A moment of the monotonic clock after which waiting is over.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
}

impl Deadline {
    /// The moment `wait` from now.
    pub fn after(wait: Duration) -> Self {
        Self { end: now() + wait }
    }

    /// What is left until then; zero once it has passed.
    pub fn left(self) -> Duration {
        self.end.saturating_duration_since(now())
    }

    /// Whether it has passed.
    pub fn passed(self) -> bool {
        self.left().is_zero()
    }
}

/// Monotonic time.
#[expect(clippy::disallowed_methods, reason = "this module is the crate's clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the engine's stand-in for a GPU's global timer.
pub fn monotonic_ns() -> u64 {
    ns_of(ClockId::Monotonic)
}

/// Nanoseconds of processor time that this thread has had.
pub fn thread_ns() -> u64 {
    ns_of(ClockId::ThreadCPUTime)
}

fn ns_of(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
}
