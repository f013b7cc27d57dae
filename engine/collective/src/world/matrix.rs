//! Every primitive × algorithm × transport × type at least once a run, and a random part: results against the reference,
//! bytes of every connection against the closed form.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::collective::algorithm::Algorithm;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::Step;
use crate::kernels::Reducer;
use crate::types::{DataType, RedOp};
use crate::world::case::{Case, Memory, Outcome, Traffic};
use crate::world::numbers::mix;
use crate::world::ranks::{Shape, Transport};
use crate::world::reference::{Order, Wanted};
use crate::world::replay;

/// Pairs of a primitive and an algorithm that can carry it out.
const SUPPORTED: usize = 5 + 3 + 3 + 1 + 1 + 8 + 3;
/// Numbers of ranks; each of 1 to 9, and in each row a power of two, which some algorithms ask for.
const RANKS: [[usize; 3]; 3] = [[1, 5, 8], [2, 7, 9], [3, 4, 6]];
const COUNTS: [usize; 12] = [0, 1, 2, 3, 5, 8, 13, 64, 97, 251, 256, 1009];
const OPS: [(RedOp, bool); 6] = [
    (RedOp::Sum, false),
    (RedOp::Prod, false),
    (RedOp::Max, false),
    (RedOp::Min, false),
    (RedOp::Avg, false),
    (RedOp::Sum, true),
];

/// Something that was shown.
type Cell = (&'static str, Algorithm, &'static str);

/// What one rank did, what the formula says that it sends and receives, and its steps where they decide about the bits.
type Report = Vec<(Outcome, Traffic, Vec<(u32, Step)>)>;

fn report(shape: &Shape, cases: &[Case]) -> Vec<Report> {
    shape.run(|comm| {
        let of_case = |case: &Case| {
            let outcome = case.run(comm);
            let sends = case.formula(comm, comm.rank).into_iter();
            let mut traffic: Traffic =
                sends.map(|((channel, peer), bytes)| ((true, channel, peer), bytes)).collect();
            for peer in 0..comm.n_ranks {
                let to_me = case.formula(comm, peer).into_iter().filter(|((_, to), _)| *to == comm.rank);
                traffic.extend(to_me.map(|((channel, _), bytes)| ((false, channel, peer), bytes)));
            }
            (outcome, traffic, case.rounded_steps(comm))
        };
        cases.iter().map(of_case).collect()
    })
}

/// Runs the cases one after the other in one communicator; what was shown.
fn check(shape: &Shape, cases: &[Case]) -> BTreeSet<Cell> {
    let reports = report(shape, cases);
    let mut cells = BTreeSet::new();
    for (index, case) in cases.iter().enumerate() {
        let choice = reports[0][index].0.choice;
        let wanted = case.wanted(shape.n_ranks, Order::of(choice.algorithm));
        for (rank, wanted) in wanted.iter().enumerate() {
            let (outcome, formula, _) = &reports[rank][index];
            let place = format!("rank {rank} of {shape:?}, {case:?}, {choice:?}");
            assert_eq!(outcome.choice, choice, "{place}");
            assert_eq!(&outcome.traffic, formula, "bytes at {place}");
            let size = case.data_type.size_bytes();
            assert_eq!(outcome.recv.len(), wanted.len() * size, "{place}");
            for (at, (got, wanted)) in outcome.recv.chunks(size).zip(wanted).enumerate() {
                let right = wanted.accepts(case.data_type, got);
                assert!(right, "element {at} at {place}: {got:?}, not {wanted:?}");
            }
        }
        if reports[0][index].2.iter().any(|(_, step)| !step.is_empty()) {
            check_hops(shape, case, &reports, index);
        }
        if shape.n_ranks > 1 {
            cells.insert((case.primitive.name(), choice.algorithm, name(case.data_type)));
        }
    }
    cells
}

