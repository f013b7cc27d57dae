//! `ringscope_completed_calls_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.rows(|sample| sample.completed_calls);
    family::counter("ringscope_completed_calls_total", "Calls that the library has finished.", rows)
}
