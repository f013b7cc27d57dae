//! Ring: every rank receives from the one before it and sends to the one after it, in the order of the channel's ring.
//!
//! With n ranks, S the bytes of the whole buffer, and p a rank's place in the ring; block b belongs to rank b.
//!
//! | primitive | steps | sent by each rank |
//! |---|---|---|
//! | `reduce_scatter` | n−1 | S less its own block |
//! | `all_gather` | n−1 | S less the next rank's block |
//! | `all_reduce` | 2(n−1) | the sum of both: 2(n−1)/n·S where n divides |
//! | `broadcast` | n−1 hops, pipelined | S; the last rank before the root nothing |
//! | `reduce` | n−1 hops, pipelined | S; the root nothing |
//!
//! The partial sum of block b starts at the rank after b and ends at b, which reduces its own contribution last. Partial
//! sums of small floats are rounded at each hop: n−1 times in all, to half a unit in the last place each.
//!
//! The order in which an element is reduced is that of its channel's ring. On one host all channels have the same ring, so
//! results do not depend on their number; on several hosts rings differ, and results may.
//!
//! No rank can send less than (n−1)/n·S in either half of an all-reduce, since that much of the result depends on the
//! others (Patarasuk and Yuan, 2009). Latency grows with n: a ring is for large buffers.

use std::ops::Range;

use crate::collective::layout::{Layout, Partials, Scope, pieces};
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Action, Chunk, Schedule, Step};
use crate::memory::Place;

/// Blocks kept while they are passed on: one is sent while the next arrives.
const BLOCK_SLOTS: usize = 2;
/// Pieces kept while they are passed on; more than two, so that one late hop does not stop the chain.
const PIECE_SLOTS: usize = 4;

/// The ring algorithm on one channel.
#[derive(Debug)]
pub(crate) struct Ring<'a> {
    primitive: Primitive,
    order: &'a [usize],
    layout: Layout,
    wide: bool,
    piece: usize,
}

/// A rank's place in a circle of ranks; members are named by their index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle<'a> {
    members: &'a [usize],
    position: usize,
}

/// What a reduce-scatter in a circle reduces, and into what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    /// Where the own contribution is: [`Place::Send`], or [`Place::Partial`] at its own indices.
    pub(super) own: Place,
    /// Where that of the member before is.
    pub(super) prev: Place,
    /// Where the sums in between are kept.
    pub(super) partials: Partials,
    /// Where the outcome starts in the receive buffer, counted from the start of the whole; none leaves it a partial.
    pub(super) result_origin: Option<usize>,
}

impl<'a> Ring<'a> {
    /// Of `count` elements, as the API counts them.
    pub(crate) fn new(primitive: Primitive, count: usize, scope: &Scope<'a>) -> Self {
        Self {
            primitive,
            order: scope.order,
            layout: Layout::new(primitive, count, scope),
            wide: scope.wide,
            piece: scope.piece,
        }
    }

