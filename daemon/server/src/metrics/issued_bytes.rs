//! `ringscope_issued_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.rows(|sample| sample.issued_bytes);
    family::counter(
        "ringscope_issued_bytes_total",
        "Payload bytes handed to the library, by NCCL's convention.",
        rows,
    )
}
