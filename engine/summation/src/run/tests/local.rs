//! Groups whose hosts sum first what their workers contribute.

use std::time::Duration;

use super::*;
use crate::placement::hosts::Hosts;
use crate::run::observe::recorder::{Page, Recording, watching};
use rsccl_collective::kernels::float8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use rsccl_collective::kernels::float16::{bf16_to_f32, f32_to_bf16};

const ELEMENTS: u64 = 700;
/// Parts of a few frames, several for each tensor.
const PART_BYTES: u64 = 1000;
const FRAME_BYTES: u64 = 400;

/// Workers on these hosts, servers on hosts of their own.
fn shape(hosts: &'static [usize], n_servers: usize, local: &'static str) -> Shape {
    let pipeline = worker::Settings { frame_bytes: FRAME_BYTES, ..worker::Settings::default() };
    let n_workers = hosts.len() - n_servers;
    Shape {
        hosts: Some(hosts),
        local,
        pipeline,
        ..Shape::new(Transport::Mixed, n_workers, n_servers, PART_BYTES)
    }
}

/// A tensor of each type, each for sums and for averages.
fn tensors() -> Vec<(String, DataType, Reduction)> {
    let of = |reduction| {
        DataType::ALL.map(|data_type| (format!("gradient.{data_type:?}.{reduction:?}"), data_type, reduction))
    };
    [of(Reduction::Sum), of(Reduction::Average)].concat()
}

fn declare_all(group: &mut Group, role: Role) {
    let tensors = tensors().into_iter().filter(|_| matches!(role, Role::Worker(_)));
    for (name, data_type, _) in tensors {
        declare_one(group, &name, ELEMENTS, data_type).unwrap();
    }
}

/// Random numbers; small ones of types in which sums would be all infinite.
fn element(data_type: DataType, seed: u64) -> Vec<u8> {
    let small = (mix(seed) % 201) as f32 / 64.0 - 1.5;
    match data_type {
        DataType::F16 => f32_to_f16(small).to_ne_bytes().to_vec(),
        DataType::Bf16 => f32_to_bf16(small).to_ne_bytes().to_vec(),
        DataType::F8e4m3 => vec![f32_to_e4m3(small)],
        DataType::F8e5m2 => vec![f32_to_e5m2(small)],
        DataType::F32 => float(seed).to_ne_bytes().to_vec(),
        DataType::F64 => (f64::from(float(seed)) / 3.0).to_ne_bytes().to_vec(),
        _ => mix(seed).to_ne_bytes()[..data_type.size_bytes()].to_vec(),
    }
}

fn contribution(tensor: usize, round: u64, worker: usize) -> Vec<u8> {
    let data_type = tensors()[tensor].1;
    let seed = mix(mix(mix(tensor as u64) ^ round) ^ worker as u64);
    (0..ELEMENTS).flat_map(|index| element(data_type, seed ^ mix(index))).collect()
}

/// Adds from left to right, and divides before it rounds to the type.
fn reduce(data_type: DataType, elements: &[&[u8]], divisor: usize) -> Vec<u8> {
    let narrow = |to: fn(&[u8]) -> f32| elements.iter().map(|bytes| to(bytes)).reduce(|a, b| a + b).unwrap();
    let divided = |sum: f32| sum / divisor as f32;
    match data_type {
        DataType::F32 => {
            divided(narrow(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap()))).to_ne_bytes().to_vec()
        }
        DataType::F64 => {
            let values = elements.iter().map(|bytes| f64::from_ne_bytes((*bytes).try_into().unwrap()));
            (values.reduce(|a, b| a + b).unwrap() / divisor as f64).to_ne_bytes().to_vec()
        }
        DataType::F16 => {
            let sum = narrow(|bytes| f16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap())));
            f32_to_f16(divided(sum)).to_ne_bytes().to_vec()
        }
        DataType::Bf16 => {
            let sum = narrow(|bytes| bf16_to_f32(u16::from_ne_bytes(bytes.try_into().unwrap())));
            f32_to_bf16(divided(sum)).to_ne_bytes().to_vec()
        }
        DataType::F8e4m3 => vec![f32_to_e4m3(divided(narrow(|bytes| e4m3_to_f32(bytes[0]))))],
        DataType::F8e5m2 => vec![f32_to_e5m2(divided(narrow(|bytes| e5m2_to_f32(bytes[0]))))],
        _ => reduce_integers(data_type, elements, divisor),
    }
}

