//! `ringscope_backlog_bytes`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.rows(|sample| sample.issued_bytes.saturating_sub(sample.completed_bytes));
    family::gauge("ringscope_backlog_bytes", "Payload bytes issued and not completed.", rows)
}
