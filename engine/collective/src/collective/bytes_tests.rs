//! The closed forms against the sums over schedules, and against the formulas that users quote.

use proptest::prelude::*;

use super::*;
use crate::collective::catalog::schedule;
use crate::collective::interpreter::World;
use crate::collective::schedule::Step;
use crate::collective::world_strategy::worlds;

/// Elements by (from, to), as all schedules of `world` say: what is sent, or what is received.
fn walked(world: &World, received: bool) -> BTreeMap<(usize, usize), Sent> {
    let mut links = BTreeMap::new();
    let mut add = |link, partial, len| {
        let sent =
            if partial { Sent { elements: 0, partials: len } } else { Sent { elements: len, partials: 0 } };
        *links.entry(link).or_insert_with(Sent::default) += sent;
    };
    world.on_channels(|scope| {
        let schedule = schedule(world.algorithm, world.primitive, world.count, scope);
        for rank in 0..world.n_ranks() {
            for step in schedule.steps(rank) {
                match step {
                    Step::Send { peer, from } if !received => {
                        add((rank, peer), from.place == Place::Partial, from.len);
                    }
                    Step::Recv { peer, partial, into, .. } if received => {
                        add((peer, rank), partial, into.len)
                    }
                    _ => {}
                }
            }
        }
    });
    links.retain(|_, sent| *sent != Sent::default());
    links
}

fn closed(world: &World) -> BTreeMap<(usize, usize), Sent> {
    let mut links = BTreeMap::new();
    world.on_channels(|scope| {
        for rank in 0..world.n_ranks() {
            for (peer, of_channel) in sent(world.algorithm, world.primitive, world.count, scope, rank) {
                *links.entry((rank, peer)).or_insert_with(Sent::default) += of_channel;
            }
        }
    });
    links
}

fn all_reduce(algorithm: Algorithm, count: usize, nodes: &[usize], n_virtual: usize) -> World {
    World {
        algorithm,
        primitive: Primitive::AllReduce,
        count,
        nodes: nodes.to_vec(),
        n_channels: 2,
        n_virtual,
        piece: 64,
        wide: false,
        in_place: false,
    }
}

/// Elements of both forms, between pairs of ranks that `counts`.
fn total(world: &World, counts: impl Fn(usize, usize) -> bool) -> usize {
    let links = closed(world);
    let counted = links.iter().filter(|((from, to), _)| counts(*from, *to));
    counted.map(|(_, sent)| sent.elements + sent.partials).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn sent_is_received_is_the_formula(world in worlds()) {
        let closed = closed(&world);
        prop_assert_eq!(&walked(&world, false), &closed, "sent");
        prop_assert_eq!(&walked(&world, true), &closed, "received");
    }
}

#[test]
fn rings_and_trees_send_twice_n_less_one_buffers_in_all() {
    for algorithm in [Algorithm::Ring, Algorithm::Tree] {
        for n in 2..10 {
            for count in [0, 1, 7, 1000, 1009] {
                let world = all_reduce(algorithm, count, &vec![0; n], 1);
                assert_eq!(total(&world, |_, _| true), 2 * (n - 1) * count, "{algorithm:?} {n} {count}");
            }
        }
    }
}

#[test]
fn each_rank_sends_twice_n_less_one_nth_where_it_divides() {
    use Algorithm::{Direct, FixedTree, HalvingDoubling, Ring};
    for (algorithm, n_virtual) in
        [(Ring, 1), (HalvingDoubling, 1), (Direct, 1), (FixedTree, 1), (FixedTree, 4)]
    {
        let world = all_reduce(algorithm, 8000, &[0; 8], n_virtual);
        for rank in 0..8 {
            assert_eq!(
                total(&world, |from, _| from == rank),
                2 * 7 * 1000,
                "{algorithm:?} {n_virtual} {rank}"
            );
        }
    }
}

#[test]
fn recursive_doubling_sends_the_buffer_once_for_each_bit() {
    for (n, sent_by_all) in [(2, 2), (4, 4 * 2), (8, 8 * 3), (5, 4 * 2 + 2)] {
        let world = all_reduce(Algorithm::RecursiveDoubling, 1009, &vec![0; n], 1);
        assert_eq!(total(&world, |_, _| true), sent_by_all * 1009, "{n}");
    }
}

#[test]
fn an_owner_sum_sends_every_virtual_contribution() {
    let world = all_reduce(Algorithm::Direct, 8000, &[0; 8], 3);
    assert_eq!(total(&world, |from, _| from == 5), (3 + 1) * 7 * 1000);
}

#[test]
fn two_hosts_of_two_exchange_one_buffer_hierarchically_and_one_and_a_half_in_a_ring() {
    let nodes = [0, 0, 1, 1];
    let inter = |algorithm| {
        let world = all_reduce(algorithm, 4000, &nodes, 1);
        total(&world, |from, to| nodes[from] == 0 && nodes[to] == 1)
    };
    assert_eq!(inter(Algorithm::Hierarchical), 4000);
    assert_eq!(inter(Algorithm::Ring), 6000);
    assert_eq!(inter(Algorithm::Tree), 4000);
}

#[test]
fn bytes_count_accumulators_at_their_own_width() {
    use crate::types::{DataType, RedOp};
    let sent = Sent { elements: 10, partials: 7 };
    let reducer = |data_type| Reducer::new(data_type, RedOp::Sum, 2);
    assert_eq!(sent.bytes(reducer(DataType::F16)), 10 * 2 + 7 * 4);
    assert_eq!(sent.bytes(reducer(DataType::F64)), 17 * 8);
}
