//! `ringscope_sum_groups_omitted`.

use prometheus::proto::MetricFamily;

use super::family::{self, number};
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let omitted = number(snapshot.summations_omitted as u64);
    let help = "Summation groups in use that are beyond the limit and have no series.";
    family::gauge("ringscope_sum_groups_omitted", help, [(Vec::new(), omitted)])
}
