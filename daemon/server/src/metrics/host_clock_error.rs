//! `ringscope_host_clock_error_seconds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.clocks.iter().map(|clock| (vec![("host", clock.host.as_str())], clock.error_s));
    let help = "How far the offset of a host's clock may be wrong against those of the other hosts.";
    family::gauge("ringscope_host_clock_error_seconds", help, rows)
}
