//! The crate's only clock. Everything else takes a [`Deadline`] as an argument.

use std::time::{Duration, Instant};

/// Polls in a row before a waiting thread begins to give its processor away.
const EAGER_POLLS: u32 = 64;
/// How long it does so before it sleeps between two polls, and after how many of them it looks at the clock.
const YIELDING: Duration = Duration::from_micros(500);
const LOOK: u32 = 16;
/// Its sleep between two polls then: a part of how long it has slept since something was found, so that what it finds late is late by
/// that part at most, and a long wait costs few polls.
const PART: u32 = 16;
const SHORTEST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(1);

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
    /// Until when it yields; none while it is eager.
    yields_until: Option<Instant>,
    is_drowsy: bool,
    slept: Duration,
}

impl Patience {
    /// Something was found: eager again.
    pub fn found(&mut self) {
        *self = Self::default();
    }

    /// Nothing was found, but something comes: naps are short again.
    pub fn moved(&mut self) {
        self.slept = Duration::ZERO;
    }

    /// Nothing was found. Whether it is time to look at clocks and peers, which costs more than a poll.
    pub fn wait(&mut self) -> bool {
        if self.is_drowsy {
            let nap = (self.slept / PART).clamp(SHORTEST_NAP, LONGEST_NAP);
            std::thread::sleep(nap);
            self.slept = self.slept.saturating_add(nap);
            return true;
        }
        self.in_vain += 1;
        if self.in_vain < EAGER_POLLS {
            std::hint::spin_loop();
            return false;
        }
        std::thread::yield_now();
        if !self.in_vain.is_multiple_of(LOOK) {
            return false;
        }
        let now = now();
        let until = *self.yields_until.get_or_insert(now + YIELDING);
        self.is_drowsy = now >= until;
        self.in_vain.is_multiple_of(EAGER_POLLS)
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
