//! `ringscope_completed_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.rows(|sample| sample.completed_bytes);
    family::counter(
        "ringscope_completed_bytes_total",
        "Payload bytes of calls that the library has finished.",
        rows,
    )
}
