//! How an all-reduce is cut into flat rounds.
//!
//! With n ranks and S the bytes of the buffer, in chunks of C bytes:
//!
//! | form | rounds | a rank copies in | reads of others | reduced |
//! |---|---|---|---|---|
//! | whole: everybody reduces everything | S/C | S | (n−1)·S | n·S |
//! | shared: each reduces its share and shows the result in the next round | S/C + 1 | S | 2(n−1)/n·S | S |
//!
//! With two ranks both read the same, and the first form has no copy of results.

use std::ops::Range;

use crate::transport::shm::layout::BLOCK_BYTES;

/// Up to this size per rank that reduces, one round less pays for reading everything everywhere: it saves a switch of
/// context, where ranks share cores.
const WHOLE_BYTES: usize = 32 * 1024;
/// Bytes of a chunk where everybody reduces everything.
const WHOLE_CHUNK_BYTES: usize = 128 * 1024;
/// Bytes of a chunk that is shared: with a share of the one before, it fills a block.
const SHARED_CHUNK_BYTES: usize = 256 * 1024;
/// Shares begin at a cache line, so that no two ranks write to one.
const LINE_BYTES: usize = 64;

const _: () =
    assert!(SHARED_CHUNK_BYTES + SHARED_CHUNK_BYTES / 2 <= BLOCK_BYTES && WHOLE_CHUNK_BYTES <= BLOCK_BYTES);

/// The rounds of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    bytes: usize,
    n_ranks: usize,
    chunk_bytes: usize,
    /// Whether each rank reduces its share alone.
    pub(crate) is_shared: bool,
}

impl Cut {
    /// Of `bytes` among `n_ranks`.
    pub(crate) fn new(bytes: usize, n_ranks: usize) -> Self {
        let is_shared = n_ranks > 2 && bytes > WHOLE_BYTES;
        let chunk_bytes = if is_shared { SHARED_CHUNK_BYTES } else { WHOLE_CHUNK_BYTES };
        Self { bytes, n_ranks, chunk_bytes, is_shared }
    }

    /// Of buffers that are read in place, in one chunk; `is_whole` if everybody reduces everything.
    pub(crate) fn in_place(bytes: usize, n_ranks: usize, is_whole: bool) -> Self {
        Self { bytes, n_ranks, chunk_bytes: bytes, is_shared: !is_whole }
    }

    /// Of the whole buffer.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rounds in all.
    pub(crate) fn n_rounds(&self) -> usize {
        self.bytes.div_ceil(self.chunk_bytes.max(1)) + usize::from(self.is_shared)
    }

    /// The contribution that is shown in `round`; empty in a last one that has results alone.
    pub(crate) fn chunk(&self, round: usize) -> Range<usize> {
        let at = |round: usize| (round * self.chunk_bytes).min(self.bytes);
        at(round)..at(round + 1)
    }

    /// What `rank` reduces of the chunk of `round`.
    pub(crate) fn share(&self, round: usize, rank: usize) -> Range<usize> {
        let chunk = self.chunk(round);
        let share = chunk.len().div_ceil(self.n_ranks).next_multiple_of(LINE_BYTES);
        let at = |rank: usize| chunk.start + (rank * share).min(chunk.len());
        at(rank)..at(rank + 1)
    }

    /// Bytes of everybody's block in `round`: the chunk, and the longest share of results.
    pub(crate) fn block_bytes(&self, round: usize) -> usize {
        let chunk = self.chunk(round).len();
        if self.is_shared && round > 0 { chunk + self.share(round - 1, 0).len() } else { chunk }
    }

    /// Bytes that `reader` reads of the block of `owner` in `round`.
    pub(crate) fn read_bytes(&self, round: usize, owner: usize, reader: usize) -> usize {
        if !self.is_shared {
            return self.chunk(round).len();
        }
        let results = if round > 0 { self.share(round - 1, owner).len() } else { 0 };
        self.share(round, reader).len() + results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_byte_once() {
        for n_ranks in 2..9 {
            for bytes in [1, 4, 64, 1000, 40_000, 65_536, 262_148, 999_999] {
                let cut = Cut::new(bytes, n_ranks);
                let mut next = 0;
                for round in 0..cut.n_rounds() {
                    let chunk = cut.chunk(round);
                    let mut inside = chunk.start;
                    for rank in 0..n_ranks {
                        let share = cut.share(round, rank);
                        assert_eq!(share.start, inside, "{cut:?} round {round} rank {rank}");
                        inside = share.end;
                    }
                    assert_eq!((chunk.start, inside), (next, chunk.end), "{cut:?} round {round}");
                    assert!(cut.block_bytes(round) <= BLOCK_BYTES);
                    next = chunk.end;
                }
                assert_eq!(next, bytes);
            }
        }
    }

    #[test]
    fn a_shared_one_moves_what_the_owner_sum_moves() {
        let (bytes, n_ranks) = (4 << 20, 4);
        let cut = Cut::new(bytes, n_ranks);
        let of = |owner| -> usize {
            let readers = (0..n_ranks).filter(|reader| *reader != owner);
            let rounds = |reader| (0..cut.n_rounds()).map(move |round| cut.read_bytes(round, owner, reader));
            readers.flat_map(rounds).sum()
        };
        assert_eq!((0..n_ranks).map(of).collect::<Vec<_>>(), [2 * 3 * bytes / 4; 4]);
    }
}
