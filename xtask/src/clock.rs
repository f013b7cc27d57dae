//! The chores' clock: monotonic, for durations alone.

#![expect(clippy::disallowed_methods, reason = "the clock module")]

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// When something began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Since then.
    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Seconds since then.
    pub(crate) fn seconds(self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// Asks until there is an answer, or fails with `what`.
pub(crate) fn eventually<T>(
    what: &str,
    patience: Duration,
    mut ask: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let watch = Stopwatch::start();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if watch.elapsed() > patience {
            bail!("after {} s still not: {what}", patience.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Between two questions: short beside what is measured in seconds.
const PAUSE: Duration = Duration::from_millis(20);
