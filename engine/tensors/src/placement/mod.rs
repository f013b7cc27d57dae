//! The two ways of carrying a tensor over an edge.
//!
//! *Static*: shape and place are known before, so a transfer is one write that ends in a flag. *Dynamic*: the shape changes,
//! so the sender writes metadata into a fixed block, and the receiver allocates and reads. Neither knows a clock, a thread
//! or what the other edges do.

pub mod dynamic;
pub mod flag;
mod metadata;
pub mod r#static;

use crate::device::FlagForm;
use crate::memory::arena::LINE_BYTES;

/// Bytes of a flag: its word is read and written whole.
pub const FLAG_BYTES: u64 = 8;

/// What a sender has to know of its edge to write: how its device ends a transfer, and the number of the edge at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How a transfer ends.
    pub form: FlagForm,
    /// The edge's number at the receiver, for immediates.
    pub number: u32,
}

/// Where the flag of a slot begins whose payload has so many bytes: on a cache line of its own.
pub fn flag_offset(payload_bytes: u64) -> u64 {
    payload_bytes.next_multiple_of(LINE_BYTES)
}

/// Bytes of a slot for so many bytes of payload and a flag.
pub fn slot_bytes(payload_bytes: u64) -> u64 {
    flag_offset(payload_bytes) + LINE_BYTES
}
