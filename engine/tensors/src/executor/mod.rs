//! Runs one machine's part of a plan, iteration after iteration, in one thread.
//!
//! Steps whose predecessors are done stand in a queue. A receive whose flag is not set goes back to its end and blocks
//! nobody, as does a send whose receiver is not done: polling costs only what is left over, and where all of the queue waits,
//! the thread waits, until the deadline.

mod kernel;
mod memory;
mod queue;
mod run;
mod setup;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::executor::memory::Memory;
use crate::graph::{CutEdge, Graph, MachineId, MachinePlan, TensorId};
use crate::link::{EdgeId, Link};
use crate::memory::Part;

pub use kernel::{Call, Kernel, Operands};

/// What an executor is given beside the graph.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes for tensors whose shape is known only when the graph runs, in each of the two arenas.
    pub dynamic_bytes: u64,
    /// The largest such tensor that goes over an edge.
    pub limit_bytes: u64,
    /// How long a machine waits without any progress.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { dynamic_bytes: 64 << 20, limit_bytes: 16 << 20, patience: Duration::from_secs(60) }
    }
}

/// What an executor has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Iterations that are over.
    pub iterations: u64,
    /// Looks at flags, of receives.
    pub polls: u64,
    /// Looks that found the tensor.
    pub hits: u64,
    /// Steps that went back to the end of the queue.
    pub requeued: u64,
    /// Bytes that were copied because a tensor that came on one edge goes on over another.
    pub copied_bytes: u64,
}

/// Blocks of registered memory that peers may still read, with the edges whose receivers have to be done first.
type Lent = Vec<(Vec<usize>, Part)>;

/// One machine of a graph.
pub struct Executor<'k> {
    graph: Graph,
    machine: MachineId,
    plan: MachinePlan,
    edges: Vec<CutEdge>,
    /// The edges' numbers on their links.
    ids: BTreeMap<usize, EdgeId>,
    links: BTreeMap<MachineId, Link>,
    /// One for each node of this machine.
    kernels: BTreeMap<usize, Box<dyn Kernel + 'k>>,
    memory: Memory,
    /// For every allocation the number of steps that use it.
    n_users: BTreeMap<TensorId, usize>,
    lent: Lent,
    options: Options,
    tally: Tally,
}

impl<'k> Executor<'k> {
    /// What it has done.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// The links to the other machines.
    pub fn links(&self) -> &BTreeMap<MachineId, Link> {
        &self.links
    }

    /// The bytes of a tensor that is kept, between iterations.
    pub fn kept(&self, tensor: TensorId) -> Option<&[u8]> {
        self.memory.bytes(tensor)
    }
}

impl std::fmt::Debug for Executor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (machine, tally) = (self.machine, self.tally);
        f.debug_struct("Executor").field("machine", &machine).field("tally", &tally).finish_non_exhaustive()
    }
}
