//! Families → requests of remote write 1.0 (<https://prometheus.io/docs/specs/prw/remote_write_spec/>): protobuf, packed by
//! snappy. A series that is no more is marked as stale, so that no rule takes it for what still holds.

use std::collections::HashSet;

use prometheus::proto::{Metric, MetricFamily, MetricType};
use prost::Message as _;
use ringscope_api::clock::Timestamp;

use super::queue::Request;

/// Remembers what was written in the last round.
pub(super) struct Encoder {
    labels: Vec<Label>,
    written: HashSet<Vec<Label>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TimeSeries {
    /// By name, and none is empty.
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    unix_ms: i64,
}

impl Encoder {
    /// `labels`: of all series that have none of that name.
    pub(super) fn new(labels: Vec<(String, String)>) -> Self {
        let labels = labels.into_iter().map(|(name, value)| Label { name, value });
        Self { labels: labels.collect(), written: HashSet::new() }
    }

    /// What is to be written of these, as they are `now`.
    pub(super) fn encode(&mut self, families: &[MetricFamily], now: Timestamp) -> Vec<Request> {
        let unix_ms = i64::try_from(now.unix_ms()).unwrap_or(i64::MAX);
        let mut all: Vec<(Vec<Label>, f64)> = Vec::new();
        for family in families {
            for metric in family.get_metric() {
                self.series_of(family, metric, &mut all);
            }
        }
        let mut written = HashSet::with_capacity(all.len());
        for (labels, _) in &all {
            self.written.remove(labels);
            written.insert(labels.clone());
        }
        let gone = std::mem::replace(&mut self.written, written);
        all.extend(gone.into_iter().map(|labels| (labels, f64::from_bits(STALE))));
        let series = all
            .into_iter()
            .map(|(labels, value)| TimeSeries { labels, samples: vec![Sample { value, unix_ms }] });
        let series: Vec<TimeSeries> = series.collect();
        series.chunks(SERIES_AT_ONCE).map(packed).collect()
    }

    /// That all that was written in the last round is no more.
    pub(super) fn end(&mut self, now: Timestamp) -> Vec<Request> {
        self.encode(&[], now)
    }

    fn series_of(&self, family: &MetricFamily, metric: &Metric, all: &mut Vec<(Vec<Label>, f64)>) {
        let mut add = |suffix: &str, le: Option<f64>, value: f64| {
            let mut labels: Vec<Label> = vec![label("__name__", &format!("{}{suffix}", family.name()))];
            labels.extend(metric.get_label().iter().map(|pair| label(pair.name(), pair.value())));
            labels.extend(
                le.map(|le| label("le", &if le.is_infinite() { "+Inf".to_owned() } else { le.to_string() })),
            );
            labels.retain(|label| !label.value.is_empty());
            for own in &self.labels {
                if labels.iter().all(|known| known.name != own.name) {
                    labels.push(own.clone());
                }
            }
            labels.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            all.push((labels, value));
        };
        match family.get_field_type() {
            MetricType::COUNTER => add("", None, metric.get_counter().get_value()),
            MetricType::HISTOGRAM => {
                let histogram = metric.get_histogram();
                for bucket in histogram.get_bucket() {
                    add("_bucket", Some(bucket.upper_bound()), number(bucket.cumulative_count()));
                }
                let count = number(histogram.get_sample_count());
                if histogram.get_bucket().last().is_none_or(|last| last.upper_bound().is_finite()) {
                    add("_bucket", Some(f64::INFINITY), count);
                }
                add("_sum", None, histogram.get_sample_sum());
                add("_count", None, count);
            }
            // There is no other kind in this daemon.
            _ => add("", None, metric.get_gauge().get_value()),
        }
    }
}

fn packed(series: &[TimeSeries]) -> Request {
    let request = WriteRequest { series: series.to_vec() };
    let mut encoder = snap::raw::Encoder::new();
    // It fails only on what is larger than 4 GiB.
    let body = encoder.compress_vec(&request.encode_to_vec()).unwrap_or_default();
    Request { body: body.into(), n_samples: series.len() }
}

fn label(name: &str, value: &str) -> Label {
    Label { name: name.to_owned(), value: value.to_owned() }
}

/// Prometheus has only doubles: exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "the format has only doubles")]
const fn number(value: u64) -> f64 {
    value as f64
}

/// Prometheus' mark of a series that is no more (`StaleNaN` in its `model/value`).
const STALE: u64 = 0x7ff0_0000_0000_0002;
/// As Prometheus' `max_samples_per_send`.
const SERIES_AT_ONCE: usize = 2000;

#[cfg(test)]
mod tests {
    use prometheus::{Histogram, HistogramOpts, IntGauge, IntGaugeVec, Opts, Registry};

