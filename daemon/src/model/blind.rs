//! Hosts whose agents cannot watch all processes there.

use std::collections::BTreeSet;

use ringscope_wire::batch::Batch;

use super::limits::{BLIND_KEPT, MAX_BLIND_HOSTS};
use super::{Changes, Communicator, Model, Name};
use crate::clock::Timestamp;

/// What on a host is not watched and why, and when its agent said so last.
#[derive(Debug)]
pub(super) struct Blind {
    why: String,
    /// Who says so: a host may have several agents, each with its own folder.
    agent: String,
    heard: Timestamp,
}

impl Model {
    /// What on a host is not watched and why, as its agent says. `None`: nothing is known of that.
    #[must_use]
    pub fn cannot_watch(&self, host: &str) -> Option<&str> {
        self.blind.get(host).map(|blind| blind.why.as_str())
    }

    /// Every batch says how it is at that moment. What is lacking of communicators there is said in the same words.
    pub(super) fn apply_blind(&mut self, batch: &Batch, now: Timestamp, changes: &mut Changes) {
        let before = self.cannot_watch(&batch.agent_host).map(str::to_owned);
        self.note_blind(batch, now);
        if self.cannot_watch(&batch.agent_host) != before.as_deref() {
            let processes = self.host(&batch.agent_host).into_iter().flat_map(|(_, processes)| processes);
            let jobs: BTreeSet<&Name> = processes.filter_map(|known| Some(&known.identity()?.job)).collect();
            let jobs = jobs.into_iter().filter_map(|job| self.job(job));
            let theirs = jobs.flat_map(|(_, job)| job.communicators(self)).map(Communicator::id);
            for id in theirs.collect::<BTreeSet<_>>() {
                self.revise(id, changes);
            }
        }
    }

    fn note_blind(&mut self, batch: &Batch, now: Timestamp) {
        let Some(why) = why(batch).filter(|_| !batch.ending) else {
            let is_same = |blind: &Blind| blind.agent == batch.agent_id;
            if self.blind.get(batch.agent_host.as_str()).is_some_and(is_same) {
                self.blind.remove(batch.agent_host.as_str());
            }
            return;
        };
        let host = self.names.intern(&batch.agent_host);
        if !self.blind.contains_key(&host) && self.blind.len() >= MAX_BLIND_HOSTS {
            self.losses.add("blind_host_limit");
            return;
        }
        self.blind.insert(host, Blind { why, agent: batch.agent_id.clone(), heard: now });
    }

    /// Forgets hosts whose agents are not heard of.
    pub(super) fn forget_blind(&mut self, now: Timestamp) {
        self.blind.retain(|_, blind| now.since(blind.heard) < BLIND_KEPT);
    }
}

/// What starts now weighs more than what runs already.
fn why(batch: &Batch) -> Option<String> {
    match (batch.cannot_watch.as_str(), batch.not_watched.as_str()) {
        ("", "") => None,
        ("", not_watched) => Some(not_watched.to_owned()),
        (lack, _) => Some(format!("what starts now is not watched, because {lack}")),
    }
}
