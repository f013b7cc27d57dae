//! What a batch, or time, changed in the model.

use std::collections::BTreeSet;

use super::summation::GroupId;
use super::{CommunicatorId, Name};

/// What is not as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys of processes whose facts changed, or which were forgotten (then [`Model::process_facts`] gives `None`).
    pub facts: BTreeSet<String>,
    /// Keys of processes whose counters changed.
    pub counters: BTreeSet<Name>,
    /// Communicators of which anything changed.
    pub communicators: BTreeSet<CommunicatorId>,
    /// Summation groups of which anything changed.
    pub summations: BTreeSet<GroupId>,
    /// Those of them that cannot wait for the next tick: somebody left or was lost, a round waits, results differ.
    pub alarming: BTreeSet<GroupId>,
    /// Whether the hardware of some host changed, beside what it counts.
    pub hardware: bool,
    /// Jobs that shall not wait for the next tick: somebody ended or was stopped, an error, an answer to what was
    /// asked, a word of the kernel.
    pub alarmed: BTreeSet<Name>,
    /// Hosts of which the kernel said something new.
    pub kernels: BTreeSet<Name>,
}
