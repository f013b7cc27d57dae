//! What the versions of the profiler interface have in common: event types, the table, a descriptor's head and the
//! structures that never changed. What differs is in [`crate::profiler::versions`].

#![expect(unsafe_code, reason = "reads and writes structures by their offsets")]

use std::ffi::{c_char, c_int, c_void};

use crate::profiler::event::{Api, Coll, Event, P2p, ProxyOp, Text, Word};
use crate::profiler::versions::{Version, coll, p2p};

pub(crate) const GROUP: u64 = 0x1;
pub(crate) const COLL: u64 = 0x2;
pub(crate) const P2P: u64 = 0x4;
pub(crate) const PROXY_OP: u64 = 0x8;
pub(crate) const PROXY_STEP: u64 = 0x10;
pub(crate) const PROXY_CTRL: u64 = 0x20;
pub(crate) const KERNEL_CH: u64 = 0x40;
pub(crate) const NET_PLUGIN: u64 = 0x80;
pub(crate) const GROUP_API: u64 = 0x100;
pub(crate) const COLL_API: u64 = 0x200;
pub(crate) const P2P_API: u64 = 0x400;
pub(crate) const KERNEL_LAUNCH: u64 = 0x800;
pub(crate) const CE_COLL: u64 = 0x1000;
pub(crate) const CE_SYNC: u64 = 0x2000;
pub(crate) const CE_BATCH: u64 = 0x4000;
pub(crate) const KERNEL_PHASE: u64 = 0x8000;

/// `ncclProfilerProxyOpSendDone`, versions 1 to 3: the bytes of the operation so far are with the network.
pub(super) const STATE_SEND_DONE: c_int = 3;
/// `ncclProfilerProxyStepSendWait`, versions 4 and later: the step's bytes are with the network.
pub(super) const STATE_SEND_WAIT: c_int = 9;

/// `ncclProfiler_v*_t`: six words in every version; only the signature of `init` differs.
#[repr(C)]
pub(super) struct Table<Init> {
    pub(super) name: *const c_char,
    pub(super) init: Init,
    pub(super) start_event: StartEvent,
    pub(super) stop_event: StopEvent,
    pub(super) record_event_state: RecordEventState,
    pub(super) finalize: Finalize,
}

// SAFETY: never written; its pointer is to a constant.
unsafe impl<Init: Sync> Sync for Table<Init> {}

/// Versions 1 to 3.
pub(super) type InitBlank = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
/// Version 4.
pub(super) type InitNamed = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;
/// Versions 5 and later.
pub(super) type InitById = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    *const c_void,
) -> c_int;
pub(super) type StartEvent = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const Descriptor) -> c_int;
pub(super) type StopEvent = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(super) type RecordEventState = unsafe extern "C" fn(*mut c_void, c_int, *const Args) -> c_int;
pub(super) type Finalize = unsafe extern "C" fn(*mut c_void) -> c_int;

/// `ncclProfilerEventDescr_v*_t` as far as all versions agree; what follows depends on the version and on `kind`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Descriptor {
    /// `u8` up to version 4 (the rest is padding), `u64` later.
    pub(super) kind: u64,
    pub(super) parent: usize,
    pub(super) rank: i32,
}

/// Where the union of a descriptor begins.
pub(super) const DETAIL: usize = 24;

/// The first word of `ncclProfilerEventStateArgs_v*_t`: a union that in every version has `transSize` at 0.
#[repr(C)]
pub(super) struct Args {
    pub(super) trans_size: u64,
}

/// Integers and texts, of which every pattern of bytes is one: what a field or a detail may be.
///
/// # Safety
/// No part of it may be a bool, an enum, a reference or a pointer other than [`Text`].
pub(super) unsafe trait Plain: Copy {
    /// What is said where a version does not have the field.
    const ABSENT: Self;
}

