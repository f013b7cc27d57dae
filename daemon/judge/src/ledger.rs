//! Findings over time: since when each holds, and when it was seen to hold no more.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Detail, Finding, FindingKind, FindingState};
use ringscope_model::summation::GroupId;
use ringscope_model::{CommunicatorId, Name};

use super::advice::advice;
use super::judgement::Judgement;
use super::news;
use super::scope::{Scope, finding_id, older_finding_id};

/// Resolved findings that are remembered; the oldest are forgotten first.
pub const MAX_RESOLVED: usize = 10_000;

/// Findings that fire at a time. Beyond this one more tells nobody anything.
pub const MAX_FIRING: usize = 100_000;

/// How far `last_seen` moves before that alone is news to the store.
pub const LAST_SEEN_STEP: Duration = Duration::from_secs(60);

/// Words that differ from those told before in numbers alone are told this late: ages grow with every look.
pub const WORDS_STEP: Duration = Duration::from_secs(10);

/// Title of what is said of a wait that has ended well. After a restart it tells such a wait from one that was given up.
pub(super) const ENDED_WELL: &str = "How it ended";

/// Every finding, firing and resolved.
#[derive(Default)]
pub(super) struct Ledger {
    findings: HashMap<String, Finding>,
    firing: HashMap<Scope, BTreeMap<String, Timestamp>>,
    /// Of what fires for jobs the ids, by communicator: a view of many asks for each, and each has few.
    of_jobs: HashMap<String, BTreeSet<String>>,
    n_firing: usize,
    resolved: BTreeSet<(Timestamp, String)>,
    n_left_out: u64,
}

