//! `ringscope_final_channels`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.channels(|host| host.last);
    family::gauge("ringscope_final_channels", "Channels agreed by all ranks.", rows)
}