fn reduce_integers(data_type: DataType, elements: &[&[u8]], divisor: usize) -> Vec<u8> {
    let bits = 8 * data_type.size_bytes();
    let raw = |bytes: &&[u8]| {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        u64::from_ne_bytes(padded)
    };
    let sum = elements.iter().map(raw).fold(0_u64, u64::wrapping_add) << (64 - bits);
    let divisor = i128::try_from(divisor).unwrap();
    let is_signed = matches!(data_type, DataType::I8 | DataType::I32 | DataType::I64);
    let value =
        if is_signed { i128::from(sum.cast_signed() >> (64 - bits)) } else { i128::from(sum >> (64 - bits)) };
    (value / divisor).to_ne_bytes()[..data_type.size_bytes()].to_vec()
}

/// The tree: the workers of a host in the order of their ranks, then hosts in the order of their first ranks.
fn wanted(hosts: &[usize], tensor: usize, round: u64) -> Vec<u8> {
    let (_, data_type, reduction) = tensors()[tensor].clone();
    let size = data_type.size_bytes();
    let contributions: Vec<Vec<u8>> =
        (0..hosts.len()).map(|worker| contribution(tensor, round, worker)).collect();
    let divisor = if reduction == Reduction::Average { hosts.len() } else { 1 };
    let hosts = Hosts::new(hosts);
    let one = |index: u64| {
        let range = usize::try_from(index).unwrap() * size..(usize::try_from(index).unwrap() + 1) * size;
        let elements = |host: usize| -> Vec<&[u8]> {
            hosts.workers(host).iter().map(|worker| &contributions[*worker][range.clone()]).collect()
        };
        if hosts.n_hosts() == 1 {
            return reduce(data_type, &elements(0), divisor);
        }
        let sums: Vec<Vec<u8>> =
            (0..hosts.n_hosts()).map(|host| reduce(data_type, &elements(host), 1)).collect();
        reduce(data_type, &sums.iter().map(Vec::as_slice).collect::<Vec<_>>(), divisor)
    };
    (0..ELEMENTS).flat_map(one).collect()
}

/// Every tensor once in an order of this worker's own, with pauses. What came back, by tensor.
fn sum_in_any_order(group: &Group, worker: usize, round: u64, seed: u64) -> Vec<Vec<u8>> {
    let mut order: Vec<usize> = (0..tensors().len()).collect();
    order.sort_by_key(|tensor| mix(mix(seed ^ worker as u64) ^ *tensor as u64));
    let mut buffers: Vec<Vec<u8>> =
        (0..order.len()).map(|tensor| contribution(tensor, round, worker)).collect();
    let regions: Vec<Region> = buffers.iter_mut().map(|bytes| Region::of_slice_mut(bytes)).collect();
    let submit = |tensor: usize| {
        if mix(seed ^ mix(tensor as u64) ^ worker as u64).is_multiple_of(5) {
            std::thread::sleep(Duration::from_micros(mix(seed) % 300));
        }
        group.push_pull(tensor, regions[tensor], regions[tensor], tensors()[tensor].2).unwrap()
    };
    let handles: Vec<_> = order.into_iter().map(submit).collect();
    handles.iter().for_each(|handle| handle.wait().unwrap());
    buffers
}

fn sums_are_those_of_the_tree(shape: Shape, n_rounds: u64, seed: u64) {
    let hosts = &shape.hosts.unwrap()[..shape.n_workers];
    let wanted: Vec<Vec<Vec<u8>>> = (0..n_rounds)
        .map(|round| (0..tensors().len()).map(|tensor| wanted(hosts, tensor, round)).collect())
        .collect();
    shape.run(|mut group, role| {
        declare_all(&mut group, role);
        let Role::Worker(worker) = role else { return group.leave().unwrap() };
        group.start().unwrap();
        for (round, wanted) in (0..).zip(&wanted) {
            let got = sum_in_any_order(&group, worker, round, mix(seed) ^ round);
            for (tensor, (got, wanted)) in got.iter().zip(wanted).enumerate() {
                assert!(got == wanted, "{:?}, round {round} on {worker}: {shape:?}", tensors()[tensor]);
            }
        }
        group.leave().unwrap();
    });
}

#[test]
fn sums_of_all_types_are_those_of_the_tree_on_any_hosts() {
    let shapes = [
        shape(&[1, 1, 2, 2], 0, "auto"),
        shape(&[1, 1, 2, 2, 3], 1, "auto"),
        shape(&[1, 2, 1, 2, 2, 1, 3, 4], 2, "on"),
        shape(&[1, 1, 1, 2, 3], 1, "on"),
        shape(&[2, 1, 1, 1], 0, "auto"),
        shape(&[1, 1, 1, 1], 0, "on"),
        shape(&[1, 1, 1, 1, 2], 1, "on"),
        shape(&[1, 1, 1, 1, 1], 1, "on"),
    ];
    for (seed, shape) in (0..).zip(shapes) {
        sums_are_those_of_the_tree(shape, 3, seed);
    }
}

