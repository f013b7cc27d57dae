//! Which algorithm can carry out which primitive, and its schedule.

#![allow(dead_code, reason = "the contract stands before its users")]

use crate::collective::algorithm::Algorithm;
use crate::collective::layout::{Layout, Scope};
use crate::collective::operation::Primitive;
use crate::collective::ring::Ring;
use crate::collective::schedule::{Schedule, Step};

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
    let _ = algorithm;
    Box::new(Ring::new(primitive, count, scope))
}

/// Whether the schedule's partial results have the indices of the results that they become, so that the receive buffer may
/// hold them where accumulators are no wider than elements.
pub(crate) fn partials_in_recv(algorithm: Algorithm, primitive: Primitive) -> bool {
    primitive == Primitive::AllReduce && algorithm != Algorithm::FixedTree
}

/// Whether `algorithm` can carry out `primitive`.
pub(crate) fn supports(algorithm: Algorithm, primitive: Primitive, scope: &Scope<'_>) -> bool {
    match algorithm {
        Algorithm::Ring => {
            scope.n_virtual == 1
                && matches!(
                    primitive,
                    Primitive::AllReduce
                        | Primitive::AllGather
                        | Primitive::ReduceScatter
                        | Primitive::Broadcast { .. }
                        | Primitive::Reduce { .. }
                )
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
