//! `ringscope_sum_stage_wait_seconds_total`.

use prometheus::proto::MetricFamily;

use super::family::{self, number};
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::stages(&snapshot.summations, |stage| number(stage.waited_ns) / 1e9);
    family::counter("ringscope_sum_stage_wait_seconds_total", HELP, rows)
}

const HELP: &str = "Time that parts have waited for a stage in the workers of a host, summed over parts.";
