//! `ringscope_host_clock_offset_seconds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.clocks.iter().map(|clock| (vec![("host", clock.host.as_str())], clock.offset_s));
    let help = "By how much the clock of a host is ahead of the daemon's.";
    family::gauge("ringscope_host_clock_offset_seconds", help, rows)
}
