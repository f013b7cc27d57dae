//! The profiler interface's structures, version 5. Layouts and states: NCCL
//! `src/include/plugin/profiler/profiler_v5.h`, checked against a compiler at 2.30.7.

use std::ffi::{c_char, c_int, c_void};

pub(super) const COLL: u64 = 0x2;
pub(super) const P2P: u64 = 0x4;
pub(super) const PROXY_OP: u64 = 0x8;
pub(super) const PROXY_STEP: u64 = 0x10;
pub(super) const KERNEL_CH: u64 = 0x40;
pub(super) const COLL_API: u64 = 0x200;
pub(super) const P2P_API: u64 = 0x400;

/// `ncclProfilerProxyStepSendWait`: the step's bytes are with the network.
pub(super) const STATE_SEND_WAIT: c_int = 9;

/// `ncclProfiler_v5_t`.
#[repr(C)]
pub(super) struct Table {
    pub(super) name: *const c_char,
    pub(super) init: unsafe extern "C" fn(
        *mut *mut c_void,
        u64,
        *mut c_int,
        *const c_char,
        c_int,
        c_int,
        c_int,
        *const c_void,
    ) -> c_int,
    pub(super) start_event: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const Descriptor) -> c_int,
    pub(super) stop_event: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub(super) record_event_state: unsafe extern "C" fn(*mut c_void, c_int, *const StateArgs) -> c_int,
    pub(super) finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// `ncclProfilerEventDescr_v5_t`.
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) kind: u64,
    pub(super) parent: *mut c_void,
    pub(super) rank: c_int,
    pub(super) detail: Detail,
}

#[repr(C)]
pub(super) union Detail {
    pub(super) coll: Coll,
    pub(super) p2p: P2p,
    pub(super) proxy_op: ProxyOp,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Coll {
    pub(super) seq_number: u64,
    pub(super) func: *const c_char,
    pub(super) send: *const c_void,
    pub(super) recv: *const c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) datatype: *const c_char,
    pub(super) n_channels: u8,
    pub(super) n_warps: u8,
    pub(super) algorithm: *const c_char,
    pub(super) protocol: *const c_char,
    pub(super) parent_group: *const c_void,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct P2p {
    pub(super) func: *const c_char,
    pub(super) buffer: *const c_void,
    pub(super) datatype: *const c_char,
    pub(super) count: usize,
    pub(super) peer: c_int,
    pub(super) n_channels: u8,
    pub(super) parent_group: *const c_void,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct ProxyOp {
    pub(super) pid: c_int,
    pub(super) channel: u8,
    pub(super) peer: c_int,
    pub(super) n_steps: c_int,
    pub(super) chunk_bytes: c_int,
    pub(super) is_send: c_int,
}

/// `ncclProfilerEventStateArgs_v5_t`, of which only a proxy step's is read.
#[repr(C)]
pub(super) struct StateArgs {
    pub(super) trans_size: usize,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Descriptor>() == 112);
    assert!(offset_of!(Descriptor, detail) == 24);
    assert!(offset_of!(Coll, n_channels) == 80 - 24);
    assert!(offset_of!(P2p, n_channels) == 60 - 24);
    assert!(offset_of!(ProxyOp, peer) == 32 - 24);
    assert!(offset_of!(ProxyOp, is_send) == 44 - 24);
};
