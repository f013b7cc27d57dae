//! `ringscope_incident`.

use prometheus::proto::MetricFamily;

use super::family;
use super::snapshot::Snapshot;

pub(super) fn family(snapshot: &Snapshot) -> MetricFamily {
    let ranks: Vec<String> = snapshot
        .incidents
        .iter()
        .map(|one| one.rank.map(|rank| rank.to_string()).unwrap_or_default())
        .collect();
    let rows = snapshot.incidents.iter().zip(&ranks).map(|(incident, rank)| {
        let labels = vec![
            ("comm", incident.comm.as_str()),
            ("finding", incident.finding.label()),
            ("host", incident.host.as_str()),
            ("incident", incident.id.as_str()),
            ("job", incident.job.as_str()),
            ("rank", rank.as_str()),
            ("severity", incident.severity.label()),
        ];
        (labels, f64::from(u8::from(incident.silenced_until.is_none())))
    });
    let help = "1 for each incident that is open, at most 256, the worst first; 0 while it is silenced.";
    family::gauge("ringscope_incident", help, rows)
}
