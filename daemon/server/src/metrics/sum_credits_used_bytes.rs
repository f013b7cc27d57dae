//! `ringscope_sum_credits_used_bytes`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::members(&snapshot.summations, summations::credits_used_bytes);
    family::gauge("ringscope_sum_credits_used_bytes", HELP, rows)
}

const HELP: &str = "Bytes of parts in flight of the workers of a host.";
