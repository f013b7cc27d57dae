//! The lives of a job: under one name it may be started again.

use std::collections::{HashMap, HashSet};

use ringscope_api::clock::Timestamp;

use super::limits::STALE_AFTER;
use super::{CommunicatorId, Job, Model, Process};

impl Job {
    /// Its processes without those of an earlier life.
    pub fn present<'a>(&'a self, model: &'a Model, now: Timestamp) -> impl Iterator<Item = &'a Process> {
        let newest = self.newest(model);
        let replaced = Replaced::of(self, model, |process| process.ended.is_some());
        // That a process ended is seen later than it did: a quick launcher has started its successor by then.
        let is_old = move |process: &Process| {
            process.ended.is_some_and(|ended| ended < newest || replaced.holds(model, process))
        };
        let used: HashSet<CommunicatorId> = match self.processes(model).any(&is_old) {
            true => self
                .processes(model)
                .filter(|process| process.is_living() && !model.is_silent(process, now, STALE_AFTER))
                .flat_map(Process::joined)
                .collect(),
            false => HashSet::new(),
        };
        // One that others still use a communicator with is of their life, whenever they began.
        let is_of_it = move |process: &Process| process.joined().iter().any(|comm| used.contains(comm));
        self.unreplaced(model, now).filter(move |process| !is_old(process) || is_of_it(process))
    }

    /// Its processes without those whose end nobody saw and in whose place others began: their host was lost, and the job
    /// started again without it.
    pub fn unreplaced<'a>(&'a self, model: &'a Model, now: Timestamp) -> impl Iterator<Item = &'a Process> {
        let is_silent = move |process: &Process| model.is_silent(process, now, STALE_AFTER);
        let replaced = Replaced::of(self, model, is_silent);
        self.processes(model).filter(move |process| !is_silent(process) || !replaced.holds(model, process))
    }

    /// When the newest of its processes began, by our clock.
    pub(super) fn newest(&self, model: &Model) -> Timestamp {
        let began = self.processes(model).filter_map(|process| began(model, process));
        began.max().unwrap_or_default()
    }
}

/// Of each rank of a job when the newest process in its place began, by our clock.
struct Replaced(HashMap<u32, Timestamp>);

impl Replaced {
    /// Empty, which costs nothing, where `matters` says so of no process.
    fn of(job: &Job, model: &Model, matters: impl Fn(&Process) -> bool) -> Self {
        let mut newest: HashMap<u32, Timestamp> = HashMap::new();
        if job.processes(model).any(matters) {
            for (rank, began) in job.processes(model).filter_map(|process| place(model, process)) {
                let known = newest.entry(rank).or_default();
                *known = began.max(*known);
            }
        }
        Self(newest)
    }

    /// Whether another one began later in its place.
    fn holds(&self, model: &Model, process: &Process) -> bool {
        let later = |(rank, began): (u32, Timestamp)| self.0.get(&rank).is_some_and(|newest| *newest > began);
        place(model, process).is_some_and(later)
    }
}

/// The rank of a process in its job, and when it began.
fn place(model: &Model, process: &Process) -> Option<(u32, Timestamp)> {
    Some((process.identity.as_ref()?.global_rank?, began(model, process)?))
}

/// When a process began, by our clock.
fn began(model: &Model, process: &Process) -> Option<Timestamp> {
    Some(model.ours(process, process.identity.as_ref()?.started))
}
