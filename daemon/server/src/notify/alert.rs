//! Incidents as alerts of Alertmanager's API v2. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingState, Incident};
use ringscope_judge::incidents::BACK_WITHIN;
use serde::Serialize;

use super::links::Links;

/// What an alert is known by: with other labels it is another alert.
pub(super) type Labels = BTreeMap<&'static str, String>;

/// One alert.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Alert {
    /// What tells it from other alerts.
    pub labels: Labels,
    /// What it says.
    pub annotations: BTreeMap<&'static str, String>,
    /// When its incident was first seen.
    pub starts_at: Timestamp,
    /// When it is over, unless it is sent again.
    pub ends_at: Timestamp,
    /// Page of its incident.
    #[serde(rename = "generatorURL")]
    pub generator_url: String,
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

/// What an Alertmanager was told. Where the labels of an incident change (another rank is to blame, it became worse), the
/// alert with the old ones would accuse the wrong one until it ends by itself.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<Alert>);

impl Known {
    /// Notes what is `told` now. Returns, to be told too, the end of each alert that was told before and is not among
    /// these; for as long as the alert would have lived, since an end may get lost.
    pub(super) fn superseded(&mut self, told: &[Alert], now: Timestamp, alive: Duration) -> Vec<Alert> {
        let labels: BTreeSet<&Labels> = told.iter().map(|alert| &alert.labels).collect();
        let mut ended = std::mem::take(&mut self.0);
        ended.retain(|alert| !labels.contains(&alert.labels) && now.since(alert.ends_at) < alive);
        for alert in &mut ended {
            alert.ends_at = alert.ends_at.min(now);
        }
        self.0 = told.iter().chain(&ended).take(KNOWN_MAX).cloned().collect();
        ended
    }
}

fn over_at(incident: &Incident) -> Timestamp {
    incident.resolved_at.unwrap_or(incident.last_seen)
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    Timestamp(at.0.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// The names that the alert rules of `dashboards/rules` use, so that the same routes take both. To Alertmanager it is
/// another alert than the rules' one, for it has no `instance`. Alertmanager takes no empty value.
fn labels(incident: &Incident) -> Labels {
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
/// Alerts that are remembered: as many as are told at once, and as many that ended.
const KNOWN_MAX: usize = 2 * ALERTS_MAX;
/// Alerts of one round; more would only hide the worst ones.
pub(super) const ALERTS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use ringscope_api::Severity;
    use ringscope_samples::objects::incident;

    const RULES: &str = include_str!("../../../../dashboards/rules/alerts.yml");

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

    /// What is posted at a second: rank and end of each alert, as Alertmanager reads them.
    fn posted(known: &mut Known, second: u64, incidents: &[Incident]) -> Vec<(String, String)> {
        let (now, alive) = (Timestamp(second * 1_000_000_000), Duration::from_secs(240));
        let mut all = alerts(incidents, &Links::new("http://x"), now, alive);
        let superseded = known.superseded(&all, now, alive);
        all.extend(superseded);
        let body = serde_json::to_value(&all).unwrap();
        let text =
            |alert: &serde_json::Value, at: &str| alert.pointer(at).unwrap().as_str().unwrap().to_owned();
        let all = body.as_array().unwrap().iter();
        all.map(|alert| {
            assert_eq!(text(alert, "/labels/incident"), "a");
            assert_eq!(text(alert, "/startsAt"), incidents[0].first_seen.to_string());
            (text(alert, "/labels/rank"), text(alert, "/endsAt"))
        })
        .collect()
    }

    #[test]
    fn when_another_rank_is_to_blame_the_alert_of_the_first_one_ends_at_once() {
        let of_rank = |rank: u32| {
            let sentence = format!("rank {rank} has not called");
            [Incident { rank: Some(rank), ..incident("a", "node-b", Severity::Critical, &sentence) }]
        };
        let first_seen = of_rank(3)[0].first_seen.0 / 1_000_000_000;
        let row = |rank: &str, ends_s: u64| {
            (rank.to_owned(), Timestamp((first_seen + ends_s) * 1_000_000_000).to_string())
        };
        let mut known = Known::default();
        let mut at = |second: u64, rank: u32| posted(&mut known, first_seen + second, &of_rank(rank));
        assert_eq!(at(10, 3), [row("3", 250)]);
        assert_eq!(at(15, 5), [row("5", 255), row("3", 15)]);
        assert_eq!(at(75, 5), [row("5", 315), row("3", 15)], "the first post may have been lost");
        assert_eq!(at(80, 3), [row("3", 320), row("5", 80)], "what is told again has not ended");
        assert_eq!(at(319, 3), [row("3", 559), row("5", 80)]);
        assert_eq!(at(320, 3), [row("3", 560)], "it would have ended by itself by now");
    }

    #[test]
    fn what_is_not_told_any_more_ends() {
        let open = incident("a", "node-b", Severity::Critical, "node-b found 2 channels");
        let (links, alive) = (Links::new("http://x"), Duration::from_secs(240));
        let mut known = Known::default();
        let mut ends = |incidents: &[Incident], now: Timestamp| {
            let told = alerts(incidents, &links, now, alive);
            known.superseded(&told, now, alive).iter().map(|alert| alert.ends_at).collect::<Vec<_>>()
        };
        let first = open.first_seen.0;
        let [soon, later, last] = [1, 61, 600].map(|second| Timestamp(first + second * 1_000_000_000));
        assert_eq!(ends(&[open], soon), []);
        // As one that is below the severity of which Alertmanager is told.
        assert_eq!(ends(&[], later), [later]);
        assert_eq!(ends(&[], last), []);
    }
}
