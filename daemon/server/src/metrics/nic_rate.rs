//! `ringscope_nic_rate_bytes_per_second`.

use prometheus::proto::MetricFamily;
use ringscope_view as view;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.nics(|nic| nic.rate_bits_per_s.map(view::bytes_per_s));
    family::gauge("ringscope_nic_rate_bytes_per_second", "Rate of the link of the port of a NIC.", rows)
}
