//! Batches and kept state into the model, and who has which rank.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::mem;
use std::sync::Arc;

use ringscope_wire::batch::{self, Batch};

use super::agents::Stamp;
use super::communicator::{Communicator, Member, RankRef};
use super::limits::{ENDED_KEPT, MAX_COMMUNICATORS, MAX_NAME_BYTES, MAX_PROCESSES};
use super::merge::{Merged, Word};
use super::process::{Process, ProcessId};
use super::{CommunicatorId, Model};
use crate::clock::Timestamp;

/// What is not as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys of processes whose facts changed, or which were forgotten (then [`Model::process_facts`] gives `None`).
    pub facts: BTreeSet<String>,
    /// Keys of processes whose counters changed.
    pub counters: BTreeSet<String>,
    /// Communicators of which anything changed.
    pub communicators: BTreeSet<CommunicatorId>,
}

/// When and by whom something was told.
#[derive(Clone, Copy)]
struct Told<'a> {
    stamp: Stamp,
    at: Timestamp,
    now: Timestamp,
    agent_host: &'a str,
}

impl Model {
    /// Applies one decoded batch. Idempotent: repeats, and older batches, change nothing.
    pub fn apply(&mut self, batch: &Batch, now: Timestamp) -> Changes {
        let (stamp, at) = self.agents.hear(batch, now, &mut self.losses);
        let told = Told { stamp, at, now, agent_host: &batch.agent_host };
        let mut changes = Changes::default();
        for process in &batch.processes {
            self.apply_process(process, told, &mut changes);
        }
        changes
    }

    /// Rebuilds from what the store kept: the facts and the counters of each process, in any order.
    pub fn restore(&mut self, processes: Vec<batch::Process>, now: Timestamp) {
        let told = Told { stamp: Stamp::STORE, at: now, now, agent_host: "" };
        let mut changes = Changes::default();
        for process in &processes {
            self.apply_process(process, told, &mut changes);
        }
    }

    fn apply_process(&mut self, process: &batch::Process, told: Told<'_>, changes: &mut Changes) {
        let Some(id) = self.process_id(process, told) else { return };
        let mut word = Word {
            stamp: told.stamp,
            at: told.at,
            now: told.now,
            agent_host: told.agent_host,
            names: &mut self.names,
            losses: &mut self.losses,
        };
        let Some(known) = self.processes.get_mut(&id) else { return };
        let (was_known, was_alive) = (known.identity.is_some(), known.ended.is_none());
        let mut merged = known.merge(process, &mut word);
        if !was_known && let Some(identity) = &known.identity {
            self.jobs.entry(Arc::clone(&identity.job)).or_default().processes.insert(id);
            self.hosts.entry(Arc::clone(&identity.host)).or_default().insert(id);
            merged.changed = known.locals.keys().copied().collect();
        }
        let ended = was_alive && known.ended.is_some();
        if ended || merged.facts {
            changes.facts.insert(process.key.clone());
        }
        if merged.counters {
            changes.counters.insert(process.key.clone());
        }
        if ended || merged.collector {
            for comm in known.joined() {
                self.revise(comm, changes);
            }
        }
        self.join(id, &merged, changes);
    }

    /// The process of this key, made if there is room.
    fn process_id(&mut self, process: &batch::Process, told: Told<'_>) -> Option<ProcessId> {
        if let Some(id) = self.keys.get(process.key.as_str()) {
            return Some(*id);
        }
        let ended_long_ago =
            process.ended_at_ns.is_some_and(|ended| told.now.since(Timestamp(ended)) >= ENDED_KEPT);
        let refused = if process.key.is_empty() || process.key.len() > MAX_NAME_BYTES {
            Some("bad_process_key")
        } else if ended_long_ago && told.stamp != Stamp::STORE {
            Some("ended_long_ago")
        } else if self.processes.len() >= MAX_PROCESSES {
            Some("process_limit")
        } else {
            None
        };
        if let Some(reason) = refused {
            self.losses.add(reason);
            return None;
        }
        self.newest_process += 1;
        let key = self.names.intern(&process.key);
        self.keys.insert(Arc::clone(&key), self.newest_process);
        self.processes.insert(self.newest_process, Process::new(key, told.now));
        Some(self.newest_process)
    }