/// Holds the bits of a case to those of its steps, and what went into them to the definition.
fn check_hops(shape: &Shape, case: &Case, reports: &[Report], index: usize) {
    let steps: Vec<Vec<(u32, Step)>> = reports.iter().map(|report| report[index].2.clone()).collect();
    let reducer = Reducer::new(case.data_type, case.op, shape.n_ranks);
    let values = replay::run(reducer, &case.inputs(shape.n_ranks), &steps);
    let wanted = case.wanted(shape.n_ranks, Order::Free);
    let divisor = if case.op == RedOp::Avg { shape.n_ranks as f64 } else { 1.0 };
    for (rank, values) in values.iter().enumerate() {
        let place = format!("rank {rank} of {shape:?}, {case:?}");
        let bits: Vec<u8> = values.iter().flat_map(|value| value.bytes(case.data_type)).collect();
        assert!(bits == reports[rank][index].0.recv, "other bits than those of its hops at {place}");
        assert_eq!(values.len(), wanted[rank].len(), "{place}");
        for (value, wanted) in values.iter().zip(&wanted[rank]) {
            let Wanted::Near(defined, _) = wanted else { panic!("{wanted:?} at {place}") };
            assert!((value.exact / divisor - defined).abs() < 1e-9, "{value:?}, not {wanted:?} at {place}");
        }
    }
}

fn name(data_type: DataType) -> &'static str {
    data_type.profiler_name().to_str().unwrap_or_default()
}

fn case(primitive: Primitive, data_type: DataType, count: usize, seed: u64) -> Case {
    let (op, pre_mul) = OPS[pick(seed, OPS.len())];
    let pre_mul = pre_mul && primitive.reduces();
    let in_place = mix(seed) & 1 == 0;
    let memory = Memory::Own;
    Case { primitive, data_type, op, pre_mul, count, n_virtual: 1, in_place, memory, seed }
}

fn pick(seed: u64, of: usize) -> usize {
    usize::try_from((mix(seed) >> 32) % of as u64).unwrap()
}

/// All primitives with all types.
fn cases(seed: u64, n_ranks: usize) -> Vec<Case> {
    let primitives = Case::primitives(pick(seed, n_ranks));
    let pairs = primitives.into_iter().flat_map(|primitive| DataType::ALL.map(|of| (primitive, of)));
    let seeds = (seed * 1000..).zip(pairs);
    seeds
        .map(|(seed, (primitive, of))| case(primitive, of, COUNTS[pick(!seed, COUNTS.len())], seed))
        .collect()
}

fn every_algorithm_over(transport: Transport) {
    let mut cells = BTreeSet::new();
    for (index, algorithm) in Algorithm::ALL.into_iter().enumerate() {
        let turn = index + transport as usize;
        for (turn, n_ranks) in RANKS[turn % 3].into_iter().enumerate().map(|(at, n)| (turn + at, n)) {
            let ranks_per_host = match transport {
                Transport::Shm => n_ranks,
                Transport::Mixed => 2 + turn % 2,
                _ => [n_ranks, 1, 2, 3][turn % 4],
            };
            let seed = (100 * transport as usize + 10 * index + turn) as u64;
            let shape = Shape {
                transport,
                n_ranks,
                ranks_per_host,
                n_channels: 1 + turn % 4,
                algorithm: Some(algorithm),
                deterministic: None,
                seed,
            };
            cells.extend(check(&shape, &cases(seed, n_ranks)));
        }
    }
    assert_eq!(cells.len(), SUPPORTED * DataType::ALL.len(), "{transport:?}: {cells:?}");
}

#[test]
fn every_primitive_algorithm_and_type_over_sockets() {
    every_algorithm_over(Transport::Tcp);
}

#[test]
fn every_primitive_algorithm_and_type_over_shared_memory() {
    every_algorithm_over(Transport::Shm);
}

#[test]
fn every_primitive_algorithm_and_type_over_shared_memory_and_sockets() {
    every_algorithm_over(Transport::Mixed);
}

#[test]
fn every_primitive_algorithm_and_type_over_simulated_connections() {
    every_algorithm_over(Transport::Sim);
}

