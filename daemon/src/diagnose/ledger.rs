//! Findings over time: since when each holds, and when it was seen to hold no more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::judge::Judgement;
use crate::api::{Finding, FindingKind, FindingState};
use crate::clock::Timestamp;
use crate::model::{CommunicatorId, Fnv};

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
    firing: HashMap<CommunicatorId, BTreeMap<String, Timestamp>>,
    n_firing: usize,
    resolved: BTreeSet<(Timestamp, String)>,
    n_left_out: u64,
}

impl Ledger {
    pub(super) fn restore(&mut self, mut finding: Finding) {
        // An id of another format cannot be judged again, so it could never be resolved.
        let Ok(comm) = finding.comm.parse::<CommunicatorId>() else { return };
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
                self.firing.entry(comm).or_default().insert(finding.id.clone(), finding.last_seen);
                self.n_firing += 1;
            }
        }
        self.findings.insert(finding.id.clone(), finding);
        self.forget();
    }

    /// Makes these what holds for the communicator, and resolves what held before. Returns what is news.
    pub(super) fn settle(
        &mut self,
        comm: CommunicatorId,
        job: &str,
        judgements: Vec<Judgement>,
        now: Timestamp,
    ) -> Vec<Finding> {
        let mut before = self.firing.remove(&comm).unwrap_or_default();
        self.n_firing = self.n_firing.saturating_sub(before.len());
        let mut news = Vec::new();
        let mut firing = BTreeMap::new();
        for judgement in judgements {
            let id = finding_id(comm, &judgement);
            let told = before.remove(&id);
            if told.is_none() && self.n_firing + firing.len() >= MAX_FIRING {
                self.n_left_out += 1;
                continue;
            }
            let (finding, is_news) = self.fire(id.clone(), comm, job, judgement, now);
            if is_news {
                news.push(finding.clone());
            }
            firing.insert(id, if is_news { now } else { told.unwrap_or(now) });
        }
        news.extend(before.into_keys().filter_map(|id| self.resolve(id, now)));
        self.n_firing += firing.len();
        if !firing.is_empty() {
            self.firing.insert(comm, firing);
        }
        self.forget();
        news
    }

    /// Notes that what held for the communicator still does. Returns what has not been told for long.
    pub(super) fn touch(&mut self, comm: CommunicatorId, now: Timestamp) -> Vec<Finding> {
        let Some(firing) = self.firing.get_mut(&comm) else { return Vec::new() };
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

    pub(super) fn all(&self) -> impl Iterator<Item = &Finding> {
        self.findings.values()
    }

    pub(super) fn firing(&self) -> impl Iterator<Item = &Finding> {
        self.firing.values().flat_map(BTreeMap::keys).filter_map(|id| self.findings.get(id))
    }

    pub(super) fn firing_of(&self, comm: CommunicatorId) -> impl Iterator<Item = &Finding> {
        self.firing.get(&comm).into_iter().flat_map(BTreeMap::keys).filter_map(|id| self.findings.get(id))
    }

    /// The communicators of which something fires.
    pub(super) fn communicators(&self) -> impl Iterator<Item = CommunicatorId> {
        self.firing.keys().copied()
    }

    /// The finding as it is now, and whether anything but `last_seen` changed.
    fn fire(
        &mut self,
        id: String,
        comm: CommunicatorId,
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
            nic: None,
            comm: comm.to_string(),
            cause: judgement.cause.to_owned(),
            culprits: judgement.culprits,
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
fn finding_id(comm: CommunicatorId, judgement: &Judgement) -> String {
    let rank = judgement.rank.map_or(u64::MAX, u64::from);
    let hash = Fnv::new().text(judgement.kind.label()).text(comm.as_str()).text(&judgement.host).number(rank);
    // What is not about a channel keeps the id that it had before there were such findings.
    let hash = judgement.channel.map_or(hash, |channel| hash.number(u64::from(channel)));
    // One host can fall back for several reasons.
    let hash = match judgement.kind {
        FindingKind::TransportFallback => hash.text(judgement.cause),
        _ => hash,
    };
    format!("{:016x}", hash.finish())
}
