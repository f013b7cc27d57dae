//! `ringscope_sum_optimal_share`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::services(&snapshot.summations, |service| service.optimal_share);
    family::gauge("ringscope_sum_optimal_share", HELP, rows)
}

const HELP: &str =
    "Fraction of all bytes that a summation service should own for the network cards of its group.";
