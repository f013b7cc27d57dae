//! `ringscope_nic_link_downs_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.nics(|nic| nic.link_downs.map(family::number));
    family::counter(
        "ringscope_nic_link_downs_total",
        "How often the link of the port of a NIC went down.",
        rows,
    )
}