#[test]
fn sums_have_the_same_bits_in_every_run_whoever_comes_first() {
    for seed in 100..120 {
        let shape = [shape(&[1, 1, 2, 2, 3], 1, "auto"), shape(&[1, 2, 2, 1, 1], 0, "auto")];
        sums_are_those_of_the_tree(shape[usize::try_from(seed % 2).unwrap()], 2, seed);
    }
}

#[test]
fn hosts_that_may_keep_nothing_have_the_same_sums() {
    for (seed, n_servers) in [(200, 0), (201, 1)] {
        let hosts: &[usize] = &[1, 1, 1, 2, 2, 2, 3, 3, 3, 4];
        let shape = shape(&hosts[..9 + n_servers], n_servers, "on");
        sums_are_those_of_the_tree(Shape { kept_bytes: Some(0), ..shape }, 2, seed);
    }
}

#[test]
fn slots_and_sockets_carry_the_same_sums() {
    let without_memory = Shape { transport: Transport::Tcp, ..shape(&[1, 1, 2, 2, 3], 1, "on") };
    sums_are_those_of_the_tree(without_memory, 2, 7);
}

/// By host that is no server's: payload that left it and came to it, declarations not counted.
fn bytes_between_hosts(shape: Shape, n_rounds: u64) -> Vec<(u64, u64)> {
    let hosts = shape.hosts.unwrap();
    let list_bytes = list_bytes(shape.partition_bytes);
    let by_rank = shape.run(|mut group, role| {
        declare(&mut group, role);
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            for round in 0..n_rounds {
                let mut buffers: Vec<Vec<u8>> =
                    (0..TENSORS.len()).map(|tensor| super::contribution(tensor, round, worker)).collect();
                let submit = |(tensor, bytes): (usize, &mut Vec<u8>)| {
                    let region = Region::of_slice_mut(bytes);
                    group.push_pull(tensor, region, region, reduction(tensor)).unwrap()
                };
                let handles: Vec<_> = buffers.iter_mut().enumerate().map(submit).collect();
                handles.iter().for_each(|handle| handle.wait().unwrap());
            }
        }
        group.finish().unwrap();
        let (rank, traffic) = (group.comm().rank, lock(&group.comm().engine).links.traffic());
        let abroad = traffic.iter().filter(|end| hosts[end.peer] != hosts[rank]);
        let bytes = |is_send: bool| -> u64 {
            abroad.clone().filter(|end| end.is_send == is_send).map(|end| end.payload_bytes).sum()
        };
        let told = if rank == 0 { shape.n_servers as u64 * list_bytes } else { 0 };
        let bytes = (bytes(true) - told, bytes(false));
        group.leave().unwrap();
        bytes
    });
    let of_workers = Hosts::new(&hosts[..shape.n_workers]);
    let of_host = |host: usize| {
        let ranks = of_workers.workers(host).iter().map(|rank| by_rank[*rank]);
        ranks.fold((0, 0), |(sent, received), (more, also)| (sent + more, received + also))
    };
    (0..of_workers.n_hosts()).map(of_host).collect()
}

/// What Equations 1 and 2 give machines, by the placement on them.
fn predicted(n_hosts: usize, n_servers: usize, partition_bytes: u64) -> Vec<(u64, u64)> {
    let machines = Machines::even(n_hosts, n_servers, 1).unwrap();
    let tensors = TENSORS.map(|(name, elements, data_type)| {
        let name = name.to_owned();
        Declaration { name, elements, data_type }
    });
    let declarations = Declarations::of(partition_bytes, tensors).unwrap();
    let placement = Strategy::Greedy.place(0, &declarations, &machines).unwrap();
    let loads = predict(&machines, &placement);
    loads.loads()[n_servers..].iter().map(|load| (load.sent_bytes, load.received_bytes)).collect()
}

