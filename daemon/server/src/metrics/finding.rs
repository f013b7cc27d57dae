//! `ringscope_finding`.

use std::collections::BTreeMap;

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    // Findings about several ranks of a host are one series.
    let rows: BTreeMap<_, _> = snapshot
        .findings
        .iter()
        .map(|finding| {
            let mut labels = vec![
                ("cause", finding.cause.as_str()),
                ("comm", finding.comm.as_str()),
                ("finding", finding.finding.label()),
            ];
            // Prometheus takes an empty label for one that is not there.
            labels.extend(finding.group.as_deref().map(|group| ("group", group)));
            labels.extend([
                ("host", finding.host.as_str()),
                ("incident", finding.incident.as_str()),
                ("job", finding.job.as_str()),
                ("severity", finding.severity.label()),
            ]);
            (labels, f64::from(u8::from(!snapshot.silenced.contains(&finding.incident))))
        })
        .collect();
    let help = "1 for each finding that is firing; 0 while its incident is silenced.";
    family::gauge("ringscope_finding", help, rows)
}
