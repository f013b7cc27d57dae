//! The plan of a graph: its edges, and each machine's steps and memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::graph::alias::{comes_through, root};
use crate::graph::holds::Steps;
use crate::graph::order::{Before, add_memory_order, check_all};
use crate::graph::placing::Placing;
use crate::graph::{Effect, Graph, MachineId, NodeId, TensorId, cut, holds};
use crate::tensor::Shape;

/// A tensor that goes from one machine to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutEdge {
    /// Its name: the tensor's and the two machines'.
    pub name: String,
    /// What it carries.
    pub tensor: TensorId,
    /// Whose the tensor is.
    pub from: MachineId,
    /// Who needs it.
    pub to: MachineId,
    /// Static with this shape; dynamic without.
    pub shape: Option<Shape>,
    /// The edge that tells the sender of releases; none where the receiver writes a word for that.
    pub hold: Option<usize>,
    /// Whether the tensor is made in the edge's own slot, where its flag lies right behind it.
    pub has_slot: bool,
    /// Whether a node changes the tensor in place after it was sent: a dynamic one then has to be read before.
    pub is_changed: bool,
}

/// Something that a machine does once in every iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Runs a node.
    Node(NodeId),
    /// Sends on an edge.
    Send(usize),
    /// Waits for what comes on an edge, without blocking others.
    Receive(usize),
}

/// A step, and which steps it comes after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// What is done.
    pub step: Step,
    /// The steps of this machine, by their numbers, that come before.
    pub after: BTreeSet<usize>,
}

/// Where a tensor lies on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the slot of the edge that it is sent on.
    SlotOf(usize),
    /// Where the edge puts it that it comes on.
    Received(usize),
    /// In the registered arena.
    Registered {
        /// Where it begins there.
        offset_bytes: u64,
    },
    /// In the arena that no peer sees.
    Plain {
        /// Where it begins there.
        offset_bytes: u64,
    },
    /// Wherever there is room when its shape is known.
    Dynamic {
        /// Whether in registered memory.
        is_registered: bool,
    },
    /// In another tensor's memory.
    Within {
        /// Whose.
        tensor: TensorId,
        /// Where it begins there.
        offset_bytes: u64,
    },
}

/// What a machine does and needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachinePlan {
    /// Its steps.
    pub operators: Vec<Operator>,
    /// Its tensors.
    pub homes: BTreeMap<TensorId, Home>,
    /// Bytes of the registered arena.
    pub registered_bytes: u64,
    /// Bytes of the other one.
    pub plain_bytes: u64,
}

/// The plan of all machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Edges of the cut.
    pub edges: Vec<CutEdge>,
    /// What each machine does.
    pub machines: BTreeMap<MachineId, MachinePlan>,
}

impl MachinePlan {
    /// The tensor in whose memory this one lies here: itself, where it has memory of its own.
    pub fn whole(&self, tensor: TensorId) -> TensorId {
        match self.homes.get(&tensor) {
            Some(Home::Within { tensor, .. }) => *tensor,
            _ => tensor,
        }
    }
}

/// Analyses a graph.
///
/// # Errors
/// A node changes memory in place that another one needs as it was before, and no order gives both what they need.
pub fn analyse(graph: &Graph) -> Result<Plan> {
    let mut edges = cut::edges(graph);
    let numbers: BTreeSet<MachineId> = graph.nodes().iter().map(|node| node.machine).collect();
    let mut machines: BTreeMap<MachineId, Steps> = BTreeMap::new();
    for machine in numbers {
        let mut operators = cut::steps(graph, &edges, machine);
        add_memory_order(graph, &edges, machine, &mut operators)?;
        let before = Before::of(&operators);
        let before =
            before.ok_or_else(|| Error::Usage("nodes wait for each other in a circle".to_owned()))?;
        machines.insert(machine, (operators, before));
    }
    check_all(graph, machines.values().map(|(operators, _)| operators.as_slice()))?;
    for edge in &mut edges {
        edge.is_changed = is_changed(graph, edge);
    }
    holds::find(graph, &mut edges, &machines);
    let slots: Vec<bool> = edges.iter().map(|edge| is_made_in_slot(graph, &edges, edge)).collect();
    for (edge, has_slot) in edges.iter_mut().zip(slots) {
        edge.has_slot = has_slot;
    }
    let mut plans = BTreeMap::new();
    for (machine, steps) in machines {
        let plan = Placing { graph, edges: &edges, machine, steps: &steps }.plan();
        plans.insert(machine, MachinePlan { operators: steps.0, ..plan });
    }
    Ok(Plan { edges, machines: plans })
}

/// Whether a node of the sender changes the edge's tensor in place, which then is what it was when it was sent.
fn is_changed(graph: &Graph, edge: &CutEdge) -> bool {
    let memory = |tensor| root(graph, tensor, edge.from).tensor;
    graph.nodes().iter().enumerate().any(|(number, node)| {
        let changes = node.effect == Effect::InPlace && node.machine == edge.from;
        let is_its = node.inputs.first().is_some_and(|input| memory(*input) == memory(edge.tensor));
        changes && is_its && !comes_through(graph, edge.tensor, NodeId(number), edge.from)
    })
}

/// Whether a static edge's tensor is a whole allocation of its machine that goes nowhere else.
fn is_made_in_slot(graph: &Graph, edges: &[CutEdge], edge: &CutEdge) -> bool {
    let memory = root(graph, edge.tensor, edge.from);
    let is_made_here = graph.producer(memory.tensor).is_some_and(|(_, node)| node.machine == edge.from);
    let is_whole =
        edge.shape.is_some() && memory.offset_bytes == 0 && graph.shape(memory.tensor) == edge.shape;
    let same = |other: &&CutEdge| {
        other.from == edge.from && root(graph, other.tensor, edge.from).tensor == memory.tensor
    };
    is_made_here && is_whole && edges.iter().filter(same).count() == 1
}
