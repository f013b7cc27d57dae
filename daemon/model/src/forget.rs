//! What time alone changes: processes become stale, and what ended long ago is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ringscope_api::CommunicatorState;
use ringscope_api::clock::Timestamp;

use super::changes::Changes;
use super::limits::{
    ENDED_KEPT, IMPORTED_KEPT, MAX_ENDED_PER_JOB, MAX_ENDED_PER_SESSION, RECALLED_KEPT, SILENT_KEPT,
    STALE_AFTER, SWEEP_EVERY,
};
use super::process::{Process, ProcessId, ProcessState, Recalled};
use super::summation::GroupId;
use super::{CommunicatorId, Model, Name};

impl Model {
    /// What time alone changes: processes that became stale, and the forgetting of what ended long ago.
    pub fn tick(&mut self, now: Timestamp) -> Changes {
        let mut changes = Changes::default();
        self.mark_stale(now, &mut changes);
        if self.swept == Timestamp::default() || now.since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.forget_communicators(now, &mut changes);
            self.forget_groups(now, &mut changes);
            self.forget_processes(now, &mut changes);
            self.forget_locals(now, &mut changes);
            self.sweep_families();
            self.forget_hardware(now);
            self.forget_kernels(now);
            self.forget_blind(now);
            self.agents.sweep(now);
            self.clocks.sweep(now.0, &mut self.losses);
            self.forget_refusals(now);
            self.ways.forget_unused();
            self.names.forget_unused();
        }
        changes
    }

    fn mark_stale(&mut self, now: Timestamp, changes: &mut Changes) {
        let turned: Vec<ProcessId> = self
            .processes
            .iter()
            .filter(|(_, process)| self.is_silent(process, now, STALE_AFTER) != process.was_stale)
            .map(|(id, _)| *id)
            .collect();
        for id in turned {
            if let Some(process) = self.processes.get_mut(&id) {
                process.was_stale = !process.was_stale;
                changes.communicators.extend(process.joined());
            }
        }
    }

    /// Ended communicators: the old ones, and the oldest where a job has very many.
    fn forget_communicators(&mut self, now: Timestamp, changes: &mut Changes) {
        let mut forget = BTreeSet::new();
        for job in self.jobs.values() {
            let mut ended: Vec<(Timestamp, CommunicatorId)> = job
                .communicators(self)
                .filter_map(|communicator| match communicator.state(self) {
                    (CommunicatorState::Ended, ended) => Some((ended.unwrap_or_default(), communicator.id())),
                    _ => None,
                })
                .collect();
            ended.sort_unstable();
            let surplus = ended.len().saturating_sub(MAX_ENDED_PER_JOB);
            let old = ended.iter().take_while(|(ended, _)| now.since(*ended) >= ENDED_KEPT).count();
            forget.extend(ended.iter().take(surplus.max(old)).map(|(_, id)| *id));
        }
        for id in forget {
            self.forget_communicator(id, changes);
        }
    }

    fn forget_communicator(&mut self, id: CommunicatorId, changes: &mut Changes) {
        let Some(communicator) = self.communicators.remove(&id) else { return };
        self.history.forget(id);
        self.clocks.forget(id, &mut self.losses);
        self.curves.forget(id);
        changes.communicators.insert(id);
        let mut bytes = (0_u64, 0_u64);
        for member in communicator.members.values() {
            let Some(process) = self.processes.get_mut(&member.process) else { continue };
            let Some(local) = process.locals.remove(&member.local_id) else { continue };
            process.n_links = process.n_links.saturating_sub(local.links.len());
            process.n_pairs = process.n_pairs.saturating_sub(local.pairs.len());
            for counted in local.counters.values() {
                bytes.0 = bytes.0.saturating_add(counted.totals.issued_bytes);
                bytes.1 = bytes.1.saturating_add(counted.totals.completed_bytes);
            }
            changes.facts.insert(process.key.to_string());
            changes.counters.insert(Arc::clone(&process.key));
        }
        if let Some(job) = self.jobs.get_mut(&communicator.job) {
            job.communicators.remove(&id);
            job.forgotten.n_communicators += 1;
            job.forgotten.issued_bytes = job.forgotten.issued_bytes.saturating_add(bytes.0);
            job.forgotten.completed_bytes = job.forgotten.completed_bytes.saturating_add(bytes.1);
        }
    }

    /// Ended summation groups: the old ones, and the oldest where a session has very many.
    fn forget_groups(&mut self, now: Timestamp, changes: &mut Changes) {
        let mut sessions: BTreeMap<u64, Vec<(Timestamp, GroupId)>> = BTreeMap::new();
        for group in self.groups.all() {
            if let Some(ended) = group.ended(self) {
                sessions.entry(group.session()).or_default().push((ended, group.id()));
            }
        }
        for mut ended in sessions.into_values() {
            ended.sort_unstable();
            let surplus = ended.len().saturating_sub(MAX_ENDED_PER_SESSION);
            let old = ended.iter().take_while(|(ended, _)| now.since(*ended) >= ENDED_KEPT).count();
            for (_, id) in ended.into_iter().take(surplus.max(old)) {
                self.groups.forget(id);
                changes.summations.insert(id);
            }
        }
    }

    /// Processes that ended long ago, once no communicator needs them to say what became of its ranks; and those of
    /// which nothing was heard for very long, and what was imported long ago, with the communicators that are left without a rank.
    fn forget_processes(&mut self, now: Timestamp, changes: &mut Changes) {
        let sums = |id: ProcessId| self.groups.of(id).next().is_some();
        let is_old = |id: ProcessId, process: &Process| match process.ended {
            Some(ended) => now.since(ended) >= ENDED_KEPT && process.joined().is_empty() && !sums(id),
            None if process.state == ProcessState::Imported => now.since(process.heard) >= IMPORTED_KEPT,
            None => self.is_silent(process, now, SILENT_KEPT),
        };
        let forget: Vec<ProcessId> =
            self.processes.iter().filter(|(id, process)| is_old(**id, process)).map(|(id, _)| *id).collect();
        for id in forget {
            self.forget_process(id, changes);
        }
    }

    /// Forgets the processes that ended first, as many as `n` of those that `may_go`, by key: others need the room.
    pub fn forget_ended(&mut self, n: usize, may_go: impl Fn(&str) -> bool) -> Changes {
        let ended = self.processes.iter().filter_map(|(id, process)| Some((process.ended?, *id, process)));
        let mut ended: Vec<(Timestamp, ProcessId)> =
            ended.filter(|(_, _, process)| may_go(&process.key)).map(|(ended, id, _)| (ended, id)).collect();
        ended.sort_unstable();
        let mut changes = Changes::default();
        for (_, id) in ended.into_iter().take(n) {
            self.forget_process(id, &mut changes);
        }
        changes
    }

    fn forget_process(&mut self, id: ProcessId, changes: &mut Changes) {
        let Some(process) = self.processes.remove(&id) else { return };
        self.keys.remove(&process.key);
        changes.facts.insert(process.key.to_string());
        changes.summations.append(&mut self.groups.forget_process(id));
        for comm in process.joined() {
            let Some(communicator) = self.communicators.get_mut(&comm) else { continue };
            communicator.members.retain(|_, member| member.process != id);
            if communicator.members.is_empty() {
                self.forget_communicator(comm, changes);
            } else {
                self.revise(comm, changes);
            }
        }
        let Some(identity) = &process.identity else { return };
        self.leave_host(id, &identity.host);
        self.leave_job(id, &identity.job, &process);
    }

    fn leave_host(&mut self, id: ProcessId, host: &Name) {
        if let Some(processes) = self.hosts.get_mut(host) {
            processes.remove(&id);
            self.forget_idle_host(host);
        }
    }

    fn leave_job(&mut self, id: ProcessId, name: &Name, process: &Process) {
        let newest = self.jobs.get(name).map(|job| job.newest(self)).unwrap_or_default();
        if let Some(job) = self.jobs.get_mut(name) {
            job.processes.remove(&id);
            // One of an earlier life is none of the job's any more.
            if process.ended.unwrap_or(process.heard) >= newest {
                job.forgotten.n_processes += 1;
                job.forgotten.n_killed += u32::from(process.was_killed());
            }
            if job.processes.is_empty() && job.communicators.is_empty() {
                self.jobs.remove(name);
            }
        }
    }

    /// Parts of communicators that were never joined, and of which nothing was heard for long.
    fn forget_locals(&mut self, now: Timestamp, changes: &mut Changes) {
        for process in self.processes.values_mut() {
            for local in process.locals.values_mut() {
                if now.since(local.recalled.heard) >= RECALLED_KEPT {
                    local.recalled = Recalled::default();
                }
            }
            let before = process.locals.len();
            process.locals.retain(|_, local| local.joined.is_some() || now.since(local.heard) < ENDED_KEPT);
            if process.locals.len() < before {
                process.n_links = process.locals.values().map(|local| local.links.len()).sum();
                process.n_pairs = process.locals.values().map(|local| local.pairs.len()).sum();
                changes.facts.insert(Arc::clone(&process.key).to_string());
                changes.counters.insert(Arc::clone(&process.key));
            }
        }
    }
}
