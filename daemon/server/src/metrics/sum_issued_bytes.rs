//! `ringscope_sum_issued_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::traffic(
        &snapshot.summations,
        [|told| told.push_issued_bytes, |told| told.pull_issued_bytes],
    );
    family::counter("ringscope_sum_issued_bytes_total", HELP, rows)
}

const HELP: &str = "Bytes that the workers of a host submitted to a service (push) or asked of it (pull). In groups with very many services these count by role.";
