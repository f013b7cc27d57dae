//! How workers come to rounds: totals over all services, and what they were over the last minute.

use std::collections::VecDeque;
use std::time::Duration;

use ringscope_api::clock::Timestamp;

use super::super::limits::{ARRIVALS_STEP, ARRIVALS_WINDOW};
use super::super::rate::real;

/// Totals of one worker over all services that told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of batch.proto's SummationContributor")]
pub struct Arrived {
    pub contributions: u64,
    pub last_arrivals: u64,
    pub late_ns: u64,
    pub unanswered: u64,
}

/// How the workers came to the rounds of a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Of how long.
    pub span: Duration,
    /// Rounds in which one came last.
    pub rounds: u64,
    /// By worker: the fraction of these in which it came last, and how much after the first it came on average.
    pub workers: Vec<(f64, Duration)>,
}

/// Totals at moments of the last minute, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Marks(VecDeque<(Timestamp, Vec<Arrived>)>);

impl Marks {
    /// Whether the last time is long enough ago.
    pub(super) fn are_due(&self, at: Timestamp) -> bool {
        self.0.back().is_none_or(|(last, _)| at.since(*last) >= ARRIVALS_STEP)
    }

    /// Notes what the totals are.
    pub(super) fn note(&mut self, at: Timestamp, totals: Vec<Arrived>) {
        self.0.push_back((at, totals));
        while self.0.get(1).is_some_and(|(next, _)| at.since(*next) >= ARRIVALS_WINDOW) {
            self.0.pop_front();
        }
    }

    /// From the oldest moment until `now`. `None`: no time has passed.
    pub(super) fn since_first(&self, now: Timestamp, totals: &[Arrived]) -> Option<Lateness> {
        let (first, before) = self.0.front()?;
        let span = now.since(*first);
        let none = Arrived::default();
        let grown =
            totals.iter().enumerate().map(|(worker, total)| total.minus(before.get(worker).unwrap_or(&none)));
        (!span.is_zero()).then(|| Lateness::of(&grown.collect::<Vec<_>>(), span))
    }
}

impl Lateness {
    /// Of these totals.
    pub(super) fn of(totals: &[Arrived], span: Duration) -> Self {
        let rounds = totals.iter().fold(0_u64, |sum, total| sum.saturating_add(total.last_arrivals));
        let of = |total: &Arrived| {
            let share = real(total.last_arrivals) / real(rounds.max(1));
            (share, Duration::from_nanos(total.late_ns.checked_div(total.contributions).unwrap_or(0)))
        };
        Self { span, rounds, workers: totals.iter().map(of).collect() }
    }
}

impl Arrived {
    pub(super) fn add(&mut self, more: Self) {
        self.contributions = self.contributions.saturating_add(more.contributions);
        self.last_arrivals = self.last_arrivals.saturating_add(more.last_arrivals);
        self.late_ns = self.late_ns.saturating_add(more.late_ns);
        self.unanswered = self.unanswered.saturating_add(more.unanswered);
    }

    fn minus(self, before: &Self) -> Self {
        Self {
            contributions: self.contributions.saturating_sub(before.contributions),
            last_arrivals: self.last_arrivals.saturating_sub(before.last_arrivals),
            late_ns: self.late_ns.saturating_sub(before.late_ns),
            unanswered: self.unanswered,
        }
    }
}
