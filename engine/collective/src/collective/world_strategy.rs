//! Made-up operations for property tests.

use proptest::prelude::*;

use crate::collective::algorithm::Algorithm;
use crate::collective::catalog::supports;
use crate::collective::interpreter::World;
use crate::collective::primitive::Primitive;

/// Kinds of primitives.
pub(super) const PRIMITIVES: usize = 8;

/// A primitive by its number.
pub(super) fn primitive(index: usize, root: usize) -> Primitive {
    [
        Primitive::AllReduce,
        Primitive::AllGather,
        Primitive::ReduceScatter,
        Primitive::Broadcast { root },
        Primitive::Reduce { root },
        Primitive::AllToAll,
        Primitive::Gather { root },
        Primitive::Scatter { root },
    ][index]
}

/// Operations of up to 9 ranks on up to 3 hosts, in all that is supported.
pub(super) fn worlds() -> impl Strategy<Value = World> {
    let shape = (proptest::collection::vec(0..3usize, 1..10), 1..5usize, 1..4usize);
    let count = prop_oneof![0..3usize, 0..40usize, Just(97), Just(64)];
    let flags = (any::<bool>(), any::<bool>());
    let kind = (0..Algorithm::ALL.len(), 0..PRIMITIVES, any::<proptest::sample::Index>());
    (shape, count, flags, kind, 1..30usize).prop_filter_map(
        "not supported",
        |(shape, count, flags, kind, piece)| {
            let (nodes, n_channels, n_virtual) = shape;
            let (algorithm, index, root) = kind;
            let primitive = primitive(index, root.index(nodes.len()));
            let in_place = flags.1 && n_virtual == 1 && primitive != Primitive::AllToAll;
            let algorithm = Algorithm::ALL[algorithm];
            let world = World {
                algorithm,
                primitive,
                count,
                nodes: number_nodes(&nodes),
                n_channels,
                n_virtual,
                piece,
                wide: flags.0,
                in_place,
            };
            world.on_channels(|scope| supports(algorithm, primitive, scope))[0].then_some(world)
        },
    )
}

/// Nodes are numbered by their first rank.
fn number_nodes(labels: &[usize]) -> Vec<usize> {
    let mut seen: Vec<usize> = Vec::new();
    let number = |label: &usize| {
        seen.iter().position(|other| other == label).unwrap_or_else(|| {
            seen.push(*label);
            seen.len() - 1
        })
    };
    labels.iter().map(number).collect()
}
