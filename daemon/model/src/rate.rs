//! Bytes per second over the last seconds, from a counter that is told now and then.

use std::collections::VecDeque;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

use super::limits::{MAX_RATE_SAMPLES, RATE_WINDOW};

/// The values of one counter over the last [`RATE_WINDOW`], at most one a second. Between two samples the counter is
/// taken not to have changed: agents tell of a counter whenever it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Window(VecDeque<(Timestamp, u64)>);

impl Window {
    /// Notes that the counter was at `value`, as of `at`.
    pub(super) fn push(&mut self, at: Timestamp, value: u64) {
        let len = self.0.len();
        let at = self.0.back().map_or(at, |last| at.max(last.0));
        // The first sample is what growth is measured from: it is never written over.
        match self.0.back_mut() {
            Some(last) if len > 1 && last.0.0 / SECOND_NS == at.0 / SECOND_NS => *last = (at, value),
            _ => self.0.push_back((at, value)),
        }
        while self.0.len() > MAX_RATE_SAMPLES
            || self.0.get(1).is_some_and(|next| at.since(next.0) >= RATE_WINDOW)
        {
            self.0.pop_front();
        }
    }

    /// Whether nothing was noted yet.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The newest value.
    pub(super) fn newest(&self) -> Option<u64> {
        self.0.back().map(|(_, value)| *value)
    }

    /// Growth per second over the window that ends `now`.
    pub(super) fn rate(&self, now: Timestamp) -> f64 {
        let (Some(newest), Some(first)) = (self.0.back(), self.0.front()) else { return 0.0 };
        if now.since(newest.0) >= RATE_WINDOW {
            return 0.0;
        }
        let before = self.0.iter().rev().find(|sample| now.since(sample.0) >= RATE_WINDOW);
        let base = before.unwrap_or(first);
        // A steady counter is measured between its own samples, or the time since the last one would count as idle.
        let end = if now.since(newest.0) <= Duration::from_secs(1) { newest.0 } else { now };
        let span = match end.since(base.0) {
            long if long > RATE_WINDOW + Duration::from_secs(2) => RATE_WINDOW,
            span => span.max(SHORTEST_SPAN),
        };
        real(newest.1.saturating_sub(base.1)) / span.as_secs_f64()
    }
}

/// A number to be divided.
#[expect(clippy::cast_precision_loss, reason = "what is divided needs no 53 bits")]
pub const fn real(number: u64) -> f64 {
    number as f64
}

const SECOND_NS: u64 = 1_000_000_000;

/// Two intervals of the agent: over less, one late batch would look like a burst.
const SHORTEST_SPAN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp(1_000_000_000_000 + ms * 1_000_000)
    }

    fn check(samples: &[(u64, u64)], now_ms: u64, expected: f64) {
        let mut window = Window::default();
        for (ms, value) in samples {
            window.push(at(*ms), *value);
        }
        let rate = window.rate(at(now_ms));
        assert!((rate - expected).abs() < 1e-6 * expected.max(1.0), "{samples:?} at {now_ms}: {rate}");
        assert!(window.0.len() <= MAX_RATE_SAMPLES);
    }

    #[test]
    fn rates() {
        check(&[], 0, 0.0);
        check(&[(0, 100)], 0, 0.0);
        check(&[(0, 0), (1_000, 100)], 1_000, 100.0);
        check(&[(0, 0), (250, 100)], 250, 200.0);
        // One burst fades over the window and is gone after it.
        check(&[(0, 0), (100_000, 1_000)], 100_000, 100.0);
        check(&[(0, 0), (100_000, 1_000)], 105_000, 100.0);
        check(&[(0, 0), (100_000, 1_000)], 110_000, 0.0);
        // Counters and times that run backwards.
        check(&[(1_000, 100), (2_000, 50)], 2_000, 0.0);
        check(&[(2_000, 100), (1_000, 200)], 2_500, 200.0);
    }

    #[test]
    fn steady_growth_is_measured_exactly() {
        let samples: Vec<_> = (0..400).map(|i| (i * 250, i * 1_000)).collect();
        for late in [0, 100, 900] {
            check(&samples, 399 * 250 + late, 4_000.0);
        }
    }
}
