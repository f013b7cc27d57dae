//! Direct: every rank exchanges blocks with every other one.
//!
//! With n ranks and S the bytes of the whole buffer; in step j a rank sends to the rank j after it and receives from the
//! rank j before it, so that no rank is everybody's peer at once.
//!
//! | primitive | sent by each rank |
//! |---|---|
//! | `all_to_all`, `reduce_scatter` | S less its own block: (n−1)/n·S |
//! | `all_gather` | its block n−1 times |
//! | `all_reduce` | S less its own block, then its own block n−1 times: 2(n−1)/n·S where n divides |
//! | `broadcast`, `scatter` | the root n−1 blocks, others nothing |
//! | `reduce`, `gather` | the root nothing, others one block |
//!
//! In a reduction each block has an owner that reduces all contributions from left to right by rank: the owner-sum form
//! (S) of a fixed order. With v virtual ranks a process each of them contributes by itself, so a process sends v times
//! as much, and the result has the same bits on any number of processes. Only elements travel, never accumulators.
//!
//! One step of latency, which no other algorithm has, but n−1 messages: for few ranks, and for fixed orders.

use std::ops::Range;

use crate::collective::layout::{Layout, Scope, pieces};
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Chunk, Schedule, Step};
use crate::memory::Place;

/// The direct algorithm on one channel.
#[derive(Debug)]
pub(crate) struct Direct {
    primitive: Primitive,
    layout: Layout,
    n_ranks: usize,
    n_virtual: usize,
    piece: usize,
}

impl Direct {
    /// Of `count` elements, as the API counts them.
    pub(crate) fn new(primitive: Primitive, count: usize, scope: &Scope<'_>) -> Self {
        Self {
            primitive,
            layout: Layout::new(primitive, count, scope),
            n_ranks: scope.n_ranks,
            n_virtual: scope.n_virtual,
            piece: scope.piece,
        }
    }

