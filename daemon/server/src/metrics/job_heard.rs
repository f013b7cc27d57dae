//! `ringscope_job_heard_timestamp_seconds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot
        .jobs_seen
        .iter()
        .filter_map(|seen| Some((vec![("job", seen.job.as_str())], family::seconds(seen.heard?))));
    let help = "When counters of a job that has live processes came last; before the first, when it started.";
    family::gauge("ringscope_job_heard_timestamp_seconds", help, rows)
}
