//! `ringscope_metrics_series_limit`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "Series that this page has at most: the setting metrics_series.";
    family::gauge(
        "ringscope_metrics_series_limit",
        help,
        [(Vec::new(), family::number(snapshot.series_limit as u64))],
    )
}
