//! Descriptors and states in the layouts of the interface's versions 1 to 7, member by member at its offset.
//!
//! Offsets are those of NCCL's headers (`src/include/plugin/profiler/profiler_v*.h`; of 2.32.3's debug information for
//! version 7) for 64-bit pointers, held against C structures by the test of plugins. What a version lacks is left out, and
//! what it wants otherwise is converted, as NCCL's own shims do (`src/plugin/profiler/profiler_v*.cc` at 2.28.9): before
//! version 5 a task hangs below its plan, versions 1 to 3 hear of no bytes, version 1 has numbers for names.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::faithful::Version;
use crate::profiler::event::{Coll, CollApi, Descriptor, Details, P2p, P2pApi, ProxyOp, State};

/// The newest version.
pub(crate) const NEWEST: u32 = 7;
/// Bytes of the largest descriptor.
const DESCRIPTOR_BYTES: usize = 136;
/// Of the members of every event's own.
const UNION: usize = 24;

/// A descriptor as a plugin reads it.
#[repr(C, align(8))]
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    bytes: [u8; DESCRIPTOR_BYTES],
}

/// The arguments of a state as a plugin reads them.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EncodedState {
    /// Bytes of a transfer, time of a device, a number of operations, or nothing; versions 1 to 3 have a second word.
    words: [u64; 2],
}

/// Where the members of `coll` are; what is not there is at 0.
struct CollAt {
    seq_number: usize,
    func: usize,
    send_buff: usize,
    recv_buff: usize,
    count: usize,
    root: usize,
    datatype: usize,
    n_channels: usize,
    n_warps: usize,
    algo: usize,
    proto: usize,
    parent_group: usize,
}

/// Where the members of `p2p` are; what is not there is at 0.
struct P2pAt {
    func: usize,
    buff: usize,
    datatype: usize,
    count: usize,
    peer: usize,
    n_channels: usize,
    parent_group: usize,
}

/// Versions 1 to 3 begin with the communicator's name and hash, which NCCL no longer fills in.
fn coll_at(version: u32) -> CollAt {
    let base = if version <= 3 { 40 } else { 24 };
    let (datatype, n_channels, n_warps, algo, proto) = match version {
        1 => (84, 104, 105, 106, 107),
        2 => (88, 104, 105, 112, 120),
        3 => (88, 96, 97, 104, 112),
        _ => (72, 80, 81, 88, 96),
    };
    CollAt {
        seq_number: base,
        func: base + 8,
        send_buff: base + 16,
        recv_buff: base + 24,
        count: base + 32,
        root: base + 40,
        datatype,
        n_channels,
        n_warps,
        algo,
        proto,
        parent_group: if version >= 5 { 104 } else { 0 },
    }
}

fn p2p_at(version: u32) -> P2pAt {
    let base = if version <= 3 { 40 } else { 24 };
    P2pAt {
        func: base,
        buff: base + 8,
        datatype: base + 16,
        count: base + 24,
        peer: base + 32,
        n_channels: if version >= 4 { 60 } else { 0 },
        parent_group: if version >= 5 { 64 } else { 0 },
    }
}

impl Encoded {
    /// For a plugin of `version`; nothing if that has no such event.
    pub(crate) fn new(version: u32, nccl: Version, descriptor: &Descriptor) -> Option<Self> {
        let kind = descriptor.details.kind();
        let newest_kind: u64 = match version {
            1 | 2 => 0x20,
            3 | 4 => 0x80,
            5 => 0x800,
            _ => 0x8000,
        };
        if kind > newest_kind {
            return None;
        }
        let mut own = Self { bytes: [0; DESCRIPTOR_BYTES] };
        // One byte before version 5, of a number that fits; the rest is zero, so both read the same.
        own.put(0, kind.to_ne_bytes());
        own.pointer(8, parent(version, descriptor));
        own.int(16, descriptor.rank);
        match &descriptor.details {
            Details::Group | Details::ProxyCtrl => {}
            Details::GroupApi { depth } => own.int(UNION + 4, *depth),
            Details::CollApi(api) => own.coll_api(api),
            Details::P2pApi(api) => own.p2p_api(api),
            Details::KernelLaunch { stream } => own.pointer(UNION, *stream),
            Details::Coll(coll) => own.coll(version, coll),
            Details::P2p(p2p) => own.p2p(version, nccl, p2p),
            Details::ProxyOp(op) => own.proxy_op(op),
            Details::ProxyStep { step } => own.int(UNION, *step),
            Details::KernelCh { channel_id, p_timer } => {
                own.put(UNION, [*channel_id]);
                if version >= 4 {
                    own.put(UNION + 8, p_timer.to_ne_bytes());
                }
            }
        }
        Some(own)
    }

