//! From samples to lines: spread growth over the time in which it happened, sum.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use ringscope_store::SamplePoint;
use utoipa::ToSchema;

/// What the lines should look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) from_ms: i64,
    pub(super) buckets: usize,
    pub(super) step_ms: i64,
    pub(super) how: How,
    pub(super) apart: Apart,
}

/// What a line says of each step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum How {
    /// The value at its end.
    Value,
    /// Growth per second.
    Rate,
    /// The largest value in it.
    Worst,
}

/// What has lines of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Apart {
    pub(super) kind: bool,
    pub(super) host: bool,
    pub(super) id: bool,
}

/// What has lines of its own, beside primitives.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ToSchema)]
#[schema(as = SeriesBy, rename_all = "snake_case")]
pub(in crate::http) enum By {
    Primitive,
    Host,
    Comm,
}

impl By {
    pub(super) fn apart(self) -> Apart {
        Apart { kind: true, host: self == Self::Host, id: self == Self::Comm }
    }
}

/// Lines while samples come, each the sum (or the worst) of some series. Growth is taken before it is summed: a series that
/// appears in the middle, or begins anew, is no jump.
pub(super) struct Lines {
    shape: Shape,
    series: HashMap<String, Series>,
    lines: BTreeMap<LineKey, Line>,
    key: String,
    /// Lines that there was no room for.
    is_full: bool,
}

/// What a line is of; what is not kept apart is absent.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct LineKey {
    pub(super) kind: Option<String>,
    pub(super) host: Option<String>,
    pub(super) id: Option<String>,
}

struct Series {
    line: LineKey,
    ts_ms: i64,
    value: i64,
}

#[derive(Clone)]
struct Line {
    /// What is added in each bucket; of the worst, the worst in it, NaN where there is none.
    growth: Vec<f64>,
    /// First bucket in which anything is known.
    known_from: usize,
}

impl Shape {
    #[expect(clippy::cast_precision_loss, reason = "steps are below a week")]
    pub(super) fn step_s(self) -> f64 {
        self.step_ms as f64 / 1000.0
    }

    fn bucket(self, ts_ms: i64) -> i64 {
        (ts_ms - self.from_ms).div_euclid(self.step_ms)
    }
}

impl Lines {
    pub(super) fn new(shape: Shape) -> Self {
        Self { shape, series: HashMap::new(), lines: BTreeMap::new(), key: String::new(), is_full: false }
    }

    /// Takes the next sample of a series. Those further apart than `even_gap_ms` were an idle time: what grew in it, grew
    /// at its end.
    pub(super) fn take(&mut self, point: SamplePoint<'_>, even_gap_ms: i64) {
        self.key.clear();
        let _ = write!(self.key, "{}\0{}\0{}", point.id, point.host, point.kind);
        let Some(series) = self.series.get_mut(&self.key) else { return self.begin(point) };
        let mut grown = point.value.saturating_sub(series.value);
        if self.shape.how == How::Rate {
            // Counters begin anew where a process was forgotten; that is no traffic.
            grown = grown.max(0);
        }
        let since_ms = std::mem::replace(&mut series.ts_ms, point.ts_ms);
        series.value = point.value;
        let Some(line) = self.lines.get_mut(&series.line) else { return };
        if self.shape.how == How::Worst {
            line.worse(self.shape, point);
        } else if grown != 0 {
            let since_ms = if point.ts_ms - since_ms <= even_gap_ms { since_ms } else { point.ts_ms };
            line.grow(self.shape, since_ms, point.ts_ms, grown);
        }
    }

