//! `ringscope_captured_calls_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    family::counter(
        "ringscope_captured_calls_total",
        "Calls captured into CUDA graphs: templates, not among the issued.",
        snapshot.rows(|sample| sample.captured_calls),
    )
}
