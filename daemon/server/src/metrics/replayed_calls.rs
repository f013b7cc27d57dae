//! `ringscope_replayed_calls_total`.

use prometheus::proto::MetricFamily;

use super::communicators::is_captured;
use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    family::counter(
        "ringscope_replayed_calls_total",
        "Runs of captured calls that the library reported; they are among the issued and completed.",
        snapshot.rows_of(is_captured, |sample| sample.replayed_calls),
    )
}
