//! The crate's only clock. Everything else takes a [`Deadline`] as an argument.

use std::time::{Duration, Instant};

/// Polls in a row before a waiting thread begins to give its processor away.
const EAGER_POLLS: u32 = 64;
/// Polls in a row after which it sleeps between them: whoever waits that long does not wait for a transfer.
const PATIENT_POLLS: u32 = 4096;
/// Its sleep between two polls then.
const NAP: Duration = Duration::from_micros(50);

/// A moment of the monotonic clock after which waiting is over.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// None where the clock does not count that far.
    end: Option<Instant>,
    wait: Duration,
}

impl Deadline {
    /// The moment `wait` from now.
    pub fn after(wait: Duration) -> Self {
        Self { end: now().checked_add(wait), wait }
    }

    /// How long was waited when it passes, in seconds.
    pub fn seconds(self) -> f64 {
        self.wait.as_secs_f64()
    }

    /// Whether it has passed.
    pub fn passed(self) -> bool {
        self.end.is_some_and(|end| now() >= end)
    }

    /// Whether it is the moment itself: who waits for that looks once.
    pub fn is_now(self) -> bool {
        self.wait.is_zero()
    }

    /// What is left until then; zero once it has passed.
    pub fn left(self) -> Duration {
        self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(now()))
    }
}

/// How a thread behaves between polls that found nothing: eager at first, then it yields, then it naps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    in_vain: u32,
}

impl Patience {
    /// Something was found: eager again.
    pub fn found(&mut self) {
        self.in_vain = 0;
    }

    /// Nothing was found. Whether it is time to look at clocks and peers, which costs more than a poll.
    pub fn wait(&mut self) -> bool {
        self.in_vain = self.in_vain.saturating_add(1);
        match self.in_vain {
            0..EAGER_POLLS => {
                std::hint::spin_loop();
                false
            }
            EAGER_POLLS..PATIENT_POLLS => {
                std::thread::yield_now();
                self.in_vain.is_multiple_of(EAGER_POLLS)
            }
            _ => {
                std::thread::sleep(NAP);
                true
            }
        }
    }
}

/// Monotonic time.
#[expect(clippy::disallowed_methods, reason = "this module is the crate's clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_may_be_farther_than_the_clock_counts() {
        let never = Deadline::after(Duration::MAX);
        assert!(!never.passed() && never.left() == Duration::MAX);
        assert!(Deadline::after(Duration::ZERO).passed());
    }
}
