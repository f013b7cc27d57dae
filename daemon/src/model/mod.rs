//! What is known of jobs, hosts, processes and communicators, joined from the batches of all agents.
//!
//! Synchronous, takes `now` as an argument, does no I/O and cannot fail: what does not fit is counted and left out.

mod fnv;
mod id;
pub mod limits;

pub use id::{CommunicatorId, CommunicatorIdError};

use std::collections::BTreeSet;

use ringscope_wire::Primitive;
use ringscope_wire::batch::{Batch, Process};

use crate::clock::Timestamp;

/// Everything known now.
#[derive(Default)]
pub struct Model {}

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

/// Cumulative counters of one primitive of a communicator on one host, summed over the host's ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the counters are those of api::PrimitiveTotals")]
pub struct Sample {
    /// Communicator.
    pub comm: CommunicatorId,
    /// Host.
    pub host: String,
    /// Primitive.
    pub primitive: Primitive,
    pub issued_calls: u64,
    pub issued_bytes: u64,
    pub completed_calls: u64,
    pub completed_bytes: u64,
    pub intra_bytes: u64,
    pub inter_bytes: u64,
}

impl Model {
    /// An empty model.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one decoded batch. Idempotent: repeats, and older batches, change nothing.
    pub fn apply(&mut self, _batch: &Batch, _now: Timestamp) -> Changes {
        Changes::default()
    }

    /// What time alone changes: processes that became stale, and the forgetting of what ended long ago.
    pub fn tick(&mut self, _now: Timestamp) -> Changes {
        Changes::default()
    }

    /// Rebuilds from what the store kept: the facts and the counters of each process, in any order.
    pub fn restore(&mut self, _processes: Vec<Process>, _now: Timestamp) {}

    /// Identity, communicators and state of a process, for the store. `None`: not known (any more).
    #[must_use]
    pub fn process_facts(&self, _key: &str) -> Option<Process> {
        None
    }

    /// Counters, links, operations and losses of a process, for the store. `None`: not known (any more).
    #[must_use]
    pub fn process_counters(&self, _key: &str) -> Option<Process> {
        None
    }

    /// The counters of these communicators per (communicator, host, primitive).
    #[must_use]
    pub fn samples(&self, _communicators: &BTreeSet<CommunicatorId>) -> Vec<Sample> {
        Vec::new()
    }

    /// What the model itself left out, by reason; cumulative.
    #[must_use]
    pub fn dropped(&self) -> crate::api::Dropped {
        crate::api::Dropped::new()
    }
}