    fn begin(&mut self, point: SamplePoint<'_>) {
        let owned = |is_kept: bool, name: &str| is_kept.then(|| name.to_owned());
        let apart = self.shape.apart;
        let line = LineKey {
            kind: owned(apart.kind, point.kind),
            host: owned(apart.host, point.host),
            id: owned(apart.id, point.id),
        };
        let lines_max = POINTS_MAX / self.shape.buckets.max(1);
        if !self.lines.contains_key(&line) && self.lines.len() >= lines_max {
            self.is_full = true;
            return;
        }
        let bucket = self.shape.bucket(point.ts_ms);
        // What it grew before its first sample is not known: a rate begins with the bucket after that.
        let known_from = if self.shape.how == How::Rate { bucket + 1 } else { bucket };
        let known_from = usize::try_from(known_from).unwrap_or(0);
        let nothing = if self.shape.how == How::Worst { f64::NAN } else { 0.0 };
        let empty = Line { growth: vec![nothing; self.shape.buckets], known_from };
        let sum = self.lines.entry(line.clone()).or_insert(empty);
        sum.known_from = sum.known_from.min(known_from);
        match self.shape.how {
            How::Value => sum.grow(self.shape, point.ts_ms, point.ts_ms, point.value),
            How::Worst => sum.worse(self.shape, point),
            How::Rate => {}
        }
        self.series.insert(self.key.clone(), Series { line, ts_ms: point.ts_ms, value: point.value });
    }

    /// The lines; `None` if there are more than one answer carries.
    pub(super) fn finish(self) -> Option<Vec<(LineKey, Vec<Option<f64>>)>> {
        let shape = self.shape;
        let lines = self.lines.into_iter().map(|(key, line)| (key, line.values(shape)));
        (!self.is_full).then(|| lines.collect())
    }
}

impl Line {
    /// Adds what grew evenly between two times. A value also has what grew before the first bucket; a rate has not.
    #[expect(clippy::cast_precision_loss, reason = "JSON has only doubles")]
    fn grow(&mut self, shape: Shape, from_ms: i64, to_ms: i64, grown: i64) {
        // All that is before the first bucket is one.
        let (first, last) = (shape.bucket(from_ms).max(-1), shape.bucket(to_ms).max(-1));
        let (whole_ms, grown) = ((to_ms - from_ms).max(1) as f64, grown as f64);
        for bucket in first..=last {
            let start_ms =
                if bucket < 0 { from_ms } else { (shape.from_ms + bucket * shape.step_ms).max(from_ms) };
            let end_ms = (shape.from_ms + (bucket + 1) * shape.step_ms).min(to_ms);
            let share = if first == last { 1.0 } else { (end_ms - start_ms).max(0) as f64 / whole_ms };
            let place = match usize::try_from(bucket) {
                Ok(place) => place,
                Err(_) if shape.how == How::Rate => continue,
                Err(_) => 0,
            };
            if let Some(growth) = self.growth.get_mut(place) {
                *growth += grown * share;
            }
        }
    }

    /// Notes a value of a bucket; those before the first one say nothing of any.
    #[expect(clippy::cast_precision_loss, reason = "JSON has only doubles")]
    fn worse(&mut self, shape: Shape, point: SamplePoint<'_>) {
        let place = usize::try_from(shape.bucket(point.ts_ms)).ok();
        if let Some(worst) = place.and_then(|place| self.growth.get_mut(place)) {
            *worst = worst.max(point.value as f64);
        }
    }

    fn values(self, shape: Shape) -> Vec<Option<f64>> {
        let mut sum = 0.0;
        let value = |(bucket, grown): (usize, f64)| {
            sum += grown;
            let value = match shape.how {
                How::Value => sum.round(),
                How::Rate => grown / shape.step_s(),
                How::Worst => grown,
            };
            (bucket >= self.known_from && !value.is_nan()).then_some(value)
        };
        self.growth.into_iter().enumerate().map(value).collect()
    }
}

