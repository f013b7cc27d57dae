//! `ringscope_sum_completed_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::traffic(
        &snapshot.summations,
        [|told| told.push_completed_bytes, |told| told.pull_completed_bytes],
    );
    family::counter("ringscope_sum_completed_bytes_total", HELP, rows)
}

const HELP: &str = "The part of ringscope_sum_issued_bytes_total that was sent, or came.";
