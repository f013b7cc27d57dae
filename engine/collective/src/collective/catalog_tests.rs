//! Every algorithm and primitive against the definition of the primitive, run by the interpreter.

use proptest::prelude::*;

use super::*;
use crate::collective::interpreter::{World, digest, token};
use crate::collective::world_strategy::{PRIMITIVES, primitive, worlds};

/// What a rank must end up with, if its receive buffer counts.
fn expected(world: &World, rank: usize) -> Option<Vec<u64>> {
    let (n, count) = (world.n_ranks(), world.count);
    let n_virtual = n * world.n_virtual;
    let sum = |element| (0..n_virtual).map(|rank| token(rank, element)).fold(0, u64::wrapping_add);
    let (all, own) = (0..n * count, rank * count..(rank + 1) * count);
    match world.primitive {
        Primitive::AllReduce => Some((0..count).map(sum).collect()),
        Primitive::Reduce { root } => (rank == root).then(|| (0..count).map(sum).collect()),
        Primitive::ReduceScatter => Some(own.map(sum).collect()),
        Primitive::AllGather => Some(all.map(|element| token(element / count, element)).collect()),
        Primitive::Gather { root } => {
            (rank == root).then(|| all.map(|element| token(element / count, element % count)).collect())
        }
        Primitive::Broadcast { root } => Some((0..count).map(|element| token(root, element)).collect()),
        Primitive::Scatter { root } => Some(own.map(|element| token(root, element)).collect()),
        _ => Some(all.map(|element| token(element / count, own.start + element % count)).collect()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_schedule_gives_what_its_primitive_says(world in worlds(), seed in any::<u64>()) {
        let results = world.run(u64::wrapping_add, seed);
        for (rank, result) in results.iter().enumerate() {
            if let Some(expected) = expected(&world, rank) {
                let expected: Vec<_> = expected.into_iter().map(Some).collect();
                prop_assert_eq!(result, &expected, "rank {}", rank);
            }
        }
    }

    #[test]
    fn the_association_does_not_depend_on_the_order_of_events(world in worlds(), seeds in any::<[u64; 2]>()) {
        prop_assert_eq!(world.run(digest, seeds[0]), world.run(digest, seeds[1]));
    }
}

fn fixed_order(
    algorithm: Algorithm,
    n_ranks: usize,
    n_virtual: usize,
    n_channels: usize,
) -> Vec<Option<u64>> {
    let world = World {
        algorithm,
        primitive: Primitive::AllReduce,
        count: 29,
        nodes: vec![0; n_ranks],
        n_channels,
        n_virtual,
        piece: 5,
        wide: true,
        in_place: false,
    };
    let results = world.run(digest, 1);
    assert!(results.iter().all(|result| *result == results[0]), "{world:?}");
    results[0].clone()
}

#[test]
fn a_fixed_order_has_the_same_bits_on_any_number_of_processes_and_channels() {
    for algorithm in [Algorithm::Direct, Algorithm::FixedTree] {
        for n_virtual in [6, 8, 9, 12] {
            let reference = fixed_order(algorithm, n_virtual, 1, 1);
            for n_ranks in (1..n_virtual).filter(|n_ranks| n_virtual % n_ranks == 0) {
                for n_channels in [1, 3] {
                    let result = fixed_order(algorithm, n_ranks, n_virtual / n_ranks, n_channels);
                    assert_eq!(
                        result, reference,
                        "{algorithm:?}: {n_virtual} on {n_ranks}, {n_channels} channels"
                    );
                }
            }
        }
    }
}

#[test]
fn the_owner_sum_reduces_from_left_to_right() {
    let reduced = |element| (1..8).fold(token(0, element), |sum, rank| digest(sum, token(rank, element)));
    let expected: Vec<_> = (0..29).map(|element| Some(reduced(element))).collect();
    assert_eq!(fixed_order(Algorithm::Direct, 4, 2, 2), expected);
}

#[test]
fn the_fixed_tree_reduces_halves_of_halves() {
    let pair = |first, element| digest(token(first, element), token(first + 1, element));
    let four = |first, element| digest(pair(first, element), pair(first + 2, element));
    let reduced = |element| digest(four(0, element), pair(4, element));
    let expected: Vec<_> = (0..29).map(|element| Some(reduced(element))).collect();
    assert_eq!(fixed_order(Algorithm::FixedTree, 3, 2, 1), expected);
}

#[test]
fn recursive_doubling_reduces_neighbours_first_and_alike_on_every_rank() {
    let pair = |first, element| digest(token(first, element), token(first + 1, element));
    let reduced = |element| digest(pair(0, element), pair(2, element));
    let expected: Vec<_> = (0..29).map(|element| Some(reduced(element))).collect();
    assert_eq!(fixed_order(Algorithm::RecursiveDoubling, 4, 1, 2), expected);
    for n_ranks in 1..10 {
        let reference = fixed_order(Algorithm::RecursiveDoubling, n_ranks, 1, 1);
        assert_eq!(fixed_order(Algorithm::RecursiveDoubling, n_ranks, 1, 3), reference, "{n_ranks}");
    }
}

#[test]
fn rings_and_trees_of_one_host_reduce_alike_on_any_number_of_channels() {
    for algorithm in [Algorithm::Ring, Algorithm::Tree] {
        let reference = fixed_order(algorithm, 5, 1, 1);
        for n_channels in 2..5 {
            assert_eq!(fixed_order(algorithm, 5, 1, n_channels), reference, "{algorithm:?} {n_channels}");
        }
    }
}

#[test]
fn what_is_not_supported_is_carried_out_by_another_algorithm() {
    for algorithm in Algorithm::ALL {
        for index in 0..PRIMITIVES {
            let world = World {
                algorithm,
                primitive: primitive(index, 1),
                count: 7,
                nodes: vec![0, 0, 1],
                n_channels: 2,
                n_virtual: 1,
                piece: 3,
                wide: false,
                in_place: false,
            };
            let results = world.run(u64::wrapping_add, 3);
            for (rank, result) in results.into_iter().enumerate() {
                let expected = expected(&world, rank);
                assert!(expected.is_none_or(|all| all.into_iter().map(Some).eq(result)), "{world:?} {rank}");
            }
        }
    }
}
