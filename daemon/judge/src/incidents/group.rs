//! Firing findings → groups with one cause each. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingKind, Severity};

use super::keys::{Key, explained_by, explains};
use crate::order::order_of;

/// Findings with one cause, the root first.
#[derive(Clone, Debug)]
pub(super) struct Group<'f> {
    pub(super) members: Vec<&'f Finding>,
}

impl<'f> Group<'f> {
    /// Where it comes from.
    pub(super) fn root(&self) -> &'f Finding {
        self.members[0]
    }

    /// The worst of its findings.
    pub(super) fn severity(&self) -> Severity {
        self.members.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Info)
    }
}

/// When a finding's condition began, as far as is known.
pub(super) fn began(finding: &Finding) -> Timestamp {
    finding.began_at.map_or(finding.first_seen, |began| began.min(finding.first_seen))
}

/// The groups. What is only information joins one, and makes none. The order of `firing` does not matter. Nothing of today
/// explains what files tell of, and that explains nothing of today.
pub(super) fn group<'f>(firing: impl Iterator<Item = &'f Finding>) -> Vec<Group<'f>> {
    let (past, live) = firing.partition(|finding: &&Finding| finding.imported);
    [alike(live), alike(past)].concat()
}

fn alike(mut findings: Vec<&Finding>) -> Vec<Group<'_>> {
    let by_id: HashMap<&str, (u8, Severity)> = findings
        .iter()
        .map(|finding| (finding.id.as_str(), (order_of(finding.finding), finding.severity)))
        .collect();
    findings.sort_by_cached_key(|finding| {
        let is_info = finding.severity == Severity::Info;
        // What the judge says follows from another finding comes after that one. An incident is named as the finding that
        // came first, which a better root found later does not follow from.
        let root = by_id.get(finding.incident.as_str()).filter(|_| finding.incident != finding.id);
        let follows = root.is_some_and(|(order, severity)| {
            *order < order_of(finding.finding) || *severity > finding.severity
        });
        (
            is_info,
            follows,
            order_of(finding.finding),
            Reverse(finding.severity),
            began(finding),
            finding.id.clone(),
        )
    });
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut by_key: HashMap<Key<'_>, usize> = HashMap::new();
    // What was one stays one: causes go before their consequences do. And a judge may say of a finding that it follows
    // from another: then it names that one as its incident.
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    for finding in findings {
        let explained = explained_by(finding).into_iter().find_map(|key| {
            let at = *by_key.get(&key)?;
            let root = groups[at].root();
            (root.finding != FindingKind::KernelFault || is_near(root, finding)).then_some(at)
        });
        let names = [finding.incident.as_str(), finding.id.as_str()];
        let named = || names.iter().find_map(|name| by_name.get(name).copied());
        let at = match explained.or_else(named) {
            Some(at) => {
                groups[at].members.push(finding);
                at
            }
            None if finding.severity == Severity::Info => continue,
            None => {
                groups.push(Group { members: vec![finding] });
                groups.len() - 1
            }
        };
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            by_name.entry(name).or_insert(at);
        }
        for key in explains(finding) {
            by_key.entry(key).or_insert(at);
        }
    }
    groups
}

/// Whether what the kernel said may have to do with it.
fn is_near(kernel: &Finding, finding: &Finding) -> bool {
    let (said, happened) = (began(kernel), began(finding));
    happened.since(said) <= KERNEL_HOLDS && said.since(happened) <= KERNEL_LATE
}

/// For how long after the kernel's word something of the same host is put down to it.
const KERNEL_HOLDS: Duration = Duration::from_secs(600);
/// How much later than what it caused the kernel's word may be: clocks, and drivers that give up late.
const KERNEL_LATE: Duration = Duration::from_secs(60);
