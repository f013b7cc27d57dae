//! The lives of a job: under one name it may be started again.

use std::collections::HashSet;

use super::{CommunicatorId, Job, Model, Process};
use crate::clock::Timestamp;

impl Job {
    /// Its processes without those of an earlier life.
    pub fn present<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = &'a Process> {
        let newest = self.newest(model);
        let is_old = move |process: &Process| process.ended.is_some_and(|ended| ended < newest);
        let used: HashSet<CommunicatorId> = match self.processes(model).any(is_old) {
            true => self
                .processes(model)
                .filter(|process| process.is_living())
                .flat_map(Process::joined)
                .collect(),
            false => HashSet::new(),
        };
        // One that others still use a communicator with is of their life, whenever they began.
        let is_of_it = move |process: &Process| process.joined().iter().any(|comm| used.contains(comm));
        self.processes(model).filter(move |process| !is_old(process) || is_of_it(process))
    }

    /// When the newest of its processes began.
    pub(super) fn newest(&self, model: &Model) -> Timestamp {
        let began = self.processes(model).filter_map(|process| Some(process.identity.as_ref()?.started));
        began.max().unwrap_or_default()
    }
}
