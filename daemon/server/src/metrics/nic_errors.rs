//! `ringscope_nic_errors_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "Errors that the port of a NIC counted, by counter; only those that are not 0.";
    family::counter("ringscope_nic_errors_total", help, snapshot.nic_counters(|nic| &nic.errors))
}