/// Most points (times × lines) that one answer carries.
const POINTS_MAX: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        from_ms: 100_000,
        buckets: 5,
        step_ms: 2000,
        how: How::Value,
        apart: Apart { kind: true, host: false, id: false },
    };
    const BY_HOST: Apart = Apart { kind: true, host: true, id: false };

    fn lines(points: &[(&str, i64, i64)], shape: Shape) -> Vec<(LineKey, Vec<Option<f64>>)> {
        let mut lines = Lines::new(shape);
        for (host, ts_ms, value) in points {
            let ts_ms = shape.from_ms + ts_ms;
            let point = SamplePoint { id: "c", host, kind: "all_reduce", ts_ms, apart_ms: 0, value: *value };
            lines.take(point, 15_000);
        }
        lines.finish().unwrap()
    }

    fn check(points: &[(&str, i64, i64)], rate: bool, expected: [Option<f64>; 5]) {
        let how = if rate { How::Rate } else { How::Value };
        let lines = lines(points, Shape { how, ..SHAPE });
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].1, expected, "{points:?}");
    }

    #[test]
    fn unknown_before_the_first_sample_and_kept_after_the_last() {
        check(&[("a", 2_000, 10)], false, [None, Some(10.), Some(10.), Some(10.), Some(10.)]);
        check(&[("a", 2_000, 10)], true, [None, None, Some(0.), Some(0.), Some(0.)]);
    }

    #[test]
    fn growth_between_close_samples_is_even() {
        check(&[("a", 0, 0), ("a", 8_000, 80)], true, [None, Some(10.), Some(10.), Some(10.), Some(0.)]);
        check(
            &[("a", -2_000, 0), ("a", 2_000, 80)],
            true,
            [Some(20.), Some(0.), Some(0.), Some(0.), Some(0.)],
        );
        check(
            &[("a", -2_000, 0), ("a", 2_000, 80)],
            false,
            [Some(80.), Some(80.), Some(80.), Some(80.), Some(80.)],
        );
    }

    #[test]
    fn growth_after_an_idle_time_is_at_its_end() {
        check(
            &[("a", -60_000, 0), ("a", 4_000, 80)],
            true,
            [Some(0.), Some(0.), Some(40.), Some(0.), Some(0.)],
        );
    }

    #[test]
    fn hosts_are_summed_or_kept_apart() {
        let points = [("a", -2_000, 5), ("b", -4_000, 7), ("a", 4_000, 6)];
        assert_eq!(lines(&points, SHAPE)[0].1[4], Some(13.0));
        let lines = lines(&points, Shape { apart: BY_HOST, ..SHAPE });
        assert_eq!((lines[1].0.host.as_deref(), lines[1].1[0]), (Some("b"), Some(7.0)));
    }

    #[test]
    fn a_series_that_appears_is_no_jump() {
        let points = [("a", 0, 0), ("b", 4_000, 1_000_000)];
        check(&points, true, [None, Some(0.), Some(0.), Some(0.), Some(0.)]);
    }

    #[test]
    fn a_counter_that_begins_anew_loses_only_what_it_had() {
        let points = [("a", 0, 1_000), ("a", 2_000, 1_040), ("a", 4_000, 10), ("a", 6_000, 50)];
        let (_, values) = &lines(&points, Shape { how: How::Rate, ..SHAPE })[0];
        assert_eq!(values.iter().flatten().sum::<f64>() * 2.0, 40.0);
        // A value that is no counter may fall.
        check(&points[2..], false, [None, None, Some(50.), Some(50.), Some(50.)]);
    }

    #[test]
    fn the_worst_of_a_step_is_told_where_there_is_one() {
        let points = [("a", -1_000, 90), ("a", 500, 7), ("b", 1_000, 3), ("b", 4_000, 5), ("a", 5_999, 4)];
        let shape = Shape { how: How::Worst, ..SHAPE };
        assert_eq!(lines(&points, shape)[0].1, [Some(7.0), None, Some(5.0), None, None]);
    }

    #[test]
    fn lines_are_bounded() {
        let mut lines = Lines::new(Shape { buckets: 5_000, apart: BY_HOST, ..SHAPE });
        for host in 0..=200 {
            let host = host.to_string();
            let point =
                SamplePoint { id: "c", host: &host, kind: "all_reduce", ts_ms: 0, apart_ms: 0, value: 1 };
            lines.take(point, 0);
        }
        assert!(lines.finish().is_none());
    }
}
