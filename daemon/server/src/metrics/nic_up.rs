//! `ringscope_nic_up`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.nics(|nic| Some(f64::from(u8::from(nic.up))));
    family::gauge("ringscope_nic_up", "Whether data can flow through the port of a NIC.", rows)
}
