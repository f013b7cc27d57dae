//! The engine's own algorithms in simulation: against closed forms in time and in bytes, and one pass against the other.

use std::collections::BTreeMap;
use std::time::Duration;

use super::dataflow::follow;
use super::experiment::{Experiment, Planned, Refused, run};
use super::fabric::{Fabric, Link};
use super::ordered;
use super::outcome::{Fate, LinkUse, Outcome};
use crate::collective::algorithm::Algorithm;
use crate::collective::bytes::sent;

const NIC: Link = Link { latency: Duration::from_nanos(5000), bytes_per_s: 12.5e9 };
const INTRA: Link = Link { latency: Duration::from_nanos(1000), bytes_per_s: 50e9 };
const PIECE_BYTES: usize = 512 << 10;
const PRIMITIVES: [&str; 8] =
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter"];

fn experiment(algorithm: &str, n_ranks: usize, n_hosts: usize, size_bytes: usize) -> Experiment {
    let mut fabric = Fabric::even(n_ranks, n_hosts, NIC, INTRA);
    fabric.nics_per_host = n_ranks / n_hosts;
    Experiment {
        algorithm: algorithm.to_owned(),
        primitive: "all_reduce".to_owned(),
        size_bytes,
        n_channels: 1,
        piece_bytes: PIECE_BYTES,
        f16: false,
        fabric,
        lose: None,
    }
}

fn seconds(experiment: &Experiment) -> f64 {
    run(experiment).unwrap().outcome.finished_after().unwrap().as_secs_f64()
}

/// Predicted by closed form.
fn ratio(experiment: &Experiment) -> f64 {
    let report = run(experiment).unwrap();
    assert_eq!(report.outcome.flaw, None, "{experiment:?}");
    report.outcome.finished_after().unwrap().as_secs_f64() / report.closed_form.unwrap().as_secs_f64()
}

#[test]
fn predictions_equal_the_closed_forms() {
    let cases: [(&str, usize, usize, &[usize]); 8] = [
        ("ring", 8, 8, &[64, 4096, 1 << 20, 1 << 30]),
        ("ring", 8, 1, &[64, 1 << 30]),
        ("ring", 512, 512, &[64, 1 << 30]),
        ("tree", 8, 8, &[4, 64, 4096, 1 << 20]),
        ("tree", 512, 512, &[4, 64, 4096, 1 << 20]),
        ("hierarchical", 8, 2, &[64, 4096, 1 << 20, 1 << 30]),
        ("hierarchical", 512, 64, &[64, 4096, 1 << 20, 1 << 30]),
        ("hierarchical", 512, 512, &[1 << 20]),
    ];
    for (algorithm, n_ranks, n_hosts, sizes) in cases {
        for size_bytes in sizes {
            let ratio = ratio(&experiment(algorithm, n_ranks, n_hosts, *size_bytes));
            assert!(
                (ratio - 1.0).abs() < 0.01,
                "{algorithm}, {n_ranks} ranks on {n_hosts} hosts, {size_bytes} bytes: {ratio}"
            );
        }
    }
}

#[test]
fn every_algorithm_moves_the_right_data_over_several_channels_and_ragged_sizes() {
    for algorithm in Algorithm::ALL.map(Algorithm::name) {
        for (n_ranks, n_hosts, count) in [(2, 1, 5), (6, 2, 1009), (7, 3, 64), (8, 8, 3)] {
            for n_channels in [1, 3] {
                let experiment =
                    Experiment { n_channels, ..experiment(algorithm, n_ranks, n_hosts, 4 * count) };
                let outcome = run(&experiment).unwrap().outcome;
                assert_eq!(outcome.flaw, None, "{algorithm} {n_ranks}");
                assert!(outcome.finished_after().is_some(), "{algorithm} {n_ranks}: {:?}", outcome.fates);
            }
        }
    }
}

