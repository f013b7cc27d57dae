//! Which algorithm can carry out which primitive, and its schedule.

use crate::collective::algorithm::Algorithm;
use crate::collective::direct::Direct;
use crate::collective::doubling::Doubling;
use crate::collective::fixed_tree::FixedTree;
use crate::collective::halving_doubling::HalvingDoubling;
use crate::collective::hierarchical::Hierarchical;
use crate::collective::layout::{Layout, Scope};
use crate::collective::primitive::Primitive;
use crate::collective::ring::Ring;
use crate::collective::schedule::{Schedule, Step};
use crate::collective::tree::Tree;

/// A schedule of one rank's own data: the result of any primitive in a communicator of one rank.
#[derive(Debug)]
struct Copy(Layout);

impl Schedule for Copy {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let own = self.0.share();
        let step = Step::copy(self.0.contribution(rank, &own), self.0.result(rank, &own));
        Box::new(std::iter::once(step))
    }
}

/// What every rank does on the channel of `scope`, for `count` elements as the API counts them: those of one block, of
/// the primitives that have blocks. Where [`supports`] says no, the schedule is the ring's or, for what a ring cannot do,
/// the direct one. Partial and scratch memory of the channels of one operation do not overlap.
pub(crate) fn schedule<'a>(
    algorithm: Algorithm,
    primitive: Primitive,
    count: usize,
    scope: &Scope<'a>,
) -> Box<dyn Schedule + 'a> {
    if scope.n_ranks == 1 && scope.n_virtual == 1 {
        return Box::new(Copy(Layout::new(primitive, count, scope)));
    }
    let algorithm = [algorithm, Algorithm::Ring].into_iter().find(|one| supports(*one, primitive, scope));
    match algorithm {
        Some(Algorithm::Ring) => Box::new(Ring::new(primitive, count, scope)),
        Some(Algorithm::Tree) => Box::new(Tree::new(primitive, count, scope)),
        Some(Algorithm::HalvingDoubling) => Box::new(HalvingDoubling::new(primitive, count, scope)),
        Some(Algorithm::RecursiveDoubling) => Box::new(Doubling::new(count, scope)),
        Some(Algorithm::Hierarchical) => Box::new(Hierarchical::new(count, scope)),
        Some(Algorithm::FixedTree) => Box::new(FixedTree::new(primitive, count, scope)),
        Some(Algorithm::Direct) | None => Box::new(Direct::new(primitive, count, scope)),
    }
}

/// Whether the schedule's partial results have the indices of the results that they become, so that the receive buffer may
/// hold them where they are no wider than elements.
pub(crate) fn partials_in_recv(algorithm: Algorithm, primitive: Primitive) -> bool {
    let elsewhere = matches!(algorithm, Algorithm::FixedTree | Algorithm::RecursiveDoubling);
    primitive == Primitive::AllReduce && !elsewhere
}

/// Whether `algorithm` can carry out `primitive`.
pub(crate) fn supports(algorithm: Algorithm, primitive: Primitive, scope: &Scope<'_>) -> bool {
    use Primitive::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
    let reducers = matches!(primitive, AllReduce | ReduceScatter | Reduce { .. });
    let one_each = scope.n_virtual == 1;
    match algorithm {
        Algorithm::Ring => one_each && (reducers || matches!(primitive, AllGather | Broadcast { .. })),
        Algorithm::Tree => one_each && matches!(primitive, AllReduce | Broadcast { .. } | Reduce { .. }),
        Algorithm::HalvingDoubling => {
            let by_blocks = matches!(primitive, ReduceScatter | AllGather) && scope.n_ranks.is_power_of_two();
            one_each && (primitive == AllReduce || by_blocks)
        }
        Algorithm::RecursiveDoubling | Algorithm::Hierarchical => one_each && primitive == AllReduce,
        Algorithm::Direct => primitive.peer().is_none() && (one_each || reducers),
        Algorithm::FixedTree => reducers,
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
