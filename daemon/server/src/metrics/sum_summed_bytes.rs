//! `ringscope_sum_summed_bytes_total`.

use prometheus::proto::MetricFamily;

use super::family::{self, number};
use super::snapshot::Snapshot;
use super::summations;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = summations::members(&snapshot.summations, |_, told| Some(number(told.summed_bytes)));
    family::counter("ringscope_sum_summed_bytes_total", HELP, rows)
}

const HELP: &str = "Bytes of contributions that the summation services of a host have added up.";