    /// For the plugin's function.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    fn coll_api(&mut self, api: &CollApi) {
        self.text(UNION, api.func);
        self.size(UNION + 8, api.count);
        self.text(UNION + 16, api.datatype);
        self.int(UNION + 24, api.root);
        self.pointer(UNION + 32, api.stream);
    }

    fn p2p_api(&mut self, api: &P2pApi) {
        self.text(UNION, api.func);
        self.size(UNION + 8, api.count);
        self.text(UNION + 16, api.datatype);
        self.pointer(UNION + 24, api.stream);
    }

    fn coll(&mut self, version: u32, coll: &Coll) {
        let at = coll_at(version);
        self.put(at.seq_number, coll.seq_number.to_ne_bytes());
        self.pointer(at.send_buff, coll.send_buff.cast_mut());
        self.pointer(at.recv_buff, coll.recv_buff);
        self.size(at.count, coll.count);
        self.int(at.root, coll.root);
        self.put(at.n_channels, [coll.n_channels]);
        self.put(at.n_warps, [coll.n_warps]);
        if version == 1 {
            self.put(at.func, [number(&FUNCTIONS, coll.func)]);
            self.put(at.datatype, [number(&DATATYPES, coll.datatype)]);
            self.put(at.algo, [number(&ALGORITHMS, coll.algo)]);
            self.put(at.proto, [number(&PROTOCOLS, coll.proto)]);
        } else {
            self.text(at.func, coll.func);
            self.text(at.datatype, coll.datatype);
            self.text(at.algo, coll.algo);
            self.text(at.proto, coll.proto);
        }
        if at.parent_group != 0 {
            self.pointer(at.parent_group, coll.parent_group);
        }
    }

    fn p2p(&mut self, version: u32, nccl: Version, p2p: &P2p) {
        let at = p2p_at(version);
        self.pointer(at.buff, p2p.buff);
        self.size(at.count, p2p.count);
        self.int(at.peer, p2p.peer);
        if version == 1 {
            self.put(at.func, [number(&FUNCTIONS, p2p.func)]);
            self.put(at.datatype, [number(&DATATYPES, p2p.datatype)]);
        } else {
            self.text(at.func, p2p.func);
            self.text(at.datatype, p2p.datatype);
        }
        // NCCL 2.27 fills it in for version 4, of which the shims of later ones know nothing.
        if at.n_channels != 0 && (version >= 5 || nccl == Version::V2_27) {
            self.put(at.n_channels, [p2p.n_channels]);
        }
        if at.parent_group != 0 {
            self.pointer(at.parent_group, p2p.parent_group);
        }
    }

    fn proxy_op(&mut self, op: &ProxyOp) {
        self.int(UNION, op.pid);
        self.put(UNION + 4, [op.channel_id]);
        self.int(UNION + 8, op.peer);
        self.int(UNION + 12, op.n_steps);
        self.int(UNION + 16, op.chunk_size);
        self.int(UNION + 20, c_int::from(op.is_send));
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.bytes[at..at + N].copy_from_slice(&bytes);
    }

    fn int(&mut self, at: usize, value: c_int) {
        self.put(at, value.to_ne_bytes());
    }

    fn size(&mut self, at: usize, value: usize) {
        self.put(at, value.to_ne_bytes());
    }

    fn pointer(&mut self, at: usize, value: *mut c_void) {
        self.put(at, value.expose_provenance().to_ne_bytes());
    }

    fn text(&mut self, at: usize, value: &'static CStr) {
        self.pointer(at, value.as_ptr().cast_mut().cast::<c_char>().cast());
    }
}