    fn reduce_scatter(&self, circle: Circle<'a>, rank: usize) -> impl Iterator<Item = Step> + 'a {
        let scatters = self.primitive == Primitive::ReduceScatter;
        let has_room = !scatters && !self.wide;
        let partials = if has_room { Partials::InPlace } else { self.layout.block_slots(BLOCK_SLOTS) };
        let origin = if scatters { self.layout.whole_start(rank) } else { 0 };
        let operands =
            Operands { own: Place::Send, prev: Place::Send, partials, result_origin: Some(origin) };
        let (layout, order) = (self.layout, self.order);
        reduce_scatter(circle, move |member| layout.block(order[member]), operands)
    }

    fn gather_own(&self, circle: Circle<'a>, rank: usize) -> impl Iterator<Item = Step> + 'a {
        let (layout, order) = (self.layout, self.order);
        let own = layout.block(rank);
        let from = layout.contribution(rank, &own);
        let copy = Step::copy(from, layout.result(rank, &own));
        std::iter::once(copy).chain(all_gather(circle, from, move |member| layout.block(order[member])))
    }

    fn broadcast(&self, circle: Circle<'a>, root: usize, rank: usize) -> impl Iterator<Item = Step> + 'a {
        let layout = self.layout;
        let share = layout.share();
        let is_root = rank == root;
        let copy = Step::copy(layout.contribution(rank, &share), layout.result(rank, &share));
        let passed = pieces(share, self.piece).flat_map(move |piece| {
            let result = layout.result(rank, &piece);
            let source = if is_root { layout.contribution(rank, &piece) } else { result };
            let recv = (!is_root).then(|| Step::store(circle.prev(), result));
            let send = (circle.next() != root).then(|| Step::send(circle.next(), source));
            recv.into_iter().chain(send)
        });
        is_root.then_some(copy).into_iter().chain(passed)
    }

    fn reduce(&self, circle: Circle<'a>, root: usize, rank: usize) -> impl Iterator<Item = Step> + 'a {
        let layout = self.layout;
        let share = layout.share();
        let slots = layout.piece_slots(PIECE_SLOTS, self.piece.min(layout.total()));
        pieces(share, self.piece).enumerate().flat_map(move |(turn, piece)| {
            let own = layout.contribution(rank, &piece);
            let sum = slots.chunk(&piece, turn);
            let into = if rank == root { layout.result(rank, &piece) } else { sum };
            let is_first = circle.prev() == root;
            let partial = circle.before_prev() != root;
            let recv = (!is_first).then(|| Step::reduce(circle.prev(), partial, into, own, rank == root));
            let send = (rank != root).then(|| Step::send(circle.next(), if is_first { own } else { sum }));
            recv.into_iter().chain(send)
        })
    }
}

impl Schedule for Ring<'_> {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let circle = Circle::new(self.order, rank);
        match self.primitive {
            Primitive::AllReduce => {
                let (layout, order) = (self.layout, self.order);
                let scattered = self.reduce_scatter(circle, rank);
                let own = layout.result(rank, &layout.block(rank));
                Box::new(scattered.chain(all_gather(circle, own, move |member| layout.block(order[member]))))
            }
            Primitive::ReduceScatter => Box::new(self.reduce_scatter(circle, rank)),
            Primitive::Broadcast { root } => Box::new(self.broadcast(circle, root, rank)),
            Primitive::Reduce { root } => Box::new(self.reduce(circle, root, rank)),
            _ => Box::new(self.gather_own(circle, rank)),
        }
    }
}

impl<'a> Circle<'a> {
    /// The place of `rank` among `members`.
    pub(super) fn new(members: &'a [usize], rank: usize) -> Self {
        let position = members.iter().position(|member| *member == rank).unwrap_or(0);
        Self { members, position }
    }

    /// Index of the member `steps` behind; at most twice around.
    fn behind(&self, steps: usize) -> usize {
        let n = self.members.len();
        let index = self.position + 2 * n - steps;
        if index >= 2 * n {
            index - 2 * n
        } else if index >= n {
            index - n
        } else {
            index
        }
    }

    /// This rank's index.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Whom it receives from.
    pub(super) fn prev(&self) -> usize {
        self.members[self.behind(1)]
    }

    fn before_prev(&self) -> usize {
        self.members[self.behind(2)]
    }

    fn next(&self) -> usize {
        self.members[self.behind(self.members.len() - 1)]
    }
}

/// Rounds of sending to the next member what came in the round before, and receiving from the previous one. Written by
/// hand, since a large ring has 10^9 steps: what is received is looked up once, and is then what is sent.
struct Rounds<F> {
    prev: usize,
    next: usize,
    /// What is sent in this round.
    carried: Chunk,
    round: usize,
    n_rounds: usize,
    /// Whether this round's send is over.
    has_sent: bool,
    receive: F,
}

/// What is received in one round.
struct Received {
    partial: bool,
    into: Chunk,
    action: Action,
}

impl<F: Fn(usize) -> Received> Rounds<F> {
    fn new(circle: Circle<'_>, first: Chunk, receive: F) -> Self {
        let n_rounds = circle.members.len() - 1;
        let (prev, next) = (circle.prev(), circle.next());
        Self { prev, next, carried: first, round: 0, n_rounds, has_sent: false, receive }
    }
}

impl<F: Fn(usize) -> Received> Iterator for Rounds<F> {
    type Item = Step;

    #[inline]
    fn next(&mut self) -> Option<Step> {
        if self.round == self.n_rounds {
            return None;
        }
        self.has_sent = !self.has_sent;
        if self.has_sent {
            return Some(Step::send(self.next, self.carried));
        }
        let Received { partial, into, action } = (self.receive)(self.round);
        self.round += 1;
        self.carried = into;
        Some(Step::Recv { peer: self.prev, partial, into, action })
    }
}

/// Ring reduce-scatter: in step j a member sends the sum of the block of the member j+1 behind it, and reduces its
/// contribution into that of the one before; its own block is last.
pub(super) fn reduce_scatter<'a>(
    circle: Circle<'a>,
    block: impl Fn(usize) -> Range<usize> + 'a,
    operands: Operands,
) -> impl Iterator<Item = Step> + 'a {
    let n_steps = circle.members.len() - 1;
    let first = operands.own(&block(circle.behind(1)));
    Rounds::new(circle, first, move |step| {
        let kept = block(circle.behind(step + 2));
        let last = step + 1 == n_steps;
        let into = if last { operands.outcome(&kept) } else { operands.partials.chunk(&kept, step) };
        let partial = step > 0 || operands.prev == Place::Partial;
        let finish = last && operands.result_origin.is_some();
        Received { partial, into, action: Action::Reduce { with: operands.own(&kept), finish } }
    })
}

/// Ring all-gather into the receive buffer: in step j a member passes on the block of the member j behind it; its `own`
/// may lie elsewhere.
pub(super) fn all_gather<'a>(
    circle: Circle<'a>,
    own: Chunk,
    block: impl Fn(usize) -> Range<usize> + 'a,
) -> impl Iterator<Item = Step> + 'a {
    Rounds::new(circle, own, move |step| {
        let into = Chunk::new(Place::Recv, &block(circle.behind(step + 1)));
        Received { partial: false, into, action: Action::Store }
    })
}

impl Operands {
    fn own(&self, range: &Range<usize>) -> Chunk {
        Chunk::new(self.own, range)
    }

    fn outcome(&self, range: &Range<usize>) -> Chunk {
        match self.result_origin {
            Some(origin) => Chunk { place: Place::Recv, start: range.start - origin, len: range.len() },
            None => Chunk::new(Place::Partial, range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_16384_ranks_has_its_steps_one_by_one() {
        let order: Vec<usize> = (0..16_384).collect();
        let scope = Scope {
            n_ranks: order.len(),
            nodes: &[],
            order: &order,
            channel: 0,
            n_channels: 1,
            wide: false,
            n_virtual: 1,
            piece: 1 << 16,
        };
        let ring = Ring::new(Primitive::AllReduce, 1 << 30, &scope);
        let block = (1 << 30) / order.len();
        let first = Chunk { place: Place::Send, start: 4_999 * block, len: block };
        assert_eq!(ring.steps(5_000).next(), Some(Step::send(5_001, first)));
        assert_eq!(ring.steps(5_000).count(), 2 * 2 * 16_383);
        assert_eq!(ring.steps(5_000).map(|step| step.sent()).sum::<usize>(), 2 * 16_383 * block);
    }
}
