//! `ringscope_issued_calls_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.rows(|sample| sample.issued_calls);
    family::counter("ringscope_issued_calls_total", "Calls handed to the library.", rows)
}
