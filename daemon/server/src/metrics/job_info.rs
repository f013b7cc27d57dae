//! `ringscope_job_info`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot
        .jobs_seen
        .iter()
        .map(|seen| (vec![("job", seen.job.as_str()), ("state", seen.state.label())], 1.0));
    let help = "1 for each job, with its state: running, stale (nothing is heard of it), imported or ended.";
    family::gauge("ringscope_job_info", help, rows)
}
