//! Findings in lists, and counted.

use std::cmp::Reverse;
use std::collections::HashMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingCounts, FindingKind, FindingState, Severity};
use ringscope_judge::Diagnosis;
use ringscope_model::Model;

/// Which findings to list. A field that is `None` admits all.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the fields are those of api::Finding")]
pub struct FindingFilter {
    pub state: Option<FindingState>,
    /// At least this severity.
    pub severity: Option<Severity>,
    pub job: Option<String>,
    pub host: Option<String>,
    pub comm: Option<String>,
    pub group: Option<String>,
    pub kind: Option<FindingKind>,
    pub nic: Option<String>,
    /// Seen to hold at this moment or later.
    pub from: Option<Timestamp>,
    /// Seen to hold last at this moment or before.
    pub to: Option<Timestamp>,
}

impl FindingFilter {
    fn admits(&self, finding: &Finding) -> bool {
        self.state.is_none_or(|state| finding.state == state)
            && self.severity.is_none_or(|severity| finding.severity >= severity)
            && self.job.as_ref().is_none_or(|job| finding.job == *job)
            && self.host.as_ref().is_none_or(|host| {
                finding.host == *host || finding.accused.iter().any(|culprit| culprit.host == *host)
            })
            && self.comm.as_ref().is_none_or(|comm| finding.comm == *comm)
            && self.group.as_ref().is_none_or(|group| finding.group.as_ref() == Some(group))
            && self.kind.is_none_or(|kind| finding.finding == kind)
            && self.nic.as_ref().is_none_or(|nic| finding.nic.as_ref() == Some(nic))
            && self.from.is_none_or(|from| finding.last_seen >= from)
            && self.to.is_none_or(|to| finding.last_seen <= to)
    }
}

/// The findings that the filter admits: firing first, worst first, newest first.
#[must_use]
pub fn findings(
    _model: &Model,
    diagnosis: &Diagnosis,
    _now: Timestamp,
    filter: &FindingFilter,
) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        diagnosis.findings().filter(|finding| filter.admits(finding)).cloned().collect();
    found.sort_by(|one, other| order(one).cmp(&order(other)));
    found
}

fn order(finding: &Finding) -> impl Ord + '_ {
    let is_resolved = finding.state == FindingState::Resolved;
    let newest = finding.resolved_at.unwrap_or(finding.first_seen);
    (is_resolved, Reverse(finding.severity), Reverse(newest), &finding.host, finding.rank, &finding.id)
}

/// Firing findings by severity.
pub(super) fn count<'a>(findings: impl Iterator<Item = &'a Finding>) -> FindingCounts {
    let mut counts = FindingCounts::default();
    for finding in findings {
        match finding.severity {
            Severity::Critical => counts.critical += 1,
            Severity::Warning => counts.warning += 1,
            Severity::Info => counts.info += 1,
        }
    }
    counts
}

/// Whether a finding of severity warning or above fires.
pub(super) fn is_degraded(counts: FindingCounts) -> bool {
    counts.critical + counts.warning > 0
}

/// The firing findings by what `key` says, each list worst and newest first.
pub(super) fn firing_by<'a>(
    diagnosis: &'a Diagnosis,
    key: impl Fn(&'a Finding) -> &'a str,
) -> HashMap<&'a str, Vec<&'a Finding>> {
    let mut by: HashMap<&str, Vec<&Finding>> = HashMap::new();
    for finding in diagnosis.firing() {
        by.entry(key(finding)).or_default().push(finding);
    }
    for findings in by.values_mut() {
        findings.sort_by(|one, other| order(one).cmp(&order(other)));
    }
    by
}
