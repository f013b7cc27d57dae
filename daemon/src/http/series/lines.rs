//! From samples to lines: fill the gaps, difference, sum.

use std::collections::BTreeMap;

use crate::api::SeriesLine;
use crate::store::SamplePoint;

/// What the lines should look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) buckets: i64,
    pub(super) step_ms: i64,
    pub(super) rate: bool,
    pub(super) by_host: bool,
}

impl Shape {
    #[expect(clippy::cast_precision_loss, reason = "steps are below a week")]
    pub(super) fn step_s(self) -> f64 {
        self.step_ms as f64 / 1000.0
    }
}

/// One line a primitive (and host), each the sum of the series of its communicators and hosts. Rates are taken before
/// they are summed: a series that appears in the middle is no jump.
pub(super) fn lines(points: &[SamplePoint], shape: Shape) -> Vec<SeriesLine> {
    let mut series: BTreeMap<(&str, &str, &str), Vec<Sampled>> = BTreeMap::new();
    for point in points {
        let key = (point.primitive.as_str(), point.host.as_str(), point.comm.as_str());
        series.entry(key).or_default().push((point.bucket, point.value));
    }
    let mut sums: BTreeMap<(&str, Option<&str>), Vec<Option<f64>>> = BTreeMap::new();
    let len = usize::try_from(shape.buckets).unwrap_or(0);
    for ((primitive, host, _), points) in series {
        let line = sums.entry((primitive, shape.by_host.then_some(host))).or_insert_with(|| vec![None; len]);
        for (sum, value) in line.iter_mut().zip(values(&points, shape)) {
            if let Some(value) = value {
                *sum = Some(sum.unwrap_or(0.0) + value);
            }
        }
    }
    sums.into_iter()
        .map(|((primitive, host), values)| SeriesLine {
            primitive: primitive.to_owned(),
            host: host.map(ToOwned::to_owned),
            values,
        })
        .collect()
}

/// Bucket and counter.
type Sampled = (i64, i64);

/// The values of one series in every bucket.
fn values(points: &[Sampled], shape: Shape) -> Vec<Option<f64>> {
    if !shape.rate {
        return (0..shape.buckets).map(|bucket| at(points, bucket, shape.step_ms)).collect();
    }
    let mut before = at(points, -1, shape.step_ms);
    let mut rates = Vec::new();
    for bucket in 0..shape.buckets {
        let value = at(points, bucket, shape.step_ms);
        rates.push(before.zip(value).map(|(before, value)| (value - before).max(0.0) / shape.step_s()));
        before = value;
    }
    rates
}

/// The counter at the end of a bucket. Between two samples that are close it grows evenly; otherwise it stays as it
/// was, for a series that does not change has no samples.
#[expect(clippy::cast_precision_loss, reason = "JSON has only doubles")]
fn at(points: &[Sampled], bucket: i64, step_ms: i64) -> Option<f64> {
    let next = points.partition_point(|(at, _)| *at <= bucket);
    let (before, value) = *points.get(next.checked_sub(1)?)?;
    let value = value as f64;
    match points.get(next) {
        Some((after, grown)) if before < bucket && (after - before) * step_ms <= EVEN_GAP_MAX_MS => {
            let share = (bucket - before) as f64 / (after - before) as f64;
            Some(value + (*grown as f64 - value) * share)
        }
        _ => Some(value),
    }
}

/// Samples further apart than this were an idle time, not a slow sampler.
const EVEN_GAP_MAX_MS: i64 = 15_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn point(host: &str, bucket: i64, value: i64) -> SamplePoint {
        SamplePoint { comm: "c".into(), host: host.into(), primitive: "all_reduce".into(), bucket, value }
    }

    fn values_of(points: &[SamplePoint], rate: bool) -> Vec<Option<f64>> {
        let mut lines = lines(points, Shape { buckets: 5, step_ms: 2000, rate, by_host: false });
        assert_eq!(lines.len(), 1);
        lines.remove(0).values
    }

    #[test]
    fn unknown_before_the_first_sample_and_kept_after_the_last() {
        assert_eq!(
            values_of(&[point("a", 1, 10)], false),
            [None, Some(10.), Some(10.), Some(10.), Some(10.)]
        );
    }

    #[test]
    fn close_samples_are_joined_evenly() {
        let points = [point("a", 0, 0), point("a", 4, 80)];
        assert_eq!(values_of(&points, true)[1..], [Some(10.), Some(10.), Some(10.), Some(10.)]);
    }

    #[test]
    fn hosts_are_summed_or_kept_apart() {
        let points = [point("a", -1, 5), point("b", -2, 7), point("a", 2, 6)];
        assert_eq!(values_of(&points, false)[4], Some(13.0));
        let lines = lines(&points, Shape { buckets: 5, step_ms: 2000, rate: false, by_host: true });
        let hosts: Vec<_> = lines.iter().map(|line| (line.host.as_deref(), line.values[0])).collect();
        assert_eq!(hosts[1], (Some("b"), Some(7.0)));
    }

    #[test]
    fn a_series_that_appears_is_no_jump() {
        let points = [point("a", 0, 0), point("b", 2, 1_000_000)];
        assert!(values_of(&points, true).iter().flatten().all(|rate| *rate == 0.0));
    }
}
