//! Recursive halving and doubling: in each step a rank halves what it is responsible for, together with a partner; then
//! the same steps backwards collect the result.
//!
//! With n ranks, p the largest power of two up to n, S the bytes of the whole buffer:
//!
//! | primitive | steps | sent by each rank |
//! |---|---|---|
//! | `reduce_scatter`, n = p | log2(n) | (n−1)/n·S |
//! | `all_gather`, n = p | log2(n) | (n−1)/n·S |
//! | `all_reduce` | 2·log2(p), and 2 if n > p | 2(p−1)/p·S; see below for n > p |
//!
//! Where n > p, the first n−p pairs of neighbours are one participant each: the second rank of the pair sends its whole
//! buffer (S) to the first one before, and gets the result (S) after.
//!
//! An all-reduce pairs the nearest ranks first, when halves are largest, so that what crosses hosts is small. The block
//! of a reduce-scatter must end at its rank, so there the farthest are first. Only the first step sends elements, later
//! ones partial results. The least latency with full bandwidth for powers of two (Rabenseifner, 2004; Thakur, Rabenseifner
//! and Gropp, 2005).

use std::ops::Range;

use crate::collective::layout::{Layout, Scope, groups};
use crate::collective::partition::part;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Chunk, Schedule, Step};
use crate::memory::Place;

/// Halving and doubling on one channel.
#[derive(Debug)]
pub(crate) struct HalvingDoubling {
    primitive: Primitive,
    layout: Layout,
    pairing: Pairing,
}

/// Which ranks take part, and which are represented by their neighbour.
#[derive(Debug)]
pub(super) struct Pairing {
    /// Ranks, host after host.
    order: Vec<usize>,
    n_participants: usize,
}

/// A rank's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Takes part under this index, perhaps for another rank too.
    Participant { index: usize, represents: Option<usize> },
    /// Is represented by that rank.
    Represented { by: usize },
}

impl HalvingDoubling {
    /// Of `count` elements, as the API counts them.
    pub(crate) fn new(primitive: Primitive, count: usize, scope: &Scope<'_>) -> Self {
        Self { primitive, layout: Layout::new(primitive, count, scope), pairing: Pairing::new(scope.nodes) }
    }

    fn all_reduce(&self, rank: usize) -> Vec<Step> {
        let share = self.layout.share();
        let (own, result) = (self.layout.contribution(rank, &share), self.layout.result(rank, &share));
        match self.pairing.role(rank) {
            Role::Represented { by } => vec![Step::send(by, own), Step::store(by, result)],
            Role::Participant { index, represents } => {
                let mut steps = Vec::new();
                if let Some(other) = represents {
                    steps.push(Step::reduce(other, false, Chunk::new(Place::Partial, &share), own, false));
                }
                self.halve_and_double(index, represents.is_some(), share, &mut steps);
                steps.extend(represents.map(|other| Step::send(other, result)));
                steps
            }
        }
    }

    fn halve_and_double(&self, index: usize, reduced: bool, share: Range<usize>, steps: &mut Vec<Step>) {
        let n_steps = self.pairing.n_participants.trailing_zeros() as usize;
        let mut ranges = vec![share];
        for step in 0..n_steps {
            let (kept, given) = halves(&ranges[step], index >> step & 1);
            let partner = index ^ (1 << step);
            let own = if step == 0 && !reduced { Place::Send } else { Place::Partial };
            let partial = step > 0 || self.pairing.is_pair(partner);
            let last = step + 1 == n_steps;
            let into = if last { Place::Recv } else { Place::Partial };
            let peer = self.pairing.rank(partner);
            steps.push(Step::send(peer, Chunk::new(own, &given)));
            steps.push(Step::reduce(peer, partial, Chunk::new(into, &kept), Chunk::new(own, &kept), last));
            ranges.push(kept);
        }
        for step in (0..n_steps).rev() {
            let (kept, given) = halves(&ranges[step], index >> step & 1);
            let peer = self.pairing.rank(index ^ (1 << step));
            steps.push(Step::send(peer, Chunk::new(Place::Recv, &kept)));
            steps.push(Step::store(peer, Chunk::new(Place::Recv, &given)));
        }
    }

