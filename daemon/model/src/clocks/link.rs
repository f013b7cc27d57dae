//! The clock of one host against that of another, over time.

use super::DRIFT_PPM;
use super::gathered::Side;

/// What is kept together: of so many nanoseconds the best.
const SPAN_NS: u64 = 10_000_000_000;
/// What is older than this is kept by minutes.
const FINE_NS: u64 = 60_000_000_000;
const MINUTE_NS: u64 = 60_000_000_000;
/// How long it is kept: what happened ten minutes ago is looked at with the clocks as they were then.
pub(super) const KEPT_NS: u64 = 600_000_000_000;
/// Bounds of this age count; longer ago, drift has made them worse than what is newer, as a rule.
const WINDOW_NS: u64 = 60_000_000_000;

/// What operations told of the difference: what is to be added to a time of the first host's clock for that of the second.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// By time: six of ten seconds, and before them ten of a minute, at most.
    spans: Vec<Span>,
    /// When an operation contradicted itself last: the processes of one of the hosts do not have the same clock.
    torn_ns: Option<u64>,
}

/// What one operation tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) at_ns: u64,
    pub(super) at_least_ns: i64,
    pub(super) at_most_ns: i64,
    /// By how much the second host completed it later by the clocks. The ranks of an operation complete it close to each other.
    pub(super) completions_ns: i64,
}

/// The difference at a time: `offset_ns`, give or take `error_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) offset_ns: i64,
    pub(super) error_ns: u64,
}

/// The best of some seconds: the highest lower bound, the lowest upper one, and the operation that tells most.
#[derive(Clone, Copy, Debug)]
struct Span {
    since_ns: u64,
    at_least: Sample,
    at_most: Sample,
    narrowest: Sample,
}

impl Sample {
    /// What an operation tells of the clock of `second` against that of `first`.
    pub(super) fn of(second: &Side, first: &Side, at_ns: u64) -> Self {
        // While it ran the clocks drifted too.
        let took_ns = [first, second].map(|side| side.completed_ns.saturating_sub(side.called_ns));
        let drift_ns = drift_ns(0, took_ns[0].max(took_ns[1]));
        Self {
            at_ns,
            at_least_ns: apart(second.called_ns, first.completed_ns).saturating_sub(drift_ns),
            at_most_ns: apart(second.completed_ns, first.called_ns).saturating_add(drift_ns),
            completions_ns: apart(second.completed_ns, first.completed_ns),
        }
    }

    /// The lower bound at another time.
    fn least(&self, at_ns: u64) -> i64 {
        self.at_least_ns.saturating_sub(drift_ns(self.at_ns, at_ns))
    }

    fn most(&self, at_ns: u64) -> i64 {
        self.at_most_ns.saturating_add(drift_ns(self.at_ns, at_ns))
    }

    fn width(&self, at_ns: u64) -> i64 {
        self.most(at_ns).saturating_sub(self.least(at_ns))
    }
}

impl Link {
    pub(super) fn take(&mut self, sample: Sample) {
        if self.newest_ns().saturating_sub(sample.at_ns) >= KEPT_NS {
            return;
        }
        if sample.at_least_ns > sample.at_most_ns {
            self.torn_ns = self.torn_ns.max(Some(sample.at_ns));
            return;
        }
        let known = self.bounds(sample.at_ns);
        if known.is_some_and(|(least, most)| sample.at_least_ns > most || sample.at_most_ns < least) {
            // One of the clocks was set, or these are other processes, which were started before or after that.
            self.spans.clear();
        }
        let newest_ns = self.newest_ns().max(begin(sample.at_ns, SPAN_NS));
        let since_ns = since_ns(sample.at_ns, newest_ns);
        let place = self.spans.partition_point(|span| span.since_ns < since_ns);
        match self.spans.get_mut(place).filter(|span| span.since_ns == since_ns) {
            Some(span) => span.take(sample),
            None => {
                let span = Span { since_ns, at_least: sample, at_most: sample, narrowest: sample };
                self.spans.insert(place, span);
                self.age(newest_ns);
            }
        }
    }

    /// When the newest span begins.
    fn newest_ns(&self) -> u64 {
        self.spans.last().map_or(0, |span| span.since_ns)
    }

    /// Joins what is no longer new to minutes, and forgets what is old.
    fn age(&mut self, newest_ns: u64) {
        let mut aged: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in
            self.spans.drain(..).filter(|span| newest_ns.saturating_sub(span.since_ns) < KEPT_NS + MINUTE_NS)
        {
            let since_ns = since_ns(span.since_ns, newest_ns);
            match aged.last_mut().filter(|before| before.since_ns == since_ns) {
                Some(before) => {
                    [span.at_least, span.at_most, span.narrowest]
                        .into_iter()
                        .for_each(|one| before.take(one));
                }
                None => aged.push(Span { since_ns, ..span }),
            }
        }
        self.spans = aged;
    }

