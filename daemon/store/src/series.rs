//! What history can be asked for: cumulative counters by time.

use super::resolution::Resolution;
use super::rollup::Marks;

/// What the history has of each series: of communicators, then of summation groups.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub enum Metric {
    IssuedCalls,
    IssuedBytes,
    CompletedCalls,
    CompletedBytes,
    IntraBytes,
    InterBytes,
    /// Issued and not completed: no counter, it falls too.
    BacklogBytes,
    PushedBytes,
    PulledBytes,
    SummedBytes,
    FinishedRounds,
    SharePpm,
    OptimalSharePpm,
    SpreadNs,
}

/// What values mean over time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reading {
    /// They only grow.
    Counter,
    /// They hold until the next one.
    Value,
    /// Each is the worst since the one before.
    Worst,
}

impl Metric {
    /// Those of communicators.
    pub const OF_COMMUNICATORS: [Self; 7] = [
        Self::IssuedBytes,
        Self::CompletedBytes,
        Self::IssuedCalls,
        Self::CompletedCalls,
        Self::IntraBytes,
        Self::InterBytes,
        Self::BacklogBytes,
    ];

    /// Those of summation groups.
    pub const OF_SUMMATIONS: [Self; 7] = [
        Self::PushedBytes,
        Self::PulledBytes,
        Self::SummedBytes,
        Self::FinishedRounds,
        Self::SharePpm,
        Self::OptimalSharePpm,
        Self::SpreadNs,
    ];

    /// Its word in the API; of all but the backlog also the name of its values.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::IssuedCalls => "issued_calls",
            Self::IssuedBytes => "issued_bytes",
            Self::CompletedCalls => "completed_calls",
            Self::CompletedBytes => "completed_bytes",
            Self::IntraBytes => "intra_bytes",
            Self::InterBytes => "inter_bytes",
            Self::BacklogBytes => "backlog_bytes",
            Self::PushedBytes => "pushed_bytes",
            Self::PulledBytes => "pulled_bytes",
            Self::SummedBytes => "summed_bytes",
            Self::FinishedRounds => "finished_rounds",
            Self::SharePpm => "share_ppm",
            Self::OptimalSharePpm => "optimal_share_ppm",
            Self::SpreadNs => "spread_ns",
        }
    }

    /// What its values mean over time.
    #[must_use]
    pub const fn reading(self) -> Reading {
        match self {
            Self::BacklogBytes | Self::SharePpm | Self::OptimalSharePpm => Reading::Value,
            Self::SpreadNs => Reading::Worst,
            _ => Reading::Counter,
        }
    }

    /// Whether it only grows.
    #[must_use]
    pub fn is_counter(self) -> bool {
        self.reading() == Reading::Counter
    }

    /// What it counts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::IssuedCalls | Self::CompletedCalls => "calls",
            Self::FinishedRounds => "rounds",
            Self::SharePpm | Self::OptimalSharePpm => "ppm",
            Self::SpreadNs => "nanoseconds",
            _ => "bytes",
        }
    }
}

/// Which samples to read.
#[derive(Clone, Debug)]
pub struct SeriesQuery {
    /// Only of jobs whose ids begin with this.
    pub of_jobs: Option<String>,
    /// What of them.
    pub metric: Metric,
    /// Only of this job.
    pub job: Option<String>,
    /// Only this communicator, or summation group.
    pub id: Option<String>,
    /// Only this host.
    pub host: Option<String>,
    /// Only this primitive, or service.
    pub kind: Option<String>,
    /// From, inclusive, milliseconds since 1970. Samples [`SeriesQuery::LOOK_BACK_MS`] older, and of rollups the bucket
    /// before that, are read too.
    pub from_ms: i64,
    /// To, exclusive.
    pub to_ms: i64,
    /// Time between the points that are made of them: samples need not be closer, so that rollups do from a minute on.
    pub step_ms: i64,
}

impl SeriesQuery {
    /// How far back a series may have its last change: an unchanged series has no rows.
    pub const LOOK_BACK_MS: i64 = 5 * 60 * 1000;
    /// Most samples that one query reads: what the hub writes in an hour at most is 3.6 million.
    pub const SAMPLES_MAX: usize = 5_000_000;
}

/// Which samples of the pace of jobs to read.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "they are those of SeriesQuery")]
pub struct PaceQuery {
    pub of_jobs: Option<String>,
    pub job: Option<String>,
    pub from_ms: i64,
    pub to_ms: i64,
    pub step_ms: i64,
}