    use super::*;

    /// Each series with its value, as text.
    fn texts(requests: &[Request]) -> Vec<String> {
        let series = requests.iter().flat_map(|request| {
            let bytes = snap::raw::Decoder::new().decompress_vec(&request.body).unwrap();
            let request = WriteRequest::decode(bytes.as_slice()).unwrap();
            request.series
        });
        let text = |one: TimeSeries| {
            let labels: Vec<String> =
                one.labels.iter().map(|label| format!("{}={}", label.name, label.value)).collect();
            let sample = &one.samples[0];
            let is_stale = sample.value.to_bits() == STALE;
            let value = if is_stale { "stale".to_owned() } else { sample.value.to_string() };
            format!("{} {value} @{}", labels.join(","), sample.unix_ms)
        };
        series.map(text).collect()
    }

    #[test]
    fn series_have_the_labels_of_the_daemon_sorted_and_end_with_a_mark() {
        let registry = Registry::new();
        let findings = IntGaugeVec::new(Opts::new("finding", "?"), &["job", "zone"]).unwrap();
        findings.with_label_values(&["train", ""]).set(1);
        registry.register(Box::new(findings.clone())).unwrap();
        let up = IntGauge::new("up", "?").unwrap();
        registry.register(Box::new(up)).unwrap();
        let own = [("instance", "d:1"), ("job", "ringscope"), ("cluster", "a")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let mut encoder = Encoder::new(own);
        let first = texts(&encoder.encode(&registry.gather(), Timestamp(5_000_000)));
        assert_eq!(
            first,
            [
                "__name__=finding,cluster=a,instance=d:1,job=train 1 @5",
                "__name__=up,cluster=a,instance=d:1,job=ringscope 0 @5"
            ]
        );
        findings.remove_label_values(&["train", ""]).unwrap();
        let second = texts(&encoder.encode(&registry.gather(), Timestamp(6_000_000)));
        assert!(second.contains(&"__name__=finding,cluster=a,instance=d:1,job=train stale @6".to_owned()));
        assert_eq!(encoder.encode(&registry.gather(), Timestamp(7_000_000))[0].n_samples, 1, "marked once");
        let end = texts(&encoder.end(Timestamp(8_000_000)));
        assert_eq!(end, ["__name__=up,cluster=a,instance=d:1,job=ringscope stale @8"]);
        assert!(encoder.end(Timestamp(9_000_000)).is_empty());
    }

    #[test]
    fn a_histogram_is_its_buckets_with_infinity_its_sum_and_its_count() {
        let histogram =
            Histogram::with_opts(HistogramOpts::new("took", "?").buckets(vec![0.5, 1.0])).unwrap();
        histogram.observe(0.75);
        histogram.observe(7.0);
        let registry = Registry::new();
        registry.register(Box::new(histogram)).unwrap();
        let texts = texts(&Encoder::new(Vec::new()).encode(&registry.gather(), Timestamp(0)));
        let expected = [
            "__name__=took_bucket,le=0.5 0 @0",
            "__name__=took_bucket,le=1 1 @0",
            "__name__=took_bucket,le=+Inf 2 @0",
            "__name__=took_sum 7.75 @0",
            "__name__=took_count 2 @0",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn many_series_are_several_requests() {
        let registry = Registry::new();
        let many = IntGaugeVec::new(Opts::new("many", "?"), &["n"]).unwrap();
        (0..SERIES_AT_ONCE + 1).for_each(|n| many.with_label_values(&[n.to_string().as_str()]).set(1));
        registry.register(Box::new(many)).unwrap();
        let requests = Encoder::new(Vec::new()).encode(&registry.gather(), Timestamp(0));
        assert_eq!(requests.iter().map(|one| one.n_samples).collect::<Vec<_>>(), [SERIES_AT_ONCE, 1]);
    }
}
