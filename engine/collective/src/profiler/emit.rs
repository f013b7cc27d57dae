//! What a plugin is told of an operation, and when.
//!
//! API events, plans and tasks begin and end while the call is enqueued, on the calling thread, as in NCCL; what happens
//! while the operation runs is in [`work`]. A channel that did not finish is never stopped, so that nobody counts a failed
//! operation as completed. Asking for a type of event brings its ancestors too.
//!
//! In the faithful mode, what NCCL does not tell is not told: connections over shared memory have no proxy, an all-to-all,
//! gather or scatter is its sends and receives (`ncclAlltoAll` and others in `src/collectives.cc`), and NCCL 2.30 loses the
//! task of a broadcast (`src/enqueue.cc`, `ncclTaskBcast`).

pub(crate) mod work;

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use crate::collective::algorithm::Choice;
use crate::collective::primitive::Primitive;
use crate::faithful::Version;
use crate::profiler::event::{Coll, CollApi, Descriptor, Details, P2p, P2pApi, State, kind};
use crate::profiler::plugin::{Context, Handle};
use crate::profiler::teller::Teller;
use crate::types::DataType;

const TRANSFERS: u64 = kind::PROXY_OP | kind::PROXY_STEP | kind::NET_PLUGIN;
const TASKS: u64 = kind::COLL | kind::P2P | kind::KERNEL_CH | TRANSFERS;
const CALLS: u64 =
    kind::GROUP_API | kind::COLL_API | kind::P2P_API | kind::KERNEL_LAUNCH | kind::GROUP | TASKS;

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
    teller: Option<Arc<Teller>>,
    faithful: Option<Version>,
    mask: u64,
    rank: c_int,
    group_api: Option<Handle>,
    /// One, or one for each send and receive that the call is made of.
    tasks: Vec<Task>,
}

/// What an operation is for a profiler: itself, or one of its sends and receives.
#[derive(Clone, Copy, Debug)]
struct Task {
    primitive: Primitive,
    api: Option<Handle>,
    task: Option<Handle>,
}

/// The event of one outermost group.
#[derive(Debug, Default)]
pub(crate) struct GroupEvents {
    teller: Option<Arc<Teller>>,
    handle: Option<Handle>,
}

/// The events of one plan: what a group asks of one communicator.
#[derive(Debug, Default)]
pub(crate) struct PlanEvents {
    teller: Option<Arc<Teller>>,
    group: Option<Handle>,
}

impl GroupEvents {
    /// Begins, at the group's first call.
    pub(crate) fn start(teller: &Arc<Teller>, depth: usize) -> Self {
        if teller.context().mask() & CALLS == 0 {
            return Self::default();
        }
        let handle = start(teller.context(), None, 0, Details::GroupApi { depth: int(depth) });
        teller.context().record(handle, State::GroupStartApiStop);
        Self { teller: Some(Arc::clone(teller)), handle: Some(handle) }
    }

    /// `ncclGroupEnd` begins.
    pub(crate) fn ending(&self) {
        if let (Some(teller), Some(handle)) = (&self.teller, self.handle) {
            teller.context().record(handle, State::GroupEndApiStart);
        }
    }

    /// It is over.
    pub(crate) fn stop(&self) {
        if let (Some(teller), Some(handle)) = (&self.teller, self.handle) {
            teller.context().stop(handle);
        }
    }
}

impl PlanEvents {
    /// Begins with the first operation of the plan that a profiler asked for: it is launched, and handed over.
    pub(crate) fn join(&mut self, events: &OperationEvents, call: &Call) {
        let is_new = self.teller.is_none() && !events.loses_its_task(call.primitive);
        let Some(teller) = events.teller.as_ref().filter(|_| is_new) else { return };
        let mask = events.mask;
        if mask & kind::KERNEL_LAUNCH != 0 {
            let launch = Details::KernelLaunch { stream: call.stream as *mut c_void };
            teller.context().stop(start(teller.context(), events.group_api, 0, launch));
        }
        let group =
            (mask & (kind::GROUP | TASKS) != 0).then(|| start(teller.context(), None, 0, Details::Group));
        *self = Self { teller: Some(Arc::clone(teller)), group };
    }

    /// All its operations are enqueued.
    pub(crate) fn stop(self) {
        if let (Some(teller), Some(group)) = (&self.teller, self.group) {
            teller.context().stop(group);
        }
    }
}

impl OperationEvents {
    /// The API call: begins and ends within it. The mask is latched here.
    pub(crate) fn call(
        teller: &Arc<Teller>,
        (rank, n_ranks): (usize, usize),
        call: &Call,
        group: &GroupEvents,
        faithful: Option<Version>,
    ) -> Self {
        let mask = teller.context().mask();
        let tasks =
            if faithful.is_some() { parts(call.primitive, rank, n_ranks) } else { vec![call.primitive] };
        let group_api = group.handle;
        let tell = |primitive: Primitive| {
            let own = if primitive.peer().is_some() {
                kind::P2P_API | kind::P2P
            } else {
                kind::COLL_API | kind::COLL
            };
            let wanted = mask & (own | kind::KERNEL_CH | TRANSFERS) != 0;
            let api = wanted.then(|| {
                let api = start(teller.context(), group_api, 0, api_details(primitive, call));
                teller.context().stop(api);
                api
            });
            Task { primitive, api, task: None }
        };
        let tasks = tasks.into_iter().map(tell).collect();
        Self { teller: Some(Arc::clone(teller)), faithful, mask, rank: int(rank), group_api, tasks }
    }