#[test]
fn a_ring_stops_behind_the_lost_rank() {
    let experiment = Experiment { lose: Some((3, Duration::ZERO)), ..experiment("ring", 8, 8, 1 << 20) };
    let Outcome { fates, links, n_transfers, .. } = run(&experiment).unwrap().outcome;
    assert_eq!(fates[3], Fate::Lost);
    assert_eq!(fates[4], Fate::Waits { peer: 3 });
    assert_eq!(fates[2], Fate::Waits { peer: 1 });
    // Rank 4 sends its own block, 5 that and one more, and 2 passes on all that does not come through 3.
    let blocks =
        |from| links.iter().filter(|link| link.from == from).map(|link| link.bytes >> 17).sum::<u64>();
    assert_eq!([3, 4, 5, 6, 7, 0, 1, 2].map(blocks), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(n_transfers, 28);
}

#[test]
fn what_cannot_be_run_says_why() {
    let words = |experiment| run(&experiment).unwrap_err().to_string();
    assert!(words(experiment("rings", 2, 2, 8)).contains("there are ring, tree"));
    let gather = Experiment { primitive: "gather".to_owned(), ..experiment("ring", 2, 2, 8) };
    assert_eq!(words(gather), "ring cannot carry out gather over these ranks");
    let lost = Experiment { lose: Some((2, Duration::ZERO)), ..experiment("ring", 2, 2, 8) };
    assert_eq!(words(lost), "the rank to be lost does not exist");
}

#[test]
fn a_tree_of_undivided_halves_takes_what_its_closed_form_says() {
    for n_ranks in [8, 512] {
        for size_bytes in [16 << 20, 1 << 30] {
            let experiment = Experiment {
                piece_bytes: size_bytes / 2,
                ..experiment("tree", n_ranks, n_ranks, size_bytes)
            };
            let ratio = ratio(&experiment);
            assert!((ratio - 1.0).abs() < 0.01, "{n_ranks} ranks, {size_bytes} bytes: {ratio}");
        }
    }
}

#[test]
fn a_tree_of_many_pieces_comes_near_its_closed_form() {
    // Pieces in each tree, and how far off the prediction may be.
    let cases: [(usize, &[usize], f64); 3] =
        [(8, &[2, 3, 4, 8, 16, 32], 0.1), (8, &[128], 0.03), (64, &[2, 3, 4, 8, 16], 0.1)];
    for (n_ranks, pieces, tolerance) in cases {
        for n_pieces in pieces {
            let ratio = ratio(&experiment("tree", n_ranks, n_ranks, 2 * n_pieces * PIECE_BYTES));
            assert!((ratio - 1.0).abs() < tolerance, "{n_ranks} ranks, {n_pieces} pieces: {ratio}");
        }
    }
}

/// Bytes from rank to rank over all channels.
fn link_bytes(outcome: &Outcome) -> BTreeMap<(usize, usize), usize> {
    let mut links = BTreeMap::new();
    for link in &outcome.links {
        *links.entry((link.from, link.to)).or_insert(0) += usize::try_from(link.bytes).unwrap();
    }
    links
}

/// The same in closed form.
fn sent_bytes<'a>(
    planned: &Planned<'a>,
    experiment: &Experiment,
    order: &'a [usize],
) -> BTreeMap<(usize, usize), usize> {
    let mut links = BTreeMap::new();
    for channel in 0..experiment.n_channels {
        let scope = planned.scope(order, channel);
        for rank in order {
            for (peer, of_channel) in sent(planned.algorithm, planned.primitive, planned.count, &scope, *rank)
            {
                *links.entry((*rank, peer)).or_insert(0) += of_channel.bytes(planned.reducer);
            }
        }
    }
    links
}

#[test]
fn every_primitive_of_every_algorithm_is_right_and_sends_the_bytes_of_its_formula() {
    let mut n_run = 0;
    for algorithm in Algorithm::ALL.map(Algorithm::name) {
        for primitive in PRIMITIVES {
            for (n_ranks, n_hosts, count) in [(4, 2, 64), (6, 3, 101), (7, 1, 3), (8, 8, 40)] {
                for (n_channels, f16) in [(1, false), (1, true), (3, true)] {
                    let experiment = Experiment {
                        primitive: primitive.to_owned(),
                        n_channels,
                        f16,
                        piece_bytes: 64,
                        ..experiment(algorithm, n_ranks, n_hosts, if f16 { 2 * count } else { 4 * count })
                    };
                    let order: Vec<usize> = (0..n_ranks).collect();
                    let planned = match Planned::new(&experiment, &order) {
                        Ok(planned) => planned,
                        Err(Refused::Unsupported { .. }) => continue,
                        Err(refused) => panic!("{refused}"),
                    };
                    let outcome = super::simulate(&planned.job());
                    assert_eq!(outcome.flaw, None, "{experiment:?}");
                    assert!(outcome.finished_after().is_some(), "{experiment:?}: {:?}", outcome.fates);
                    assert_eq!(
                        link_bytes(&outcome),
                        sent_bytes(&planned, &experiment, &order),
                        "{experiment:?}"
                    );
                    n_run += 1;
                }
            }
        }
    }
    assert!(n_run > 200, "{n_run}");
}

