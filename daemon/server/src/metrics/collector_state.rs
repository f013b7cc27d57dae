//! `ringscope_collector_state`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows = snapshot.collectors.iter().map(|count| {
        let labels = vec![("host", count.host.as_str()), ("job", count.job.as_str()), ("state", count.state)];
        (labels, family::number(count.processes))
    });
    let help = "Live processes whose collector is in this state: on, off, fault, removed (its segment was) or unknown.";
    family::gauge("ringscope_collector_state", help, rows)
}
