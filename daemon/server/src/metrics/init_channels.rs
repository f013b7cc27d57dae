//! `ringscope_init_channels`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.channels.iter().filter_map(|host| {
        let labels =
            vec![("comm", host.comm.as_str()), ("host", host.host.as_str()), ("job", host.job.as_str())];
        Some((labels, f64::from(host.init?)))
    });
    family::gauge("ringscope_init_channels", "Channels that the node's own search found.", rows)
}