#[test]
fn a_ring_gathers_and_scatters_in_half_the_time_of_an_all_reduce() {
    let of = |primitive: &str, size_bytes| {
        let primitive = primitive.to_owned();
        seconds(&Experiment { primitive, ..experiment("ring", 8, 8, size_bytes) })
    };
    let all_reduce = of("all_reduce", 8 << 20);
    for half in ["all_gather", "reduce_scatter"] {
        assert!((2.0 * of(half, 1 << 20) / all_reduce - 1.0).abs() < 1e-5, "{half}");
    }
    // Eight ranks pass 16 pieces along: the first one over seven hops, then the others.
    let piece = PIECE_BYTES as f64 / NIC.bytes_per_s;
    let hops = 7.0 * (NIC.latency.as_secs_f64() + piece) + 15.0 * piece;
    for passed in ["broadcast", "reduce"] {
        assert!((of(passed, 8 << 20) / hops - 1.0).abs() < 1e-5, "{passed}");
    }
}

#[test]
fn small_floats_travel_in_their_own_width_but_along_a_fixed_tree() {
    let experiment = |algorithm, f16| Experiment {
        primitive: "reduce".to_owned(),
        f16,
        ..experiment(algorithm, 4, 4, 1 << 20)
    };
    let bytes = |algorithm, f16| {
        let outcome = run(&experiment(algorithm, f16)).unwrap().outcome;
        outcome.links.iter().map(|link| link.bytes).collect::<Vec<_>>()
    };
    for f16 in [false, true] {
        assert_eq!(bytes("ring", f16), [1 << 20; 3]);
        let equal = Experiment { f16, ..self::experiment("ring", 8, 8, 1 << 20) };
        assert!((ratio(&equal) - 1.0).abs() < 0.01, "the formula has the same bytes");
    }
    assert!((seconds(&experiment("ring", true)) / seconds(&experiment("ring", false)) - 1.0).abs() < 1e-9);
    // Rank 1 sends its contribution, 3 too, and 2 the sum of both, in accumulators twice as wide.
    assert_eq!(bytes("fixed-tree", false), [1 << 20; 3]);
    assert_eq!(bytes("fixed-tree", true), [1 << 20, 2 << 20, 1 << 20]);
}

/// How both passes see an experiment: whether the first one's times hold, then the fates and bytes of each.
fn assert_both_passes_agree(experiment: &Experiment) -> bool {
    let order: Vec<usize> = (0..experiment.fabric.n_ranks()).collect();
    let planned = Planned::new(experiment, &order).unwrap();
    let job = planned.job();
    let pass = follow(&job);
    let ordered::Pass { ports, fates, links, n_transfers } = ordered::run(&job);
    assert_eq!(pass.flaw, None, "{experiment:?}");
    let bytes = |ports: &super::fabric::Ports| {
        ports.used().map(|(index, port)| (index, port.bytes, port.busy)).collect::<Vec<_>>()
    };
    assert_eq!(bytes(&pass.ports), bytes(&ports), "{experiment:?}");
    let by_ranks = |mut links: Vec<LinkUse>| {
        links.sort_unstable_by_key(|link| (link.from, link.to, link.bytes));
        links
    };
    assert_eq!((by_ranks(pass.links), pass.n_transfers), (by_ranks(links), n_transfers), "{experiment:?}");
    if pass.in_order {
        assert_eq!(pass.fates, fates, "{experiment:?}");
    }
    pass.in_order
}

#[test]
fn both_passes_agree() {
    let mut in_order = BTreeMap::new();
    for (algorithm, n_hosts) in [("ring", 1), ("ring", 2), ("tree", 1), ("tree", 2), ("hierarchical", 2)] {
        for n_ranks in 2..10 {
            for (count, n_channels) in [(1, 1), (5, 1), (1000, 1), (1009, 2)] {
                for rate in [f64::INFINITY, 3e9] {
                    let n_hosts = if n_hosts == 1 { n_ranks } else { n_hosts };
                    let mut experiment = Experiment {
                        n_channels,
                        piece_bytes: 256,
                        ..experiment(algorithm, n_ranks, n_hosts, 4 * count)
                    };
                    experiment.fabric.reduced_bytes_per_s = rate;
                    *in_order.entry(algorithm).or_insert(0) +=
                        i32::from(assert_both_passes_agree(&experiment));
                }
            }
        }
    }
    // Else nothing but bytes was compared.
    assert!(in_order.values().all(|n| *n >= 20), "{in_order:?}");
}
