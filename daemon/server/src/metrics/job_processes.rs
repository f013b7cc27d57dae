//! `ringscope_job_processes`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.jobs_seen.iter().flat_map(|seen| {
        seen.processes.iter().map(|((host, state), processes)| {
            let labels = vec![("host", host.as_str()), ("job", seen.job.as_str()), ("state", *state)];
            (labels, f64::from(*processes))
        })
    });
    let help = "Processes that have not been seen to end: running, or stale (nothing is heard of them).";
    family::gauge("ringscope_job_processes", help, rows)
}
