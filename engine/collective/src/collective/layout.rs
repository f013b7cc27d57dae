//! Where the data of a primitive lies: the blocks of a buffer, a channel's share of them, and the chunks that hold a
//! contribution, a partial result or a result.
//!
//! A *range* counts elements of the whole: the buffer of an all-reduce, or all ranks' blocks one after another. The cut
//! into blocks does not depend on the number of channels: a channel carries the same slice of every block. So which
//! rank reduces an element, and in which order, is the same for any number of channels with the same ring.

use std::ops::Range;

use crate::collective::partition::part;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::Chunk;
use crate::memory::Place;

/// What an algorithm must know beside the operation: who takes part, where, and which share is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Ranks of the communicator.
    pub(crate) n_ranks: usize,
    /// Node of each rank, numbered by first appearance.
    pub(crate) nodes: &'a [usize],
    /// All ranks in the order of this channel's ring.
    pub(crate) order: &'a [usize],
    /// The channel, from 0.
    pub(crate) channel: usize,
    /// Channels that share the operation.
    pub(crate) n_channels: usize,
    /// Whether partial results are wider than elements, so that none fits into the caller's memory.
    pub(crate) wide: bool,
    /// Virtual ranks of each process, usually 1. With more, the send buffer holds their contributions one after another.
    pub(crate) n_virtual: usize,
    /// Elements of a piece, where an algorithm passes a buffer along piece by piece.
    pub(crate) piece: usize,
}

/// The blocks of one operation as one channel sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    primitive: Primitive,
    count: usize,
    n_ranks: usize,
    channel: usize,
    n_channels: usize,
    /// Elements of a block, less one of the first `longer` blocks.
    size: usize,
    longer: usize,
    /// Start and length of the channel's slice of a block of `size`, and of `size` + 1. Kept, since a ring asks for a
    /// block in every step, and divisions would cost more than all else.
    slices: [(usize, usize); 2],
}

/// Where partial results lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partials {
    /// At the elements' own indices, which are those of the receive buffer.
    InPlace,
    /// In slots that take turns, for what is passed on at once; channels have theirs side by side.
    Slots {
        /// Where the channel's first slot starts.
        start: usize,
        /// Elements of a slot.
        len: usize,
        /// How many.
        n: usize,
    },
}

impl Layout {
    /// Of `count` elements, as the API counts them.
    pub(crate) fn new(primitive: Primitive, count: usize, scope: &Scope<'_>) -> Self {
        let (n_ranks, channel, n_channels) = (scope.n_ranks, scope.channel, scope.n_channels);
        let mut layout = Self {
            primitive,
            count,
            n_ranks,
            channel,
            n_channels,
            size: count,
            longer: 0,
            slices: [(0, 0); 2],
        };
        if !layout.has_rank_blocks() {
            (layout.size, layout.longer) = (count / n_ranks, count % n_ranks);
        }
        layout.slices = [0, 1].map(|more| {
            let slice = part(layout.size + more, n_channels, channel);
            (slice.start, slice.len())
        });
        layout
    }

    /// Elements of the whole.
    pub(crate) fn total(&self) -> usize {
        if self.has_rank_blocks() { self.n_ranks * self.count } else { self.count }
    }

    /// The channel's slice of `range`.
    pub(crate) fn slice(&self, range: &Range<usize>) -> Range<usize> {
        let slice = part(range.len(), self.n_channels, self.channel);
        range.start + slice.start..range.start + slice.end
    }

    /// The channel's slice of a rank's block: NCCL's blocks where the primitive has them, else a balanced cut.
    pub(crate) fn block(&self, rank: usize) -> Range<usize> {
        let (start, len) = self.slices[usize::from(rank < self.longer)];
        let start = self.whole_start(rank) + start;
        start..start + len
    }

    /// The channel's slice of the whole, where no blocks matter.
    pub(crate) fn share(&self) -> Range<usize> {
        self.slice(&(0..self.total()))
    }

    /// The contribution of `rank` to `range`.
    pub(crate) fn contribution(&self, rank: usize, range: &Range<usize>) -> Chunk {
        self.virtual_contribution(rank, 0, range)
    }

    /// The contribution of the virtual rank `index` of the process `rank` to `range`.
    pub(crate) fn virtual_contribution(&self, rank: usize, index: usize, range: &Range<usize>) -> Chunk {
        let own_block = matches!(self.primitive, Primitive::AllGather | Primitive::Gather { .. });
        let origin = if own_block { rank * self.count } else { 0 };
        Chunk { place: Place::Send, start: index * self.total() + range.start - origin, len: range.len() }
    }