    /// Gives the process the ranks that it claims, and notes which communicators changed.
    fn join(&mut self, id: ProcessId, merged: &Merged, changes: &mut Changes) {
        for local_id in &merged.changed {
            self.join_one(id, *local_id, changes);
        }
        let Some(process) = self.processes.get(&id) else { return };
        for local_id in &merged.counted {
            if let Some(comm) = process.locals.get(local_id).and_then(|local| local.joined) {
                changes.communicators.insert(comm);
            }
        }
    }

    fn join_one(&mut self, process: ProcessId, local_id: u64, changes: &mut Changes) {
        let member = Member { process, local_id };
        let Some(claim) = self.claim(member) else { return };
        let (rank, n_ranks, comm_hash) = (claim.rank, claim.facts.n_ranks, claim.facts.comm_hash);
        if comm_hash == 0 {
            return;
        }
        let job = Arc::clone(&claim.identity.job);
        let comm = CommunicatorId::new(&job, comm_hash, n_ranks);
        self.leave_others(member, comm, rank, changes);
        if !self.communicators.contains_key(&comm) {
            if self.communicators.len() >= MAX_COMMUNICATORS {
                self.losses.add("communicator_limit");
                return;
            }
            self.jobs.entry(Arc::clone(&job)).or_default().communicators.insert(comm);
            let communicator = Communicator {
                id: comm,
                job: Arc::clone(&job),
                comm_hash,
                n_ranks,
                members: std::collections::BTreeMap::new(),
                revision: 0,
            };
            self.communicators.insert(comm, communicator);
        }
        let holder = self.communicators.get(&comm).and_then(|known| known.members.get(&rank)).copied();
        let holder = holder.filter(|holder| *holder != member);
        if let Some(holder) = holder {
            self.losses.add("rank_claimed_twice");
            let wins = match (self.claim(member), self.claim(holder)) {
                (Some(claim), Some(other)) => claim.wins_over(&other),
                (claim, _) => claim.is_some(),
            };
            if !wins {
                return;
            }
            self.set_joined(holder, None);
        }
        let Some(known) = self.communicators.get_mut(&comm) else { return };
        if known.job != job || known.comm_hash != comm_hash || known.n_ranks != n_ranks {
            self.losses.add("communicator_id_collision");
            return;
        }
        match known.members.entry(rank) {
            Entry::Occupied(mut entry) => *entry.get_mut() = member,
            Entry::Vacant(entry) => {
                entry.insert(member);
            }
        }
        self.set_joined(member, Some(comm));
        self.revise(comm, changes);
    }

    /// What a process says of a communicator, if it says who it is and which rank it has.
    fn claim(&self, member: Member) -> Option<RankRef<'_>> {
        let process = self.processes.get(&member.process)?;
        let local = process.locals.get(&member.local_id)?;
        let facts = local.facts.as_ref()?;
        Some(RankRef { rank: facts.rank, process, identity: process.identity.as_ref()?, local, facts })
    }

    /// Takes the member out of wherever else it was: its hash or its rank was told wrong before.
    fn leave_others(&mut self, member: Member, comm: CommunicatorId, rank: u32, changes: &mut Changes) {
        let local =
            self.processes.get(&member.process).and_then(|process| process.locals.get(&member.local_id));
        let Some(before) = local.and_then(|local| local.joined) else { return };
        let Some(known) = self.communicators.get_mut(&before) else { return };
        let n_members = known.members.len();
        known.members.retain(|place, holder| *holder != member || (before == comm && *place == rank));
        if known.members.len() == n_members {
            return;
        }
        if known.members.is_empty() && before != comm {
            let gone = self.communicators.remove(&before);
            if let Some(job) = gone.and_then(|gone| self.jobs.get_mut(&gone.job)) {
                job.communicators.remove(&before);
            }
            changes.communicators.insert(before);
        } else {
            self.revise(before, changes);
        }
        self.set_joined(member, None);
    }

    fn set_joined(&mut self, member: Member, comm: Option<CommunicatorId>) {
        let process = self.processes.get_mut(&member.process);
        if let Some(local) = process.and_then(|process| process.locals.get_mut(&member.local_id)) {
            local.joined = comm;
        }
    }

    /// Notes that the facts of a communicator changed.
    pub(super) fn revise(&mut self, comm: CommunicatorId, changes: &mut Changes) {
        if let Some(communicator) = self.communicators.get_mut(&comm) {
            self.revision += 1;
            let before = mem::replace(&mut communicator.revision, self.revision);
            debug_assert!(before < self.revision, "revisions grow");
            changes.communicators.insert(comm);
        }
    }
}
