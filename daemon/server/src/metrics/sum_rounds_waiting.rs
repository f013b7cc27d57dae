//! `ringscope_sum_rounds_waiting`.

use prometheus::proto::MetricFamily;

use super::family::{self, number};
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::members(&snapshot.summations, |_, told| Some(number(told.waits.len() as u64)));
    family::gauge("ringscope_sum_rounds_waiting", HELP, rows)
}

const HELP: &str = "Rounds of the summation services of a host that wait for workers.";
