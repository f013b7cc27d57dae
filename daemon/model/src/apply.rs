//! Batches and kept state into the model, and who has which rank.

use std::mem;
use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{self, Batch, Level};

use super::agents::{Reading, Stamp};
use super::changes::Changes;
use super::clocks::Heard;
use super::communicator::{Member, RankRef};
use super::history::Completed;
use super::limits::{ENDED_KEPT, MAX_LOOKS, MAX_NAME_BYTES, MAX_PROCESSES, MAX_TOLD_HISTORY};
use super::process::{Process, ProcessId, ProcessState};
use super::summation;
use super::word::{Merged, Word};
use super::{CommunicatorId, Model};

/// When and by whom something was told.
#[derive(Clone, Copy)]
struct Told<'a> {
    stamp: Stamp,
    reading: Reading,
    now: Timestamp,
    agent_host: &'a str,
}

impl Model {
    /// Applies one decoded batch. Idempotent: repeats, and older batches, change nothing.
    pub fn apply(&mut self, batch: &Batch, now: Timestamp) -> Changes {
        let (stamp, reading) = self.agents.hear(batch, now, &mut self.losses);
        let told = Told { stamp, reading, now, agent_host: &batch.agent_host };
        let mut changes = Changes::default();
        for process in &batch.processes {
            self.apply_process(process, told, &mut changes);
        }
        for hardware in &batch.hardware {
            changes.hardware |= self.apply_hardware(hardware, stamp, now);
        }
        self.apply_kernel(batch, now, &mut changes);
        self.apply_blind(batch, now, &mut changes);
        if batch.ending {
            self.note_ended_agent(stamp, &mut changes);
        }
        changes
    }

    /// Notes that an agent says once more what was taken: it is heard, and tells nothing new.
    pub fn hear_again(&mut self, agent_id: &str, now: Timestamp) {
        self.agents.hear_again(agent_id, now);
    }

