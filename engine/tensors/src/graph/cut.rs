//! Edges of a cut, and the steps of each machine: its nodes, and a pair of operators for every edge.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{CutEdge, Graph, MachineId, NodeId, Operator, Step, TensorId};

/// Every tensor that is needed on a machine other than its own, once for each such machine.
pub(super) fn edges(graph: &Graph) -> Vec<CutEdge> {
    let mut needed: BTreeSet<(TensorId, MachineId)> = BTreeSet::new();
    for node in graph.nodes() {
        needed.extend(node.inputs.iter().map(|input| (*input, node.machine)));
    }
    let cut = needed.into_iter().filter_map(|(tensor, to)| {
        let from = graph.producer(tensor)?.1.machine;
        (from != to).then(|| CutEdge {
            name: format!("{} {}->{}", graph.name_of(tensor), from.0, to.0),
            tensor,
            from,
            to,
            shape: graph.shape(tensor),
            hold: None,
            has_slot: false,
            is_changed: false,
        })
    });
    cut.collect()
}

/// The steps of a machine, each after what it needs, without what memory asks of their order.
pub(super) fn steps(graph: &Graph, edges: &[CutEdge], machine: MachineId) -> Vec<Operator> {
    let mut operators: Vec<Operator> = Vec::new();
    let mut makers: BTreeMap<TensorId, usize> = BTreeMap::new();
    for (number, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.to == machine) {
        makers.insert(edge.tensor, operators.len());
        operators.push(Operator { step: Step::Receive(number), after: BTreeSet::new() });
    }
    for (number, node) in graph.nodes().iter().enumerate().filter(|(_, node)| node.machine == machine) {
        let after = node.inputs.iter().filter_map(|input| makers.get(input).copied()).collect();
        makers.extend(node.outputs.iter().map(|output| (*output, operators.len())));
        operators.push(Operator { step: Step::Node(NodeId(number)), after });
    }
    for (number, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.from == machine) {
        let after = makers.get(&edge.tensor).copied().into_iter().collect();
        operators.push(Operator { step: Step::Send(number), after });
    }
    operators
}

/// The tensors that a step reads.
pub(super) fn reads(graph: &Graph, edges: &[CutEdge], step: Step) -> Vec<TensorId> {
    match step {
        Step::Node(node) => graph.nodes().get(node.0).map(|node| node.inputs.clone()).unwrap_or_default(),
        Step::Send(edge) => edges.get(edge).map(|edge| edge.tensor).into_iter().collect(),
        Step::Receive(_) => Vec::new(),
    }
}
