//! What tells the sender of an edge that the receiver is done: where the data flow itself does, nothing has to be written.

use std::collections::BTreeMap;

use crate::graph::alias::root;
use crate::graph::cut::reads;
use crate::graph::order::Before;
use crate::graph::{CutEdge, Graph, MachineId, Operator, Step};

/// Which releases an edge's flags tell of. One edge tells of one kind, for its flag has one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// Of this iteration's: what the edge carries depends on them.
    ThisIteration,
    /// Of the last iteration's, which was over before this one began; the other end waits for the edge before it sends.
    LastIteration,
}

/// A machine's steps and their order.
pub(super) type Steps = (Vec<Operator>, Before);

/// Finds for each edge one that comes back and tells of its releases.
pub(super) fn find(graph: &Graph, edges: &mut [CutEdge], machines: &BTreeMap<MachineId, Steps>) {
    let mut told: Vec<Option<Tells>> = vec![None; edges.len()];
    for number in 0..edges.len() {
        // What is changed later has to be known to be read at once.
        if edges.get(number).is_some_and(|edge| edge.shape.is_none() && edge.is_changed) {
            continue;
        }
        let found = [Tells::ThisIteration, Tells::LastIteration].into_iter().find_map(|kind| {
            let fits = |back: &usize| {
                let is_free = told.get(*back).is_some_and(|told| told.is_none_or(|told| told == kind));
                is_free && tells(graph, edges, machines, number, *back, kind)
            };
            (0..edges.len()).find(fits).map(|back| (back, kind))
        });
        let Some((back, kind)) = found else { continue };
        if let Some(told) = told.get_mut(back) {
            *told = Some(kind);
        }
        if let Some(edge) = edges.get_mut(number) {
            edge.hold = Some(back);
        }
    }
}

/// Whether what comes on `back` tells the sender of `held` that the receiver is done.
fn tells(
    graph: &Graph,
    edges: &[CutEdge],
    machines: &BTreeMap<MachineId, Steps>,
    held: usize,
    back: usize,
    kind: Tells,
) -> bool {
    let Some((edge, other)) = edges.get(held).zip(edges.get(back)) else { return false };
    if (other.from, other.to) != (edge.to, edge.from) {
        return false;
    }
    let machine = if kind == Tells::ThisIteration { edge.to } else { edge.from };
    let Some((operators, before)) = machines.get(&machine) else { return false };
    let step = |wanted: Step| operators.iter().position(|operator| operator.step == wanted);
    match kind {
        // All who use the tensor there come before what is sent back.
        Tells::ThisIteration => step(Step::Send(back)).is_some_and(|send| {
            let uses = |operator: &Operator| {
                let tensors = reads(graph, edges, operator.step);
                tensors.iter().any(|tensor| root(graph, *tensor, machine).tensor == edge.tensor)
            };
            let mut users = operators.iter().enumerate().filter(|(_, operator)| uses(operator));
            users.all(|(user, _)| before.has(send, user))
        }),
        // The sender waits for what comes back before it sends.
        Tells::LastIteration => {
            let steps = step(Step::Send(held)).zip(step(Step::Receive(back)));
            steps.is_some_and(|(send, receive)| before.has(send, receive))
        }
    }
}
