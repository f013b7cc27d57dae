//! What the collector and its watcher of summation groups hand each other. The watcher is a library of its own beside the
//! collector, which opens it where a process makes a group: no other process has its tables in memory.
//!
//! The collector has the segment, records and communicators; the watcher knows the engine's structures, the calls that are
//! open and what stands in the [`Area`]. Both are built from one source: [`VERSION`] refuses files that are not.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::segment::summation::layout::Area;

/// File name of the watcher, beside the collector's.
pub const FILE_NAME: &CStr = c"libringscope_watcher.so";
/// The function that it exports: a [`Start`].
pub const SYMBOL: &CStr = c"ringscope_watcher";
/// [`Collector::version`]: of these tables, and how large an area is.
pub const VERSION: u64 = (size_of::<Area>() as u64) << 16 | 1;

/// Begins in this process, with nothing of what was there before: also what a child has of its parent's. NULL if the
/// collector's version is another one. Both tables are valid for ever.
pub type Start = unsafe extern "C" fn(*const Collector) -> *const Watcher;

/// What the collector does for the watcher. A record is a number other than 0 that says nothing to the watcher.
#[derive(Debug)]
#[repr(C)]
pub struct Collector {
    /// [`VERSION`].
    pub version: u64,
    /// A group begins, or goes on: finds or makes the communicator that carries it.
    pub join: unsafe extern "C" fn(*const Carrier) -> Joined,
    /// Says again that the group's operations are completed by the watcher: a change of level takes it back.
    pub keep: extern "C" fn(),
    /// The group has ended, and no call of it is open any more.
    pub leave: extern "C" fn(),
    /// Records a call of this primitive as issued now, with `count` elements of `datatype`. 0: there is no group, or
    /// nothing is to be recorded.
    pub issue: extern "C" fn(primitive: u8, count: u64, datatype: u8) -> u64,
    /// The call was taken by the engine, or refused.
    pub settle: extern "C" fn(record: u64, is_taken: bool),
    /// The call's round is over, well or not.
    pub close: extern "C" fn(record: u64, is_good: bool),
    /// Records a call that was not seen and is over, and took so long.
    pub add: extern "C" fn(primitive: u8, count: u64, datatype: u8, took_ns: u64, is_good: bool),
    /// Counts a group that the area has no room for.
    pub too_large: extern "C" fn(),
    /// `CLOCK_MONOTONIC`.
    pub now_ns: extern "C" fn() -> u64,
    /// The watcher has panicked: the collector is switched off for good.
    pub fault: extern "C" fn(),
}

/// The communicator that carries a group.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Carrier {
    /// The group's number, which is the communicator's hash.
    pub group: u64,
    /// `ncclComm_t`.
    pub pointer: u64,
    /// Of this process in it.
    pub rank: u32,
    /// Ranks in it.
    pub n_ranks: u32,
}

/// What a beginning is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Joined {
    /// One of the `JOINED_*`.
    pub beginning: u32,
    /// The communicator's slot, and the slot's generation shifted left by 16; 0 if it is not followed.
    pub communicator: u64,
}

/// [`Joined::beginning`]: of a group that was not there before.
pub const JOINED_NEW: u32 = 1;
/// [`Joined::beginning`]: of the present group, with more tensors.
pub const JOINED_AGAIN: u32 = 2;
/// [`Joined::beginning`]: of another one while the present one has not ended. It is not followed.
pub const JOINED_SECOND: u32 = 3;

/// What the watcher does for the collector. Structures that the engine hands over, as `rsum_observer.h` has them, are passed
/// on as they come; the collector knows nothing of them.
#[derive(Debug)]
#[repr(C)]
pub struct Watcher {
    /// A group begins: 0 if it is followed.
    pub begin: unsafe extern "C" fn(*const Area, group: *const c_void) -> c_int,
    /// The state of the group.
    pub sample: unsafe extern "C" fn(*const Area, sample: *const c_void),
    /// A result.
    pub round: unsafe extern "C" fn(*const Area, round: *const c_void),
    /// A tensor's round is over.
    pub finished: unsafe extern "C" fn(finished: *const c_void),
    /// The group has ended.
    pub end: unsafe extern "C" fn(*const Area, how: c_int, lost_rank: c_int, why: *const c_char),
    /// A tensor was declared, under this number.
    pub declared: extern "C" fn(tensor: c_int, count: u64, datatype: c_int),
    /// A call is about to be forwarded that contributes to a tensor.
    pub contribute: extern "C" fn(primitive: u8, tensor: c_int) -> Call,
    /// A call is about to be forwarded that asks for the sum of a push.
    pub ask: extern "C" fn(push: c_int) -> Call,
    /// The push has this handle.
    pub pushed: extern "C" fn(*const Call, handle: c_int),
    /// The call was taken, or refused.
    pub finish: extern "C" fn(*const Call, is_taken: bool),
}

/// A call that is being forwarded.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Call {
    /// 0 if it is not followed.
    pub key: u64,
    /// 0 if it has none.
    pub record: u64,
    /// Whether it asks for a sum that an earlier call has contributed to.
    pub is_pull: bool,
}
