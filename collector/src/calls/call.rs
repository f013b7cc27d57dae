//! A call of an operation, as the program made it.

use ringscope_wire::segment::calls::hash::Signature;
use ringscope_wire::{Datatype, Primitive};

/// One call as the caller made it.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) primitive: Primitive,
    /// `ncclComm_t`.
    pub(crate) comm: u64,
    /// Elements.
    pub(crate) count: u64,
    /// `ncclDataType_t`; 255 where it is none.
    pub(crate) datatype: u8,
    /// Reduction as signatures have it.
    pub(crate) op: u8,
    /// Peer or root, -1 if the primitive has none.
    pub(crate) peer: i32,
    /// `cudaStream_t`.
    pub(crate) stream: u64,
}

impl Call {
    /// Payload bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> u64 {
        self.count.wrapping_mul(Datatype(self.datatype).size_bytes())
    }

    #[inline(always)]
    pub(crate) fn signature(&self) -> Signature {
        let Self { primitive, count, datatype, op, peer, .. } = *self;
        Signature { primitive, count, datatype, op, root: peer }
    }
}
