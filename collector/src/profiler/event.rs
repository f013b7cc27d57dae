//! What the library tells a profiler plugin, whatever version of the interface it speaks.

#![expect(unsafe_code, reason = "reads the library's texts")]

use std::ffi::{CStr, c_char};

use ringscope_wire::{Datatype, Primitive};

/// A text of the library's static storage, or NULL.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(super) const NULL: Self = Self(std::ptr::null());

    /// Its bytes; empty for NULL.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: only descriptors hold texts, and there the library puts NULL or a terminated text of its own.
        unsafe { CStr::from_ptr(self.0) }.to_bytes()
    }
}

/// Something that version 1 names by number and all others by text.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    Number(u8),
    Text(Text),
}

/// Which operation it is. `None` for what has no counters: signals, and what newer libraries may add.
pub(crate) fn primitive(word: Word) -> Option<Primitive> {
    match word {
        Word::Number(number) => {
            const BY_NUMBER: [Option<Primitive>; 8] = [
                Some(Primitive::Broadcast),
                Some(Primitive::Reduce),
                Some(Primitive::AllGather),
                Some(Primitive::ReduceScatter),
                Some(Primitive::AllReduce),
                None,
                Some(Primitive::Send),
                Some(Primitive::Recv),
            ];
            BY_NUMBER.get(usize::from(number)).copied().flatten()
        }
        Word::Text(text) => match text.bytes() {
            b"AllReduce" => Some(Primitive::AllReduce),
            b"AllGather" => Some(Primitive::AllGather),
            b"ReduceScatter" => Some(Primitive::ReduceScatter),
            b"Broadcast" => Some(Primitive::Broadcast),
            b"Reduce" => Some(Primitive::Reduce),
            b"Send" => Some(Primitive::Send),
            b"Recv" => Some(Primitive::Recv),
            b"AlltoAll" => Some(Primitive::AllToAll),
            b"Gather" => Some(Primitive::Gather),
            b"Scatter" => Some(Primitive::Scatter),
            b"PutSignal" => Some(Primitive::PutSignal),
            _ => None,
        },
    }
}

/// The element type. NCCL's `ncclDatatypeToString` says "Unknown" for `ncclUint8`.
pub(crate) fn datatype(word: Word) -> Datatype {
    Datatype(match word {
        Word::Number(number) => number,
        Word::Text(text) => match text.bytes() {
            b"ncclInt8" => 0,
            b"Unknown" | b"ncclUint8" => 1,
            b"ncclInt32" => 2,
            b"ncclUint32" => 3,
            b"ncclInt64" => 4,
            b"ncclUint64" => 5,
            b"ncclFloat16" => 6,
            b"ncclFloat32" => 7,
            b"ncclFloat64" => 8,
            b"ncclBfloat16" => 9,
            b"ncclFloat8e4m3" => 10,
            b"ncclFloat8e5m2" => 11,
            _ => u8::MAX,
        },
    })
}

/// One collective of a plan.
#[derive(Clone, Copy)]
pub(crate) struct Coll {
    /// commName and commHash, which versions 4 and later say at init instead.
    pub(crate) name: Text,
    pub(crate) comm_hash: u64,
    pub(crate) func: Word,
    pub(crate) count: u64,
    pub(crate) root: i32,
    pub(crate) datatype: Word,
    /// Channels that take part; versions before 4 only know how many may.
    pub(crate) n_channels: u8,
}

/// One send or receive of a plan.
#[derive(Clone, Copy)]
pub(crate) struct P2p {
    pub(crate) name: Text,
    pub(crate) comm_hash: u64,
    pub(crate) func: Word,
    pub(crate) datatype: Word,
    pub(crate) count: u64,
    pub(crate) peer: i32,
    /// Not known before version 4.
    pub(crate) n_channels: u8,
}

/// A call of the API, of a collective or of a send or receive.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) func: Word,
    pub(crate) count: u64,
    pub(crate) datatype: Word,
    /// -1 for a send or receive.
    pub(crate) root: i32,
    pub(crate) is_captured: bool,
}

/// One proxy operation: a (channel, peer, direction) of a task.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct ProxyOp {
    pub(crate) pid: i32,
    pub(super) channel: u8,
    pub(crate) peer: i32,
    pub(super) n_steps: i32,
    pub(super) chunk_bytes: i32,
    pub(crate) is_send: i32,
}

/// What has begun.
pub(crate) enum Event {
    GroupApi,
    CollApi(Api),
    P2pApi(Api),
    Coll(Coll),
    P2p(P2p),
    /// By copy engines.
    CeColl,
    ProxyOp(ProxyOp),
    ProxyStep,
    /// A task's work on this channel.
    KernelCh(u8),
    /// Of a type that is known and says nothing that is wanted here.
    Other,
    /// Of a type that this version of the interface does not have.
    Unknown,
}
