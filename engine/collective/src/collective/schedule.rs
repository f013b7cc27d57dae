//! What one rank does on one channel for one operation, as pure data: steps in program order.
//!
//! A schedule reads as if its steps ran one after the other. Whoever runs it keeps only the order that matters: steps
//! that touch the same memory, and transfers of one direction with one peer, stay in program order; all else may
//! overlap. So an algorithm says what moves where, and never what waits for what.
//!
//! Chunks are in elements. What is not yet the result of all contributions lives in [`Place::Partial`], in the width that
//! the algorithm asks for ([`Width`](crate::kernels::Width)).

use std::ops::Range;

use crate::memory::Place;

/// A run of elements in one of an operation's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Which buffer.
    pub(crate) place: Place,
    /// Elements from its start.
    pub(crate) start: usize,
    /// Elements. A step over none does nothing, on both ends.
    pub(crate) len: usize,
}

/// What becomes of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Stored as it is: the same form as it came in.
    Store,
    /// `into = with op data`.
    Reduce {
        /// The other operand, as long as the data; may be the same chunk as `into`.
        with: Chunk,
        /// Whether this was the last contribution: an average is divided, a partial result becomes an element. `into` is
        /// then not in [`Place::Partial`].
        finish: bool,
    },
}

/// One thing that a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sends a chunk, in the form that its place holds.
    Send {
        /// To which rank.
        peer: usize,
        /// What.
        from: Chunk,
    },
    /// Receives as many elements as `into` has.
    Recv {
        /// From which rank.
        peer: usize,
        /// Whether partial results arrive (the sender sends from [`Place::Partial`]).
        partial: bool,
        /// Where the outcome goes.
        into: Chunk,
        /// What becomes of them.
        action: Action,
    },
    /// The same without a peer.
    Local {
        /// The data.
        from: Chunk,
        /// Where the outcome goes.
        into: Chunk,
        /// What becomes of it.
        action: Action,
    },
}

/// A schedule: pure, so that the same one is run, simulated, drawn and tested.
pub(crate) trait Schedule {
    /// The steps of `rank`, in program order; lazily, since a ring of 16 384 ranks has 10^9 of them.
    fn steps(&self, rank: usize) -> Box<dyn Iterator<Item = Step> + '_>;
}

impl Chunk {
    /// The elements `range` of `place`.
    pub(crate) fn new(place: Place, range: &Range<usize>) -> Self {
        Self { place, start: range.start, len: range.len() }
    }
}

impl Step {
    /// Sends `from` to `peer`.
    pub(crate) fn send(peer: usize, from: Chunk) -> Self {
        Self::Send { peer, from }
    }

    /// Receives elements from `peer` and stores them.
    pub(crate) fn store(peer: usize, into: Chunk) -> Self {
        Self::Recv { peer, partial: false, into, action: Action::Store }
    }

    /// Receives from `peer`, and stores the reduction of `with` and that.
    pub(crate) fn reduce(peer: usize, partial: bool, into: Chunk, with: Chunk, finish: bool) -> Self {
        Self::Recv { peer, partial, into, action: Action::Reduce { with, finish } }
    }

    /// Copies inside the rank.
    pub(crate) fn copy(from: Chunk, into: Chunk) -> Self {
        Self::Local { from, into, action: Action::Store }
    }

    /// Stores the reduction of `with` and `from`, both of this rank.
    pub(crate) fn reduce_local(with: Chunk, from: Chunk, into: Chunk, finish: bool) -> Self {
        Self::Local { from, into, action: Action::Reduce { with, finish } }
    }

    /// Whether it is over no elements, and so does nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Send { from, .. } => from.len == 0,
            Self::Recv { into, .. } | Self::Local { into, .. } => into.len == 0,
        }
    }

    /// Elements that it sends.
    #[cfg(test)]
    pub(crate) fn sent(&self) -> usize {
        match self {
            Self::Send { from, .. } => from.len,
            _ => 0,
        }
    }
}
