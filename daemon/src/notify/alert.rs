//! Findings as alerts of Alertmanager's API v2. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::links::Links;
use crate::api::{Finding, FindingState};
use crate::clock::Timestamp;

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

/// The alerts of findings, worst first. One that fires ends `alive` from now, unless it is told again: so it resolves by
/// itself if the daemon dies. Findings with the same labels (ranks of one host) are one alert, which fires if one does.
pub(super) fn alerts(findings: &[Finding], links: &Links, now: Timestamp, alive: Duration) -> Vec<Alert> {
    let alive_ns = u64::try_from(alive.as_nanos()).unwrap_or(u64::MAX);
    let mut alerts: Vec<Alert> = Vec::new();
    let mut places: BTreeMap<BTreeMap<&'static str, String>, usize> = BTreeMap::new();
    for finding in findings {
        let ends_at = match finding.state {
            FindingState::Firing => Timestamp(now.0.saturating_add(alive_ns)),
            FindingState::Resolved => finding.resolved_at.unwrap_or(finding.last_seen),
        };
        let labels = labels(finding);
        if let Some(same) = places.get(&labels).and_then(|place| alerts.get_mut(*place)) {
            same.starts_at = same.starts_at.min(finding.first_seen);
            same.ends_at = same.ends_at.max(ends_at);
            continue;
        }
        places.insert(labels.clone(), alerts.len());
        alerts.push(Alert {
            labels,
            annotations: BTreeMap::from([
                ("summary", finding.message.clone()),
                ("page", links.finding(finding)),
                ("runbook_url", links.runbook(finding.finding)),
            ]),
            starts_at: finding.first_seen,
            ends_at,
            generator_url: links.finding(finding),
        });
    }
    alerts
}

/// The names that the alert rules of `dashboards/rules` use. Alertmanager takes no empty value.
fn labels(finding: &Finding) -> BTreeMap<&'static str, String> {
    let all = [
        ("alertname", alert_name(finding.finding.label())),
        ("finding", finding.finding.label().to_owned()),
        ("severity", finding.severity.label().to_owned()),
        ("job", finding.job.clone()),
        ("host", finding.host.clone()),
        ("comm", finding.comm.clone()),
        ("group", finding.group.clone().unwrap_or_default()),
        ("cause", finding.cause.clone()),
        ("nic", finding.nic.clone().unwrap_or_default()),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// `channel_shortfall` → `RingscopeChannelShortfall`.
fn alert_name(kind: &str) -> String {
    let words = kind.split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
    });
    format!("Ringscope{}", words.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::FindingKind;
    use crate::notify::told::tests::finding;

    const RULES: &str = include_str!("../../../dashboards/rules/alerts.yml");

    #[test]
    fn names_are_those_of_the_alert_rules() {
        for kind in FindingKind::ALL {
            let name = alert_name(kind.label());
            assert!(RULES.contains(&format!("alert: {name}\n")), "{name}");
        }
    }

    #[test]
    fn ranks_of_one_host_are_one_alert_that_fires_if_one_does() {
        let now = Timestamp(1_000_000_000_000);
        let firing = finding("a", "node-b", 5);
        let mut over = finding("b", "node-b", 3);
        over.state = FindingState::Resolved;
        over.resolved_at = Some(Timestamp(4_000_000_000));
        let links = Links::new("http://x/");
        let alerts = alerts(&[firing, over], &links, now, Duration::from_secs(240));
        assert_eq!(alerts.len(), 1);
        assert_eq!(alerts[0].starts_at, Timestamp(3_000_000_000));
        assert_eq!(alerts[0].ends_at, Timestamp(1_240_000_000_000));
        assert_eq!(alerts[0].annotations["page"], "http://x/#/findings?id=a");
        assert_eq!(alerts[0].annotations["runbook_url"], "http://x/#/runbook/channel_shortfall");
        assert!(!alerts[0].labels.contains_key("nic"), "{:?}", alerts[0].labels);
    }
}
