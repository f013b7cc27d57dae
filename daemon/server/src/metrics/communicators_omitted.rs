//! `ringscope_metrics_communicators_omitted`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "Communicators in use that are not shown here: more than metrics_communicators allows.";
    let omitted = family::number(snapshot.omitted as u64);
    family::gauge("ringscope_metrics_communicators_omitted", help, [(Vec::new(), omitted)])
}
