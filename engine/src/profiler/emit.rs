//! What a plugin is told of an operation, and when.
//!
//! API events, Coll and P2p begin and end while the call is enqueued, on the calling thread, as in NCCL. KernelCh, ProxyOp
//! and ProxyStep come from the thread that runs the operation. A channel that did not finish is never stopped, so that
//! nobody counts a failed operation as completed. Asking for a type of event brings its ancestors too.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::clock;
use crate::collective::algorithm::Choice;
use crate::collective::operation::Primitive;
use crate::comm::links::P2P_CHANNEL;
use crate::profiler::abi::{
    Coll, CollApi, Descriptor, Details, GroupApi, KernelCh, P2p, P2pApi, ProxyOp, ProxyStep, StateArgs,
    event, state,
};
use crate::profiler::plugin::{Context, Handle};
use crate::types::DataType;

const TRANSFERS: u64 = event::PROXY_OP | event::PROXY_STEP | event::NET_PLUGIN;
const TASKS: u64 = event::COLL | event::P2P | event::KERNEL_CH | TRANSFERS;
const CALLS: u64 = event::GROUP_API | event::COLL_API | event::P2P_API | event::KERNEL_LAUNCH | TASKS;

/// What the API knows of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Which primitive.
    pub(crate) primitive: Primitive,
    /// The caller's count.
    pub(crate) count: usize,
    /// The caller's type.
    pub(crate) data_type: DataType,
    /// The caller's stream.
    pub(crate) stream: usize,
    /// The caller's send buffer.
    pub(crate) send_buff: usize,
    /// The caller's receive buffer.
    pub(crate) recv_buff: usize,
}

/// The events of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperationEvents {
    context: Option<Arc<Context>>,
    mask: u64,
    rank: c_int,
    api: Option<Handle>,
    task: Option<Handle>,
}

/// The event of one outermost group.
#[derive(Debug, Default)]
pub(crate) struct GroupEvents {
    context: Option<Arc<Context>>,
    handle: Option<Handle>,
}

impl GroupEvents {
    /// Begins, at the group's first call.
    pub(crate) fn start(context: &Arc<Context>, rank: usize, depth: usize) -> Self {
        if context.mask() & CALLS == 0 {
            return Self::default();
        }
        let group_api = GroupApi { graph_captured: false, group_depth: int(depth) };
        let details = Details { group_api };
        let kind = event::GROUP_API;
        let handle =
            context.start(Descriptor { kind, parent: std::ptr::null_mut(), rank: int(rank), details });
        context.record(handle, state::GROUP_START_API_STOP, None);
        Self { context: Some(Arc::clone(context)), handle: Some(handle) }
    }

    /// `ncclGroupEnd` begins.
    pub(crate) fn ending(&self) {
        if let (Some(context), Some(handle)) = (&self.context, self.handle) {
            context.record(handle, state::GROUP_END_API_START, None);
        }
    }

    /// It is over.
    pub(crate) fn stop(&self) {
        if let (Some(context), Some(handle)) = (&self.context, self.handle) {
            context.stop(handle);
        }
    }

    fn parent(&self) -> *mut c_void {
        self.handle.unwrap_or(Handle::NONE).pointer()
    }
}

impl OperationEvents {
    /// The API call: begins and ends within it. The mask is latched here.
    pub(crate) fn call(context: &Arc<Context>, rank: usize, call: &Call, group: &GroupEvents) -> Self {
        let mask = context.mask();
        let mut events =
            Self { context: Some(Arc::clone(context)), mask, rank: int(rank), api: None, task: None };
        let own = if call.primitive.peer().is_some() {
            event::P2P_API | event::P2P
        } else {
            event::COLL_API | event::COLL
        };
        if mask & (own | event::KERNEL_CH | TRANSFERS) != 0 {
            let (kind, details) = api_details(call);
            let handle = context.start(Descriptor { kind, parent: group.parent(), rank: int(rank), details });
            context.stop(handle);
            events.api = Some(handle);
        }
        events
    }

    /// The task: begins and ends as the operation is enqueued. `sequence` counts per function.
    pub(crate) fn enqueue(&mut self, call: &Call, sequence: u64, choice: Choice) {
        let own = if call.primitive.peer().is_some() { event::P2P } else { event::COLL };
        let Some(context) = &self.context else { return };
        if self.mask & (own | event::KERNEL_CH | TRANSFERS) != 0 {
            let (kind, details) = task_details(call, sequence, choice);
            let parent = self.api.unwrap_or(Handle::NONE).pointer();
            let handle = context.start(Descriptor { kind, parent, rank: self.rank, details });
            context.stop(handle);
            self.task = Some(handle);
        }
    }

    /// Whether a profiler asked for any event of the operation.
    pub(crate) fn is_wanted(&self) -> bool {
        self.context.is_some()
    }

    /// A channel begins its work.
    pub(crate) fn kernel_start(&self, channel: u32) -> Option<Handle> {
        let kernel_ch = KernelCh { channel_id: channel_id(channel), p_timer: clock::monotonic_ns() };
        self.start(event::KERNEL_CH, event::KERNEL_CH, self.task, Details { kernel_ch })
    }