/// One series at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplePoint<'a> {
    /// Communicator, or summation group.
    pub id: &'a str,
    /// Host.
    pub host: &'a str,
    /// Primitive; of a summation group the number of the service.
    pub kind: &'a str,
    /// When, milliseconds since 1970.
    pub ts_ms: i64,
    /// How far apart samples were at least left when history was made coarser; 0: as they came.
    pub apart_ms: i64,
    /// The value.
    pub value: i64,
}

/// Rows of one resolution, from and to (exclusive).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Segment {
    pub(super) resolution: Resolution,
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// Where to read of a time, for such a step: rollups no coarser than the step, coarse ones first, and samples for what is not rolled
/// up yet.
pub(super) fn segments((from_ms, to_ms, step_ms): (i64, i64, i64), marks: &Marks) -> Vec<Segment> {
    let coarsest_ms = if step_ms < Resolution::Minute.bucket_ms() { 0 } else { step_ms };
    let fitting = || Resolution::ROLLUPS.into_iter().rev().filter(|one| one.bucket_ms() <= coarsest_ms);
    let look_back_ms = SeriesQuery::LOOK_BACK_MS + fitting().next().map_or(0, Resolution::bucket_ms);
    let mut begins_ms = (from_ms - look_back_ms).max(marks.forgotten_ms());
    let mut segments = Vec::new();
    let mut until = |resolution: Resolution, to_ms: i64| {
        if to_ms > begins_ms {
            segments.push(Segment { resolution, from_ms: begins_ms, to_ms });
            begins_ms = to_ms;
        }
    };
    for resolution in fitting() {
        let rolled_up_ms = marks.of(resolution).unwrap_or(0);
        until(resolution, resolution.floor_ms(to_ms).min(rolled_up_ms));
    }
    // Samples that are gone have left their minutes.
    until(Resolution::Minute, to_ms.min(marks.of(Resolution::Samples).unwrap_or(0)));
    until(Resolution::Samples, to_ms);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const MINUTE_MS: i64 = 60_000;
    const START_MS: i64 = 1_000 * HOUR_MS;

    /// Segments as (resolution, from, to), minutes after the start, of a query over 3 h 20 min and some seconds.
    fn check(step_ms: i64, marks: &[(Resolution, i64)], expected: &[(Resolution, i64, i64)]) {
        let to_ms = START_MS + 200 * MINUTE_MS + 30_000;
        let at = |minutes: i64| START_MS + minutes * MINUTE_MS;
        let marks = Marks::new(marks.iter().map(|(resolution, minutes)| (*resolution, at(*minutes))));
        let segments = segments((START_MS, to_ms, step_ms), &marks);
        let found: Vec<_> = segments
            .iter()
            .map(|one| {
                (one.resolution, (one.from_ms - START_MS) / MINUTE_MS, (one.to_ms - START_MS) / MINUTE_MS)
            })
            .collect();
        assert_eq!(found, expected, "{step_ms}");
        assert_eq!(segments.last().unwrap().to_ms, to_ms);
    }

    #[test]
    fn coarse_first_and_samples_last() {
        use Resolution::{Hour, Minute, Samples, TenMinutes};
        let marks = [(Samples, -600), (Minute, 195), (TenMinutes, 190), (Hour, 180)];
        check(1_000, &marks, &[(Samples, -5, 200)]);
        check(59_999, &marks, &[(Samples, -5, 200)]);
        check(MINUTE_MS, &marks, &[(Minute, -6, 195), (Samples, 195, 200)]);
        check(10 * MINUTE_MS, &marks, &[(TenMinutes, -15, 190), (Minute, 190, 195), (Samples, 195, 200)]);
        let hours = [(Hour, -65, 180), (TenMinutes, 180, 190), (Minute, 190, 195), (Samples, 195, 200)];
        check(HOUR_MS, &marks, &hours);
    }

    #[test]
    fn never_rolled_up_and_samples_gone() {
        use Resolution::{Minute, Samples, TenMinutes};
        check(HOUR_MS, &[], &[(Samples, -65, 200)]);
        check(1_000, &[(Samples, 60), (Minute, 100)], &[(Minute, -5, 60), (Samples, 60, 200)]);
        let all = [(Samples, 300), (Minute, 400), (TenMinutes, 400)];
        check(1_000, &all, &[(Minute, -5, 200)]);
        check(10 * MINUTE_MS, &all, &[(TenMinutes, -15, 200), (Minute, 200, 200)]);
    }
}
