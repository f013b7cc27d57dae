//! Where things are in an arena: see [`arena`](super::arena).

use crate::error::{Error, Result};
use crate::net::link::HEADER_BYTES;
use crate::transport::shm::map::{LINE_BYTES, PAGE_BYTES};
use crate::transport::shm::ring::RING_BYTES;

/// Channels of a communicator at most, with those for point-to-point: twice NCCL's limit of 64.
pub(crate) const MAX_CHANNELS: usize = 128;
/// Where the doorbell is.
pub(crate) const DOORBELL: usize = 0;
/// Where the owner says which collective it is at.
pub(crate) const CALL: usize = DOORBELL + 2 * LINE_BYTES;
/// Where the owner says that it is done.
pub(crate) const LEFT: usize = (CALL + 8 + HEADER_BYTES).next_multiple_of(LINE_BYTES);
/// Where the owner says whom of the members it can read.
pub(crate) const READS: usize = PAGE_BYTES;
/// Bytes of a flat exchange's block at most: the blocks of the ranks that share a core fit into its second-level cache, with
/// what is reduced.
pub(crate) const BLOCK_BYTES: usize = 384 * 1024;
/// Blocks of a rank.
pub(crate) const N_BLOCKS: u64 = 3;
/// From one of them to the next.
pub(crate) const BLOCK_STRIDE_BYTES: usize = LINE_BYTES + BLOCK_BYTES;
const BLOCKS_BYTES: usize = 3 * BLOCK_STRIDE_BYTES;
const _: () = assert!(BLOCKS_BYTES as u64 == N_BLOCKS * BLOCK_STRIDE_BYTES as u64);

/// Where things are in the arenas of a host with so many members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    n_members: usize,
}

impl Layout {
    /// For `n_members` ranks.
    pub(crate) fn new(n_members: usize) -> Self {
        Self { n_members }
    }

    /// The flat slots.
    pub(crate) fn flat(self) -> usize {
        (self.directory() + self.n_members * MAX_CHANNELS * 8).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes before the first ring.
    pub(crate) fn head_bytes(self) -> usize {
        (self.flat() + BLOCKS_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes with all rings that there can be.
    pub(crate) fn most_bytes(self) -> usize {
        self.head_bytes() + self.n_members * MAX_CHANNELS * RING_BYTES
    }

    fn directory(self) -> usize {
        (READS + self.n_members * 4).next_multiple_of(LINE_BYTES)
    }

    /// Of the directory: where the ring to `member` on `channel` starts.
    pub(crate) fn entry(self, member: usize, channel: u32) -> Result<usize> {
        let channel = channel as usize;
        if member >= self.n_members || channel >= MAX_CHANNELS {
            return Err(Error::Internal(format!("no ring for member {member} on channel {channel}")));
        }
        Ok(self.directory() + (member * MAX_CHANNELS + channel) * 8)
    }
}
