//! `ringscope_sum_oldest_wait_seconds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::oldest_waits(&snapshot.summations);
    family::gauge("ringscope_sum_oldest_wait_seconds", HELP, rows)
}

const HELP: &str = "For how long the oldest of ringscope_sum_rounds_waiting has waited. 0: none waits.";
