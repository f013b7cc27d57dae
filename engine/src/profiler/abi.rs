//! The layouts of versions 5 and 6 of NCCL's profiler interface (`ext-profiler/nccl/profiler_v5.h`), checked at compile
//! time.

use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::mem::offset_of;

/// Bits of event types, for `Descriptor::kind` and the activation mask.
pub(crate) mod event {
    /// One collective, as enqueued.
    pub(crate) const COLL: u64 = 0x2;
    /// One send or receive, as enqueued.
    pub(crate) const P2P: u64 = 0x4;
    /// One (channel, direction) of an operation.
    pub(crate) const PROXY_OP: u64 = 0x8;
    /// One network transfer.
    pub(crate) const PROXY_STEP: u64 = 0x10;
    /// An operation's work on one channel.
    pub(crate) const KERNEL_CH: u64 = 0x40;
    /// Events of a net plugin; asked for, it implies its ancestors.
    pub(crate) const NET_PLUGIN: u64 = 0x80;
    /// One outermost group.
    pub(crate) const GROUP_API: u64 = 0x100;
    /// One API call of a collective.
    pub(crate) const COLL_API: u64 = 0x200;
    /// One API call of a send or receive.
    pub(crate) const P2P_API: u64 = 0x400;
    /// One kernel launch; never told, for there is none.
    pub(crate) const KERNEL_LAUNCH: u64 = 0x800;
}

/// Values of `recordEventState`.
pub(crate) mod state {
    use std::ffi::c_int;

    /// A send step's data is being handed to the network.
    pub(crate) const SEND_WAIT: c_int = 9;
    /// A receive step's data has come.
    pub(crate) const RECV_FLUSH_WAIT: c_int = 11;
    /// A channel's work is done.
    pub(crate) const KERNEL_CH_STOP: c_int = 22;
    /// `ncclGroupStart` is over.
    pub(crate) const GROUP_START_API_STOP: c_int = 23;
    /// `ncclGroupEnd` has begun.
    pub(crate) const GROUP_END_API_START: c_int = 24;
}

/// `ncclProfilerEventDescr_v5_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    /// One event bit.
    pub(crate) kind: u64,
    /// The parent's handle.
    pub(crate) parent: *mut c_void,
    /// This rank.
    pub(crate) rank: c_int,
    /// By `kind`.
    pub(crate) details: Details,
}

/// The union of a descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union Details {
    pub(crate) group_api: GroupApi,
    pub(crate) coll_api: CollApi,
    pub(crate) p2p_api: P2pApi,
    pub(crate) coll: Coll,
    pub(crate) p2p: P2p,
    pub(crate) proxy_op: ProxyOp,
    pub(crate) proxy_step: ProxyStep,
    pub(crate) kernel_ch: KernelCh,
}

/// `groupApi`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct GroupApi {
    pub(crate) graph_captured: bool,
    pub(crate) group_depth: c_int,
}

/// `collApi`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CollApi {
    pub(crate) func: *const c_char,
    pub(crate) count: usize,
    pub(crate) datatype: *const c_char,
    pub(crate) root: c_int,
    pub(crate) stream: *mut c_void,
    pub(crate) graph_captured: bool,
}

/// `p2pApi`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct P2pApi {
    pub(crate) func: *const c_char,
    pub(crate) count: usize,
    pub(crate) datatype: *const c_char,
    pub(crate) stream: *mut c_void,
    pub(crate) graph_captured: bool,
}

/// `coll`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Coll {
    pub(crate) seq_number: u64,
    pub(crate) func: *const c_char,
    pub(crate) send_buff: *const c_void,
    pub(crate) recv_buff: *mut c_void,
    pub(crate) count: usize,
    pub(crate) root: c_int,
    pub(crate) datatype: *const c_char,
    pub(crate) n_channels: u8,
    pub(crate) n_warps: u8,
    pub(crate) algo: *const c_char,
    pub(crate) proto: *const c_char,
    pub(crate) parent_group: *mut c_void,
}

