//! Hosts whose agents cannot watch the processes that start there now.

use ringscope_wire::batch::Batch;

use super::Model;
use super::limits::{BLIND_KEPT, MAX_BLIND_HOSTS};
use crate::clock::Timestamp;

/// Why processes that start on a host now cannot be watched, and when its agent said so last.
#[derive(Debug)]
pub(super) struct Blind {
    why: String,
    /// Who says so: a host may have several agents, each with its own folder.
    agent: String,
    heard: Timestamp,
}

impl Model {
    /// Why processes that start on a host now cannot be watched, as its agent says. `None`: nothing is known to prevent it.
    #[must_use]
    pub fn cannot_watch(&self, host: &str) -> Option<&str> {
        self.blind.get(host).map(|blind| blind.why.as_str())
    }

    /// Every batch says how it is at that moment.
    pub(super) fn apply_blind(&mut self, batch: &Batch, now: Timestamp) {
        if batch.cannot_watch.is_empty() || batch.ending {
            let is_same = |blind: &Blind| blind.agent == batch.agent_id;
            if self.blind.get(batch.agent_host.as_str()).is_some_and(is_same) {
                self.blind.remove(batch.agent_host.as_str());
            }
            return;
        }
        let host = self.names.intern(&batch.agent_host);
        if !self.blind.contains_key(&host) && self.blind.len() >= MAX_BLIND_HOSTS {
            self.losses.add("blind_host_limit");
            return;
        }
        self.blind.insert(
            host,
            Blind { why: batch.cannot_watch.clone(), agent: batch.agent_id.clone(), heard: now },
        );
    }

    /// Forgets hosts whose agents are not heard of.
    pub(super) fn forget_blind(&mut self, now: Timestamp) {
        self.blind.retain(|_, blind| now.since(blind.heard) < BLIND_KEPT);
    }
}
