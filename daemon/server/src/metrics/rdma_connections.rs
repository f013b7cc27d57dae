//! `ringscope_rdma_connections`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.nics.iter().flat_map(|nic| {
        nic.connections.iter().map(|(state, count)| {
            let labels = vec![
                ("host", nic.host.as_str()),
                ("nic", nic.nic.as_str()),
                ("port", nic.port.as_str()),
                ("state", state.label()),
            ];
            (labels, family::number(*count))
        })
    });
    let help = "RDMA connections of processes that live, by the port that they use and how they stand.";
    family::gauge("ringscope_rdma_connections", help, rows)
}
