//! A group: its members by role and number, and what follows from all of them together.

use std::collections::BTreeMap;

use ringscope_api::clock::Timestamp;
use ringscope_api::{SummationGroupState, SummationRole as Role};
use ringscope_wire::batch::{SummationComparison, SummationMember, SummationState};

use super::super::{Model, Process};
use super::arrivals::{Arrived, Lateness, Marks};
use super::member::{Member, Place, is_end};
use super::outcome::Rounds;
use super::{GroupId, Service};

/// See the module.
#[derive(Debug)]
pub struct Group {
    pub(super) id: GroupId,
    pub(super) session: u64,
    pub(super) members: BTreeMap<Place, Member>,
    pub(super) rounds: Rounds,
    pub(super) marks: Marks,
}

impl Group {
    pub(super) fn new(id: GroupId, session: u64) -> Self {
        Self { id, session, members: BTreeMap::new(), rounds: Rounds::default(), marks: Marks::default() }
    }

    /// Its short id.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// What stays when members change.
    #[must_use]
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Members heard of: workers first, by number.
    pub fn members(&self) -> impl Iterator<Item = (Place, &Member)> {
        self.members.iter().map(|(place, member)| (*place, member))
    }

    /// Workers heard of, by number.
    pub fn workers(&self) -> impl Iterator<Item = (u32, &Member)> {
        let workers = self.members().filter(|((role, _), _)| *role == Role::Worker);
        workers.map(|((_, index), member)| (index, member))
    }

    /// One member.
    #[must_use]
    pub fn member(&self, place: Place) -> Option<&Member> {
        self.members.get(&place)
    }

    /// What all members say alike, as the one says it that knows most: the newest placement, the most tensors.
    #[must_use]
    pub fn facts(&self) -> Option<&SummationMember> {
        let told = self.members.values().map(|member| &member.told);
        told.max_by_key(|told| (told.placement_epoch, told.services.len(), told.n_tensors))
    }

    /// Workers and servers, heard of or not.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        self.facts().map_or((0, 0), |facts| (facts.n_workers, facts.n_servers))
    }

    /// Rank of a member: workers first, then servers.
    #[must_use]
    pub fn rank(&self, (role, index): Place) -> u32 {
        match role {
            Role::Worker => index,
            Role::Server => self.size().0.saturating_add(index),
        }
    }

    /// Who has a rank. `None`: nobody.
    #[must_use]
    pub fn place(&self, rank: u32) -> Option<Place> {
        let (n_workers, n_servers) = self.size();
        match rank.checked_sub(n_workers) {
            None => Some((Role::Worker, rank)),
            Some(index) => (index < n_servers).then_some((Role::Server, index)),
        }
    }

    /// Its services: those of servers first, then one in each worker.
    pub fn services(&self) -> impl Iterator<Item = Service<'_>> {
        let told = self.facts().map(|facts| facts.services.as_slice()).unwrap_or_default();
        let size = self.size();
        told.iter().enumerate().filter_map(move |(index, told)| Service::of(self, size, index, told))
    }

    /// Host of a member. Empty: not known.
    #[must_use]
    pub fn host<'a>(&'a self, place: Place, model: &'a Model) -> &'a str {
        let told =
            self.services().find(|service| service.place == place).map_or("", |service| service.told_host());
        let identity = || self.process(place, model)?.identity().map(|identity| &*identity.host);
        if told.is_empty() { identity().unwrap_or_default() } else { told }
    }

    /// Process of a member that was heard of.
    #[must_use]
    pub fn process<'a>(&self, place: Place, model: &'a Model) -> Option<&'a Process> {
        model.processes.get(&self.members.get(&place)?.process)
    }

    /// Job of its first worker; of its first server if no worker was heard of. Empty: not known.
    #[must_use]
    pub fn job<'a>(&self, model: &'a Model) -> &'a str {
        let processes = self.members.values().filter_map(|member| model.processes.get(&member.process));
        let mut jobs = processes.filter_map(|process| process.identity()).map(|identity| &*identity.job);
        jobs.next().unwrap_or_default()
    }

    /// When the first of its members joined.
    #[must_use]
    pub fn started(&self) -> Timestamp {
        let joined = self.members.values().map(|member| member.told.joined_at_ns).filter(|at| *at > 0);
        Timestamp(joined.min().unwrap_or_default())
    }

    /// Whether it is at work.
    #[must_use]
    pub fn state(&self, model: &Model, now: Timestamp) -> SummationGroupState {
        let has = |state| self.members.values().any(|member| member.told.state() == state);
        let lives = self.live(model).next().is_some();
        if has(SummationState::Failed) || self.lost(model, now).is_some() {
            SummationGroupState::Failed
        } else if has(SummationState::Suspended) {
            SummationGroupState::Suspended
        } else if !lives {
            SummationGroupState::Ended
        } else if has(SummationState::Running) {
            SummationGroupState::Running
        } else {
            SummationGroupState::Starting
        }
    }

    /// Members that are in it.
    pub fn live<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = (Place, &'a Member)> {
        self.members().filter(|(_, member)| end(member, model).is_none())
    }

    /// When its last member left it or ended. `None`: it is in use.
    #[must_use]
    pub fn ended(&self, model: &Model) -> Option<Timestamp> {
        let ends = self.members.values().map(|member| end(member, model));
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Totals of every worker over all services that told of it.
    #[must_use]
    pub fn arrived(&self) -> Vec<Arrived> {
        let mut totals = vec![Arrived::default(); self.size().0 as usize];
        for told in self.members.values().flat_map(|member| &member.told.contributors) {
            let Some(total) = totals.get_mut(told.worker as usize) else { continue };
            total.add(Arrived {
                contributions: told.contributions,
                last_arrivals: told.last_arrivals,
                late_ns: told.late_ns,
                unanswered: told.unanswered,
            });
        }
        totals
    }

    /// How workers came to the rounds of the last minute. `None`: it has just been heard of.
    #[must_use]
    pub fn lateness(&self, now: Timestamp) -> Option<Lateness> {
        self.marks.since_first(now, &self.arrived())
    }

    /// The same of all its rounds.
    #[must_use]
    pub fn lateness_ever(&self, now: Timestamp) -> Lateness {
        Lateness::of(&self.arrived(), now.since(self.started()))
    }

    /// What comparisons of the parameters have come to, as the worker says it that has told of the newest one. `None`: nobody
    /// compares them.
    #[must_use]
    pub fn comparison(&self) -> Option<&SummationComparison> {
        let told = self.workers().filter_map(|(_, worker)| worker.told().comparison.as_ref());
        told.max_by_key(|comparison| (comparison.count, comparison.steps))
    }

    /// The newest results.
    #[must_use]
    pub fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Rounds of parts per second that got a result.
    #[must_use]
    pub fn rounds_per_s(&self, now: Timestamp) -> f64 {
        self.members.values().map(|member| member.rounds_per_s(now)).sum()
    }
}

/// When a member left or its process ended.
pub(super) fn end(member: &Member, model: &Model) -> Option<Timestamp> {
    let process = model.processes.get(&member.process);
    let told = member.ended.filter(|_| is_end(member.told.state()));
    told.or_else(|| process.map_or(Some(member.at), |process| process.ended))
}

/// Adds what one service counted of staleness to what others did: by rounds behind. All of a group have as many entries.
pub fn add_staleness(total: &mut Vec<u64>, more: &[u64]) {
    total.resize(total.len().max(more.len()), 0);
    for (total, more) in total.iter_mut().zip(more) {
        *total = total.saturating_add(*more);
    }
}
