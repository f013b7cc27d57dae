//! Findings over time: since when each holds, and when it was seen to hold no more.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::advice::advice;
use super::judge::Judgement;
use crate::api::{Finding, FindingKind, FindingState};
use crate::clock::Timestamp;
use crate::model::summation::GroupId;
use crate::model::{CommunicatorId, Fnv, Name};

/// Resolved findings that are remembered; the oldest are forgotten first.
pub const MAX_RESOLVED: usize = 10_000;

/// Findings that fire at a time. Beyond this one more tells nobody anything.
pub const MAX_FIRING: usize = 100_000;

/// How far `last_seen` moves before that alone is news to the store.
pub const LAST_SEEN_STEP: Duration = Duration::from_secs(60);

/// Every finding, firing and resolved.
#[derive(Default)]
pub(super) struct Ledger {
    findings: HashMap<String, Finding>,
    firing: HashMap<Scope, BTreeMap<String, Timestamp>>,
    n_firing: usize,
    resolved: BTreeSet<(Timestamp, String)>,
    n_left_out: u64,
}

/// What is judged at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// A communicator.
    Communicator(CommunicatorId),
    /// The hardware of a host.
    Hardware(Name),
    /// A summation group.
    Summation(GroupId),
}

impl Scope {
    /// `None`: an id of another format. Such a finding cannot be judged again, so it could never be resolved.
    fn of(finding: &Finding) -> Option<Self> {
        match finding.finding {
            FindingKind::NicDegraded | FindingKind::GpuMissing => {
                Some(Self::Hardware(finding.host.as_str().into()))
            }
            _ => match &finding.group {
                Some(group) => group.parse().ok().map(Self::Summation),
                None => finding.comm.parse().ok().map(Self::Communicator),
            },
        }
    }

    /// As findings name it. Empty: no communicator.
    fn comm(&self) -> &str {
        match self {
            Self::Communicator(comm) => comm.as_str(),
            Self::Hardware(_) | Self::Summation(_) => "",
        }
    }

    /// As findings name it. `None`: no summation group.
    fn group(&self) -> Option<GroupId> {
        match self {
            Self::Summation(group) => Some(*group),
            Self::Communicator(_) | Self::Hardware(_) => None,
        }
    }
}

impl Ledger {
    pub(super) fn restore(&mut self, mut finding: Finding) {
        let Some(scope) = Scope::of(&finding) else { return };
        if self.findings.contains_key(&finding.id) {
            return;
        }
        match finding.state {
            FindingState::Resolved => {
                let at = *finding.resolved_at.get_or_insert(finding.last_seen);
                self.resolved.insert((at, finding.id.clone()));
            }
            FindingState::Firing if self.n_firing >= MAX_FIRING => {
                self.n_left_out += 1;
                return;
            }
            FindingState::Firing => {
                self.firing.entry(scope).or_default().insert(finding.id.clone(), finding.last_seen);
                self.n_firing += 1;
            }
        }
        self.findings.insert(finding.id.clone(), finding);
        self.forget();
    }

    /// Makes these what holds for the scope, and resolves what held before. Returns what is news.
    pub(super) fn settle(
        &mut self,
        scope: &Scope,
        job: &str,
        judgements: Vec<Judgement>,
        now: Timestamp,
    ) -> Vec<Finding> {
        let mut before = self.firing.remove(scope).unwrap_or_default();
        self.n_firing = self.n_firing.saturating_sub(before.len());
        let mut news = Vec::new();
        let mut firing = BTreeMap::new();
        for judgement in judgements {
            let id = finding_id(scope, &judgement);
            let told = before.remove(&id);
            if told.is_none() && self.n_firing + firing.len() >= MAX_FIRING {
                self.n_left_out += 1;
                continue;
            }
            let (finding, is_news) = self.fire(id.clone(), scope, job, judgement, now);
            if is_news {
                news.push(finding.clone());
            }
            firing.insert(id, if is_news { now } else { told.unwrap_or(now) });
        }
        news.extend(before.into_keys().filter_map(|id| self.resolve(id, now)));
        self.n_firing += firing.len();
        if !firing.is_empty() {
            self.firing.insert(scope.clone(), firing);
        }
        self.forget();
        news
    }

    /// Notes that what held for the scope still does. Returns what has not been told for long.
    pub(super) fn touch(&mut self, scope: &Scope, now: Timestamp) -> Vec<Finding> {
        let Some(firing) = self.firing.get_mut(scope) else { return Vec::new() };
        let mut news = Vec::new();
        for (id, told) in firing {
            let Some(finding) = self.findings.get_mut(id) else { continue };
            finding.last_seen = finding.last_seen.max(now);
            if now.since(*told) >= LAST_SEEN_STEP {
                *told = now;
                news.push(finding.clone());
            }
        }
        news
    }

    /// How often a condition held and there was no room for the finding.
    pub(super) fn n_left_out(&self) -> u64 {
        self.n_left_out
    }

    /// Notes the incident that a finding belongs to. Returns the finding.
    pub(super) fn join(&mut self, id: &str, incident: &str) -> Option<Finding> {
        let finding = self.findings.get_mut(id)?;
        incident.clone_into(&mut finding.incident);
        Some(finding.clone())
    }