    fn all_to_all(&self, rank: usize) -> impl Iterator<Item = Step> + '_ {
        let at = |place, peer| Chunk::new(place, &self.layout.block(peer));
        let copy = Step::copy(at(Place::Send, rank), at(Place::Recv, rank));
        let exchanged = partners(self.n_ranks, rank).flat_map(move |(to, from)| {
            [Step::send(to, at(Place::Send, to)), Step::store(from, at(Place::Recv, from))]
        });
        std::iter::once(copy).chain(exchanged)
    }

    fn all_gather(&self, rank: usize) -> impl Iterator<Item = Step> + '_ {
        let own = self.layout.block(rank);
        let from = self.layout.contribution(rank, &own);
        let copy = Step::copy(from, self.layout.result(rank, &own));
        std::iter::once(copy).chain(gather_results(self.layout, self.n_ranks, rank, from))
    }

    /// Broadcast and scatter: `range` is what a rank gets.
    fn spread<'a>(
        &'a self,
        root: usize,
        rank: usize,
        range: impl Fn(usize) -> Range<usize> + Copy + 'a,
    ) -> impl Iterator<Item = Step> + 'a {
        let layout = self.layout;
        let copy = Step::copy(layout.contribution(rank, &range(rank)), layout.result(rank, &range(rank)));
        let sends = partners(self.n_ranks, rank)
            .map(move |(to, _)| Step::send(to, layout.contribution(rank, &range(to))));
        let recv = Step::store(root, layout.result(rank, &range(rank)));
        let of_root = (rank == root).then(|| std::iter::once(copy).chain(sends));
        of_root.into_iter().flatten().chain((rank != root).then_some(recv))
    }

    fn gather(&self, root: usize, rank: usize) -> impl Iterator<Item = Step> + '_ {
        let layout = self.layout;
        let own = layout.block(rank);
        let from = layout.contribution(rank, &own);
        let copy = Step::copy(from, layout.result(rank, &own));
        let recvs = partners(self.n_ranks, rank)
            .map(move |(_, from)| Step::store(from, layout.result(rank, &layout.block(from))));
        let of_root = (rank == root).then(|| std::iter::once(copy).chain(recvs));
        of_root.into_iter().flatten().chain((rank != root).then(|| Step::send(root, from)))
    }

    /// All contributions of `rank` to what `owner` reduces.
    fn contribute(&self, rank: usize, owner: usize, range: Range<usize>) -> impl Iterator<Item = Step> + '_ {
        pieces(range, self.piece).flat_map(move |piece| {
            (0..self.n_virtual)
                .map(move |index| Step::send(owner, self.layout.virtual_contribution(rank, index, &piece)))
        })
    }

    /// The reduction of all contributions to `range`, by its owner.
    fn reduce(&self, owner: usize, range: Range<usize>) -> impl Iterator<Item = Step> + '_ {
        pieces(range, self.piece).flat_map(move |piece| {
            (0..self.n_ranks * self.n_virtual).filter_map(move |index| self.reduce_one(owner, &piece, index))
        })
    }

    /// Reduces the contribution of virtual rank `index` into what the ones before it gave.
    fn reduce_one(&self, owner: usize, range: &Range<usize>, index: usize) -> Option<Step> {
        let rank = index / self.n_virtual;
        let own = self.layout.virtual_contribution(owner, index % self.n_virtual, range);
        let first = if owner == 0 {
            self.layout.virtual_contribution(owner, 0, range)
        } else {
            self.kept(Place::Scratch, owner, range)
        };
        let sum = self.kept(Place::Partial, owner, range);
        if index == 0 {
            return (owner != 0).then(|| Step::store(0, first));
        }
        let with = if index == 1 { first } else { sum };
        let last = index + 1 == self.n_ranks * self.n_virtual;
        let into = if last { self.layout.result(owner, range) } else { sum };
        Some(if rank == owner {
            Step::reduce_local(with, own, into, last)
        } else {
            Step::reduce(rank, false, into, with, last)
        })
    }

    /// Where the owner keeps what it reduces: at the result's indices.
    fn kept(&self, place: Place, owner: usize, range: &Range<usize>) -> Chunk {
        Chunk { place, ..self.layout.result(owner, range) }
    }

    fn reduce_scatter(&self, rank: usize) -> impl Iterator<Item = Step> + '_ {
        let given = partners(self.n_ranks, rank)
            .flat_map(move |(to, _)| self.contribute(rank, to, self.layout.block(to)));
        given.chain(self.reduce(rank, self.layout.block(rank)))
    }

    fn all_reduce(&self, rank: usize) -> impl Iterator<Item = Step> + '_ {
        let own = self.layout.result(rank, &self.layout.block(rank));
        self.reduce_scatter(rank).chain(gather_results(self.layout, self.n_ranks, rank, own))
    }
}

impl Schedule for Direct {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        match self.primitive {
            Primitive::AllReduce => Box::new(self.all_reduce(rank)),
            Primitive::ReduceScatter => Box::new(self.reduce_scatter(rank)),
            Primitive::AllGather => Box::new(self.all_gather(rank)),
            Primitive::Broadcast { root } => Box::new(self.spread(root, rank, |_| self.layout.share())),
            Primitive::Scatter { root } => Box::new(self.spread(root, rank, |peer| self.layout.block(peer))),
            Primitive::Gather { root } => Box::new(self.gather(root, rank)),
            Primitive::Reduce { root } if rank == root => Box::new(self.reduce(root, self.layout.share())),
            Primitive::Reduce { root } => Box::new(self.contribute(rank, root, self.layout.share())),
            _ => Box::new(self.all_to_all(rank)),
        }
    }
}

/// Sends `own`, the block of `rank`, to every other rank, and stores theirs in the receive buffer.
pub(super) fn gather_results(
    layout: Layout,
    n_ranks: usize,
    rank: usize,
    own: Chunk,
) -> impl Iterator<Item = Step> {
    partners(n_ranks, rank).flat_map(move |(to, from)| {
        [Step::send(to, own), Step::store(from, Chunk::new(Place::Recv, &layout.block(from)))]
    })
}

/// For each step, to whom `rank` sends and from whom it receives.
fn partners(n_ranks: usize, rank: usize) -> impl Iterator<Item = (usize, usize)> {
    (1..n_ranks).map(move |step| ((rank + step) % n_ranks, (rank + n_ranks - step) % n_ranks))
}
