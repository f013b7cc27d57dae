//! `ringscope_nic_congestion_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let help = "Pause frames and messages of congestion control that a port counted, by counter; only those that are not 0.";
    family::counter("ringscope_nic_congestion_total", help, snapshot.nic_counters(|nic| &nic.congestion))
}