    /// The difference at a time. `None`: nothing is known.
    pub(super) fn at(&self, at_ns: u64) -> Option<Difference> {
        if self.torn_ns.is_some_and(|torn| torn.abs_diff(at_ns) < WINDOW_NS) {
            return None;
        }
        let (least, most) = self.bounds(at_ns)?;
        let narrowest = self.near(at_ns).min_by_key(|span| span.narrowest.width(at_ns))?.narrowest;
        let offset_ns = narrowest.completions_ns.clamp(least, most.max(least));
        let error_ns = offset_ns.abs_diff(least).max(offset_ns.abs_diff(most));
        Some(Difference { offset_ns, error_ns })
    }

    /// Whether anything of it can still be of use.
    pub(super) fn is_of_use(&self, now_ns: u64) -> bool {
        let newest = self.spans.last().map(|span| span.since_ns).max(self.torn_ns);
        newest.is_some_and(|newest| now_ns.saturating_sub(newest) < KEPT_NS)
    }

    /// What the difference is at least and at most.
    fn bounds(&self, at_ns: u64) -> Option<(i64, i64)> {
        let least = self.near(at_ns).map(|span| span.at_least.least(at_ns)).max()?;
        let most = self.near(at_ns).map(|span| span.at_most.most(at_ns)).min()?;
        Some((least, most))
    }

    /// What is known of the time around this one; where nothing is, what is nearest to it.
    fn near(&self, at_ns: u64) -> impl Iterator<Item = &Span> {
        let from = at_ns.saturating_sub(WINDOW_NS + MINUTE_NS);
        let begin = self.spans.partition_point(|span| span.since_ns < from);
        let end = self.spans.partition_point(|span| span.since_ns <= at_ns.saturating_add(WINDOW_NS));
        let (begin, end) = match begin < end {
            true => (begin, end),
            false if begin < self.spans.len() => (begin, begin + 1),
            false => (begin.saturating_sub(1), begin),
        };
        self.spans.get(begin..end).unwrap_or_default().iter()
    }
}

impl Span {
    /// Of two that are alike the newer one stays: its bounds are of a later time.
    fn take(&mut self, sample: Sample) {
        let at_ns = self.since_ns.saturating_add(SPAN_NS);
        if sample.least(at_ns) >= self.at_least.least(at_ns) {
            self.at_least = sample;
        }
        if sample.most(at_ns) <= self.at_most.most(at_ns) {
            self.at_most = sample;
        }
        if sample.width(at_ns) <= self.narrowest.width(at_ns) {
            self.narrowest = sample;
        }
    }
}

/// When the span begins that a time belongs to.
fn since_ns(at_ns: u64, newest_ns: u64) -> u64 {
    let fine_ns = begin(at_ns, SPAN_NS);
    if newest_ns.saturating_sub(fine_ns) < FINE_NS { fine_ns } else { begin(at_ns, MINUTE_NS) }
}

fn begin(at_ns: u64, length_ns: u64) -> u64 {
    at_ns - at_ns % length_ns
}

/// By how much two clocks may drift apart from one time to another.
fn drift_ns(one_ns: u64, other_ns: u64) -> i64 {
    let apart = i64::try_from(one_ns.abs_diff(other_ns)).unwrap_or(i64::MAX);
    (apart / 1_000_000).saturating_mul(DRIFT_PPM) + apart % 1_000_000 * DRIFT_PPM / 1_000_000 + 1
}

fn apart(later_ns: u64, earlier_ns: u64) -> i64 {
    let apart = i128::from(later_ns) - i128::from(earlier_ns);
    i64::try_from(apart).unwrap_or(if apart > 0 { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn sample(at_ns: u64) -> Sample {
        Sample { at_ns, at_least_ns: -1_000, at_most_ns: 1_000, completions_ns: 0 }
    }

    #[test]
    fn ten_minutes_are_kept_in_less_than_two_kilobytes() {
        let mut link = Link::default();
        for second in 0..3_600 {
            link.take(sample((10_000 + second) * S));
            let bytes = link.spans.capacity() * size_of::<Span>();
            assert!(
                link.spans.len() <= 16 && bytes < 2_000,
                "{second}: {} of {bytes} bytes",
                link.spans.len()
            );
        }
        let begins: Vec<u64> = link.spans.iter().map(|span| span.since_ns / S).collect();
        assert!(begins.is_sorted() && begins[0] <= 13_590 - 540, "{begins:?}");
        assert_eq!(begins[begins.len() - 6..], [13_540, 13_550, 13_560, 13_570, 13_580, 13_590]);
        // As well as drift allows over the minute that is kept as one.
        let before = link.at(13_100 * S).unwrap();
        assert!(before.error_ns <= 60 * 200_000 + 2_000, "{before:?}");
    }

    #[test]
    fn what_is_told_late_goes_where_it_belongs_and_what_is_too_old_nowhere() {
        let mut link = Link::default();
        for second in [1_000, 900, 905, 300, 1_005] {
            link.take(sample(second * S));
        }
        let begins: Vec<u64> = link.spans.iter().map(|span| span.since_ns / S).collect();
        assert_eq!(begins, [900, 1_000]);
    }

    #[test]
    fn times_at_the_end_of_all_time_are_no_harm() {
        let mut link = Link::default();
        link.take(sample(u64::MAX));
        link.take(sample(u64::MAX - 1));
        assert!(link.at(u64::MAX).is_some() && link.at(0).is_some());
    }
}