/// What a judgement is about, beside what it says itself.
struct About<'a> {
    scope: &'a Scope,
    job: &'a str,
    /// The finding that it follows from in the end. Absent: none does, and it follows from none.
    incident: Option<&'a str>,
    /// Whether it was news within the last [`WORDS_STEP`].
    told_lately: bool,
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
                if let Scope::Job(_) | Scope::Pace(_) = scope {
                    self.note_of_job(&finding.comm, &finding.id);
                }
                self.firing.entry(scope).or_default().insert(finding.id.clone(), finding.last_seen);
                self.n_firing += 1;
            }
        }
        self.findings.insert(finding.id.clone(), finding);
        self.forget();
    }

    /// Notes of a wait that it has ended well, before it is resolved.
    pub(super) fn end_well(&mut self, id: &str) {
        if let Some(finding) = self.findings.get_mut(id).filter(|known| known.state == FindingState::Firing) {
            let lines = vec!["Those who were waited for came, and the call ended.".to_owned()];
            finding.details.push(Detail { title: ENDED_WELL.to_owned(), lines });
        }
    }

    /// Makes these what holds for the scope, and resolves what held before. Returns what is news.
    pub(super) fn settle(
        &mut self,
        scope: &Scope,
        job: &str,
        judgements: Vec<Judgement>,
        now: Timestamp,
    ) -> Vec<Finding> {
        self.settle_but(scope, job, judgements, &[], now)
    }

    /// The same, where those of `held` are not known to have ended, though they were not found again.
    pub(super) fn settle_but(
        &mut self,
        scope: &Scope,
        job: &str,
        judgements: Vec<Judgement>,
        held: &[String],
        now: Timestamp,
    ) -> Vec<Finding> {
        let mut before = self.firing.remove(scope).unwrap_or_default();
        self.n_firing = self.n_firing.saturating_sub(before.len());
        let mut news = Vec::new();
        let mut firing = BTreeMap::new();
        // What fired when an older release was stopped goes on firing under its id.
        let id = |judgement: &Judgement| {
            let older = Some(older_finding_id(scope, judgement)).filter(|id| before.contains_key(id));
            older.unwrap_or_else(|| finding_id(scope, judgement))
        };
        let ids: Vec<String> = judgements.iter().map(id).collect();
        let roots = roots(&judgements);
        for (place, judgement) in judgements.into_iter().enumerate() {
            let id = ids[place].clone();
            if firing.contains_key(&id) {
                // Two judgements of one subject: the first, which is the worse, stands.
                continue;
            }
            let told = before.remove(&id);
            if told.is_none() && self.n_firing + firing.len() >= MAX_FIRING {
                self.n_left_out += 1;
                continue;
            }
            let incident = roots.get(&place).map(|root| ids[*root].as_str());
            let told_lately = told.is_some_and(|told| now.since(told) < WORDS_STEP);
            let about = About { scope, job, incident, told_lately };
            let (finding, is_news) = self.fire(id.clone(), about, judgement, now);
            if is_news {
                news.push(finding.clone());
            }
            firing.insert(id, if is_news { now } else { told.unwrap_or(now) });
        }
        let (held, over): (BTreeMap<_, _>, BTreeMap<_, _>) =
            before.into_iter().partition(|(id, _)| held.contains(id));
        firing.extend(held);
        news.extend(over.into_keys().filter_map(|id| self.resolve(id, now)));
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
            // Nothing is seen of the past any more.
            let Some(finding) = self.findings.get_mut(id).filter(|finding| !finding.imported) else {
                continue;
            };
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
        let own = self.firing.get(&Scope::Communicator(comm)).into_iter().flat_map(BTreeMap::keys);
        let of_jobs = self.of_jobs.get(comm.as_str()).into_iter().flatten();
        own.chain(of_jobs).filter_map(|id| self.findings.get(id))
    }

    fn note_of_job(&mut self, comm: &str, id: &str) {
        if !comm.is_empty() {
            self.of_jobs.entry(comm.to_owned()).or_default().insert(id.to_owned());
        }
    }

    /// The jobs of which something fires that their judges said.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Name> {
        self.firing.keys().filter_map(|scope| match scope {
            Scope::Job(job) => Some(job),
            _ => None,
        })
    }

    /// The jobs of whose pace something fires.
    pub(super) fn paces(&self) -> impl Iterator<Item = &Name> {
        self.firing.keys().filter_map(|scope| match scope {
            Scope::Pace(job) => Some(job),
            _ => None,
        })
    }

    /// The communicators of which something fires.
    pub(super) fn communicators(&self) -> impl Iterator<Item = CommunicatorId> {
        self.firing.keys().filter_map(|scope| match scope {
            Scope::Communicator(comm) => Some(*comm),
            _ => None,
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
            Scope::Hardware(host) => Some(host),
            _ => None,
        })
    }

    /// What fires there, by id.
    pub(super) fn firing_ids(&self, scope: &Scope) -> Vec<String> {
        self.firing.get(scope).into_iter().flat_map(|firing| firing.keys().cloned()).collect()
    }

    /// Whether anything fires there.
    pub(super) fn fires(&self, scope: &Scope) -> bool {
        self.firing.contains_key(scope)
    }

    /// The communicators in which such a host found fewer channels than others, or than before.
    pub(super) fn lacking_channels(&self, is_one: impl Fn(&str) -> bool) -> BTreeSet<CommunicatorId> {
        let lacking = self.firing().filter(|finding| {
            matches!(finding.finding, FindingKind::ChannelShortfall | FindingKind::ChannelRegression)
                && is_one(&finding.host)
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
        about: About<'_>,
        judgement: Judgement,
        now: Timestamp,
    ) -> (&Finding, bool) {
        let before = self.findings.remove(&id);
        if let Some(at) = before.as_ref().and_then(|before| before.resolved_at) {
            self.resolved.remove(&(at, id.clone()));
        }
        let incident = before.as_ref().map_or_else(String::new, |before| before.incident.clone());
        let again = before.as_ref().filter(|before| {
            // A wait that comes again is another one.
            before.state == FindingState::Firing || !about.scope.is_of_waits()
        });
        let blame = &judgement.blame;
        let began = blame.began_at.filter(|_| about.scope.is_of_waits());
        let first_seen = again.map_or(now, |before| before.first_seen);
        let first_seen = began.map_or(first_seen, |began| began.min(first_seen));
        let finding = Finding {
            id: id.clone(),
            finding: judgement.kind,
            severity: judgement.severity,
            state: FindingState::Firing,
            job: about.job.to_owned(),
            host: judgement.host.to_string(),
            rank: judgement.rank,
            channel: judgement.channel,
            nic: judgement.nic.as_deref().map(str::to_owned),
            comm: about.scope.comm(&judgement).to_owned(),
            group: about.scope.group().map(|group| group.to_string()),
            cause: judgement.cause.to_owned(),
            culprits: judgement.culprits,
            accused: judgement.blame.accused,
            n_victims: judgement.blame.n_victims,
            cost: judgement.blame.cost,
            advice: match judgement.blame.advice {
                known if !known.is_empty() => known,
                _ => advice(judgement.kind, &judgement.host, judgement.cause, judgement.nic.as_deref()),
            },
            details: judgement.blame.details,
            incident: match about.incident {
                Some(root) if again.is_none() || incident.is_empty() => root.to_owned(),
                _ => incident,
            },
            // A wait that is told in part may turn out to be older, never younger.
            began_at: began.map(|began| began.min(first_seen)).or(judgement.blame.began_at),
            imported: judgement.blame.imported,
            message: judgement.message,
            evidence: judgement.evidence,
            first_seen,
            last_seen: now,
            resolved_at: None,
        };
        if let Scope::Job(_) | Scope::Pace(_) = about.scope {
            self.note_of_job(&finding.comm, &id);
        }
        let is_news = before.as_ref().is_none_or(|before| news::is_news(before, &finding, about.told_lately));
        (self.findings.entry(id).insert_entry(finding).into_mut(), is_news)
    }

    fn resolve(&mut self, id: String, now: Timestamp) -> Option<Finding> {
        let finding = self.findings.get_mut(&id)?;
        finding.state = FindingState::Resolved;
        finding.resolved_at = Some(now);
        let finding = finding.clone();
        if let Some(ids) = self.of_jobs.get_mut(&finding.comm) {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_jobs.remove(&finding.comm);
            }
        }
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

/// Of judgements that follow from others, and of those others, by place: where it all comes from.
fn roots(judgements: &[Judgement]) -> BTreeMap<usize, usize> {
    let mut roots = BTreeMap::new();
    for (place, judgement) in judgements.iter().enumerate() {
        let Some(mut root) = judgement.blame.follows_from else { continue };
        // Bounded, for a circle has no beginning.
        for _ in 0..judgements.len() {
            match judgements.get(root).and_then(|judgement| judgement.blame.follows_from) {
                Some(next) => root = next,
                None => break,
            }
        }
        if root < judgements.len() {
            roots.insert(place, root);
            roots.insert(root, root);
        }
    }
    roots
}

#[cfg(test)]
mod tests;
