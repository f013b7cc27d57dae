//! Random graphs, and what each of their tensors has to be.

use std::collections::BTreeMap;

use rtensor::graph::{Effect, Graph, MachineId, NodeId, TensorId};
use rtensor::tensor::DataType;

use super::Random;

/// A graph of bytes over some machines: nodes that compute, view, work in place and keep, of known and unknown shapes.
pub(crate) fn random(random: &mut Random, n_machines: u64) -> Graph {
    let mut graph = Graph::new();
    let mut made: Vec<TensorId> = Vec::new();
    let n_nodes = 3 + random.below(22);
    for number in 0..n_nodes {
        let machine = MachineId(usize::try_from(random.below(n_machines)).unwrap());
        add(&mut graph, random, number, machine, &mut made);
    }
    graph
}

fn add(graph: &mut Graph, random: &mut Random, number: u64, machine: MachineId, made: &mut Vec<TensorId>) {
    let name = format!("node {number}");
    let kind = random.below(10);
    let first = (!made.is_empty()).then(|| made[usize::try_from(random.below(made.len() as u64)).unwrap()]);
    match (kind, first) {
        (0, _) => {
            let output = graph.tensor(format!("kept {number}"), DataType::U8, &[random.below(9000)]);
            graph.node(name, machine, &[], &[output], Effect::Keeps).unwrap();
            made.push(output);
        }
        (1 | 2, Some(input)) if graph.shape(input).is_some() => {
            let bytes = graph.shape(input).unwrap().size_bytes();
            let offset_bytes = random.below(bytes + 1);
            let len = random.below(bytes - offset_bytes + 1);
            let output = graph.tensor(format!("view {number}"), DataType::U8, &[len]);
            graph.node(name, machine, &[input], &[output], Effect::Views { offset_bytes }).unwrap();
            made.push(output);
        }
        (3 | 4, Some(input)) if !is_view(graph, input) => {
            let dims = graph.tensors()[input.0].dims.clone();
            let output = graph.any_tensor(format!("changed {number}"), DataType::U8, &dims);
            graph.node(name, machine, &[input], &[output], Effect::InPlace).unwrap();
            made.push(output);
        }
        _ => {
            let n_inputs = if made.is_empty() { 0 } else { random.below(4) };
            let mut one = || made[usize::try_from(random.below(made.len() as u64)).unwrap()];
            let inputs: Vec<TensorId> = (0..n_inputs).map(|_| one()).collect();
            let outputs: Vec<TensorId> = (0..1 + random.below(2))
                .map(|place| {
                    let dims = (random.below(3) > 0).then(|| random.below(9000));
                    graph.any_tensor(format!("made {number}.{place}"), DataType::U8, &[dims])
                })
                .collect();
            graph.node(name, machine, &inputs, &outputs, Effect::Computes).unwrap();
            made.extend(outputs);
        }
    }
}

fn is_view(graph: &Graph, tensor: TensorId) -> bool {
    let mut at = tensor;
    loop {
        let node = graph.nodes().iter().find(|node| node.outputs.contains(&at)).unwrap();
        match node.effect {
            Effect::Views { .. } => return true,
            Effect::InPlace => at = node.inputs[0],
            Effect::Computes | Effect::Keeps => return false,
        }
    }
}

/// What a node makes of its inputs, in that iteration: bytes that depend on every byte of them. `len` is the output's.
pub(crate) fn computed(node: &str, place: usize, iteration: u64, inputs: &[&[u8]], len: usize) -> Vec<u8> {
    let mut state = Random(iteration << 8 ^ place as u64);
    let mut mix = |bytes: &[u8]| {
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            state.0 = state.0.rotate_left(7) ^ u64::from_le_bytes(word);
            state.next();
        }
    };
    mix(node.as_bytes());
    inputs.iter().for_each(|input| mix(input));
    let mut out = vec![0; len];
    out.chunks_mut(8).for_each(|piece| piece.copy_from_slice(&state.next().to_le_bytes()[..piece.len()]));
    out
}

/// Bytes of an output of unknown shape.
pub(crate) fn unknown_len(node: &str, place: usize, iteration: u64) -> u64 {
    let bytes = computed(node, place, iteration, &[b"len"], 8);
    u64::from_le_bytes(bytes.try_into().unwrap()) % 20_000
}

/// Every node's first output in every iteration, computed without machines, memory or order.
pub(crate) fn expected(graph: &Graph, iterations: u64) -> BTreeMap<(NodeId, u64), Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut kept: BTreeMap<TensorId, Vec<u8>> = BTreeMap::new();
    for iteration in 0..iterations {
        let mut values: BTreeMap<TensorId, Vec<u8>> = kept.clone();
        for (number, node) in graph.nodes().iter().enumerate() {
            let inputs: Vec<&[u8]> = node.inputs.iter().map(|input| values[input].as_slice()).collect();
            let mut outputs = Vec::new();
            for (place, output) in node.outputs.iter().enumerate() {
                let len = match (node.effect, graph.shape(*output)) {
                    (Effect::InPlace, _) => inputs[0].len(),
                    (_, Some(shape)) => usize::try_from(shape.size_bytes()).unwrap(),
                    (_, None) => usize::try_from(unknown_len(&node.name, place, iteration)).unwrap(),
                };
                outputs.push(match node.effect {
                    Effect::Views { offset_bytes } => {
                        let start = usize::try_from(offset_bytes).unwrap();
                        inputs[0][start..start + len].to_vec()
                    }
                    Effect::Keeps if iteration > 0 => values[output].clone(),
                    Effect::Keeps | Effect::Computes | Effect::InPlace => {
                        computed(&node.name, place, iteration, &inputs, len)
                    }
                });
            }
            found.insert((NodeId(number), iteration), outputs[0].clone());
            values.extend(node.outputs.iter().copied().zip(outputs));
        }
        for node in graph.nodes().iter().filter(|node| node.effect == Effect::Keeps) {
            for output in &node.outputs {
                kept.insert(*output, values[&last_version(graph, *output, node.machine)].clone());
            }
        }
    }
    found
}

/// What nodes in place have made of a tensor on its own machine in the end.
fn last_version(graph: &Graph, tensor: TensorId, machine: MachineId) -> TensorId {
    let mut at = tensor;
    let next = |at: TensorId| {
        graph.nodes().iter().find(|node| {
            node.effect == Effect::InPlace && node.machine == machine && node.inputs.first() == Some(&at)
        })
    };
    while let Some(node) = next(at) {
        at = node.outputs[0];
    }
    at
}
