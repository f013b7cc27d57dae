//! How a process spent its time of late: its own account, which is of one clock, kept as a few points of it.

use std::collections::VecDeque;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{self, TimeBasis};

use super::agents::Stamp;

/// The account of a process.
#[derive(Debug, Default)]
pub struct Pace {
    stamp: Stamp,
    points: VecDeque<Point>,
    /// The first of all, as near to each other as the points are, from which they have gone on.
    first: Vec<Point>,
    /// Between those and these, further apart.
    old: VecDeque<Point>,
    long_steps: VecDeque<LongStep>,
    operations_per_step: u32,
    spread: Duration,
    is_device: bool,
    device_error: Duration,
}

/// The account at one moment. All cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// By our clock.
    pub at: Timestamp,
    /// Time of which it is known whether an operation was under way.
    pub covered: Duration,
    /// Of this, the time in which none was.
    pub own: Duration,
    /// Operations that began.
    pub operations: u64,
    /// Bytes of the calls of all its communicators.
    pub issued_bytes: u64,
}

/// A step with much more own time than is usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongStep {
    /// When its longest time without an operation began, by the clock of the process's host.
    pub began: Timestamp,
    /// Its own time beyond what is usual.
    pub longer: Duration,
    /// Number of the operation with which it ended.
    pub operation: u64,
}

impl Pace {
    /// The points, oldest first.
    #[must_use]
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.points.iter()
    }

    /// The first that were told, oldest first; they stay as they are, however long ago that was.
    pub fn first_points(&self) -> impl Iterator<Item = &Point> {
        // While nothing was left out yet, all of them are there.
        self.first.iter().chain(self.points.iter().take(MAX_FIRST.saturating_sub(self.first.len())))
    }

    /// The oldest of the last minutes, some of them before the first point.
    #[must_use]
    pub fn oldest(&self) -> Option<&Point> {
        self.old.front().or(self.points.front())
    }

    /// All points, those of the minutes before the first as well, oldest first.
    pub fn all_points(&self) -> impl Iterator<Item = &Point> {
        self.old.iter().chain(&self.points)
    }

    /// Long steps, oldest first.
    #[must_use]
    pub fn long_steps(&self) -> impl DoubleEndedIterator<Item = &LongStep> {
        self.long_steps.iter()
    }

    /// How far the own times of its steps are from the usual one: their standard deviation, where they are spread as chance does.
    #[must_use]
    pub fn spread(&self) -> Duration {
        self.spread
    }

    /// Operations of one step. 0: no step was found in their order.
    #[must_use]
    pub fn operations_per_step(&self) -> u32 {
        self.operations_per_step
    }

    /// Whether operations begin when the device begins them, and not when the program calls.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// By how much the device's clock may lie beside the host's. `None`: times are not the device's, or nobody asked it.
    #[must_use]
    pub fn device_error(&self) -> Option<Duration> {
        Some(self.device_error).filter(|error| self.is_device && !error.is_zero())
    }

    pub(super) fn hear(&mut self, told: &batch::OwnTime, stamp: Stamp, at: Timestamp, issued_bytes: u64) {
        let point = Point {
            at,
            covered: Duration::from_nanos(told.covered_ns),
            own: Duration::from_nanos(told.own_ns.min(told.covered_ns)),
            operations: told.operations,
            issued_bytes,
        };
        if !stamp.replaces(self.stamp) {
            return;
        }
        if !stamp.is_of_agent_of(self.stamp) {
            // Another agent counts anew.
            self.forget();
        }
        if let Some(newest) = self.points.back() {
            let (covered, own) =
                (point.covered.checked_sub(newest.covered), point.own.checked_sub(newest.own));
            // An older word, or one that cannot be.
            if covered.zip(own).is_none_or(|(covered, own)| own > covered) {
                return;
            }
            // More time than has passed: to take it would make every later word an older one.
            let most = at.since(newest.at).saturating_mul(2).saturating_add(MOST_AHEAD);
            if covered.is_some_and(|covered| covered > most) {
                return;
            }
        }
        // Times of two kinds cannot be compared.
        let is_device = told.basis == i32::from(TimeBasis::Started);
        if is_device != std::mem::replace(&mut self.is_device, is_device) {
            self.forget();
        }
        self.stamp = stamp;
        self.operations_per_step = told.operations_per_step;
        self.spread = Duration::from_nanos(told.step_spread_ns);
        self.device_error = Duration::from_nanos(told.device_error_ns);
        for step in told.long_steps.iter().take(MAX_TOLD_LONG) {
            // A word may come twice.
            let is_new = self.long_steps.back().is_none_or(|newest| newest.operation < step.operation);
            if is_new && step.operation <= told.operations {
                let (began, longer) = (Timestamp(step.began_at_ns), Duration::from_nanos(step.longer_ns));
                self.long_steps.push_back(LongStep { began, longer, operation: step.operation });
            }
        }
        while self.long_steps.len() > MAX_LONG {
            self.long_steps.pop_front();
        }
        self.push(point);
    }

    /// The newest point moves on until it is far enough from the one before it.
    fn push(&mut self, point: Point) {
        let apart = self.apart();
        let n = self.points.len();
        let before = n.checked_sub(2).and_then(|at| self.points.get(at)).map(|before| before.covered);
        let is_near = before.is_some_and(|before| {
            self.points.back().is_some_and(|newest| newest.covered.saturating_sub(before) < apart)
        });
        if is_near {
            self.points.pop_back();
        }
        self.points.push_back(point);
        if self.points.len() <= MAX_POINTS {
            return;
        }
        let Some(left) = self.points.pop_front() else { return };
        if self.first.len() < MAX_FIRST {
            self.first.push(left);
        }
        if self.old.back().is_none_or(|old| left.covered.saturating_sub(old.covered) >= OLD_APART) {
            self.old.push_back(left);
            if self.old.len() > MAX_OLD {
                self.old.pop_front();
            }
        }
    }

    fn forget(&mut self) {
        self.points.clear();
        self.first.clear();
        self.old.clear();
        self.long_steps.clear();
    }

    /// A second, or two steps where these are longer.
    fn apart(&self) -> Duration {
        let (Some(first), Some(last)) = (self.points.front(), self.points.back()) else { return APART };
        let steps = crate::real(last.operations.saturating_sub(first.operations))
            / f64::from(self.operations_per_step.max(1));
        let step =
            Duration::try_from_secs_f64(last.covered.saturating_sub(first.covered).as_secs_f64() / steps);
        step.map_or(APART, |step| step.saturating_mul(2).clamp(APART, LONGEST_APART))
    }
}

