//! What a scrape shows of findings.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ringscope_api as api;
use ringscope_judge::Diagnosis;

/// What the families show of a finding.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fired {
    pub(super) severity: api::Severity,
    pub(super) finding: api::FindingKind,
    pub(super) cause: String,
    pub(super) comm: String,
    pub(super) group: Option<String>,
    pub(super) host: String,
    pub(super) incident: String,
    pub(super) job: String,
}

/// The findings that fire, one for each set of labels, the worst first, `max` at most; and how many there are more. Of
/// equally bad ones those that fire longest: who is shown stays.
pub(super) fn firing(diagnosis: &Diagnosis, max: usize) -> (Vec<Fired>, usize) {
    let mut firing: Vec<&api::Finding> = diagnosis.firing().filter(|finding| !finding.imported).collect();
    firing.sort_unstable_by_key(|finding| (Reverse(finding.severity), finding.first_seen, &finding.id));
    let left_out = firing.len().saturating_sub(max);
    let fired = |finding: &&api::Finding| Fired {
        severity: finding.severity,
        finding: finding.finding,
        cause: finding.cause.clone(),
        comm: finding.comm.clone(),
        group: finding.group.clone(),
        host: finding.host.clone(),
        incident: finding.incident.clone(),
        job: finding.job.clone(),
    };
    // Findings about several ranks of a host are one series.
    let mut found: Vec<Fired> = firing.iter().take(max).map(fired).collect();
    found.sort_unstable();
    found.dedup();
    (found, left_out)
}

/// Hosts that these name, if they are of severity warning or worse.
pub(super) fn bad_hosts(findings: &[Fired]) -> BTreeSet<String> {
    let named = findings.iter().filter(|one| one.is_bad() && !one.host.is_empty());
    named.map(|one| one.host.clone()).collect()
}

impl Fired {
    pub(super) fn is_bad(&self) -> bool {
        self.severity >= api::Severity::Warning
    }
}
