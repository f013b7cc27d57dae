//! A communicator: which process has which of its ranks, and what follows from all of them together.

use std::collections::BTreeMap;

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch;

use super::facts::{Facts, LocalState};
use super::names::Name;
use super::process::{Identity, Local, Process, ProcessId, ProcessState};
use super::{CommunicatorId, Model};

/// A communicator, joined from its ranks.
#[derive(Debug)]
pub struct Communicator {
    pub(super) id: CommunicatorId,
    pub(super) job: Name,
    pub(super) comm_hash: u64,
    pub(super) n_ranks: u32,
    /// How many of the same hash and as many ranks were made before.
    pub(super) sequence: u32,
    /// By rank. Not a vector: only ranks that were heard of cost memory, whatever `n_ranks` says.
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) revision: u64,
}

/// Who has a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) process: ProcessId,
    pub(super) local_id: u64,
}

/// One rank of a communicator.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the types say it")]
pub struct RankRef<'a> {
    pub rank: u32,
    pub process: &'a Process,
    pub identity: &'a Identity,
    pub local: &'a Local,
    pub facts: &'a Facts,
}

impl Process {
    /// Its ranks, one in each communicator that it was joined to.
    pub fn ranks(&self) -> impl Iterator<Item = RankRef<'_>> {
        let joined = self.locals.values().filter(|local| local.joined.is_some());
        joined.filter_map(|local| {
            let (identity, facts) = (self.identity.as_ref()?, local.facts.as_ref()?);
            Some(RankRef { rank: facts.rank, process: self, identity, local, facts })
        })
    }
}

impl Communicator {
    /// Its short id.
    #[must_use]
    pub fn id(&self) -> CommunicatorId {
        self.id
    }

    /// The same, as text.
    #[must_use]
    pub fn id_str(&self) -> &str {
        self.id.as_str()
    }

    /// Its job.
    #[must_use]
    pub fn job(&self) -> &Name {
        &self.job
    }

    /// The library's hash.
    #[must_use]
    pub fn comm_hash(&self) -> u64 {
        self.comm_hash
    }

    /// Number of ranks, heard of or not.
    #[must_use]
    pub fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    /// Ranks heard of.
    #[must_use]
    pub fn n_ranks_seen(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Grows with every change to its facts; counters do not touch it. Of two communicators never the same.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The ranks heard of, by rank.
    pub fn ranks<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = RankRef<'a>> {
        self.ranks_from(0, model)
    }

    /// The same, beginning with rank `first`.
    pub fn ranks_from<'a>(&'a self, first: u32, model: &'a Model) -> impl Iterator<Item = RankRef<'a>> {
        self.members.range(first..).filter_map(|(rank, member)| {
            let process = model.processes.get(&member.process)?;
            let local = process.locals.get(&member.local_id)?;
            Some(RankRef {
                rank: *rank,
                process,
                identity: process.identity.as_ref()?,
                local,
                facts: local.facts.as_ref()?,
            })
        })
    }

    /// When its first rank called its init.
    #[must_use]
    pub fn created(&self, model: &Model) -> Timestamp {
        let known = self.ranks(model).map(|rank| rank.facts.created).filter(|created| created.0 > 0);
        known.min().unwrap_or_default()
    }

    /// Whether it is in use, and when its last rank ended it if it is not.
    #[must_use]
    pub fn state(&self, model: &Model) -> (api::CommunicatorState, Option<Timestamp>) {
        self.state_of(self.ranks(model))
    }

    /// As [`Communicator::state`], where its ranks are at hand.
    pub fn state_of<'a>(
        &self,
        ranks: impl IntoIterator<Item = RankRef<'a>>,
    ) -> (api::CommunicatorState, Option<Timestamp>) {
        let (mut in_use, mut forming, mut broken) = (false, false, false);
        let mut ended = None;
        for rank in ranks {
            match rank.ended() {
                None => {
                    in_use = true;
                    forming |= rank.facts.state == LocalState::Forming;
                }
                Some(end) => {
                    ended = ended.max(Some(end));
                    // Ended in good order is only who destroyed it.
                    broken |= rank.facts.state != LocalState::Destroyed;
                }
            }
        }
        match (in_use, broken, forming) {
            (false, _, _) => (api::CommunicatorState::Ended, ended),
            (true, true, _) => (api::CommunicatorState::Broken, None),
            (true, false, true) => (api::CommunicatorState::Forming, None),
            (true, false, false) => (api::CommunicatorState::Active, None),
        }
    }

    /// Whether all ranks heard of are on one host.
    #[must_use]
    pub fn is_one_host(&self, model: &Model) -> bool {
        let mut hosts = self.ranks(model).map(|rank| &rank.identity.host);
        let first = hosts.next();
        hosts.all(|host| Some(host) == first)
    }

    /// The host of each rank, by rank; as long as the highest rank heard of needs.
    #[must_use]
    pub fn hosts_by_rank<'a>(&'a self, model: &'a Model) -> Vec<Option<&'a Name>> {
        let len = self.members.last_key_value().map_or(0, |(rank, _)| *rank as usize + 1);
        let mut hosts = vec![None; len];
        for rank in self.ranks(model) {
            hosts[rank.rank as usize] = Some(&rank.identity.host);
        }
        hosts
    }
}

impl RankRef<'_> {
    /// Whether the bytes that it sends over the network are counted: they are at level `steps` only. One that sends
    /// none over it needs no counting. `is_one_host`: all of the communicator's ranks heard of are on one.
    #[must_use]
    pub fn is_measured(&self, is_one_host: bool) -> bool {
        let rings = &self.facts.rings;
        let over_network = match rings.is_empty() {
            true => !is_one_host,
            false => {
                rings.values().any(|place| place.transport.is_empty() || place.transport.starts_with("NET"))
            }
        };
        self.facts.n_ranks == 1
            || !over_network
            || self.process.collector.level == batch::Level::Steps
            || !self.local.links.is_empty()
    }

    /// Whether something tells when its operations complete, of all of them. One rank alone completes them as it issues them.
    #[must_use]
    pub fn knows_completion(&self) -> bool {
        let is_told =
            matches!(self.facts.completion, batch::Completion::Profiler | batch::Completion::Events);
        self.facts.n_ranks == 1 || is_told && self.facts.completion_lost.is_empty()
    }

    /// When this rank's part ended.
    #[must_use]
    pub fn ended(&self) -> Option<Timestamp> {
        self.local.ended(self.process)
    }
}

/// What has become of a process, as of `now`.
pub(super) fn rank_state(process: &Process, is_stale: bool) -> api::RankState {
    match process.state() {
        ProcessState::Running if is_stale => api::RankState::Stale,
        ProcessState::Running => api::RankState::Running,
        ProcessState::Exited => api::RankState::Exited,
        ProcessState::Killed => api::RankState::Killed,
        ProcessState::Gone => api::RankState::Gone,
        ProcessState::Imported => api::RankState::Imported,
    }
}
