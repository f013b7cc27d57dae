//! Random graphs over machines that are threads: every tensor is what the graph says, over every device, however late
//! whoever is; and what goes wrong is said.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use common::{KINDS, Random, devices, graphs, reordering};
use rtensor::device::{Device, FlagForm, Kind};
use rtensor::error::Error;
use rtensor::executor::{Call, Executor, Kernel, Options, Tally};
use rtensor::graph::{Effect, Graph, MachineId, Node, NodeId, Plan, analyse};
use rtensor::tensor::{DataType, Shape};

const ITERATIONS: u64 = 5;

type Found = Mutex<BTreeMap<(NodeId, u64), Vec<u8>>>;
type Devices = BTreeMap<MachineId, Box<dyn Device>>;

/// Computes what the graphs' module says, after a while, and notes it down.
struct Noting<'a> {
    number: NodeId,
    node: Node,
    graph: &'a Graph,
    found: &'a Found,
    random: Random,
    iteration: u64,
}

impl Kernel for Noting<'_> {
    fn shapes(&mut self, _: &[&Shape]) -> Result<Vec<Shape>, String> {
        let shape = |(place, output)| match self.graph.shape(output) {
            Some(shape) => shape,
            None => {
                let len = graphs::unknown_len(&self.node.name, place, self.iteration);
                Shape::new(DataType::U8, &[len]).unwrap()
            }
        };
        Ok(self.node.outputs.iter().copied().enumerate().map(shape).collect())
    }

    fn run(&mut self, call: &mut Call<'_>) -> Result<(), String> {
        self.random.delay();
        let in_place = self.node.effect == Effect::InPlace;
        let (inputs, mut outputs) = call.bytes();
        let old = outputs.first().map(|output| output.to_vec()).unwrap_or_default();
        let inputs: Vec<&[u8]> = inputs
            .iter()
            .enumerate()
            .map(|(place, input)| if in_place && place == 0 { old.as_slice() } else { *input })
            .collect();
        for (place, output) in outputs.iter_mut().enumerate() {
            let made = graphs::computed(&self.node.name, place, self.iteration, &inputs, output.len());
            output.copy_from_slice(&made);
        }
        let first = outputs.first().map(|output| output.to_vec()).unwrap_or_default();
        self.found.lock().unwrap().insert((self.number, self.iteration), first);
        self.iteration += 1;
        Ok(())
    }
}

/// Devices between all machines.
fn mesh(n_machines: usize, mut pair: impl FnMut() -> (Box<dyn Device>, Box<dyn Device>)) -> Vec<Devices> {
    let mut all: Vec<Devices> = (0..n_machines).map(|_| Devices::new()).collect();
    for one in 0..n_machines {
        for other in one + 1..n_machines {
            let (to_other, to_one) = pair();
            all[one].insert(MachineId(other), to_other);
            all[other].insert(MachineId(one), to_one);
        }
    }
    all
}

