//! What an observer sees.

use super::pipeline::Pipeline;
use super::stage::Stage;

/// A pipeline at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// In the order of [`Stage::ALL`].
    pub stages: Vec<StageView>,
    /// By number.
    pub servers: Vec<ServerView>,
    /// Bytes in flight over all servers, and at most.
    pub credits_used_bytes: u64,
    /// Their bound.
    pub credit_bytes: u64,
    /// For how long the first part that waited for a server lacked credits, over all servers.
    pub credits_waited_ns: u64,
    /// Of the parts in flight, the one that was submitted first.
    pub oldest: Option<Oldest>,
}

/// A stage. Counts and times are totals since the pipeline began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageView {
    /// Which.
    pub stage: Stage,
    /// Parts that wait.
    pub depth: usize,
    /// Parts that have begun.
    pub begun: usize,
    /// Parts that came.
    pub n_entered: u64,
    /// Parts that went through.
    pub n_left: u64,
    /// Waits of all parts that have begun.
    pub waited_ns: u64,
    /// The longest of them.
    pub longest_wait_ns: u64,
    /// From beginning to leaving, of all parts that went through.
    pub worked_ns: u64,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerView {
    /// Fraction of all bytes that it owns by the placement.
    pub share: f64,
    /// Fraction of the bytes sent so far that went to it; 0 before the first.
    pub sent_share: f64,
    /// Bytes of elements that were submitted for it.
    pub assigned_bytes: u64,
    /// Bytes that are still to be sent to it.
    pub unsent_bytes: u64,
    /// Bytes that were sent to it, as on the wire.
    pub sent_bytes: u64,
    /// Bytes that came back from it, as on the wire.
    pub pulled_bytes: u64,
    /// Credits that its parts hold.
    pub credits_used_bytes: u64,
    /// Their bound.
    pub credit_bytes: u64,
}

/// A part in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oldest {
    /// The part.
    pub key: u32,
    /// Its owner.
    pub server: usize,
    /// Where it is.
    pub stage: Stage,
    /// Since it was submitted.
    pub age_ns: u64,
    /// Since it came to its stage.
    pub in_stage_ns: u64,
}

impl Pipeline {
    /// All that can be seen.
    pub fn snapshot(&self, now_ns: u64) -> Snapshot {
        let sent_bytes = self.servers.iter().map(|server| server.sent_bytes).sum();
        Snapshot {
            stages: Stage::ALL.iter().map(|&stage| self.stage_view(stage)).collect(),
            servers: (0..self.servers.len()).map(|server| self.server_view(server, sent_bytes)).collect(),
            credits_used_bytes: self.credits.used_in_all(),
            credit_bytes: self.settings.credit_bytes,
            credits_waited_ns: self.credits_waited_ns,
            oldest: self.oldest(now_ns),
        }
    }

    fn stage_view(&self, stage: Stage) -> StageView {
        let queue = &self.queues[stage.index()];
        StageView {
            stage,
            depth: queue.depth(),
            begun: queue.begun,
            n_entered: queue.n_entered,
            n_left: queue.n_left,
            waited_ns: queue.waited_ns,
            longest_wait_ns: queue.longest_wait_ns,
            worked_ns: queue.worked_ns,
        }
    }

    fn server_view(&self, server: usize, all_sent_bytes: u64) -> ServerView {
        let state = &self.servers[server];
        ServerView {
            share: state.share,
            sent_share: state.sent_bytes as f64 / all_sent_bytes.max(1) as f64,
            assigned_bytes: state.assigned_bytes,
            unsent_bytes: state.unsent_bytes,
            sent_bytes: state.sent_bytes,
            pulled_bytes: state.pulled_bytes,
            credits_used_bytes: self.credits.used(server),
            credit_bytes: self.settings.credit_bytes_per_server,
        }
    }

    fn oldest(&self, now_ns: u64) -> Option<Oldest> {
        let in_flight = self.entries.values().filter(|entry| entry.is_in_flight());
        in_flight.min_by_key(|entry| entry.sequence).map(|entry| Oldest {
            key: entry.part.key,
            server: entry.part.server,
            stage: entry.stage,
            age_ns: now_ns.saturating_sub(entry.submitted_ns),
            in_stage_ns: now_ns.saturating_sub(entry.enqueued_ns),
        })
    }
}