    /// A channel has done its work.
    pub(crate) fn kernel_stop(&self, kernel: Option<Handle>) {
        self.record(kernel, state::KERNEL_CH_STOP, StateArgs { p_timer: clock::monotonic_ns() });
        self.stop(kernel);
    }

    /// A connection begins to carry the operation in one direction.
    pub(crate) fn proxy_op(&self, channel: u32, transfers: Transfers, is_send: bool) -> Option<Handle> {
        let proxy_op = ProxyOp {
            pid: int(std::process::id() as usize),
            channel_id: channel_id(channel),
            peer: int(transfers.peer),
            n_steps: int(transfers.n_steps),
            chunk_size: int(transfers.chunk_bytes),
            is_send: c_int::from(is_send),
        };
        self.start(event::PROXY_OP, TRANSFERS, self.task, Details { proxy_op })
    }

    /// A part begins.
    pub(crate) fn proxy_step(&self, op: Option<Handle>, index: u32) -> Option<Handle> {
        let proxy_step = ProxyStep { step: int(index as usize) };
        let wanted = event::PROXY_STEP | event::NET_PLUGIN;
        self.start(event::PROXY_STEP, wanted, op, Details { proxy_step })
    }

    /// A part of `bytes` is being sent.
    pub(crate) fn sending(&self, step: Option<Handle>, bytes: usize) {
        self.record(step, state::SEND_WAIT, StateArgs { trans_size: bytes });
    }

    /// A part of `bytes` has been received.
    pub(crate) fn received(&self, step: Option<Handle>, bytes: usize) {
        self.record(step, state::RECV_FLUSH_WAIT, StateArgs { trans_size: bytes });
    }

    fn record(&self, handle: Option<Handle>, state: c_int, args: StateArgs) {
        if let (Some(context), Some(handle)) = (&self.context, handle) {
            context.record(handle, state, Some(args));
        }
    }

    /// An event is over.
    pub(crate) fn stop(&self, handle: Option<Handle>) {
        if let (Some(context), Some(handle)) = (&self.context, handle) {
            context.stop(handle);
        }
    }

    fn start(&self, kind: u64, wanted: u64, parent: Option<Handle>, details: Details) -> Option<Handle> {
        let context = self.context.as_ref().filter(|_| self.mask & wanted != 0)?;
        let parent = parent.unwrap_or(Handle::NONE).pointer();
        Some(context.start(Descriptor { kind, parent, rank: self.rank, details }))
    }
}

/// What a channel will transfer in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfers {
    /// With whom.
    pub(crate) peer: usize,
    /// How many.
    pub(crate) n_steps: usize,
    /// The largest.
    pub(crate) chunk_bytes: usize,
}

fn api_details(call: &Call) -> (u64, Details) {
    let (func, datatype) = (call.primitive.nccl_name().as_ptr(), call.data_type.profiler_name().as_ptr());
    let (count, stream, graph_captured) = (call.count, call.stream as *mut c_void, false);
    if call.primitive.peer().is_some() {
        (event::P2P_API, Details { p2p_api: P2pApi { func, count, datatype, stream, graph_captured } })
    } else {
        let root = int(call.primitive.root());
        (
            event::COLL_API,
            Details { coll_api: CollApi { func, count, datatype, root, stream, graph_captured } },
        )
    }
}

fn task_details(call: &Call, seq_number: u64, choice: Choice) -> (u64, Details) {
    let func = call.primitive.nccl_name().as_ptr();
    let n_channels = byte(choice.n_channels);
    let parent_group = std::ptr::null_mut();
    if let Some(peer) = call.primitive.peer() {
        let buff = if call.send_buff == 0 { call.recv_buff } else { call.send_buff };
        let (buff, peer) = (buff as *mut c_void, int(peer));
        let (datatype, count) = (call.data_type.profiler_name().as_ptr(), call.count);
        return (
            event::P2P,
            Details { p2p: P2p { func, buff, datatype, count, peer, n_channels, parent_group } },
        );
    }
    // NCCL turns these two into copies of bytes before the profiler hears of them.
    let as_bytes = matches!(call.primitive, Primitive::AllGather | Primitive::Broadcast { .. });
    let (count, data_type) = if as_bytes {
        (call.count * call.data_type.size_bytes(), DataType::I8)
    } else {
        (call.count, call.data_type)
    };
    let coll = Coll {
        seq_number,
        func,
        send_buff: call.send_buff as *const c_void,
        recv_buff: call.recv_buff as *mut c_void,
        count,
        root: int(call.primitive.root()),
        datatype: data_type.profiler_name().as_ptr(),
        n_channels,
        n_warps: 1,
        algo: choice.algorithm.profiler_name().as_ptr(),
        proto: c"SIMPLE".as_ptr(),
        parent_group,
    };
    (event::COLL, Details { coll })
}

fn int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// Sends and receives are the first channel's, as far as a profiler can tell.
fn channel_id(channel: u32) -> u8 {
    if channel == P2P_CHANNEL { 0 } else { byte(channel as usize) }
}

fn byte(value: usize) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}
