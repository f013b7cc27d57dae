//! `ringscope_sum_loopback_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::members(&snapshot.summations, summations::loopback_bytes);
    family::counter("ringscope_sum_loopback_bytes_total", HELP, rows)
}

const HELP: &str = "Bytes between workers of a host and services that crossed no network card.";
