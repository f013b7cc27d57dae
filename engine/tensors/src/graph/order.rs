//! The order of a machine's steps: what data demand, and what memory demands beside it.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::graph::alias::{comes_through, root};
use crate::graph::cut::reads;
use crate::graph::{CutEdge, Effect, Graph, MachineId, Operator, Step};

/// Which steps come before which, all of them: a bit for each pair.
#[derive(Debug)]
pub(super) struct Before {
    words: usize,
    bits: Vec<u64>,
}

impl Before {
    /// Of steps that have an order; none where they wait for each other in a circle.
    pub(super) fn of(operators: &[Operator]) -> Option<Self> {
        let words = operators.len().div_ceil(64);
        let mut before = Self { words, bits: vec![0; words * operators.len()] };
        for step in sorted(operators)? {
            for earlier in &operators.get(step)?.after {
                before.add(step, *earlier);
            }
        }
        Some(before)
    }

    /// Whether `earlier` always comes before `step`.
    pub(super) fn has(&self, step: usize, earlier: usize) -> bool {
        let word = self.bits.get(step * self.words + earlier / 64).copied().unwrap_or(0);
        word >> (earlier % 64) & 1 == 1
    }

    fn add(&mut self, step: usize, earlier: usize) {
        for word in 0..self.words {
            let inherited = self.bits.get(earlier * self.words + word).copied().unwrap_or(0);
            let own = if earlier / 64 == word { 1 << (earlier % 64) } else { 0 };
            if let Some(bits) = self.bits.get_mut(step * self.words + word) {
                *bits |= inherited | own;
            }
        }
    }
}

/// An order in which each step comes after what it waits for, lowest numbers first.
fn sorted(operators: &[Operator]) -> Option<Vec<usize>> {
    let mut missing: Vec<usize> = operators.iter().map(|operator| operator.after.len()).collect();
    let mut waiting = vec![Vec::new(); operators.len()];
    for (step, operator) in operators.iter().enumerate() {
        for earlier in &operator.after {
            waiting.get_mut(*earlier)?.push(step);
        }
    }
    let free = missing.iter().enumerate().filter(|(_, missing)| **missing == 0);
    let mut ready: BTreeSet<usize> = free.map(|(step, _)| step).collect();
    let mut order = Vec::with_capacity(operators.len());
    while let Some(step) = ready.pop_first() {
        order.push(step);
        for next in waiting.get(step)? {
            let missing = missing.get_mut(*next)?;
            *missing -= 1;
            if *missing == 0 {
                ready.insert(*next);
            }
        }
    }
    (order.len() == operators.len()).then_some(order)
}

/// Steps of all machines in one list, where a receive comes after its send. An error where they wait for each other in a
/// circle: a node in place waits for one that needs the memory as it was, and that one for the former, by way of others.
pub(super) fn check_all<'a>(graph: &Graph, machines: impl Iterator<Item = &'a [Operator]>) -> Result<()> {
    let mut all: Vec<Operator> = Vec::new();
    for operators in machines {
        let first = all.len();
        all.extend(operators.iter().map(|operator| {
            let after = operator.after.iter().map(|earlier| earlier + first).collect();
            Operator { step: operator.step, after }
        }));
    }
    for number in 0..all.len() {
        let Some(Step::Receive(edge)) = all.get(number).map(|operator| operator.step) else { continue };
        let send = all.iter().position(|operator| operator.step == Step::Send(edge));
        if let Some((operator, send)) = all.get_mut(number).zip(send) {
            operator.after.insert(send);
        }
    }
    if sorted(&all).is_some() {
        return Ok(());
    }
    let changing = graph.nodes().iter().filter(|node| node.effect == Effect::InPlace);
    let names: Vec<&str> = changing.map(|node| node.name.as_str()).collect();
    Err(Error::Node {
        node: names.join(" or "),
        what: "changes in place what a node needs as it was that waits for it over other machines: copy it first"
            .to_owned(),
    })
}

/// Has every node that works in place come after all others that read the memory as it was before.
pub(super) fn add_memory_order(
    graph: &Graph,
    edges: &[CutEdge],
    machine: MachineId,
    operators: &mut [Operator],
) -> Result<()> {
    let readers: Vec<_> = operators.iter().map(|operator| reads(graph, edges, operator.step)).collect();
    for changing in 0..operators.len() {
        let Some(Step::Node(id)) = operators.get(changing).map(|operator| operator.step) else { continue };
        let Some(node) = graph.nodes().get(id.0).filter(|node| node.effect == Effect::InPlace) else {
            continue;
        };
        let Some(input) = node.inputs.first() else { continue };
        let memory = root(graph, *input, machine).tensor;
        for (reading, tensors) in readers.iter().enumerate().filter(|(reading, _)| *reading != changing) {
            let reads_it_as_it_was = tensors.iter().any(|tensor| {
                root(graph, *tensor, machine).tensor == memory && !comes_through(graph, *tensor, id, machine)
            });
            if reads_it_as_it_was && let Some(operator) = operators.get_mut(changing) {
                operator.after.insert(reading);
            }
        }
        if Before::of(operators).is_none() {
            return Err(Error::Node {
                node: node.name.clone(),
                what: format!(
                    "changes {} in place, which a node that cannot come before it needs as it was: copy it first",
                    graph.name_of(*input)
                ),
            });
        }
    }
    Ok(())
}
