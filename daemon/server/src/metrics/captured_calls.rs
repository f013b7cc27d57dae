//! `ringscope_captured_calls_total`.

use prometheus::proto::MetricFamily;

use super::communicators::is_captured;
use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    family::counter(
        "ringscope_captured_calls_total",
        "Calls captured into CUDA graphs: templates, not among the issued. Only where any was.",
        snapshot.rows_of(is_captured, |sample| sample.captured_calls),
    )
}