// SAFETY: an integer.
unsafe impl Plain for u8 {
    const ABSENT: Self = 0;
}
// SAFETY: an integer.
unsafe impl Plain for i32 {
    const ABSENT: Self = 0;
}
// SAFETY: an integer.
unsafe impl Plain for u64 {
    const ABSENT: Self = 0;
}
// SAFETY: a text.
unsafe impl Plain for Text {
    const ABSENT: Self = Self::NULL;
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CollApi {
    pub(super) func: Text,
    pub(super) count: usize,
    pub(super) datatype: Text,
    pub(super) root: i32,
    pub(super) stream: usize,
    pub(super) is_captured: u8,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct P2pApi {
    pub(super) func: Text,
    pub(super) count: usize,
    pub(super) datatype: Text,
    pub(super) stream: usize,
    pub(super) is_captured: u8,
}

/// The type of the event.
///
/// # Safety
/// A descriptor of this version.
#[inline(always)]
pub(super) unsafe fn kind(descriptor: *const Descriptor, version: &Version) -> u64 {
    // SAFETY: the caller's promise.
    let kind = unsafe { (*descriptor).kind };
    if version.number < 5 { kind & 0xff } else { kind }
}

/// A field of a descriptor; absent where the offset is 0.
///
/// # Safety
/// A descriptor in which a `T` lies at this offset, if it is not 0.
#[inline(always)]
pub(super) unsafe fn read<T: Plain>(descriptor: *const Descriptor, offset: u8) -> T {
    if offset == 0 {
        return T::ABSENT;
    }
    // SAFETY: the caller's promise.
    unsafe { descriptor.wrapping_byte_add(offset.into()).cast::<T>().read() }
}

/// The detail of a descriptor, of a type that is the same in every version.
///
/// # Safety
/// A descriptor in whose union a `T` lies, made of integers and texts.
#[inline(always)]
unsafe fn detail<T: Copy>(descriptor: *const Descriptor) -> T {
    // SAFETY: the caller's promise.
    unsafe { descriptor.wrapping_byte_add(DETAIL).cast::<T>().read() }
}

/// # Safety
/// A descriptor in which a word of this version lies at the offset.
#[inline(always)]
unsafe fn word(descriptor: *const Descriptor, offset: u8, version: &Version) -> Word {
    if version.number == 1 {
        // SAFETY: the caller's promise.
        Word::Number(unsafe { read(descriptor, offset) })
    } else {
        // SAFETY: the caller's promise.
        Word::Text(unsafe { read(descriptor, offset) })
    }
}

/// What a descriptor says.
///
/// # Safety
/// A descriptor of this version.
#[inline(always)]
pub(super) unsafe fn decode(descriptor: *const Descriptor, kind: u64, version: &Version) -> Event {
    if kind & version.kinds == 0 || !kind.is_power_of_two() {
        return Event::Unknown;
    }
    match kind {
        // SAFETY: the kind says which member is set.
        COLL => Event::Coll(unsafe { decode_coll(descriptor, version) }),
        // SAFETY: the same.
        P2P => Event::P2p(unsafe { decode_p2p(descriptor, version) }),
        // SAFETY: the same.
        PROXY_OP => Event::ProxyOp(unsafe { detail(descriptor) }),
        PROXY_STEP => Event::ProxyStep,
        // SAFETY: the same.
        KERNEL_CH => Event::KernelCh(unsafe { detail(descriptor) }),
        GROUP_API => Event::GroupApi,
        // SAFETY: the same.
        COLL_API => Event::CollApi(unsafe { detail::<CollApi>(descriptor) }.into()),
        // SAFETY: the same.
        P2P_API => Event::P2pApi(unsafe { detail::<P2pApi>(descriptor) }.into()),
        CE_COLL => Event::CeColl,
        _ => Event::Other,
    }
}

/// # Safety
/// A descriptor of a collective, in this version.
#[inline(always)]
unsafe fn decode_coll(descriptor: *const Descriptor, version: &Version) -> Coll {
    let at = &version.coll;
    Coll {
        // SAFETY: the table says where the field is.
        name: unsafe { read(descriptor, at[coll::NAME]) },
        // SAFETY: the same.
        comm_hash: unsafe { read(descriptor, at[coll::HASH]) },
        // SAFETY: the same.
        func: unsafe { word(descriptor, at[coll::FUNC], version) },
        // SAFETY: the same.
        count: unsafe { read(descriptor, at[coll::COUNT]) },
        // SAFETY: the same.
        root: unsafe { read(descriptor, at[coll::ROOT]) },
        // SAFETY: the same.
        datatype: unsafe { word(descriptor, at[coll::DATATYPE], version) },
        // SAFETY: the same.
        n_channels: unsafe { read(descriptor, at[coll::CHANNELS]) },
    }
}

/// # Safety
/// A descriptor of a send or receive, in this version.
#[inline(always)]
unsafe fn decode_p2p(descriptor: *const Descriptor, version: &Version) -> P2p {
    let at = &version.p2p;
    P2p {
        // SAFETY: the table says where the field is.
        name: unsafe { read(descriptor, at[p2p::NAME]) },
        // SAFETY: the same.
        comm_hash: unsafe { read(descriptor, at[p2p::HASH]) },
        // SAFETY: the same.
        func: unsafe { word(descriptor, at[p2p::FUNC], version) },
        // SAFETY: the same.
        count: unsafe { read(descriptor, at[p2p::COUNT]) },
        // SAFETY: the same.
        peer: unsafe { read(descriptor, at[p2p::PEER]) },
        // SAFETY: the same.
        datatype: unsafe { word(descriptor, at[p2p::DATATYPE], version) },
        // SAFETY: the same.
        n_channels: unsafe { read(descriptor, at[p2p::CHANNELS]) },
    }
}

impl From<CollApi> for Api {
    #[inline(always)]
    fn from(api: CollApi) -> Self {
        Self {
            func: Word::Text(api.func),
            count: api.count as u64,
            datatype: Word::Text(api.datatype),
            root: api.root,
            is_captured: api.is_captured != 0,
        }
    }
}

impl From<P2pApi> for Api {
    #[inline(always)]
    fn from(api: P2pApi) -> Self {
        Self {
            func: Word::Text(api.func),
            count: api.count as u64,
            datatype: Word::Text(api.datatype),
            root: -1,
            is_captured: api.is_captured != 0,
        }
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Descriptor, parent) == 8 && offset_of!(Descriptor, rank) == 16);
    assert!(offset_of!(CollApi, count) + DETAIL == 32 && offset_of!(CollApi, datatype) + DETAIL == 40);
    assert!(offset_of!(CollApi, root) + DETAIL == 48 && offset_of!(CollApi, stream) + DETAIL == 56);
    assert!(offset_of!(CollApi, is_captured) + DETAIL == 64 && size_of::<CollApi>() + DETAIL == 72);
    assert!(offset_of!(P2pApi, stream) + DETAIL == 48 && offset_of!(P2pApi, is_captured) + DETAIL == 56);
    assert!(size_of::<P2pApi>() + DETAIL == 64);
    assert!(offset_of!(ProxyOp, channel) + DETAIL == 28 && offset_of!(ProxyOp, peer) + DETAIL == 32);
    assert!(offset_of!(ProxyOp, n_steps) + DETAIL == 36 && offset_of!(ProxyOp, is_send) + DETAIL == 44);
    assert!(size_of::<Table<InitBlank>>() == 48);
};
