//! Where one machine's tensors lie.

use std::collections::BTreeMap;

use crate::graph::alias::root;
use crate::graph::cut::reads;
use crate::graph::holds::Steps;
use crate::graph::pack::{Request, pack};
use crate::graph::{CutEdge, Effect, Graph, Home, MachineId, MachinePlan, Operator, Step, TensorId};

/// What there is to place.
pub(super) struct Placing<'a> {
    pub(super) graph: &'a Graph,
    pub(super) edges: &'a [CutEdge],
    pub(super) machine: MachineId,
    pub(super) steps: &'a Steps,
}

/// An allocation, and when it is in use.
struct Block {
    tensor: TensorId,
    /// The step that makes it, and all that use it.
    made_by: usize,
    used_by: Vec<usize>,
    is_kept: bool,
}

/// Where a tensor is to lie, before there are places.
enum Wish {
    Known(Home),
    Registered,
    Plain,
}

impl Placing<'_> {
    /// The machine's plan without its steps.
    pub(super) fn plan(&self) -> MachinePlan {
        let mut plan = MachinePlan::default();
        let (mut plain, mut registered) = (Vec::new(), Vec::new());
        for (tensor, made_by) in self.made() {
            match self.wish(tensor, made_by) {
                Wish::Known(home) => drop(plan.homes.insert(tensor, home)),
                Wish::Registered => registered.push(self.block(tensor, made_by)),
                Wish::Plain => plain.push(self.block(tensor, made_by)),
            }
        }
        // What peers read is never shared: it is free when the device says so, and not when a step is over.
        let (places, bytes) = pack(&self.requests(&registered, true));
        let homes = registered.iter().zip(places);
        plan.homes
            .extend(homes.map(|(block, offset_bytes)| (block.tensor, Home::Registered { offset_bytes })));
        plan.registered_bytes = bytes;
        let (places, bytes) = pack(&self.requests(&plain, false));
        let homes = plain.iter().zip(places);
        plan.homes.extend(homes.map(|(block, offset_bytes)| (block.tensor, Home::Plain { offset_bytes })));
        plan.plain_bytes = bytes;
        plan
    }

    fn wish(&self, tensor: TensorId, made_by: usize) -> Wish {
        let memory = root(self.graph, tensor, self.machine);
        if memory.tensor != tensor {
            return Wish::Known(Home::Within { tensor: memory.tensor, offset_bytes: memory.offset_bytes });
        }
        if let Some(Step::Receive(edge)) = self.steps.0.get(made_by).map(|operator| operator.step) {
            return Wish::Known(Home::Received(edge));
        }
        let sent_on = self.sent_on(tensor);
        if self.graph.shape(tensor).is_none() {
            return Wish::Known(Home::Dynamic { is_registered: !sent_on.is_empty() });
        }
        let has_slot = |edge: &&usize| self.edges.get(**edge).is_some_and(|edge| edge.has_slot);
        match sent_on.iter().find(has_slot) {
            Some(edge) => Wish::Known(Home::SlotOf(*edge)),
            None if sent_on.is_empty() => Wish::Plain,
            None => Wish::Registered,
        }
    }

    /// Every tensor that is made or received here, with its step.
    fn made(&self) -> BTreeMap<TensorId, usize> {
        let mut made = BTreeMap::new();
        for (step, operator) in self.steps.0.iter().enumerate() {
            match operator.step {
                Step::Node(node) => {
                    let outputs = self.graph.nodes().get(node.0).map(|node| node.outputs.as_slice());
                    made.extend(outputs.unwrap_or_default().iter().map(|output| (*output, step)));
                }
                Step::Receive(edge) => made.extend(self.edges.get(edge).map(|edge| (edge.tensor, step))),
                Step::Send(_) => {}
            }
        }
        made
    }

    /// The edges on which the memory of a tensor, or a part of it, is sent.
    fn sent_on(&self, tensor: TensorId) -> Vec<usize> {
        let sent = self.edges.iter().enumerate().filter(|(_, edge)| {
            edge.from == self.machine && root(self.graph, edge.tensor, self.machine).tensor == tensor
        });
        sent.map(|(number, _)| number).collect()
    }

    fn block(&self, tensor: TensorId, made_by: usize) -> Block {
        let uses = |operator: &Operator| {
            let tensors = reads(self.graph, self.edges, operator.step);
            tensors.iter().any(|read| root(self.graph, *read, self.machine).tensor == tensor)
        };
        let used_by = self.steps.0.iter().enumerate().filter(|(_, operator)| uses(operator));
        let is_kept = self.graph.producer(tensor).is_some_and(|(_, node)| node.effect == Effect::Keeps);
        Block { tensor, made_by, used_by: used_by.map(|(step, _)| step).collect(), is_kept }
    }

    fn requests(&self, blocks: &[Block], is_never_shared: bool) -> Vec<Request> {
        let request = |(number, block): (usize, &Block)| {
            let others = blocks.iter().enumerate().filter(|(other, _)| *other != number);
            let meets = others.filter(|(_, other)| is_never_shared || !self.never_meet(block, other));
            Request {
                size_bytes: self.graph.shape(block.tensor).map_or(0, |shape| shape.size_bytes()),
                conflicts: meets.map(|(other, _)| other).collect(),
            }
        };
        blocks.iter().enumerate().map(request).collect()
    }

    /// Whether, in every order of the steps, one is done with before the other is made.
    fn never_meet(&self, one: &Block, other: &Block) -> bool {
        let before = |first: &Block, second: &Block| {
            let mut steps = first.used_by.iter().chain([&first.made_by]);
            steps.all(|step| self.steps.1.has(second.made_by, *step))
        };
        !one.is_kept && !other.is_kept && (before(one, other) || before(other, one))
    }
}