    /// One finding.
    pub(super) fn get(&self, id: &str) -> Option<&Finding> {
        self.findings.get(id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Finding> {
        self.findings.values()
    }

    pub(super) fn firing(&self) -> impl Iterator<Item = &Finding> {
        self.firing.values().flat_map(BTreeMap::keys).filter_map(|id| self.findings.get(id))
    }

    pub(super) fn firing_of(&self, comm: CommunicatorId) -> impl Iterator<Item = &Finding> {
        let scope = Scope::Communicator(comm);
        self.firing.get(&scope).into_iter().flat_map(BTreeMap::keys).filter_map(|id| self.findings.get(id))
    }

    /// The communicators of which something fires.
    pub(super) fn communicators(&self) -> impl Iterator<Item = CommunicatorId> {
        self.firing.keys().filter_map(|scope| match scope {
            Scope::Communicator(comm) => Some(*comm),
            Scope::Hardware(_) | Scope::Summation(_) => None,
        })
    }

    /// The summation groups of which something fires.
    pub(super) fn summations(&self) -> impl Iterator<Item = GroupId> {
        self.firing.keys().filter_map(Scope::group)
    }

    /// The findings that fire for a summation group.
    pub(super) fn firing_of_summation(&self, group: GroupId) -> impl Iterator<Item = &Finding> {
        let scope = Scope::Summation(group);
        self.firing.get(&scope).into_iter().flat_map(BTreeMap::keys).filter_map(|id| self.findings.get(id))
    }

    /// The hosts of which some hardware finding fires.
    pub(super) fn hosts(&self) -> impl Iterator<Item = &Name> {
        self.firing.keys().filter_map(|scope| match scope {
            Scope::Communicator(_) | Scope::Summation(_) => None,
            Scope::Hardware(host) => Some(host),
        })
    }

    pub(super) fn fires(&self, scope: &Scope) -> bool {
        self.firing.contains_key(scope)
    }

    /// The communicators in which one of these hosts found fewer channels than others, or than before.
    pub(super) fn lacking_channels(&self, hosts: &BTreeSet<Name>) -> BTreeSet<CommunicatorId> {
        if hosts.is_empty() {
            return BTreeSet::new();
        }
        let lacking = self.firing().filter(|finding| {
            matches!(finding.finding, FindingKind::ChannelShortfall | FindingKind::ChannelRegression)
                && hosts.contains(finding.host.as_str())
        });
        lacking.filter_map(|finding| finding.comm.parse().ok()).collect()
    }

    /// The hosts that found fewer channels than others in a communicator in use.
    pub(super) fn hosts_that_hold_back(&self) -> HashSet<String> {
        let shortfalls = self.firing().filter(|finding| finding.finding == FindingKind::ChannelShortfall);
        shortfalls.map(|finding| finding.host.clone()).collect()
    }

    /// The finding as it is now, and whether anything but `last_seen` changed.
    fn fire(
        &mut self,
        id: String,
        scope: &Scope,
        job: &str,
        judgement: Judgement,
        now: Timestamp,
    ) -> (&Finding, bool) {
        let before = self.findings.remove(&id);
        if let Some(at) = before.as_ref().and_then(|before| before.resolved_at) {
            self.resolved.remove(&(at, id.clone()));
        }
        let is_news = before.as_ref().is_none_or(|before| {
            before.state != FindingState::Firing
                || before.severity != judgement.severity
                || before.cause != judgement.cause
                || before.nic.as_deref() != judgement.nic.as_deref()
                || before.culprits != judgement.culprits
                || before.message != judgement.message
                || before.evidence != judgement.evidence
        });
        let finding = Finding {
            id: id.clone(),
            finding: judgement.kind,
            severity: judgement.severity,
            state: FindingState::Firing,
            job: job.to_owned(),
            host: judgement.host.to_string(),
            rank: judgement.rank,
            channel: judgement.channel,
            nic: judgement.nic.as_deref().map(str::to_owned),
            comm: scope.comm().to_owned(),
            group: scope.group().map(|group| group.to_string()),
            cause: judgement.cause.to_owned(),
            culprits: judgement.culprits,
            accused: Vec::new(),
            n_victims: 0,
            advice: advice(judgement.kind, &judgement.host, judgement.cause, judgement.nic.as_deref()),
            details: Vec::new(),
            incident: before.as_ref().map_or_else(String::new, |before| before.incident.clone()),
            began_at: None,
            message: judgement.message,
            evidence: judgement.evidence,
            first_seen: before.map_or(now, |before| before.first_seen),
            last_seen: now,
            resolved_at: None,
        };
        (self.findings.entry(id).insert_entry(finding).into_mut(), is_news)
    }

    fn resolve(&mut self, id: String, now: Timestamp) -> Option<Finding> {
        let finding = self.findings.get_mut(&id)?;
        finding.state = FindingState::Resolved;
        finding.resolved_at = Some(now);
        let finding = finding.clone();
        self.resolved.insert((now, id));
        Some(finding)
    }

    fn forget(&mut self) {
        while self.resolved.len() > MAX_RESOLVED {
            let Some((_, id)) = self.resolved.pop_first() else { return };
            self.findings.remove(&id);
        }
    }
}

/// The same for the same condition on the same subject, on every daemon.
fn finding_id(scope: &Scope, judgement: &Judgement) -> String {
    let rank = judgement.rank.map_or(u64::MAX, u64::from);
    let hash = Fnv::new().text(judgement.kind.label()).text(scope.comm()).text(&judgement.host).number(rank);
    // What is not about a channel keeps the id that it had before there were such findings.
    let hash = judgement.channel.map_or(hash, |channel| hash.number(u64::from(channel)));
    // One host can fall back for several reasons.
    let hash = match judgement.kind {
        FindingKind::TransportFallback => hash.text(judgement.cause),
        // And have trouble with several NICs.
        FindingKind::NicDegraded => hash.text(judgement.nic.as_deref().unwrap_or_default()),
        _ => hash,
    };
    let hash = scope.group().map_or(hash, |group| hash.text(group.as_str()));
    format!("{:016x}", hash.finish())
}