    /// The result of `range` at `rank`.
    pub(crate) fn result(&self, rank: usize, range: &Range<usize>) -> Chunk {
        let own_block = matches!(self.primitive, Primitive::ReduceScatter | Primitive::Scatter { .. });
        let origin = if own_block { rank * self.count } else { 0 };
        Chunk { place: Place::Recv, start: range.start - origin, len: range.len() }
    }

    /// Where a rank's block starts in the whole.
    pub(crate) fn whole_start(&self, rank: usize) -> usize {
        rank * self.size + rank.min(self.longer)
    }

    /// `n` slots of this channel, each as long as its longest block.
    pub(crate) fn block_slots(&self, n: usize) -> Partials {
        // Earlier blocks are never shorter.
        let (start, len) = self.slices[usize::from(self.longer > 0)];
        Partials::Slots { start: n * start, len, n }
    }

    /// `n` slots of this channel, each of `piece` elements.
    pub(crate) fn piece_slots(&self, n: usize, piece: usize) -> Partials {
        Partials::Slots { start: self.channel * n * piece, len: piece, n }
    }

    fn has_rank_blocks(&self) -> bool {
        !matches!(
            self.primitive,
            Primitive::AllReduce | Primitive::Broadcast { .. } | Primitive::Reduce { .. }
        )
    }
}

impl Partials {
    /// The partial result of `range`, the `turn`-th that is kept.
    pub(crate) fn chunk(self, range: &Range<usize>, turn: usize) -> Chunk {
        let start = match self {
            Self::InPlace => range.start,
            Self::Slots { start, len, n } => start + turn % n * len,
        };
        Chunk { place: Place::Partial, start, len: range.len() }
    }
}

/// Ranks of each node, ascending; nodes are numbered from 0.
pub(crate) fn groups(nodes: &[usize]) -> Vec<Vec<usize>> {
    let mut groups = vec![Vec::new(); nodes.iter().max().map_or(0, |node| node + 1)];
    nodes.iter().enumerate().for_each(|(rank, node)| groups[*node].push(rank));
    groups
}

/// The piece `index` of `range`, as [`pieces`] cuts it; empty beyond the last one.
pub(crate) fn piece(range: &Range<usize>, piece: usize, index: usize) -> Range<usize> {
    let start = range.start.saturating_add(index.saturating_mul(piece.max(1))).min(range.end);
    start..start.saturating_add(piece.max(1)).min(range.end)
}

/// `range` in pieces of at most `piece` elements.
pub(crate) fn pieces(range: Range<usize>, piece: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    let end = range.end;
    range.step_by(piece.max(1)).map(move |start| start..(start + piece.max(1)).min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(n_ranks: usize, channel: usize, n_channels: usize) -> Scope<'static> {
        Scope {
            n_ranks,
            nodes: &[],
            order: &[],
            channel,
            n_channels,
            wide: false,
            n_virtual: 1,
            piece: usize::MAX,
        }
    }

    #[test]
    fn the_shares_of_all_channels_and_ranks_cover_the_whole_once() {
        for primitive in [Primitive::AllReduce, Primitive::AllGather, Primitive::ReduceScatter] {
            for (n_ranks, n_channels, count) in [(3, 1, 7), (4, 3, 10), (5, 4, 2), (2, 2, 0)] {
                let layout = |channel| Layout::new(primitive, count, &scope(n_ranks, channel, n_channels));
                let mut seen = vec![0; layout(0).total()];
                for channel in 0..n_channels {
                    let blocks = (0..n_ranks).flat_map(|rank| layout(channel).block(rank));
                    blocks.for_each(|element| seen[element] += 1);
                }
                assert!(seen.iter().all(|times| *times == 1), "{primitive:?} {n_ranks} {n_channels} {count}");
            }
        }
    }

    #[test]
    fn slots_of_channels_do_not_overlap() {
        let mut end = 0;
        for channel in 0..4 {
            let Partials::Slots { start, len, n } =
                Layout::new(Primitive::AllReduce, 30, &scope(3, channel, 4)).block_slots(2)
            else {
                panic!("slots were asked for")
            };
            assert_eq!(start, end);
            end = start + n * len;
        }
        assert_eq!(end, 2 * 10);
    }

    #[test]
    fn pieces_cover_their_range() {
        assert_eq!(pieces(3..10, 3).collect::<Vec<_>>(), [3..6, 6..9, 9..10]);
        assert_eq!(pieces(3..3, 3).count(), 0);
        assert_eq!([0, 1, 2, 3].map(|index| piece(&(3..10), 3, index)), [3..6, 6..9, 9..10, 10..10]);
        assert_eq!(piece(&(3..10), usize::MAX, 0), 3..10);
    }
}
