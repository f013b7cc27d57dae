//! `ringscope_backlog_bytes`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.rows_of(
        |sample| sample.knows_completion,
        |sample| sample.issued_bytes.saturating_sub(sample.completed_bytes),
    );
    let help = "Payload bytes issued and not completed, where something tells of completion.";
    family::gauge("ringscope_backlog_bytes", help, rows)
}