    fn reduce_scatter(&self, rank: usize) -> Vec<Step> {
        let n_ranks = self.pairing.order.len();
        let n_steps = n_ranks.trailing_zeros();
        // Partial results are kept of the half that the first step leaves.
        let origin = self.layout.whole_start(aligned(rank, n_ranks / 2).start);
        let kept = |block: &Range<usize>| Chunk {
            place: Place::Partial,
            start: block.start - origin,
            len: block.len(),
        };
        let mut steps = Vec::new();
        for step in (0..n_steps).rev() {
            let (size, first, last) = (1 << step, step + 1 == n_steps, step == 0);
            let peer = rank ^ size;
            let own = |block: &Range<usize>| {
                if first { self.layout.contribution(rank, block) } else { kept(block) }
            };
            let blocks = |of: usize| aligned(of, size).map(|block| self.layout.block(block));
            steps.extend(blocks(peer).map(|block| Step::send(peer, own(&block))));
            steps.extend(blocks(rank).map(|block| {
                let into = if last { self.layout.result(rank, &block) } else { kept(&block) };
                Step::reduce(peer, !first, into, own(&block), last)
            }));
        }
        steps
    }

    fn all_gather(&self, rank: usize) -> Vec<Step> {
        let n_steps = self.pairing.order.len().trailing_zeros();
        let own = self.layout.block(rank);
        let contribution = self.layout.contribution(rank, &own);
        let mut steps = vec![Step::copy(contribution, self.layout.result(rank, &own))];
        for step in 0..n_steps {
            let peer = rank ^ (1 << step);
            let blocks = |of: usize| {
                aligned(of, 1 << step).map(|block| Chunk::new(Place::Recv, &self.layout.block(block)))
            };
            let source = |block| if step == 0 { contribution } else { block };
            steps.extend(blocks(rank).map(|block| Step::send(peer, source(block))));
            steps.extend(blocks(peer).map(|block| Step::store(peer, block)));
        }
        steps
    }
}

impl Schedule for HalvingDoubling {
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_> {
        let steps = match self.primitive {
            Primitive::ReduceScatter => self.reduce_scatter(rank),
            Primitive::AllGather => self.all_gather(rank),
            _ => self.all_reduce(rank),
        };
        Box::new(steps.into_iter())
    }
}

impl Pairing {
    /// Of all ranks.
    pub(super) fn new(nodes: &[usize]) -> Self {
        let order = groups(nodes).concat();
        let n_participants = 1 << order.len().ilog2();
        Self { order, n_participants }
    }

    /// What a rank does.
    pub(super) fn role(&self, rank: usize) -> Role {
        let place = self.order.iter().position(|other| *other == rank).unwrap_or(0);
        let pairs = self.n_pairs();
        if place >= 2 * pairs {
            Role::Participant { index: place - pairs, represents: None }
        } else if place % 2 == 0 {
            Role::Participant { index: place / 2, represents: Some(self.order[place + 1]) }
        } else {
            Role::Represented { by: self.order[place - 1] }
        }
    }

    /// Participants: a power of two.
    pub(super) fn n_participants(&self) -> usize {
        self.n_participants
    }

    /// The rank of a participant.
    pub(super) fn rank(&self, index: usize) -> usize {
        let pairs = self.n_pairs();
        self.order[if index < pairs { 2 * index } else { index + pairs }]
    }

    /// Whether a participant stands for two ranks.
    pub(super) fn is_pair(&self, index: usize) -> bool {
        index < self.n_pairs()
    }

    fn n_pairs(&self) -> usize {
        self.order.len() - self.n_participants
    }
}

/// The half of `range` that belongs to whoever has this bit, and the other one.
pub(super) fn halves(range: &Range<usize>, bit: usize) -> (Range<usize>, Range<usize>) {
    let half = |index| {
        let half = part(range.len(), 2, index);
        range.start + half.start..range.start + half.end
    };
    (half(bit), half(1 - bit))
}

/// The aligned run of `size` (a power of two) that `index` lies in.
fn aligned(index: usize, size: usize) -> Range<usize> {
    let start = index & !(size - 1);
    start..start + size
}