#[test]
fn a_host_carries_what_equations_1_and_2_give_a_machine() {
    const N_ROUNDS: u64 = 3;
    for (hosts, n_servers) in [
        (&[1, 1, 2, 2][..], 0),
        (&[1, 1, 2, 2, 3, 3, 4], 1),
        (&[1, 1, 1, 2, 2, 2, 3, 4], 2),
        (&[1, 1, 1, 2, 3], 1),
    ] {
        let local = Shape { partition_bytes: 8000, ..shape(hosts, n_servers, "auto") };
        let n_hosts = Hosts::new(&hosts[..local.n_workers]).n_hosts();
        let times = |(sent, received): (u64, u64)| (N_ROUNDS * sent, N_ROUNDS * received);
        let predicted: Vec<_> =
            predicted(n_hosts, n_servers, local.partition_bytes).into_iter().map(times).collect();
        let carried = bytes_between_hosts(local, N_ROUNDS);
        assert_eq!(carried, predicted, "{local:?}");
        let apart = bytes_between_hosts(Shape { local: "off", ..local }, N_ROUNDS);
        let sum = |bytes: &[(u64, u64)]| bytes.iter().map(|(sent, received)| sent + received).sum::<u64>();
        assert!(2 * sum(&apart) > 3 * sum(&carried), "{apart:?} {carried:?}");
    }
}

#[test]
fn with_one_worker_a_host_nothing_changes() {
    let hosts = &[1, 2, 3, 4];
    let carried = ["auto", "on", "off"].map(|local| bytes_between_hosts(shape(hosts, 1, local), 2));
    assert!(carried.iter().all(|bytes| *bytes == carried[2]));
}

fn watched(shape: Shape) -> Vec<Recording> {
    let pages = shape.run(|mut group, role| {
        let (watching, page): (_, Page) = watching(1);
        group.watch(watching);
        declare_all(&mut group, role);
        group.start().unwrap();
        if let Role::Worker(worker) = role {
            for round in 0..3 {
                sum_in_any_order(&group, worker, round, round);
            }
        }
        group.leave().unwrap();
        page
    });
    pages.into_iter().map(|page| std::mem::take(&mut *lock(&page))).collect()
}

#[test]
fn a_watcher_sees_results_once_and_every_contribution_once() {
    let shape = shape(&[1, 1, 1, 2, 2, 3], 1, "auto");
    let told = watched(shape);
    let mut made = std::collections::BTreeMap::new();
    for (key, round, fingerprint, contributors) in told.iter().flat_map(|told| &told.made) {
        assert_eq!(*contributors, 5);
        assert!(made.insert((*key, *round), *fingerprint).is_none(), "made twice");
    }
    let model_bytes: u64 = tensors().iter().map(|one| ELEMENTS * one.1.size_bytes() as u64).sum();
    let mut heard = [(0, 0); 5];
    for told in &told {
        let seen = told.samples.last().unwrap();
        assert!(seen.waits.is_empty());
        for (heard, contributor) in heard.iter_mut().zip(&seen.contributors) {
            *heard = (heard.0 + contributor[0], heard.1 + contributor[1]);
        }
    }
    assert_eq!(heard, [(made.len() as u64, 3 * model_bytes); 5]);
    for told in &told[..5] {
        let pulled: std::collections::BTreeMap<_, _> =
            told.pulled.iter().map(|(key, round, print)| ((*key, *round), *print)).collect();
        assert_eq!(pulled, made);
    }
    let pushed = |told: &Recording| -> [u64; 5] {
        let by_class = &told.samples.last().unwrap().traffic;
        std::array::from_fn(|which| by_class.iter().map(|traffic| traffic[which]).sum())
    };
    let of_hosts = [0..3, 3..5].map(|ranks: std::ops::Range<usize>| {
        let sums = told[ranks].iter().map(pushed).fold([0; 5], |a, b| std::array::from_fn(|i| a[i] + b[i]));
        // What crossed a NIC is no more than the model each way, from and to the host.
        let [_, pushed, _, pulled, local] = sums;
        pushed + pulled - local <= 2 * 3 * model_bytes
    });
    assert_eq!(of_hosts, [true; 2]);
}

#[test]
fn workers_that_differ_about_it_are_told() {
    let shape = shape(&[1, 1, 2, 2, 3], 1, "on");
    let id = root();
    let errors = std::thread::scope(|scope| {
        let run = |local: &'static str, roles: &'static [Role]| {
            let id = id.to_bytes();
            scope.spawn(move || {
                Shape { local, ..shape }.run_some(&id, roles, |mut group, role| {
                    declare_all(&mut group, role);
                    group.start().unwrap_err().to_string()
                })
            })
        };
        const LOCAL: &[Role] = &[Role::Worker(0), Role::Worker(1), Role::Server(0)];
        const APART: &[Role] = &[Role::Worker(2), Role::Worker(3)];
        let threads = [run("on", LOCAL), run("off", APART)];
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    assert!(errors.iter().all(|error| error.contains("RSUM_LOCAL is to be the same")), "{errors:?}");
}