/// Of a task, before version 5 its plan.
fn parent(version: u32, descriptor: &Descriptor) -> *mut c_void {
    match &descriptor.details {
        Details::Coll(coll) if version < 5 => coll.parent_group,
        Details::P2p(p2p) if version < 5 => p2p.parent_group,
        _ => descriptor.parent,
    }
}

impl State {
    /// Its number and arguments for a plugin of `version`; nothing if that does not hear of it. The arguments of a group's
    /// states are NULL.
    pub(crate) fn encode(self, version: u32) -> Option<(c_int, Option<EncodedState>)> {
        let (number, argument) = match self {
            Self::SendGpuWait => (8, 0),
            Self::SendPeerWait => (20, 0),
            Self::SendWait(bytes) => (9, bytes as u64),
            Self::RecvWait => (10, 0),
            Self::RecvFlushWait(bytes) => (11, bytes as u64),
            Self::RecvGpuWait => (12, 0),
            Self::ProxyCtrlIdle => (13, 0),
            Self::ProxyCtrlActive => (14, 0),
            Self::ProxyCtrlSleep => (15, 0),
            Self::ProxyCtrlWakeup => (16, 0),
            Self::ProxyCtrlAppend => (17, 0),
            Self::ProxyCtrlAppendEnd(appended) => (18, u64::from(appended.cast_unsigned())),
            Self::ProxyOpInProgress => (19, 0),
            Self::KernelChStop(p_timer) => (22, p_timer),
            Self::GroupStartApiStop => (23, 0),
            Self::GroupEndApiStart => (24, 0),
        };
        let newest = match version {
            1..=3 => 18,
            4 => 22,
            _ => 24,
        };
        let hears_bytes = version >= 4 || matches!(self, Self::ProxyCtrlAppendEnd(_));
        let argument = if hears_bytes { argument } else { 0 };
        let arguments = (number < 23).then_some(EncodedState { words: [argument, 0] });
        (number <= newest).then_some((number, arguments))
    }
}

/// `ncclFunc_t`
const FUNCTIONS: [(&CStr, u8); 8] = [
    (c"Broadcast", 0),
    (c"Reduce", 1),
    (c"AllGather", 2),
    (c"ReduceScatter", 3),
    (c"AllReduce", 4),
    (c"SendRecv", 5),
    (c"Send", 6),
    (c"Recv", 7),
];
/// `ncclDataType_t`, of which NCCL names no `ncclUint8`.
const DATATYPES: [(&CStr, u8); 9] = [
    (c"ncclInt8", 0),
    (c"ncclInt32", 2),
    (c"ncclUint32", 3),
    (c"ncclInt64", 4),
    (c"ncclUint64", 5),
    (c"ncclFloat16", 6),
    (c"ncclFloat32", 7),
    (c"ncclBfloat16", 9),
    (c"ncclFloat64", 8),
];
/// `NCCL_ALGO_…`
const ALGORITHMS: [(&CStr, u8); 3] = [(c"TREE", 0), (c"RING", 1), (c"PAT", 6)];
/// `NCCL_PROTO_…`
const PROTOCOLS: [(&CStr, u8); 3] = [(c"LL", 0), (c"LL128", 1), (c"SIMPLE", 2)];

/// What has no number counts as the last, as in NCCL.
fn number(numbers: &[(&CStr, u8)], name: &CStr) -> u8 {
    let found = numbers.iter().find(|(known, _)| *known == name).or(numbers.last());
    found.map_or(0, |(_, number)| *number)
}
