//! `ringscope_sum_staleness_rounds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::staleness(&snapshot.summations);
    family::histogram("ringscope_sum_staleness_rounds", HELP, rows)
}

const HELP: &str =
    "Asynchronous pulls from the services of a host, by how many rounds the slowest worker was behind.";