fn run(graph: &Graph, plan: &Plan, found: &Found, machine: MachineId, devices: Devices, seed: u64) -> Tally {
    let kernel = |node: &Node| {
        let number = graph.nodes().iter().position(|other| other == node)?;
        let random = Random(seed + number as u64);
        let noting =
            Noting { number: NodeId(number), node: node.clone(), graph, found, random, iteration: 0 };
        Some(Box::new(noting) as Box<dyn Kernel + '_>)
    };
    let options = Options { dynamic_bytes: 4 << 20, limit_bytes: 1 << 20, ..Options::default() };
    let mut executor = Executor::new(graph, plan, machine, devices, kernel, options).unwrap();
    for _ in 0..ITERATIONS {
        executor.iterate().unwrap();
    }
    executor.finish().unwrap();
    executor.tally()
}

/// So many random graphs; transfers of tensors.
fn many(n_graphs: u64, first: u64, mut pair: impl FnMut(u64) -> (Box<dyn Device>, Box<dyn Device>)) -> u64 {
    let mut transfers = 0;
    for seed in first..first + n_graphs {
        let n_machines = 2 + seed % 2;
        let graph = graphs::random(&mut Random(seed), n_machines);
        let Ok(plan) = analyse(&graph) else { continue };
        let found = Found::default();
        let meshed = mesh(usize::try_from(n_machines).unwrap(), || pair(seed));
        std::thread::scope(|scope| {
            for (machine, devices) in meshed.into_iter().enumerate() {
                let machine = MachineId(machine);
                if !plan.machines.contains_key(&machine) {
                    continue;
                }
                let devices =
                    devices.into_iter().filter(|(peer, _)| plan.machines.contains_key(peer)).collect();
                let (graph, plan, found) = (&graph, &plan, &found);
                scope.spawn(move || run(graph, plan, found, machine, devices, seed));
            }
        });
        let found = found.into_inner().unwrap();
        for (place, expected) in graphs::expected(&graph, ITERATIONS) {
            let node = &graph.nodes()[place.0.0];
            let runs = !matches!(node.effect, Effect::Views { .. })
                && (node.effect != Effect::Keeps || place.1 == 0);
            if runs {
                assert!(
                    found.get(&place) == Some(&expected),
                    "graph {seed}: {} in iteration {}",
                    node.name,
                    place.1
                );
            }
        }
        transfers += plan.edges.len() as u64 * ITERATIONS;
    }
    transfers
}

#[test]
fn random_graphs_are_right_over_every_device() {
    for kind in KINDS {
        let transfers = many(150, 1, |_| devices(kind));
        assert!(transfers > 3000, "{transfers} transfers over {kind}");
    }
}

#[test]
fn random_graphs_are_right_where_the_order_within_a_write_is_any() {
    many(75, 1000, |seed| reordering(FlagForm::Behind, seed));
    many(75, 2000, |seed| reordering(FlagForm::Immediate, seed));
}

/// Both ends of a graph in which one machine waits for two tensors of the other.
fn waiting(graph: &mut Graph) -> Plan {
    let [slow, own] = ["slow", "own"].map(|name| graph.tensor(name, DataType::F32, &[10]));
    let [sum, last] = ["sum", "last"].map(|name| graph.tensor(name, DataType::F32, &[10]));
    graph.node("work", MachineId(1), &[], &[slow], Effect::Computes).unwrap();
    graph.node("own", MachineId(0), &[], &[own], Effect::Computes).unwrap();
    graph.node("sum", MachineId(0), &[slow], &[sum], Effect::Computes).unwrap();
    graph.node("last", MachineId(0), &[own], &[last], Effect::Computes).unwrap();
    analyse(graph).unwrap()
}

fn nothing(_: &mut Call<'_>) -> Result<(), String> {
    Ok(())
}

fn pair_of_devices(kind: Kind) -> (Devices, Devices) {
    let (one, other) = devices(kind);
    (Devices::from([(MachineId(1), one)]), Devices::from([(MachineId(0), other)]))
}

#[test]
fn a_receive_that_waits_blocks_nobody_and_a_deadline_names_it() {
    for kind in KINDS {
        let mut graph = Graph::new();
        let plan = waiting(&mut graph);
        let (one, other) = pair_of_devices(kind);
        let ran = Mutex::new(Vec::new());
        let options = Options { patience: Duration::from_millis(200), ..Options::default() };
        std::thread::scope(|scope| {
            let (over, wait) = std::sync::mpsc::channel::<()>();
            let (graph_there, plan_there) = (&graph, &plan);
            scope.spawn(move || {
                // Sets up and then does nothing.
                let kernel = |_: &Node| Some(Box::new(nothing) as Box<dyn Kernel>);
                let options = Options::default();
                let _idle =
                    Executor::new(graph_there, plan_there, MachineId(1), other, kernel, options).unwrap();
                let _ = wait.recv();
            });
            let kernel = |node: &Node| {
                let (name, ran) = (node.name.clone(), &ran);
                let note = move |_: &mut Call<'_>| {
                    ran.lock().unwrap().push(name.clone());
                    Ok(())
                };
                Some(Box::new(note) as Box<dyn Kernel + '_>)
            };
            let mut executor = Executor::new(&graph, &plan, MachineId(0), one, kernel, options).unwrap();
            let error = executor.iterate().unwrap_err();
            assert!(matches!(error, Error::NoProgress { .. }), "{error}");
            let text = error.to_string();
            assert!(text.contains("edge slow 1->0 waits for the flag of transfer 1 from"), "{text}");
            let tally = executor.tally();
            assert!(tally.polls > 1 && tally.hits == 0 && tally.requeued == tally.polls, "{tally:?}");
            drop(over);
        });
        assert_eq!(*ran.lock().unwrap(), ["own", "last"]);
    }
}

#[test]
fn a_peer_that_goes_away_is_named_with_what_waits_for_it() {
    for kind in KINDS {
        let mut graph = Graph::new();
        let plan = waiting(&mut graph);
        let (one, other) = pair_of_devices(kind);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let kernel = |_: &Node| Some(Box::new(nothing) as Box<dyn Kernel + '_>);
                let mut executor =
                    Executor::new(&graph, &plan, MachineId(1), other, kernel, Options::default()).unwrap();
                executor.iterate().unwrap();
            });
            let kernel = |_: &Node| Some(Box::new(nothing) as Box<dyn Kernel + '_>);
            let mut executor =
                Executor::new(&graph, &plan, MachineId(0), one, kernel, Options::default()).unwrap();
            executor.iterate().unwrap();
            let error = executor.iterate().unwrap_err();
            assert!(matches!(error, Error::PeerLost { .. }), "{error}");
            assert!(error.to_string().contains("edge slow 1->0 waits for the flag of transfer 2"), "{error}");
        });
    }
}

#[test]
fn a_kernel_that_fails_is_named() {
    let mut graph = Graph::new();
    let out = graph.any_tensor("out", DataType::F32, &[None]);
    graph.node("read", MachineId(0), &[], &[out], Effect::Computes).unwrap();
    let plan = analyse(&graph).unwrap();
    let kernel = |_: &Node| Some(Box::new(nothing) as Box<dyn Kernel + '_>);
    let mut executor =
        Executor::new(&graph, &plan, MachineId(0), Devices::new(), kernel, Options::default()).unwrap();
    let text = executor.iterate().unwrap_err().to_string();
    assert!(text.contains("node read: makes a tensor of unknown shape"), "{text}");
}
