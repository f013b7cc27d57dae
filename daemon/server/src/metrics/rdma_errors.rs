//! `ringscope_rdma_errors_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "Requests of an RDMA port that failed for good, by counter; only those that are not 0.";
    family::counter("ringscope_rdma_errors_total", help, snapshot.nic_counters(|nic| &nic.failures))
}
