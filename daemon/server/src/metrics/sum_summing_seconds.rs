//! `ringscope_sum_summing_seconds_total`.

use prometheus::proto::MetricFamily;

use super::family::{self, number};
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::members(&snapshot.summations, |_, told| Some(number(told.summing_ns) / 1e9));
    family::counter("ringscope_sum_summing_seconds_total", HELP, rows)
}

const HELP: &str = "Time that ringscope_sum_summed_bytes_total took.";