/// Where all ranks share memory, and nothing asks for an algorithm.
#[test]
fn flat_rounds_are_right_with_every_type_and_size() {
    for n_ranks in [2, 3, 4] {
        let (transport, ranks_per_host, n_channels) = (Transport::Shm, n_ranks, 2);
        let (algorithm, deterministic) = (None, None);
        let shape =
            Shape { transport, n_ranks, ranks_per_host, n_channels, algorithm, deterministic, seed: 0 };
        let all = |seed| DataType::ALL.map(|of| case(Primitive::AllReduce, of, 13, seed));
        let mut cases: Vec<Case> = (0..6).flat_map(all).collect();
        for count in [1, 2048, 8192, 8193, 16_385, 70_001, 300_007] {
            let sum = Case { op: RedOp::Sum, ..case(Primitive::AllReduce, DataType::F32, count, 1) };
            for memory in [Memory::Own, Memory::Shared, Memory::Mixed] {
                let plain = Case { pre_mul: false, memory, ..sum };
                cases.extend([false, true].map(|in_place| Case { in_place, ..plain }));
            }
        }
        check(&shape, &cases);
    }
}

/// One goes flat and one by connections, where neither would ever hear of the other.
#[test]
fn other_ways_are_a_mismatch_too() {
    let (algorithm, deterministic) = (None, None);
    let shape = Shape {
        transport: Transport::Shm,
        n_ranks: 2,
        ranks_per_host: 2,
        n_channels: 1,
        algorithm,
        deterministic,
        seed: 0,
    };
    let primitives = [Primitive::AllReduce, Primitive::AllGather];
    let plain = |primitive| Case { op: RedOp::Sum, pre_mul: false, ..case(primitive, DataType::F32, 2, 0) };
    let errors = shape.run(|comm| plain(primitives[comm.rank]).error(comm));
    for error in errors {
        assert!(error.code() == 5 && error.to_string().contains("instead of all_"), "{error}");
    }
}

/// Blocks that no connection holds while both ranks wait.
#[test]
fn two_ranks_exchange_large_blocks_in_place() {
    for transport in [Transport::Tcp, Transport::Shm] {
        let (ranks_per_host, n_channels, algorithm, deterministic) = (2, 1, None, None);
        let shape =
            Shape { transport, n_ranks: 2, ranks_per_host, n_channels, algorithm, deterministic, seed: 0 };
        let large = case(Primitive::AllToAll, DataType::F64, 1 << 20, 0);
        let reports = report(&shape, &[Case { in_place: true, ..large }]);
        for (rank, report) in reports.iter().enumerate() {
            let blocks =
                [0, 1].map(|from| large.contribution(from, 2)[rank << 23..(rank + 1) << 23].to_vec());
            assert!(report[0].0.recv == blocks.concat(), "rank {rank} over {transport:?}");
        }
    }
}

/// As many as `PROPTEST_CASES` says, else few: each starts a communicator.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if asked.cases == 256 { 8 } else { asked.cases };
    ProptestConfig { cases, max_shrink_iters: 64, ..asked }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let transport =
        prop::sample::select(vec![Transport::Tcp, Transport::Shm, Transport::Mixed, Transport::Sim]);
    let algorithm = prop::option::of(prop::sample::select(Algorithm::ALL.to_vec()));
    let deterministic = prop::option::weighted(0.3, Just("rank-order"));
    let ranks = (1_usize..10, 1_usize..10);
    (transport, ranks, 1_usize..5, algorithm, deterministic, any::<u32>()).prop_map(
        |(transport, (n_ranks, ranks_per_host), n_channels, algorithm, deterministic, seed)| {
            let ranks_per_host = if transport == Transport::Shm { n_ranks } else { ranks_per_host };
            let seed = u64::from(seed);
            Shape { transport, n_ranks, ranks_per_host, n_channels, algorithm, deterministic, seed }
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_shape_is_right(
        shape in shapes(),
        counts in prop::collection::vec(0_usize..3000, 4),
        large in 20_000_usize..60_000,
        data_types in prop::collection::vec(prop::sample::select(DataType::ALL.to_vec()), 8),
        seed: u32,
    ) {
        let mut cases = Vec::new();
        for primitive in Case::primitives(pick(u64::from(seed), shape.n_ranks)) {
            for data_type in &data_types[..3] {
                let seed = u64::from(seed) * 1000 + cases.len() as u64;
                cases.push(case(primitive, *data_type, counts[pick(seed, counts.len())], seed));
            }
        }
        let at = usize::try_from(seed % 8).unwrap();
        cases.push(case(Case::primitives(0)[at], data_types[at], large, u64::from(seed)));
        check(&shape, &cases);
    }
}
