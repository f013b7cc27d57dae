//! `ringscope_sum_stage_queue_parts`.

use prometheus::proto::MetricFamily;

use super::family::{self, number};
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::stages(&snapshot.summations, |stage| number(stage.waiting_parts));
    family::gauge("ringscope_sum_stage_queue_parts", HELP, rows)
}

const HELP: &str = "Parts that wait for a stage in the workers of a host.";
