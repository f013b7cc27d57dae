//! Incidents as alerts of Alertmanager's API v2. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::links::Links;
use crate::api::{FindingState, Incident};
use crate::clock::Timestamp;
use crate::diagnose::incidents::BACK_WITHIN;

/// One alert.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Alert {
    pub(super) labels: BTreeMap<&'static str, String>,
    pub(super) annotations: BTreeMap<&'static str, String>,
    pub(super) starts_at: Timestamp,
    pub(super) ends_at: Timestamp,
    #[serde(rename = "generatorURL")]
    pub(super) generator_url: String,
}

/// The alerts of incidents, worst first. One that is open ends `alive` from now, unless it is told again: so it resolves
/// by itself if the daemon dies. One that came back before ends only when it would come back as another one. A silenced one
/// is over as far as Alertmanager is concerned.
pub(super) fn alerts(incidents: &[Incident], links: &Links, now: Timestamp, alive: Duration) -> Vec<Alert> {
    let alert = |incident: &Incident| Alert {
        labels: labels(incident),
        annotations: annotations(incident, links),
        starts_at: incident.first_seen,
        ends_at: match incident.state {
            FindingState::Firing if incident.silenced_until.is_some() => now,
            FindingState::Firing => after(now, alive),
            FindingState::Resolved if incident.times_back > 0 => after(over_at(incident), BACK_WITHIN),
            FindingState::Resolved => over_at(incident),
        },
        generator_url: links.incident(incident),
    };
    incidents.iter().map(alert).collect()
}

fn over_at(incident: &Incident) -> Timestamp {
    incident.resolved_at.unwrap_or(incident.last_seen)
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    Timestamp(at.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// The names that the alert rules of `dashboards/rules` use, so that both are one alert. Alertmanager takes no empty
/// value.
fn labels(incident: &Incident) -> BTreeMap<&'static str, String> {
    let all = [
        ("alertname", ALERT_NAME.to_owned()),
        ("incident", incident.id.clone()),
        ("finding", incident.finding.label().to_owned()),
        ("severity", incident.severity.label().to_owned()),
        ("job", incident.job.clone()),
        ("host", incident.host.clone()),
        ("rank", incident.rank.map(|rank| rank.to_string()).unwrap_or_default()),
        ("comm", incident.comm.clone()),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn annotations(incident: &Incident, links: &Links) -> BTreeMap<&'static str, String> {
    let all = [
        ("summary", incident.sentence.clone()),
        ("description", incident.advice.clone()),
        ("page", links.incident(incident)),
        ("runbook_url", links.runbook(incident.finding)),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// As the alert rules call it.
const ALERT_NAME: &str = "RingscopeIncident";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Severity;
    use crate::health::tests::incident;

    const RULES: &str = include_str!("../../../dashboards/rules/alerts.yml");

    #[test]
    fn the_name_is_that_of_the_alert_rules() {
        assert!(RULES.contains(&format!("alert: {ALERT_NAME}\n")));
    }

    #[test]
    fn an_incident_is_one_alert_that_says_where_and_ends_by_itself() {
        let now = Timestamp(1_000_000_000_000);
        let mut open = incident("a", "node-b", Severity::Critical, "node-b found 2 channels");
        open.rank = Some(5);
        let mut over = open.clone();
        over.state = FindingState::Resolved;
        over.resolved_at = Some(Timestamp(4_000_000_000));
        let mut silent = open.clone();
        silent.silenced_until = Some(Timestamp(u64::MAX));
        let links = Links::new("http://x/");
        let flaps = Incident { times_back: 1, ..over.clone() };
        let alerts = alerts(&[open.clone(), over, silent, flaps], &links, now, Duration::from_secs(240));
        assert_eq!(alerts[0].starts_at, open.first_seen);
        let ends: Vec<u64> = alerts.iter().map(|alert| alert.ends_at.0 / 1_000_000_000).collect();
        assert_eq!(ends, [1240, 4, 1000, 604]);
        let labels = &alerts[0].labels;
        let told = ["incident", "severity", "job", "host", "rank"].map(|name| labels[name].as_str());
        assert_eq!(told, ["a", "critical", "train", "node-b", "5"]);
        assert!(!labels.contains_key("comm"), "{labels:?}");
        assert_eq!(alerts[0].annotations["summary"], "node-b found 2 channels");
        assert_eq!(alerts[0].annotations["description"], "Look at its NICs.");
        assert_eq!(alerts[0].annotations["page"], "http://x/#/incidents/a");
        assert_eq!(alerts[0].annotations["runbook_url"], "http://x/#/runbook/channel_shortfall");
    }
}
