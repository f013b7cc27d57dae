//! `ringscope_gpus`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.gpus.iter().map(|(host, n)| (vec![("host", host.as_str())], family::number(*n)));
    family::gauge("ringscope_gpus", "GPUs that the driver of a host shows.", rows)
}
