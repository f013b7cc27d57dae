//! Marks, pairs and threads in the segment. As in [`super::super::layout`] all is atomic and starts as zero.

use std::sync::atomic::{AtomicU32, AtomicU64};

use zerocopy::{FromBytes, KnownLayout};

use super::super::layout::MAX_COMMUNICATORS;

/// Marks kept of each communicator: the newest.
pub const MARKS: usize = 64;
/// A mark is set at the first call outside of a group, or end of a group, at or after each multiple of so many calls.
pub const CALLS_PER_MARK: u64 = 64;
/// (communicator, send or recv, peer) that are told apart.
pub const MAX_PAIRS: usize = 4096;
/// Threads whose calls are known at once. The entry of a thread that has ended is used again.
pub const MAX_THREADS: usize = 256;

/// Everything here.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Area {
    /// Threads that have called the library.
    pub threads: [Thread; MAX_THREADS],
    /// By slot of the communicator: mark `i` lies at index `i % MARKS`. Written before `Communicator::n_marks` counts it.
    pub marks: [[Mark; MARKS]; MAX_COMMUNICATORS],
    /// Calls of send and recv by peer.
    pub pairs: [Pair; MAX_PAIRS],
}

/// What the hash was after so many calls.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Mark {
    /// Collective calls.
    pub calls: AtomicU64,
    /// Hash over them.
    pub hash: AtomicU64,
}

/// Calls of one rank to send to, or receive from, one peer. An entry is taken by setting `key` from 0.
#[derive(FromBytes, KnownLayout)]
#[repr(C)]
pub struct Pair {
    /// [`super::super::layout::link_key`] of what is counted here, 0 if free; without the highest bit: freed, to be skipped.
    pub key: AtomicU64,
    /// Calls so far, whatever has become of them.
    pub calls: AtomicU64,
    /// Their payload bytes.
    pub bytes: AtomicU64,
    /// Hash over count and datatype of each, in their order.
    pub hash: AtomicU64,
    /// [`super::hash::check`] of calls and hash: with any other number they are being written.
    pub check: AtomicU64,
}

/// One thread, and the call of the library that it made last. It is in it while `returned_ticks` is less than
/// `entered_ticks`.
#[derive(FromBytes, KnownLayout)]
#[repr(C, align(64))]
pub struct Thread {
    /// Thread id as the process sees it, 0 while free.
    pub thread: AtomicU32,
    _reserved: AtomicU32,
    /// [`call_word`] of the call.
    pub call: AtomicU64,
    /// Ticks at which it was entered. Written after `call`, with Release.
    pub entered_ticks: AtomicU64,
    /// Ticks at which it returned. The call of an operation, which as a rule returns at once, has no clock read for its
    /// return: there it is `entered_ticks` again.
    pub returned_ticks: AtomicU64,
    _pad: [AtomicU64; 4],
}

/// Packs which call it is: `generation of the slot << 32 | (communicator slot + 1) << 8 | function`, where no communicator
/// is 0.
#[inline(always)]
#[must_use]
pub const fn call_word(function: u8, subject: Option<(usize, u32)>) -> u64 {
    match subject {
        Some((slot, generation)) => {
            (generation as u64) << 32 | ((slot as u64 + 1) & 0xffff) << 8 | function as u64
        }
        None => function as u64,
    }
}

/// Names of functions; the number of one is its index plus one. New ones come at the end.
pub const FUNCTIONS: [&str; 46] = [
    "ncclGetVersion",
    "ncclCommCount",
    "ncclCommUserRank",
    "ncclCommCuDevice",
    "ncclCommInitRank",
    "ncclCommInitRankConfig",
    "ncclCommInitRankScalable",
    "ncclCommInitAll",
    "ncclCommSplit",
    "ncclCommShrink",
    "ncclCommGrow",
    "ncclCommDestroy",
    "ncclCommAbort",
    "ncclCommRevoke",
    "ncclCommFinalize",
    "ncclCommGetAsyncError",
    "ncclGroupStart",
    "ncclGroupEnd",
    "ncclGroupSimulateEnd",
    "ncclCommRegister",
    "ncclCommWindowRegister",
    "ncclMemAlloc",
    "ncclAllReduce",
    "ncclBroadcast",
    "ncclBcast",
    "ncclReduce",
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclSend",
    "ncclRecv",
    "ncclAlltoAll",
    "ncclGather",
    "ncclScatter",
    "ncclAllReduceConfig",
    "ncclBroadcastConfig",
    "ncclReduceConfig",
    "ncclAllGatherConfig",
    "ncclReduceScatterConfig",
    "ncclAlltoAllConfig",
    "ncclGatherConfig",
    "ncclScatterConfig",
    "ncclPutSignal",
    "ncclSignal",
    "ncclWaitSignal",
    "ncclCommDeregister",
    "ncclCommWindowDeregister",
];

const _: () = {
    assert!(size_of::<Thread>() == 64);
    assert!(size_of::<Pair>() == 40);
};
