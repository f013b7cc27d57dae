//! `ringscope_jobs`.

use prometheus::proto::MetricFamily;
use ringscope_api::Condition;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let counts = &snapshot.health.jobs;
    let rows = Condition::ALL
        .map(|condition| (vec![("condition", condition.label())], f64::from(counts.of(condition))));
    let help = "Jobs that run, by how they stand: healthy, unknown, degraded, hung or failed.";
    family::gauge("ringscope_jobs", help, rows)
}