    /// Takes in when the agents of hosts were heard before this daemon started.
    pub fn restore_heard<'h>(&mut self, heard: impl Iterator<Item = (&'h str, Timestamp)>) {
        for (host, at) in heard {
            if self.hosts.contains_key(host) {
                let known = self.before.entry(self.names.intern(host)).or_default();
                *known = at.max(*known);
            }
        }
    }

    /// The processes of an agent that ends are watched no more: that is shown, and kept.
    fn note_ended_agent(&self, stamp: Stamp, changes: &mut Changes) {
        let its = |process: &&Process| process.stamp.agent() == stamp.agent() && process.is_living();
        for process in self.processes.values().filter(its) {
            changes.facts.insert(process.key.to_string());
            changes.communicators.extend(process.joined());
        }
    }

    /// Rebuilds from what the store kept: the facts and the counters of each process, in any order.
    pub fn restore(&mut self, processes: Vec<batch::Process>, now: Timestamp) {
        let reading = Reading { read_at: now, at: now };
        let told = Told { stamp: Stamp::STORE, reading, now, agent_host: "" };
        let mut changes = Changes::default();
        for process in &processes {
            self.apply_process(process, told, &mut changes);
        }
    }

    fn apply_process(&mut self, process: &batch::Process, told: Told<'_>, changes: &mut Changes) {
        let Some(id) = self.process_id(process, told) else { return };
        let job = process.identity.as_ref().map(|identity| self.job_name(identity)).unwrap_or_default();
        let was_unwatched =
            self.processes.get(&id).is_some_and(|known| self.unwatched_since(known).is_some());
        let at = told.reading.at;
        // Files were written on another machine than that which reads them, as a rule.
        let is_file = process.state() == batch::ProcessState::Imported
            || self.processes.get(&id).is_some_and(|known| known.state == ProcessState::Imported);
        let mut word = Word {
            stamp: told.stamp,
            at,
            read_at: if is_file { at } else { told.reading.read_at },
            now: told.now,
            agent_host: told.agent_host,
            job: &job,
            names: &mut self.names,
            ways: &mut self.ways,
            losses: &mut self.losses,
        };
        let Some(known) = self.processes.get_mut(&id) else { return };
        let (was_known, was_alive) = (known.identity.is_some(), known.ended.is_none());
        let heard_before = (known.stamp != Stamp::STORE).then_some(known.heard);
        let was_seen = known.look.is_some();
        let mut merged = known.merge(process, &mut word);
        if !process.summations.is_empty() {
            known.sums = process.summations.iter().any(|told| !summation::is_end(told.state()));
        }
        if !was_known && let Some(identity) = &known.identity {
            let job = self.jobs.entry(Arc::clone(&identity.job)).or_default();
            job.user = job.user.or(identity.user);
            job.processes.insert(id);
            self.hosts.entry(Arc::clone(&identity.host)).or_default().insert(id);
            merged.changed = known.locals.keys().copied().collect();
        }
        let ended = was_alive && known.ended.is_some();
        merged.alarming |= ended && known.identity.is_some();
        if let Some(identity) = known.identity.as_ref().filter(|_| merged.alarming) {
            changes.alarmed.insert(Arc::clone(&identity.job));
        }
        let is_seen = !was_seen && known.look.is_some();
        if ended || merged.facts || was_unwatched {
            changes.facts.insert(process.key.clone());
        }
        if merged.counters {
            changes.counters.insert(Arc::clone(&known.key));
        }
        if merged.collector {
            // Whether it has a segment decides who has a rank.
            merged.changed = known.locals.keys().copied().collect();
        } else if ended {
            for comm in known.joined() {
                self.revise(comm, changes);
            }
        }
        if is_seen {
            self.remember_look(id);
        }
        self.join(id, &merged, changes);
        let reading = if is_file { Reading { read_at: at, at } } else { told.reading };
        self.remember(id, &process.completed_operations, reading, told.now);
        let of = summation::Told { process: id, stamp: told.stamp, at, now: told.now, heard_before };
        let heard = self.groups.hear(&process.summations, of, &self.older, &mut self.losses);
        if !heard.is_empty() {
            changes.counters.extend(self.processes.get(&id).map(|known| Arc::clone(&known.key)));
        }
        for (group, is_alarming) in heard {
            changes.summations.insert(group);
            changes.alarming.extend(is_alarming.then_some(group));
        }
        if ended {
            changes.summations.extend(self.groups.of(id));
        }
    }

    /// Lets the oldest look make room for that of another process.
    fn remember_look(&mut self, id: ProcessId) {
        self.looks.push_back(id);
        if self.looks.len() <= MAX_LOOKS {
            return;
        }
        if let Some(oldest) = self.looks.pop_front().and_then(|oldest| self.processes.get_mut(&oldest)) {
            oldest.look = None;
            self.losses.add("look_forgotten");
        }
    }

    /// Keeps the operations of those communicators that the process was joined to, and what they tell of its host's clock and
    /// of how long operations take.
    fn remember(&mut self, id: ProcessId, told: &[batch::Operation], reading: Reading, now: Timestamp) {
        let Some(process) = self.processes.get(&id) else { return };
        let host = process.identity.as_ref().map(|identity| &identity.host);
        self.losses.add_many("operation_history_limit", told.len().saturating_sub(MAX_TOLD_HISTORY));
        for operation in told.iter().take(MAX_TOLD_HISTORY) {
            let local = process.locals.get(&operation.local_id);
            let place = local.and_then(|local| Some((local.joined?, local.facts.as_ref()?)));
            let kept =
                place.and_then(|(comm, facts)| Some((comm, facts, Completed::told(facts.rank, operation)?)));
            let Some((comm, facts, operation)) = kept else {
                // Where only some are told, nobody misses one.
                let tells_all = matches!(process.collector.level, Level::Channels | Level::Steps);
                self.losses.add_many("operation_history_unknown", usize::from(tells_all));
                continue;
            };
            let is_new = self.history.push(comm, facts.n_ranks, operation);
            if let Some(host) = host.filter(|_| is_new) {
                let at_ns = reading.ours(Timestamp(operation.completed_at_ns)).0;
                let (n_ranks, operation, now_ns) = (facts.n_ranks, &operation, now.0);
                let heard = Heard { comm, n_ranks, host, operation, at_ns, now_ns };
                if let Some(timed) = self.clocks.hear(heard, &mut self.losses) {
                    self.curves.take(comm, n_ranks, timed, &mut self.losses);
                }
            }
        }
    }

    /// The process of this key, made if there is room.
    fn process_id(&mut self, process: &batch::Process, told: Told<'_>) -> Option<ProcessId> {
        if let Some(id) = self.keys.get(process.key.as_str()) {
            let is_his = self.processes.get(id).is_none_or(|known| known.is_of(process.identity.as_ref()));
            if !is_his {
                self.losses.add("process_of_another_user");
            }
            return is_his.then_some(*id);
        }
        let ended = process.ended_at_ns.map(|ended| told.reading.ours(Timestamp(ended)));
        let ended_long_ago = ended.is_some_and(|ended| told.now.since(ended) >= ENDED_KEPT);
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
        // How connections stand is judged with the hardware that they go over.
        changes.hardware |= merged.connections;
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

    /// What a process says of a communicator, if it says who it is and which rank it has.
    pub(super) fn claim(&self, member: Member) -> Option<RankRef<'_>> {
        let process = self.processes.get(&member.process)?;
        let local = process.locals.get(&member.local_id)?;
        let facts = local.facts.as_ref()?;
        Some(RankRef { rank: facts.rank, process, identity: process.identity.as_ref()?, local, facts })
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
