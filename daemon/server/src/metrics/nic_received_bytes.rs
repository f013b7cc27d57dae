//! `ringscope_nic_received_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.nics(|nic| nic.received_bytes.map(family::number));
    family::counter("ringscope_nic_received_bytes_total", "Bytes that the port of a NIC has received.", rows)
}