/// `p2p`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct P2p {
    pub(crate) func: *const c_char,
    pub(crate) buff: *mut c_void,
    pub(crate) datatype: *const c_char,
    pub(crate) count: usize,
    pub(crate) peer: c_int,
    pub(crate) n_channels: u8,
    pub(crate) parent_group: *mut c_void,
}

/// `proxyOp`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProxyOp {
    pub(crate) pid: c_int,
    pub(crate) channel_id: u8,
    pub(crate) peer: c_int,
    pub(crate) n_steps: c_int,
    pub(crate) chunk_size: c_int,
    pub(crate) is_send: c_int,
}

/// `proxyStep`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ProxyStep {
    pub(crate) step: c_int,
}

/// `kernelCh`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelCh {
    pub(crate) channel_id: u8,
    pub(crate) p_timer: u64,
}

/// `ncclProfilerEventStateArgs_v5_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union StateArgs {
    pub(crate) trans_size: usize,
    pub(crate) p_timer: u64,
}

/// `ncclDebugLogger_t`, declared without its variable arguments, which stable Rust cannot define. On the ABIs of Linux
/// a variadic call of a function with these fixed arguments is compatible; the format is logged as it is.
pub(crate) type Logger = extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char);

/// `ncclProfiler_v5_t`
#[repr(C)]
pub(crate) struct Table {
    /// The plugin's name.
    pub(crate) name: *const c_char,
    /// Once per communicator.
    pub(crate) init: Option<
        unsafe extern "C" fn(
            *mut *mut c_void,
            u64,
            *mut c_int,
            *const c_char,
            c_int,
            c_int,
            c_int,
            Logger,
        ) -> c_int,
    >,
    /// An event begins.
    pub(crate) start_event:
        Option<unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut Descriptor) -> c_int>,
    /// An event ends.
    pub(crate) stop_event: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// Something happens to an event.
    pub(crate) record_event_state: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut StateArgs) -> c_int>,
    /// Once per communicator.
    pub(crate) finalize: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

/// Offset of the union in a descriptor; member offsets below count from the descriptor's start, as in NCCL's headers.
const UNION: usize = 24;
const _: () = {
    assert!(offset_of!(Descriptor, parent) == 8 && offset_of!(Descriptor, rank) == 16);
    assert!(offset_of!(Descriptor, details) == UNION && size_of::<Descriptor>() == 112);
    assert!(UNION + offset_of!(GroupApi, group_depth) == 28);
    assert!(UNION + offset_of!(CollApi, root) == 48 && UNION + offset_of!(CollApi, stream) == 56);
    assert!(UNION + offset_of!(CollApi, graph_captured) == 64);
    assert!(UNION + offset_of!(P2pApi, stream) == 48 && UNION + offset_of!(P2pApi, graph_captured) == 56);
    assert!(UNION + offset_of!(Coll, func) == 32 && UNION + offset_of!(Coll, count) == 56);
    assert!(UNION + offset_of!(Coll, root) == 64 && UNION + offset_of!(Coll, datatype) == 72);
    assert!(UNION + offset_of!(Coll, n_channels) == 80 && UNION + offset_of!(Coll, n_warps) == 81);
    assert!(UNION + offset_of!(Coll, algo) == 88 && UNION + offset_of!(Coll, parent_group) == 104);
    assert!(UNION + offset_of!(P2p, count) == 48 && UNION + offset_of!(P2p, peer) == 56);
    assert!(UNION + offset_of!(P2p, n_channels) == 60 && UNION + offset_of!(P2p, parent_group) == 64);
    assert!(UNION + offset_of!(ProxyOp, channel_id) == 28 && UNION + offset_of!(ProxyOp, peer) == 32);
    assert!(UNION + offset_of!(ProxyOp, chunk_size) == 40 && UNION + offset_of!(ProxyOp, is_send) == 44);
    assert!(UNION + offset_of!(KernelCh, p_timer) == 32);
    assert!(size_of::<StateArgs>() == 8 && size_of::<Table>() == 48);
};
