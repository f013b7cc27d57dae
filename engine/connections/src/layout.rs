//! Where what lies in the file. All numbers are little endian. Version 1.
//!
//! A file is a head of [`HEAD_BYTES`] and places of [`PLACE_BYTES`] each. A place is taken by one connection after another;
//! its generation, which stands at both of its ends, tells them apart, and shows who reads while it is written that it is not
//! whole. What changes while the connection lives are the state and the counts; each of these is written at once.

/// The first eight bytes.
pub const MAGIC: u64 = u64::from_le_bytes(*b"rsnetcon");
/// Grows where what is there gets another meaning.
pub const VERSION: u32 = 1;
/// Bytes of the head.
pub const HEAD_BYTES: usize = 64;
/// Bytes of a place.
pub const PLACE_BYTES: usize = 640;
/// The same, as the head says it.
pub(crate) const PLACE_BYTES_WORD: u32 = 640;
/// Connections that a process shows at once: 4096 are two of each of 32 channels with each of 64 peers. What finds no place
/// is counted.
pub const MAX_PLACES: usize = 4096;
/// Places that get their pages together.
pub const BLOCK_PLACES: usize = 32;
/// Queue pairs of a connection that are shown: as many as our plugin makes at most.
pub const MAX_QUEUE_PAIRS: usize = 8;
/// Bytes of a device's or a host's name; what is longer is cut.
pub const NAME_BYTES: usize = 64;
/// Bytes of the words of an error; what is longer is cut.
pub const ERROR_BYTES: usize = 192;
/// How an error begins of which all that is known is what the other end did or said.
pub const OTHER_END: &str = "the other end ";

/// Places of the head.
pub mod head {
    /// `u64`: [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// `u32`: [`VERSION`](super::VERSION).
    pub const VERSION: usize = 8;
    /// `u32`: bytes of a place, so that a later version may add to its end.
    pub const PLACE_BYTES: usize = 12;
    /// `u32`: the process.
    pub const PID: usize = 16;
    /// `u32`: places that were ever taken; those after them are empty.
    pub const N_USED: usize = 20;
    /// `u64`: connections that found no place.
    pub const N_LOST: usize = 24;
    /// `i32`: the process's rank in its job, by the launcher's environment; -1: not known.
    pub const GLOBAL_RANK: usize = 32;
}

/// Places of a connection, from the beginning of its place.
pub mod at {
    /// `u32`: which connection of this place; 0: none yet.
    pub const GENERATION: usize = 0;
    /// `u32`: see [`State`](crate::State).
    pub const STATE: usize = 4;
    /// `u32`: 1 where data leave this process, 0 where they come.
    pub const IS_SEND: usize = 8;
    /// `u32`: the device's port, from 1.
    pub const PORT: usize = 12;
    /// `u32`: index of the local GID.
    pub const GID_INDEX: usize = 16;
    /// `u32`: kind of the local GID: 0 not known, 1 InfiniBand, 2 RoCE v1, 3 RoCE v2.
    pub const GID_KIND: usize = 20;
    /// `u32`: kind of the remote GID.
    pub const REMOTE_GID_KIND: usize = 24;
    /// `u32`: bytes of a packet's payload that this port can, that the other end's can, and that the connection uses.
    pub const MTU: usize = 28;
    /// `u32`
    pub const REMOTE_MTU: usize = 32;
    /// `u32`
    pub const PATH_MTU: usize = 36;
    /// `u32`: traffic class, and service level.
    pub const TRAFFIC_CLASS: usize = 40;
    /// `u32`
    pub const SERVICE_LEVEL: usize = 44;
    /// 16 bytes each.
    pub const GID: usize = 48;
    /// 16 bytes.
    pub const REMOTE_GID: usize = 64;
    /// `u64`: the communicator that it was made for; 0: not known.
    pub const COMM_HASH: usize = 80;
    /// `i32`: the other process's rank in its job; -1: not known.
    pub const REMOTE_RANK: usize = 88;
    /// `u32`: the other process, in its own namespace.
    pub const REMOTE_PID: usize = 92;
    /// `u32`: how many queue pairs.
    pub const N_QUEUE_PAIRS: usize = 96;
    /// [`MAX_QUEUE_PAIRS`](super::MAX_QUEUE_PAIRS) pairs of `u32`: the local number, the remote one.
    pub const QUEUE_PAIRS: usize = 100;
    /// `u32`: the remote device's port, from 1; 0: not known.
    pub const REMOTE_PORT: usize = 164;
    /// [`NAME_BYTES`](super::NAME_BYTES): the local device.
    pub const DEVICE: usize = 168;
    /// The remote device.
    pub const REMOTE_DEVICE: usize = 232;
    /// The other process's host.
    pub const REMOTE_HOST: usize = 296;
    /// [`ERROR_BYTES`](super::ERROR_BYTES): how it failed, in the verbs' own words. Whose it was stands beside it.
    pub const ERROR: usize = 360;
    /// `u64` each, from here on: counts since the connection was made, see [`Counts`](crate::Counts).
    pub const COUNTS: usize = 552;
    /// `u64`: when it was made: `CLOCK_MONOTONIC`, in ns.
    pub const MADE_NS: usize = 624;
    /// `u32`: the generation again, written first; the one at the beginning is written last.
    pub const GENERATION_AGAIN: usize = 636;
}

/// Counts of a connection, in their order.
pub const N_COUNTS: usize = 9;
const _: () = assert!(PLACE_BYTES_WORD as usize == PLACE_BYTES);
const _: () = assert!(at::COUNTS.is_multiple_of(8) && at::COUNTS + 8 * N_COUNTS <= at::GENERATION_AGAIN);
const _: () = assert!(at::QUEUE_PAIRS + 8 * MAX_QUEUE_PAIRS <= at::REMOTE_PORT);
const _: () = assert!(at::COUNTS + 8 * N_COUNTS <= at::MADE_NS);
const _: () = assert!(PLACE_BYTES.is_multiple_of(64) && at::GENERATION_AGAIN + 4 == PLACE_BYTES);
