//! What data stands for: instead of elements, the sum of a random token for each contribution in it, and which element of
//! the contributions it is.
//!
//! An element is right exactly if each contribution is in it once. Tokens are 64 bits and sums wrap, so a lost, doubled
//! or foreign contribution goes unseen with a chance of 2^-64. A run of elements that were treated alike is one piece,
//! however long it is.

use crate::collective::primitive::Primitive;

/// A run of elements with the same contributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Elements.
    pub(super) len: usize,
    /// The sum of the contributions' tokens.
    pub(super) tokens: u64,
    /// Where the first one stood in the contributors' send buffers.
    pub(super) origin: usize,
}

/// Elements in a row. Nearly always one piece, which then costs no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Data {
    first: Piece,
    rest: Vec<Piece>,
}

/// What the buffers of an operation hold before it, and must hold after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meaning {
    primitive: Primitive,
    count: usize,
    n_ranks: usize,
    n_virtual: usize,
    all: u64,
}

impl Piece {
    /// The part of it from `skip` on, `len` elements at most.
    pub(super) fn cut(self, skip: usize, len: usize) -> Self {
        Self { len: (self.len - skip).min(len), tokens: self.tokens, origin: self.origin + skip }
    }

    fn is_followed_by(self, next: Self) -> bool {
        self.tokens == next.tokens && self.origin + self.len == next.origin
    }
}

impl Data {
    /// Adds a piece at the end.
    pub(super) fn push(&mut self, piece: Piece) {
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        if last.len == 0 {
            *last = piece;
        } else if last.is_followed_by(piece) {
            last.len += piece.len;
        } else {
            self.rest.push(piece);
        }
    }

    /// Its pieces, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> {
        std::iter::once(self.first).chain(self.rest.iter().copied()).filter(|piece| piece.len > 0)
    }

    /// Elements.
    pub(super) fn len(&self) -> usize {
        self.first.len + self.rest.iter().map(|piece| piece.len).sum::<usize>()
    }

    /// Its elements from `skip` on, `len` at most.
    pub(super) fn cut(&self, mut skip: usize, mut len: usize) -> Self {
        let mut cut = Self::default();
        for piece in self.pieces() {
            if skip < piece.len && len > 0 {
                let part = piece.cut(skip, len);
                len -= part.len;
                cut.push(part);
            }
            skip = skip.saturating_sub(piece.len);
        }
        cut
    }

    /// Element by element, both operands' contributions; nothing if they are not the same elements.
    pub(super) fn reduce(&self, other: &Self) -> Option<Self> {
        if self.rest.is_empty() && other.rest.is_empty() {
            return reduce_pieces(self.first, other.first).map(|first| Self { first, rest: Vec::new() });
        }
        let mut sum = Self::default();
        let (mut skip, mut pieces) = (0, other.pieces());
        let mut current = pieces.next()?;
        for piece in self.pieces() {
            let mut done = 0;
            while done < piece.len {
                if skip == current.len {
                    (current, skip) = (pieces.next()?, 0);
                }
                let len = (piece.len - done).min(current.len - skip);
                sum.push(reduce_pieces(piece.cut(done, len), current.cut(skip, len))?);
                (done, skip) = (done + len, skip + len);
            }
        }
        (self.len() == other.len()).then_some(sum)
    }
}

impl Meaning {
    /// Of an operation over `count` elements as its call counts them, with `n_virtual` contributions of each rank.
    pub(super) fn new(primitive: Primitive, count: usize, n_ranks: usize, n_virtual: usize) -> Self {
        let all = (0..n_ranks * n_virtual).fold(0_u64, |sum, index| sum.wrapping_add(token(index)));
        Self { primitive, count, n_ranks, n_virtual, all }
    }

    /// The beginning of `rank`'s send buffer from `start` on, `len` elements at most; nothing outside of it.
    pub(super) fn contribution(&self, rank: usize, start: usize, len: usize) -> Option<Piece> {
        let block = match self.primitive {
            Primitive::ReduceScatter | Primitive::AllToAll | Primitive::Scatter { .. } => {
                self.count * self.n_ranks
            }
            _ => self.count,
        };
        let (index, origin) = (start / block.max(1), start % block.max(1));
        let piece =
            Piece { len: len.min(block - origin), tokens: token(rank * self.n_virtual + index), origin };
        (index < self.n_virtual && piece.len > 0).then_some(piece)
    }

    /// What must come to stand in `rank`'s receive buffer from `start` on, `len` elements at most.
    pub(super) fn result(&self, rank: usize, start: usize, len: usize) -> Option<Piece> {
        let left = self.result_len(rank).checked_sub(start).filter(|&left| left > 0)?.min(len);
        let whole = |tokens, origin| Piece { len: left, tokens, origin };
        let blockwise = |origin| {
            let (block, inside) = (start / self.count, start % self.count);
            let len = left.min(self.count - inside);
            Piece { len, tokens: token(block * self.n_virtual), origin: origin + inside }
        };
        Some(match self.primitive {
            Primitive::AllReduce | Primitive::Reduce { .. } => whole(self.all, start),
            Primitive::ReduceScatter => whole(self.all, rank * self.count + start),
            Primitive::Broadcast { root } => whole(token(root * self.n_virtual), start),
            Primitive::Scatter { root } => whole(token(root * self.n_virtual), rank * self.count + start),
            Primitive::AllGather | Primitive::Gather { .. } => blockwise(0),
            Primitive::AllToAll => blockwise(rank * self.count),
            Primitive::Send { .. } | Primitive::Recv { .. } => return None,
        })
    }

    /// Elements of `rank`'s result.
    pub(super) fn result_len(&self, rank: usize) -> usize {
        match self.primitive {
            Primitive::AllReduce
            | Primitive::ReduceScatter
            | Primitive::Broadcast { .. }
            | Primitive::Scatter { .. } => self.count,
            Primitive::Reduce { root } => {
                if rank == root {
                    self.count
                } else {
                    0
                }
            }
            Primitive::Gather { root } => {
                if rank == root {
                    self.count * self.n_ranks
                } else {
                    0
                }
            }
            Primitive::AllGather | Primitive::AllToAll => self.count * self.n_ranks,
            Primitive::Send { .. } | Primitive::Recv { .. } => 0,
        }
    }
}

fn reduce_pieces(a: Piece, b: Piece) -> Option<Piece> {
    let same = a.len == b.len && a.origin == b.origin;
    same.then_some(Piece { tokens: a.tokens.wrapping_add(b.tokens), ..a })
}

/// SplitMix64 (Steele, Lea, Flood 2014) at a fixed seed: the same tokens in every run.
fn token(index: usize) -> u64 {
    let mut word = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
