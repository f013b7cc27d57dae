//! `ringscope_dropped_events_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot
        .dropped
        .iter()
        .map(|(reason, events)| (vec![("reason", reason.as_str())], family::number(*events)));
    let help = "What collectors, agents and this daemon lost, by reason.";
    family::counter("ringscope_dropped_events_total", help, rows)
}
