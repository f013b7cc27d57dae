//! What the analyser promises, on random graphs and on small ones.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;

use common::{Random, graphs};
use proptest::prelude::*;
use rtensor::graph::{CutEdge, Effect, Graph, Home, MachineId, MachinePlan, Step, TensorId, analyse};
use rtensor::tensor::DataType;

fn reads(graph: &Graph, edges: &[CutEdge], step: Step) -> Vec<TensorId> {
    match step {
        Step::Node(node) => graph.nodes()[node.0].inputs.clone(),
        Step::Send(edge) => vec![edges[edge].tensor],
        Step::Receive(_) => Vec::new(),
    }
}

fn makes(graph: &Graph, edges: &[CutEdge], step: Step) -> Vec<TensorId> {
    match step {
        Step::Node(node) => graph.nodes()[node.0].outputs.clone(),
        Step::Receive(edge) => vec![edges[edge].tensor],
        Step::Send(_) => Vec::new(),
    }
}

/// Runs a machine's steps in a random order that the plan allows; no two tensors that are alive lie on each other.
fn check_order(graph: &Graph, edges: &[CutEdge], plan: &MachinePlan, random: &mut Random) {
    let mut users: BTreeMap<TensorId, usize> = BTreeMap::new();
    for operator in &plan.operators {
        for tensor in reads(graph, edges, operator.step) {
            *users.entry(plan.whole(tensor)).or_default() += 1;
        }
    }
    let is_kept = |tensor: TensorId| {
        graph.nodes().iter().any(|node| node.effect == Effect::Keeps && node.outputs.contains(&tensor))
    };
    let place = |tensor: TensorId| match plan.homes[&tensor] {
        Home::Plain { offset_bytes } => Some((false, offset_bytes)),
        Home::Registered { offset_bytes } => Some((true, offset_bytes)),
        _ => None,
    };
    let bytes = |tensor: TensorId| graph.shape(tensor).unwrap().size_bytes();
    let mut alive: Vec<TensorId> = plan.homes.keys().copied().filter(|tensor| is_kept(*tensor)).collect();
    let mut done = vec![false; plan.operators.len()];
    while done.iter().any(|done| !done) {
        let ready: Vec<usize> = (0..done.len())
            .filter(|step| !done[*step] && plan.operators[*step].after.iter().all(|earlier| done[*earlier]))
            .collect();
        let step = ready[usize::try_from(random.below(ready.len() as u64)).unwrap()];
        done[step] = true;
        for tensor in makes(graph, edges, plan.operators[step].step) {
            if plan.whole(tensor) != tensor {
                assert!(
                    alive.contains(&plan.whole(tensor))
                        || plan.homes[&plan.whole(tensor)] != plan.homes[&tensor]
                );
                continue;
            }
            if let Some((arena, start)) = place(tensor) {
                for other in alive.iter().filter(|other| **other != tensor) {
                    let Some((_, from)) = place(*other).filter(|(other, _)| *other == arena) else {
                        continue;
                    };
                    let apart = from + bytes(*other) <= start || start + bytes(tensor) <= from;
                    assert!(apart, "{} lies on {}", graph.name_of(tensor), graph.name_of(*other));
                }
                let end = if arena { plan.registered_bytes } else { plan.plain_bytes };
                assert!(start + bytes(tensor) <= end);
            }
            // What nobody reads is gone at once.
            if !is_kept(tensor) && users.contains_key(&tensor) {
                alive.push(tensor);
            }
        }
        for tensor in reads(graph, edges, plan.operators[step].step) {
            let whole = plan.whole(tensor);
            assert!(alive.contains(&whole), "{} is read when it is not there", graph.name_of(whole));
            let left = users.get_mut(&whole).unwrap();
            *left -= 1;
            if *left == 0 && !is_kept(whole) {
                alive.retain(|other| *other != whole);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_keep_their_promises(seed in any::<u64>(), n_machines in 1..4_u64) {
        let mut random = Random(seed);
        let graph = graphs::random(&mut random, n_machines);
        // Some graphs change what is needed as it was: no plan has that.
        let Ok(plan) = analyse(&graph) else { return Ok(()) };
        prop_assert_eq!(&plan, &analyse(&graph).unwrap());
        for (number, edge) in plan.edges.iter().enumerate() {
            let count = |machine, step| {
                let operators: &MachinePlan = &plan.machines[&machine];
                operators.operators.iter().filter(|operator| operator.step == step).count()
            };
            prop_assert_eq!(count(edge.from, Step::Send(number)), 1);
            prop_assert_eq!(count(edge.to, Step::Receive(number)), 1);
            let all: usize = plan.machines.values().map(|machine| {
                machine.operators.iter().filter(|operator| matches!(operator.step, Step::Send(edge) | Step::Receive(edge) if edge == number)).count()
            }).sum();
            prop_assert_eq!(all, 2);
            // What is sent, also through views and nodes in place, lies in registered memory.
            let sender = &plan.machines[&edge.from];
            let home = sender.homes[&sender.whole(edge.tensor)];
            let is_registered = matches!(
                home,
                Home::SlotOf(_) | Home::Received(_) | Home::Registered { .. } | Home::Dynamic { is_registered: true }
            );
            prop_assert!(is_registered, "{:?} in {:?}", edge, home);
            prop_assert_eq!(edge.has_slot, home == Home::SlotOf(number));
        }
        for machine in plan.machines.values() {
            for _ in 0..5 {
                check_order(&graph, &plan.edges, machine, &mut random);
            }
        }
    }
}

const HERE: MachineId = MachineId(0);
const THERE: MachineId = MachineId(1);

#[test]
fn a_view_that_is_sent_has_the_whole_tensor_registered() {
    let mut graph = Graph::new();
    let [whole, changed, view, sum] = ["whole", "changed", "view", "sum"]
        .map(|name| graph.tensor(name, DataType::F32, &[if name == "view" { 8 } else { 100 }]));
    graph.node("make", HERE, &[], &[whole], Effect::Computes).unwrap();
    graph.node("change", HERE, &[whole], &[changed], Effect::InPlace).unwrap();
    graph.node("cut", HERE, &[changed], &[view], Effect::Views { offset_bytes: 64 }).unwrap();
    graph.node("add", THERE, &[view], &[sum], Effect::Computes).unwrap();
    let plan = analyse(&graph).unwrap();
    let homes = &plan.machines[&HERE].homes;
    assert_eq!(homes[&whole], Home::Registered { offset_bytes: 0 });
    assert_eq!(homes[&view], Home::Within { tensor: whole, offset_bytes: 64 });
    assert!(!plan.edges[0].has_slot && plan.edges[0].shape.is_some());
    assert!(matches!(plan.machines[&THERE].homes[&sum], Home::Plain { .. }));
}

#[test]
fn what_comes_back_holds_the_next_transfer() {
    let mut graph = Graph::new();
    let [parameters, gradients, changed] =
        ["parameters", "gradients", "changed"].map(|name| graph.tensor(name, DataType::F32, &[100]));
    graph.node("parameters", HERE, &[], &[parameters], Effect::Keeps).unwrap();
    graph.node("work", THERE, &[parameters], &[gradients], Effect::Computes).unwrap();
    graph.node("update", HERE, &[parameters, gradients], &[changed], Effect::InPlace).unwrap();
    let plan = analyse(&graph).unwrap();
    let holds: Vec<_> =
        plan.edges.iter().map(|edge| (edge.name.as_str(), edge.hold, edge.has_slot)).collect();
    assert_eq!(holds, [("parameters 0->1", Some(1), true), ("gradients 1->0", Some(0), true)]);
    // The update waits for the parameters to be sent.
    let operators = &plan.machines[&HERE].operators;
    let position = |step| operators.iter().position(|operator| operator.step == step).unwrap();
    let update = position(Step::Node(rtensor::graph::NodeId(2)));
    assert!(operators[update].after.contains(&position(Step::Send(0))));
}

#[test]
fn a_tensor_of_unknown_shape_goes_dynamically() {
    let mut graph = Graph::new();
    let tokens = graph.any_tensor("tokens", DataType::I32, &[Some(3), None]);
    let sum = graph.tensor("sum", DataType::I64, &[]);
    graph.node("read", HERE, &[], &[tokens], Effect::Computes).unwrap();
    graph.node("add", THERE, &[tokens], &[sum], Effect::Computes).unwrap();
    let plan = analyse(&graph).unwrap();
    assert_eq!((plan.edges[0].shape.clone(), plan.edges[0].hold), (None, None));
    assert_eq!(plan.machines[&HERE].homes[&tokens], Home::Dynamic { is_registered: true });
}

#[test]
fn a_tensor_that_is_needed_as_it_was_cannot_be_changed_in_place() {
    let mut graph = Graph::new();
    let [old, new, late] = ["old", "new", "late"].map(|name| graph.tensor(name, DataType::F32, &[4]));
    graph.node("make", HERE, &[], &[old], Effect::Computes).unwrap();
    graph.node("change", HERE, &[old], &[new], Effect::InPlace).unwrap();
    graph.node("compare", HERE, &[old, new], &[late], Effect::Computes).unwrap();
    let text = analyse(&graph).unwrap_err().to_string();
    assert!(text.contains("node change: changes old in place") && text.contains("copy it first"), "{text}");
}

#[test]
fn graphs_that_make_no_sense_are_refused() {
    let mut graph = Graph::new();
    let [one, two] = ["one", "two"].map(|name| graph.tensor(name, DataType::F32, &[4]));
    let small = graph.tensor("small", DataType::F32, &[1]);
    let mut refused = |inputs: &[TensorId], outputs: &[TensorId], effect| {
        graph.node("bad", HERE, inputs, outputs, effect).unwrap_err().to_string()
    };
    assert!(refused(&[one], &[two], Effect::Computes).contains("needs one, which no node makes yet"));
    assert!(refused(&[], &[two, two], Effect::Computes).contains("made already"));
    assert!(refused(&[], &[two], Effect::InPlace).contains("has none or makes none"));
    graph.node("one", HERE, &[], &[one], Effect::Computes).unwrap();
    let mut refused = |inputs: &[TensorId], outputs: &[TensorId], effect| {
        graph.node("bad", HERE, inputs, outputs, effect).unwrap_err().to_string()
    };
    assert!(
        refused(&[one], &[small], Effect::Views { offset_bytes: 13 }).contains("views 4 bytes at 13 of 16")
    );
    assert!(refused(&[one], &[small], Effect::InPlace).contains("another size"));
    assert!(refused(&[one], &[two], Effect::Keeps).contains("cannot have inputs"));
}