    /// The task: begins and ends as the operation is enqueued. `sequence` counts per function.
    /// `name` is that of the algorithm which NCCL would take.
    pub(crate) fn enqueue(
        &mut self,
        call: &Call,
        sequence: u64,
        (choice, name): (Choice, &'static CStr),
        plan: &PlanEvents,
    ) {
        let Some(teller) = self.teller.clone() else { return };
        if self.loses_its_task(call.primitive) {
            self.mask = 0;
            return;
        }
        let (mask, rank) = (self.mask, self.rank);
        for task in &mut self.tasks {
            let own = if task.primitive.peer().is_some() { kind::P2P } else { kind::COLL };
            if mask & (own | kind::KERNEL_CH | TRANSFERS) != 0 {
                let details = task_details(task.primitive, call, sequence, (choice, name), plan.group);
                let handle = start(teller.context(), task.api, rank, details);
                teller.context().stop(handle);
                task.task = Some(handle);
            }
        }
    }

    /// Whether NCCL tells nothing of it but the call.
    fn loses_its_task(&self, primitive: Primitive) -> bool {
        self.faithful == Some(Version::V2_30) && matches!(primitive, Primitive::Broadcast { .. })
    }

    /// Whether a profiler asked for any event of the operation.
    pub(crate) fn is_wanted(&self) -> bool {
        self.teller.is_some()
    }
}

fn start(context: &Context, parent: Option<Handle>, rank: c_int, details: Details) -> Handle {
    let parent = parent.unwrap_or(Handle::NONE).pointer();
    context.start(&Descriptor { parent, rank, details })
}

/// The sends and receives of which NCCL makes a primitive that it has no collective for, in its order
/// (`src/collectives.cc`, `src/enqueue.cc` at 2.28); any other primitive is one itself.
fn parts(primitive: Primitive, rank: usize, n_ranks: usize) -> Vec<Primitive> {
    let both = |peer| [Primitive::Send { peer }, Primitive::Recv { peer }];
    match primitive {
        Primitive::AllToAll => (0..n_ranks).flat_map(both).collect(),
        Primitive::Gather { root } => {
            let received = (0..n_ranks).filter(|_| rank == root).map(|peer| Primitive::Recv { peer });
            std::iter::once(Primitive::Send { peer: root }).chain(received).collect()
        }
        Primitive::Scatter { root } => {
            let sent = (0..n_ranks).filter(|_| rank == root).map(|peer| Primitive::Send { peer });
            sent.chain(std::iter::once(Primitive::Recv { peer: root })).collect()
        }
        other => vec![other],
    }
}

fn api_details(primitive: Primitive, call: &Call) -> Details {
    let (func, datatype) = (primitive.nccl_name(), call.data_type.profiler_name());
    let (count, stream) = (call.count, call.stream as *mut c_void);
    if primitive.peer().is_some() {
        Details::P2pApi(P2pApi { func, count, datatype, stream })
    } else {
        Details::CollApi(CollApi { func, count, datatype, root: int(primitive.root()), stream })
    }
}

fn task_details(
    primitive: Primitive,
    call: &Call,
    seq_number: u64,
    (choice, name): (Choice, &'static CStr),
    group: Option<Handle>,
) -> Details {
    let func = primitive.nccl_name();
    let n_channels = byte(choice.n_channels);
    let parent_group = group.unwrap_or(Handle::NONE).pointer();
    if let Some(peer) = primitive.peer() {
        let (datatype, count) = (call.data_type.profiler_name(), call.count);
        let (buff, peer) = (buffer(primitive, peer, call) as *mut c_void, int(peer));
        return Details::P2p(P2p { func, buff, datatype, count, peer, n_channels, parent_group });
    }
    // NCCL turns these two into copies of bytes before the profiler hears of them.
    let as_bytes = matches!(primitive, Primitive::AllGather | Primitive::Broadcast { .. });
    let (count, data_type) = if as_bytes {
        (call.count * call.data_type.size_bytes(), DataType::I8)
    } else {
        (call.count, call.data_type)
    };
    Details::Coll(Coll {
        seq_number,
        func,
        send_buff: call.send_buff as *const c_void,
        recv_buff: call.recv_buff as *mut c_void,
        count,
        root: int(primitive.root()),
        datatype: data_type.profiler_name(),
        n_channels,
        n_warps: 1,
        algo: name,
        proto: c"SIMPLE",
        parent_group,
    })
}

/// The buffer of a send or receive; of a part, its block.
fn buffer(primitive: Primitive, peer: usize, call: &Call) -> usize {
    let is_send = matches!(primitive, Primitive::Send { .. });
    let whole = if is_send && call.send_buff != 0 { call.send_buff } else { call.recv_buff };
    let has_blocks = match call.primitive {
        Primitive::AllToAll => true,
        Primitive::Gather { .. } => !is_send,
        Primitive::Scatter { .. } => is_send,
        _ => false,
    };
    let block = if has_blocks { peer * call.count * call.data_type.size_bytes() } else { 0 };
    whole.wrapping_add(block)
}

fn int(value: usize) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

fn byte(value: usize) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}
