//! Building families from rows of (labels, value).

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use ringscope_api::clock::Timestamp;

/// Labels in the order of their names, and the value.
pub(super) type Row<'a> = (Vec<(&'static str, &'a str)>, f64);

/// The same, and how many had the values 0, 1, 2, ...
pub(super) type Counts<'a> = (Vec<(&'static str, &'a str)>, Vec<u64>);

pub(super) fn gauge<'a>(name: &str, help: &str, rows: impl IntoIterator<Item = Row<'a>>) -> MetricFamily {
    family(name, help, MetricType::GAUGE, rows, |value| {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        Metric::from_gauge(gauge)
    })
}

pub(super) fn counter<'a>(name: &str, help: &str, rows: impl IntoIterator<Item = Row<'a>>) -> MetricFamily {
    family(name, help, MetricType::COUNTER, rows, |value| {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = Metric::default();
        metric.set_counter(counter);
        metric
    })
}

/// How many had the values 0, 1, 2, ... The last one counts those that had more too, so it has no bucket but `+Inf`.
pub(super) fn histogram<'a>(
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = Counts<'a>>,
) -> MetricFamily {
    let metrics = rows.into_iter().map(|(labels, counts)| {
        let mut histogram = Histogram::default();
        let (mut total, mut sum, mut buckets) = (0_u64, 0.0, Vec::new());
        for (value, count) in (0_u64..).zip(counts) {
            total = total.saturating_add(count);
            sum += number(value) * number(count);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(number(value));
            bucket.set_cumulative_count(total);
            buckets.push(bucket);
        }
        buckets.pop();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(total);
        histogram.set_sample_sum(sum);
        let mut metric = Metric::default();
        metric.set_histogram(histogram);
        metric.set_label(labels.into_iter().map(label).collect());
        metric
    });
    whole(name, help, MetricType::HISTOGRAM, metrics.collect())
}

/// Prometheus has only doubles: exact up to 2^53, 9 PB.
#[expect(clippy::cast_precision_loss, reason = "the format has only doubles")]
pub(super) const fn number(value: u64) -> f64 {
    value as f64
}

/// A moment as Prometheus counts: seconds since the Unix epoch.
pub(super) const fn seconds(at: Timestamp) -> f64 {
    number(at.unix_ms()) / 1000.0
}

fn family<'a>(
    name: &str,
    help: &str,
    kind: MetricType,
    rows: impl IntoIterator<Item = Row<'a>>,
    metric: fn(f64) -> Metric,
) -> MetricFamily {
    let metrics = rows.into_iter().map(|(labels, value)| {
        let mut metric = metric(value);
        metric.set_label(labels.into_iter().map(label).collect());
        metric
    });
    whole(name, help, kind, metrics.collect())
}

fn whole(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn label((name, value): (&'static str, &str)) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}
