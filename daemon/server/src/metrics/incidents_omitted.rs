//! `ringscope_metrics_incidents_omitted`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "Open incidents beyond the 256 that have a series.";
    let omitted = family::number(snapshot.incidents_omitted as u64);
    family::gauge("ringscope_metrics_incidents_omitted", help, [(Vec::new(), omitted)])
}
