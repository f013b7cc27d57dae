//! `ringscope_sum_last_arrivals_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::last_arrivals(&snapshot.summations);
    family::counter("ringscope_sum_last_arrivals_total", HELP, rows)
}

const HELP: &str = "Rounds in which a worker came last.";
