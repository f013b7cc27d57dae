//! The same bits again: over other transports, delays, channels and numbers of processes.

use std::collections::{BTreeMap, BTreeSet};

use crate::collective::algorithm::Algorithm;
use crate::collective::primitive::Primitive;
use crate::types::{DataType, RedOp};
use crate::world::case::{Case, Memory};
use crate::world::numbers::mix;
use crate::world::ranks::{Shape, Transport};

const TRANSPORTS: [Transport; 4] = [Transport::Tcp, Transport::Shm, Transport::Mixed, Transport::Sim];
/// More than a channel's, and no multiple of anything.
const COUNT: usize = 1009;

/// Results by what was asked for, and how many runs gave them.
#[derive(Debug, Default)]
struct Seen {
    results: BTreeMap<(Option<Algorithm>, usize), BTreeSet<Vec<u8>>>,
    runs: usize,
}

/// All-reduces whose bits show the order of the sum.
fn sums(n_virtual: usize) -> Vec<Case> {
    let sum = |data_type, op, pre_mul| {
        let (primitive, in_place, seed) = (Primitive::AllReduce, false, 7);
        let memory = Memory::Own;
        Case { primitive, data_type, op, pre_mul, count: COUNT, n_virtual, in_place, memory, seed }
    };
    vec![
        sum(DataType::F32, RedOp::Sum, false),
        sum(DataType::F32, RedOp::Avg, false),
        sum(DataType::F32, RedOp::Sum, true),
        sum(DataType::Bf16, RedOp::Sum, false),
        sum(DataType::Bf16, RedOp::Avg, false),
        sum(DataType::Bf16, RedOp::Sum, true),
    ]
}

impl Seen {
    /// Runs all sums again and again, each rank late by some turns of the scheduler.
    fn add(&mut self, shape: &Shape, n_virtual: usize, rounds: u64) {
        let of_rank = shape.run(|comm| {
            let sums = sums(n_virtual);
            let once = |round: u64| {
                let late =
                    |index: u64| mix(shape.seed << 16 ^ round << 8 ^ index << 4 ^ comm.rank as u64) % 8;
                let run = |(index, case): (u64, &Case)| {
                    (0..late(index)).for_each(|_| std::thread::yield_now());
                    case.run(comm).recv
                };
                (0..).zip(&sums).map(run).collect::<Vec<_>>()
            };
            (0..rounds).map(once).collect::<Vec<_>>()
        });
        for round in of_rank.iter().flatten() {
            for (index, result) in round.iter().enumerate() {
                self.results.entry((shape.algorithm, index)).or_default().insert(result.clone());
            }
        }
        self.runs += of_rank[0].len() * sums(n_virtual).len();
    }

    fn assert_one_result_each(&self) {
        for (what, results) in &self.results {
            assert_eq!(results.len(), 1, "{what:?}");
        }
    }

    /// Different results of one sum, over all algorithms.
    fn results_of(&self, index: usize) -> usize {
        let of_sum = self.results.iter().filter(|((_, sum), _)| *sum == index);
        of_sum.flat_map(|(_, results)| results).collect::<BTreeSet<_>>().len()
    }
}

#[test]
fn eight_virtual_ranks_have_one_result_on_any_processes_channels_and_transport() {
    let mut seen = Seen::default();
    let forms =
        [(Algorithm::Direct, "rank-order:owner-sum"), (Algorithm::FixedTree, "rank-order:fixed-tree")];
    for (form, deterministic) in forms {
        for (index, n_ranks) in [8, 4, 2, 1].into_iter().enumerate() {
            for (turn, transport) in TRANSPORTS.into_iter().enumerate() {
                let seed = (16 * n_ranks + turn) as u64;
                let n_channels = 1 + (index + turn) % 4;
                let ranks_per_host = if transport == Transport::Shm { n_ranks } else { 2 };
                let (algorithm, deterministic) = (Some(form), Some(deterministic));
                let shape =
                    Shape { transport, n_ranks, ranks_per_host, n_channels, algorithm, deterministic, seed };
                seen.add(&shape, 8 / n_ranks, 6);
            }
        }
    }
    seen.assert_one_result_each();
    assert!(seen.runs >= 1000, "{} runs", seen.runs);
    assert_eq!(seen.results_of(0), 2, "the forms associate differently, or the test would show nothing");
}

/// With the same ranks on the same hosts and the same channels, over whatever transport.
#[test]
fn every_algorithm_repeats_its_bits() {
    let mut seen = Seen::default();
    for algorithm in Algorithm::ALL {
        for (turn, transport) in TRANSPORTS.into_iter().enumerate() {
            let (n_ranks, ranks_per_host, n_channels) = (5, 5, 3);
            let (algorithm, deterministic, seed) = (Some(algorithm), None, turn as u64);
            let shape =
                Shape { transport, n_ranks, ranks_per_host, n_channels, algorithm, deterministic, seed };
            seen.add(&shape, 1, 7);
        }
    }
    seen.assert_one_result_each();
    assert!(seen.runs >= 1000, "{} runs", seen.runs);
    assert!(seen.results_of(0) > 2, "some algorithms associate differently, or the test would show nothing");
}
