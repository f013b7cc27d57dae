//! Events as they are told, whatever the version of the interface: see [`super::layout`] for what a version makes of them.

use std::ffi::{CStr, c_int, c_void};

/// Bits of event types, in descriptors and in the activation mask.
pub(crate) mod kind {
    /// One kernel plan, as it is handed over.
    pub(crate) const GROUP: u64 = 0x1;
    /// One collective, as enqueued.
    pub(crate) const COLL: u64 = 0x2;
    /// One send or receive, as enqueued.
    pub(crate) const P2P: u64 = 0x4;
    /// One (channel, peer, direction) of an operation.
    pub(crate) const PROXY_OP: u64 = 0x8;
    /// One network transfer.
    pub(crate) const PROXY_STEP: u64 = 0x10;
    /// What the progress thread does with itself.
    pub(crate) const PROXY_CTRL: u64 = 0x20;
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
    /// The launch of one plan.
    pub(crate) const KERNEL_LAUNCH: u64 = 0x800;

    /// As NCCL names them.
    pub(crate) const NAMES: [(u64, &str); 15] = [
        (GROUP, "Group"),
        (COLL, "Coll"),
        (P2P, "P2p"),
        (PROXY_OP, "ProxyOp"),
        (PROXY_STEP, "ProxyStep"),
        (PROXY_CTRL, "ProxyCtrl"),
        (KERNEL_CH, "KernelCh"),
        (NET_PLUGIN, "NetPlugin"),
        (GROUP_API, "GroupApi"),
        (COLL_API, "CollApi"),
        (P2P_API, "P2pApi"),
        (KERNEL_LAUNCH, "KernelLaunch"),
        (0x1000, "CeColl"),
        (0x2000, "CeSync"),
        (0x4000, "CeBatch"),
    ];
}

/// Something that happens to an event: a value of `recordEventState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A send step waits until the device has filled its chunk.
    SendGpuWait,
    /// It waits for room at the peer.
    SendPeerWait,
    /// So many bytes are being handed to the network.
    SendWait(usize),
    /// A receive step waits for the network.
    RecvWait,
    /// So many bytes have come.
    RecvFlushWait(usize),
    /// The device takes them.
    RecvGpuWait,
    /// The progress thread has operations, of which none moves.
    ProxyCtrlIdle,
    /// One moves again.
    ProxyCtrlActive,
    /// It has nothing to do, and sleeps.
    ProxyCtrlSleep,
    /// It is awake.
    ProxyCtrlWakeup,
    /// It takes up operations.
    ProxyCtrlAppend,
    /// It has taken up so many.
    ProxyCtrlAppendEnd(c_int),
    /// The operation has begun to move on a connection.
    ProxyOpInProgress,
    /// A channel's work is done, at this time of the device, in nanoseconds.
    KernelChStop(u64),
    /// `ncclGroupStart` is over.
    GroupStartApiStop,
    /// `ncclGroupEnd` has begun.
    GroupEndApiStart,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    /// The handle of the event above it.
    pub(crate) parent: *mut c_void,
    /// This rank.
    pub(crate) rank: c_int,
    /// What it is.
    pub(crate) details: Details,
}

/// What an event is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Details {
    /// A plan.
    Group,
    /// Whether it began inside of a group, and how deep.
    GroupApi { depth: c_int },
    /// A collective's call.
    CollApi(CollApi),
    /// A call of a send or receive, or a part of an all-to-all, gather or scatter.
    P2pApi(P2pApi),
    /// A launch on a stream.
    KernelLaunch { stream: *mut c_void },
    /// A collective's task.
    Coll(Coll),
    /// A send or receive.
    P2p(P2p),
    /// A connection's part in an operation.
    ProxyOp(ProxyOp),
    /// A transfer.
    ProxyStep { step: c_int },
    /// Something that the progress thread does with itself.
    ProxyCtrl,
    /// A channel, from when on, by the clock of the device in nanoseconds.
    KernelCh { channel_id: u8, p_timer: u64 },
}

/// What begins while an operation runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// A connection's part in an operation.
    ProxyOp(ProxyOp),
    /// A transfer.
    ProxyStep { step: c_int },
    /// A channel, from when on.
    KernelCh { channel_id: u8, p_timer: u64 },
}

impl From<Work> for Details {
    fn from(work: Work) -> Self {
        match work {
            Work::ProxyOp(op) => Self::ProxyOp(op),
            Work::ProxyStep { step } => Self::ProxyStep { step },
            Work::KernelCh { channel_id, p_timer } => Self::KernelCh { channel_id, p_timer },
        }
    }
}

/// A collective's call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollApi {
    pub(crate) func: &'static CStr,
    pub(crate) count: usize,
    pub(crate) datatype: &'static CStr,
    pub(crate) root: c_int,
    pub(crate) stream: *mut c_void,
}

/// A call of a send or receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P2pApi {
    pub(crate) func: &'static CStr,
    pub(crate) count: usize,
    pub(crate) datatype: &'static CStr,
    pub(crate) stream: *mut c_void,
}

/// A collective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coll {
    pub(crate) seq_number: u64,
    pub(crate) func: &'static CStr,
    pub(crate) send_buff: *const c_void,
    pub(crate) recv_buff: *mut c_void,
    pub(crate) count: usize,
    pub(crate) root: c_int,
    pub(crate) datatype: &'static CStr,
    pub(crate) n_channels: u8,
    pub(crate) n_warps: u8,
    pub(crate) algo: &'static CStr,
    pub(crate) proto: &'static CStr,
    /// The handle of its plan.
    pub(crate) parent_group: *mut c_void,
}

/// A send or receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct P2p {
    pub(crate) func: &'static CStr,
    pub(crate) buff: *mut c_void,
    pub(crate) datatype: &'static CStr,
    pub(crate) count: usize,
    pub(crate) peer: c_int,
    pub(crate) n_channels: u8,
    /// The handle of its plan.
    pub(crate) parent_group: *mut c_void,
}

/// A connection's part in an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProxyOp {
    pub(crate) pid: c_int,
    pub(crate) channel_id: u8,
    pub(crate) peer: c_int,
    pub(crate) n_steps: c_int,
    pub(crate) chunk_size: c_int,
    pub(crate) is_send: bool,
}

impl Details {
    /// The bit of its type.
    pub(crate) fn kind(&self) -> u64 {
        match self {
            Self::Group => kind::GROUP,
            Self::GroupApi { .. } => kind::GROUP_API,
            Self::CollApi(_) => kind::COLL_API,
            Self::P2pApi(_) => kind::P2P_API,
            Self::KernelLaunch { .. } => kind::KERNEL_LAUNCH,
            Self::Coll(_) => kind::COLL,
            Self::P2p(_) => kind::P2P,
            Self::ProxyOp(_) => kind::PROXY_OP,
            Self::ProxyStep { .. } => kind::PROXY_STEP,
            Self::ProxyCtrl => kind::PROXY_CTRL,
            Self::KernelCh { .. } => kind::KERNEL_CH,
        }
    }
}