/// Points of one process: half a minute of steps shorter than half a second.
const MAX_POINTS: usize = 32;
/// The first of all: some seconds, of steps shorter than half a second.
const MAX_FIRST: usize = 8;
/// Older ones, ten minutes of them, so far apart.
const MAX_OLD: usize = 16;
const OLD_APART: Duration = Duration::from_secs(40);
/// Long steps of one process.
const MAX_LONG: usize = 32;
/// Long steps of one word; the format promises no more.
const MAX_TOLD_LONG: usize = 8;
/// By so much more than has passed an account may grow between two words: the first of them may have been late.
const MOST_AHEAD: Duration = Duration::from_secs(600);
/// Between two points, at least.
const APART: Duration = Duration::from_secs(1);
/// Nor more than two steps of an hour.
const LONGEST_APART: Duration = Duration::from_secs(7200);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(covered_ms: u64, own_ms: u64, operations: u64) -> batch::OwnTime {
        batch::OwnTime {
            covered_ns: covered_ms * 1_000_000,
            own_ns: own_ms * 1_000_000,
            operations,
            operations_per_step: 4,
            ..batch::OwnTime::default()
        }
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp(1_000_000_000_000_000 + ms * 1_000_000)
    }

    /// Of a process that tells four times a second, a step of 100 ms, 40 of them its own.
    fn steady(until_ms: u64) -> Pace {
        let mut pace = Pace::default();
        for ms in (250..=until_ms).step_by(250) {
            pace.hear(&told(ms, ms * 4 / 10, ms / 25), Stamp::of_agent(1, ms), at(ms), ms);
        }
        pace
    }

    fn covered(pace: &Pace) -> Duration {
        let points: Vec<_> = pace.points().collect();
        points.last().unwrap().covered - points.first().unwrap().covered
    }

    #[test]
    fn the_last_seconds_are_known() {
        let pace = steady(60_000);
        assert_eq!(pace.points().len(), MAX_POINTS);
        assert!(covered(&pace) >= Duration::from_secs(30), "{pace:?}");
        let mut apart = pace.points().zip(pace.points().skip(1));
        assert!(
            apart.all(|(one, next)| next.covered - one.covered <= Duration::from_millis(1250)),
            "{pace:?}"
        );
    }

    #[test]
    fn steps_that_are_long_are_known_for_longer() {
        let mut pace = Pace::default();
        // Ten seconds a step.
        for s in 1..=600 {
            pace.hear(&told(s * 1000, s * 400, s * 4 / 10), Stamp::of_agent(1, s), at(s * 1000), 0);
        }
        assert!(covered(&pace) >= Duration::from_secs(200), "{pace:?}");
    }

    #[test]
    fn another_agent_counts_anew_and_an_older_word_says_nothing() {
        let mut pace = steady(20_000);
        let n = pace.points().len();
        pace.hear(&told(5_000, 2_000, 200), Stamp::of_agent(1, 5_000), at(20_100), 0);
        assert_eq!(pace.points().len(), n);
        // More own time than time.
        pace.hear(&told(20_300, 12_000, 820), Stamp::of_agent(1, 21_000), at(20_300), 0);
        assert_eq!(pace.points().len(), n);
        // One whose account is larger is another one's all the same.
        pace.hear(&told(90_000, 80_000, 8_000), Stamp::of_agent(2, 1), at(20_250), 0);
        assert_eq!(pace.points().len(), 1);
    }
}
