//! What the versions of the profiler interface have in common: event types, the table, a descriptor's head and the
//! structures that never changed. Layouts: NCCL `src/include/plugin/profiler/profiler_v*.h`, v7 from 2.32.3.

#![expect(unsafe_code, reason = "reads and writes structures by their offsets")]

use std::ffi::{c_char, c_int, c_void};

use crate::profiler::event::{Api, Coll, Event, P2p, ProxyOp, Text, Word};

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

/// The longest descriptor, to be filled for a plugin of another version.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Buffer(pub(super) [u64; 17]);

/// Structures of integers and texts: every pattern of bytes is one.
///
/// # Safety
/// No field may be a bool, an enum, a reference or a pointer other than [`Text`]; no more than 112 bytes long.
pub(super) unsafe trait Detail: Copy {}

/// One version of the interface.
pub(super) trait Version {
    const NUMBER: u32;
    /// `sizeof` its descriptor.
    const SIZE: usize;
    /// `coll` and `p2p` of its descriptor.
    type Coll: Detail + Into<Coll> + for<'a> From<&'a Coll>;
    type P2p: Detail + Into<P2p> + for<'a> From<&'a P2p>;
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

/// A single word, as the smallest details are.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct OneWord(pub(super) u64);

// SAFETY: integers and texts.
unsafe impl Detail for CollApi {}
// SAFETY: as above.
unsafe impl Detail for P2pApi {}
// SAFETY: as above.
unsafe impl Detail for ProxyOp {}
// SAFETY: as above.
unsafe impl Detail for OneWord {}

/// The type of the event.
///
/// # Safety
/// A descriptor of version `V`.
#[inline(always)]
pub(super) unsafe fn kind<V: Version>(descriptor: *const Descriptor) -> u64 {
    // SAFETY: the caller's promise.
    let kind = unsafe { (*descriptor).kind };
    if V::NUMBER < 5 { kind & 0xff } else { kind }
}

/// # Safety
/// A descriptor in which a `T` lies at this offset.
#[inline(always)]
pub(super) unsafe fn at<T: Detail>(descriptor: *const Descriptor, offset: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { descriptor.wrapping_byte_add(offset).cast::<T>().read() }
}

/// Event types that a version has.
pub(super) const fn kinds(version: u32) -> u64 {
    match version {
        0..=2 => 0x3f,
        3 | 4 => 0xff,
        5 => 0xfff,
        6 => 0x7fff,
        _ => 0xffff,
    }
}

/// What a descriptor says.
///
/// # Safety
/// A descriptor of version `V`.
#[inline(always)]
pub(super) unsafe fn decode<V: Version>(descriptor: *const Descriptor, kind: u64) -> Event {
    if kind & kinds(V::NUMBER) == 0 || !kind.is_power_of_two() {
        return Event::Unknown;
    }
    match kind {
        COLL => {
            // SAFETY: the kind says which member is set.
            Event::Coll(unsafe { at::<V::Coll>(descriptor, DETAIL) }.into())
        }
        P2P => {
            // SAFETY: the kind says which member is set.
            Event::P2p(unsafe { at::<V::P2p>(descriptor, DETAIL) }.into())
        }
        PROXY_OP => {
            // SAFETY: the kind says which member is set.
            Event::ProxyOp(unsafe { at(descriptor, DETAIL) })
        }
        PROXY_STEP => Event::ProxyStep,
        KERNEL_CH => {
            // SAFETY: the kind says which member is set.
            let channel = unsafe { at::<OneWord>(descriptor, DETAIL) }.0.to_le_bytes()[0];
            Event::KernelCh(channel)
        }
        GROUP_API => Event::GroupApi,
        COLL_API => {
            // SAFETY: the kind says which member is set.
            let api: CollApi = unsafe { at(descriptor, DETAIL) };
            Event::CollApi(api.into())
        }
        P2P_API => {
            // SAFETY: the kind says which member is set.
            let api: P2pApi = unsafe { at(descriptor, DETAIL) };
            Event::P2pApi(api.into())
        }
        CE_COLL => Event::CeColl,
        _ => Event::Other,
    }
}

impl From<CollApi> for Api {
    #[inline(always)]
    fn from(api: CollApi) -> Self {
        Self {
            func: Word::Text(api.func),
            count: api.count,
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
            count: api.count,
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
    assert!(size_of::<Table<InitBlank>>() == 48 && size_of::<Buffer>() == 136);
};

/// Numbers of version 1, by their text in later versions.
pub(super) const FUNCS: &[&[u8]] =
    &[b"Broadcast", b"Reduce", b"AllGather", b"ReduceScatter", b"AllReduce", b"SendRecv", b"Send", b"Recv"];
pub(super) const ALGORITHMS: &[&[u8]] =
    &[b"TREE", b"RING", b"COLLNET_DIRECT", b"COLLNET_CHAIN", b"NVLS", b"NVLS_TREE", b"PAT"];
pub(super) const PROTOCOLS: &[&[u8]] = &[b"LL", b"LL128", b"SIMPLE"];
pub(super) const DATATYPES: &[&[u8]] = &[
    b"ncclInt8",
    b"Unknown",
    b"ncclInt32",
    b"ncclUint32",
    b"ncclInt64",
    b"ncclUint64",
    b"ncclFloat16",
    b"ncclFloat32",
    b"ncclFloat64",
    b"ncclBfloat16",
    b"ncclFloat8e4m3",
    b"ncclFloat8e5m2",
];

/// The text of a word: version 1, which has numbers, is never retold in another version's words.
pub(super) fn text(word: Word) -> Text {
    match word {
        Word::Text(text) => text,
        Word::Number(_) => Text::NULL,
    }
}
