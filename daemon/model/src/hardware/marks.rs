//! What a cumulative counter was at a few moments: how far it rose, and how fast.

use std::collections::VecDeque;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

/// How far back a counter is remembered, and how close two marks may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    pub(crate) back: Duration,
    pub(crate) step: Duration,
}

/// The marks of one counter, oldest first. The first is at or before the beginning of the reach, or the first of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks(VecDeque<(Timestamp, u64)>);

impl Marks {
    /// A counter that is first seen now.
    pub(crate) fn first(at: Timestamp, value: u64) -> Self {
        Self([(at, value)].into())
    }

    /// Notes a reading. A counter that falls was set back: what it was before says nothing any more.
    pub(crate) fn push(&mut self, at: Timestamp, value: u64, reach: Reach) {
        let at = self.0.back().map_or(at, |last| at.max(last.0));
        if self.0.back().is_some_and(|last| value < last.1) {
            self.0.clear();
        }
        let len = self.0.len();
        let before = len.checked_sub(2).and_then(|index| self.0.get(index)).copied();
        match self.0.back_mut() {
            // The last reading before a counter begins to rise is kept: it rose after that.
            Some(last)
                if before.is_some_and(|before| {
                    last.0.since(before.0) < reach.step && (before.1 < last.1 || value == last.1)
                }) =>
            {
                *last = (at, value);
            }
            _ => self.0.push_back((at, value)),
        }
        while self.0.get(1).is_some_and(|next| at.since(next.0) >= reach.back) {
            self.0.pop_front();
        }
    }

    /// What it is.
    pub(crate) fn value(&self) -> u64 {
        self.0.back().map_or(0, |last| last.1)
    }

    /// How far it rose over the reach.
    pub(crate) fn risen(&self) -> u64 {
        self.0.front().map_or(0, |first| self.value().saturating_sub(first.1))
    }

    /// When it was last read as it was at the beginning of the reach. Absent: it has not risen since.
    pub(crate) fn risen_after(&self) -> Option<Timestamp> {
        let first = self.0.front()?;
        let risen = self.0.iter().position(|mark| mark.1 > first.1)?;
        self.0.get(risen.checked_sub(1)?).map(|mark| mark.0)
    }

    /// When it was first read as it is, or up to a step later. Absent: it has not risen over the reach.
    pub(crate) fn risen_until(&self) -> Option<Timestamp> {
        let risen = self.risen_after().is_some();
        self.0.iter().find(|mark| risen && mark.1 == self.value()).map(|mark| mark.0)
    }

    /// How long it has been read for, over the reach.
    pub(crate) fn span(&self) -> Duration {
        self.0.front().zip(self.0.back()).map_or(Duration::ZERO, |(first, last)| last.0.since(first.0))
    }

    /// How fast it rose over the reach. Absent: read once only.
    pub(crate) fn per_s(&self) -> Option<f64> {
        let (first, last) = self.0.front().zip(self.0.back())?;
        let span = last.0.since(first.0).as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a bandwidth needs no 53 bits")]
        let risen = self.risen() as f64;
        (span > 0.0).then_some(risen / span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: Reach = Reach { back: Duration::from_secs(600), step: Duration::from_secs(30) };

    fn of(readings: impl Iterator<Item = (u64, u64)>) -> Marks {
        let mut marks = Marks::default();
        for (s, value) in readings {
            marks.push(Timestamp(s * 1_000_000_000), value, REACH);
        }
        marks
    }

    #[test]
    fn a_counter_rises_over_its_reach_only() {
        let risen = |readings: &[(u64, u64)]| of(readings.iter().copied()).risen();
        assert_eq!(risen(&[]), 0);
        assert_eq!(risen(&[(0, 7)]), 0, "what it was at first is no rise");
        assert_eq!(risen(&[(0, 7), (5, 9)]), 2);
        assert_eq!(risen(&[(0, 7), (5, 9), (10, 9), (599, 9)]), 2);
        assert_eq!(risen(&[(0, 7), (5, 9), (300, 9), (900, 9)]), 0, "long ago");
        assert_eq!(risen(&[(0, 7), (5, 2), (10, 3)]), 1, "set back");
        assert_eq!(risen(&[(100, 1), (50, 4)]), 3, "a clock that was set back");
    }

    #[test]
    fn a_counter_rose_after_it_was_last_read_as_before() {
        let after = |readings: &[(u64, u64)]| {
            of(readings.iter().copied()).risen_after().map(|at| at.0 / 1_000_000_000)
        };
        assert_eq!(after(&[(0, 7), (5, 7), (10, 7)]), None);
        assert_eq!(after(&[(0, 7), (5, 7), (10, 7), (15, 9), (20, 9), (25, 9)]), Some(10));
        assert_eq!(after(&[(0, 7), (5, 9), (10, 12)]), Some(0));
    }

    #[test]
    fn a_counter_rose_until_it_was_first_read_as_it_is() {
        let until = |readings: &[(u64, u64)]| {
            of(readings.iter().copied()).risen_until().map(|at| at.0 / 1_000_000_000)
        };
        assert_eq!(until(&[(0, 7), (5, 7)]), None);
        assert_eq!(until(&[(0, 7), (5, 9)]), Some(5));
        let stops = (0..60).map(|i| (i * 5, 7 + i.min(2)));
        let until_then = until(&stops.collect::<Vec<_>>()).unwrap();
        assert!((10..=40).contains(&until_then), "{until_then}");
        let goes_on: Vec<_> = (0..60).map(|i| (i * 5, 7 + i)).collect();
        assert_eq!(until(&goes_on), Some(295));
    }

    #[test]
    fn marks_are_few_and_steady_growth_is_measured_exactly() {
        let marks = of((0..2_000).map(|i| (i * 5, i * 50)));
        assert!(marks.0.len() <= 24, "{}", marks.0.len());
        assert_eq!(marks.per_s(), Some(10.0));
        assert_eq!(of([(3, 1)].into_iter()).per_s(), None);
    }
}
