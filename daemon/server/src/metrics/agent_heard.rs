//! `ringscope_agent_heard_timestamp_seconds`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let rows =
        snapshot.agents.iter().map(|(host, heard)| (vec![("host", host.as_str())], family::seconds(*heard)));
    let help = "When the agent of a host was last heard; of hosts that were heard within the last hour.";
    family::gauge("ringscope_agent_heard_timestamp_seconds", help, rows)
}
