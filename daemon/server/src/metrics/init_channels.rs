//! `ringscope_init_channels`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.channels(|host| host.init);
    family::gauge("ringscope_init_channels", "Channels that the node's own search found.", rows)
}
