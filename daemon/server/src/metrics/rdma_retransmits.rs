//! `ringscope_rdma_retransmits_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "What an RDMA port counted that was lost, late or out of order and was repeated, by counter; only those that are not 0.";
    family::counter("ringscope_rdma_retransmits_total", help, snapshot.nic_counters(|nic| &nic.retransmits))
}
