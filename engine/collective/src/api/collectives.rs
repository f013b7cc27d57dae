//! Collectives, send and receive. All of them return once enqueued on the stream.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::fence::{export, guard};
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::comm::operators::PreMul;
use crate::comm::{Comm, registry};
use crate::error::{Error, Result};
use crate::kernels::Reducer;
use crate::memory::Region;
use crate::profiler::emit::{Call, OperationEvents};
use crate::run::group::{self, Pending};
use crate::run::stream;
use crate::types::{DataType, RedOp};

/// `ncclComm_t`
type Handle = *mut c_void;
/// `cudaStream_t`
type StreamHandle = *mut c_void;

export! {
    /// Reduces all ranks' buffers; every rank gets the result.
    fn ncclAllReduce / pncclAllReduce(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, op: c_int, comm: Handle,
        stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe { enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op, comm, stream }, |_| Ok(Primitive::AllReduce)) })
    }

    /// Every rank gets all ranks' blocks, in rank order.
    fn ncclAllGather / pncclAllGather(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, comm: Handle, stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe { enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream }, |_| Ok(Primitive::AllGather)) })
    }

    /// Reduces all ranks' buffers; rank r gets block r of the result.
    fn ncclReduceScatter / pncclReduceScatter(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, op: c_int, comm: Handle,
        stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe {
            enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op, comm, stream }, |_| Ok(Primitive::ReduceScatter))
        })
    }

    /// Every rank gets the root's buffer.
    fn ncclBroadcast / pncclBroadcast(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, root: c_int, comm: Handle,
        stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe { broadcast(send, recv, count, data_type, root, comm, stream) })
    }

    /// `ncclBroadcast` in place.
    fn ncclBcast / pncclBcast(
        buffer: *mut c_void, count: usize, data_type: c_int, root: c_int, comm: Handle, stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe { broadcast(buffer, buffer, count, data_type, root, comm, stream) })
    }

    /// Reduces all ranks' buffers; the root gets the result.
    fn ncclReduce / pncclReduce(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, op: c_int, root: c_int, comm: Handle,
        stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe {
            enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op, comm, stream }, |comm| {
                Ok(Primitive::Reduce { root: rank_of("root", root, comm)? })
            })
        })
    }

    /// Every rank sends block j to rank j, and gets as many blocks, in rank order.
    fn ncclAlltoAll / pncclAlltoAll(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, comm: Handle, stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe { enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream }, |_| Ok(Primitive::AllToAll)) })
    }

    /// The root gets all ranks' blocks, in rank order.
    fn ncclGather / pncclGather(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, root: c_int, comm: Handle,
        stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe {
            enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream }, |comm| {
                Ok(Primitive::Gather { root: rank_of("root", root, comm)? })
            })
        })
    }

    /// Rank i gets block i of the root's buffer.
    fn ncclScatter / pncclScatter(
        send: *const c_void, recv: *mut c_void, count: usize, data_type: c_int, root: c_int, comm: Handle,
        stream: StreamHandle,
    ) -> c_int {
        // SAFETY: the caller's buffers.
        guard(|| unsafe {
            enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream }, |comm| {
                Ok(Primitive::Scatter { root: rank_of("root", root, comm)? })
            })
        })
    }

    /// Sends to a peer that receives as much.
    fn ncclSend / pncclSend(
        send: *const c_void, count: usize, data_type: c_int, peer: c_int, comm: Handle, stream: StreamHandle,
    ) -> c_int {
        let recv = std::ptr::null_mut();
        // SAFETY: the caller's buffers.
        guard(|| unsafe {
            enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream }, |comm| {
                Ok(Primitive::Send { peer: rank_of("peer", peer, comm)? })
            })
        })
    }

    /// Receives from a peer that sends as much.
    fn ncclRecv / pncclRecv(
        recv: *mut c_void, count: usize, data_type: c_int, peer: c_int, comm: Handle, stream: StreamHandle,
    ) -> c_int {
        let send = std::ptr::null();
        // SAFETY: the caller's buffers.
        guard(|| unsafe {
            enqueue(&Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream }, |comm| {
                Ok(Primitive::Recv { peer: rank_of("peer", peer, comm)? })
            })
        })
    }
}

/// A collective call.
pub(crate) struct Args {
    /// `sendbuff`
    pub(crate) send: *const c_void,
    /// `recvbuff`
    pub(crate) recv: *mut c_void,
    /// `count`
    pub(crate) count: usize,
    /// Contributions in the send buffer, one after another.
    pub(crate) n_virtual: usize,
    /// `ncclDataType_t`
    pub(crate) data_type: c_int,
    /// `ncclRedOp_t`; any where nothing is reduced.
    pub(crate) op: c_int,
    /// `ncclComm_t`
    pub(crate) comm: Handle,
    /// `cudaStream_t`
    pub(crate) stream: StreamHandle,
}

unsafe fn broadcast(
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    data_type: c_int,
    root: c_int,
    comm: Handle,
    stream: StreamHandle,
) -> Result<()> {
    let args = Args { send, recv, count, n_virtual: 1, data_type, op: 0, comm, stream };
    // SAFETY: the caller's buffers.
    unsafe { enqueue(&args, |comm| Ok(Primitive::Broadcast { root: rank_of("root", root, comm)? })) }
}

/// Checks everything, then adds the call to the thread's group.
///
/// # Safety
/// The buffers are valid, for what `primitive` needs of them, until the operation has completed.
pub(crate) unsafe fn enqueue(args: &Args, primitive: impl FnOnce(&Comm) -> Result<Primitive>) -> Result<()> {
    let comm = registry::find(args.comm.addr())?;
    comm.check()?;
    let stream = stream::find(args.stream.addr())?;
    let primitive = primitive(&comm)?;
    let data_type = DataType::from_c(args.data_type)?;
    let (op, pre_mul) = operator(args.op, data_type, &comm)?;
    let reducer = Reducer::new(data_type, op, comm.n_ranks * args.n_virtual);
    let (sent, received) = region_bytes(primitive, args, data_type, &comm)?;
    check_overlap(args, primitive, (sent, received), &comm)?;
    // SAFETY: the caller's contract.
    let send = unsafe { Region::new(args.send, sent, "sendbuff") }?;
    // SAFETY: the caller's contract.
    let recv = unsafe { Region::new(args.recv, received, "recvbuff") }?;
    let (count, events) = (args.count, OperationEvents::default());
    let operation = Operation {
        primitive,
        count,
        n_virtual: args.n_virtual,
        reducer,
        pre_mul,
        send,
        recv,
        sequence: 0,
        events,
    };
    let call = Call {
        primitive,
        count,
        data_type,
        stream: args.stream.addr(),
        send_buff: args.send.addr(),
        recv_buff: args.recv.addr(),
    };
    group::add(Pending { comm, stream, operation, call })
}

/// The operator of a value: a sum with a factor, if the caller has made it.
fn operator(value: c_int, data_type: DataType, comm: &Comm) -> Result<(RedOp, Option<PreMul>)> {
    if let Ok(op) = RedOp::from_c(value) {
        return Ok((op, None));
    }
    let pre_mul = comm.operators.find(value)?;
    if pre_mul.data_type != data_type {
        return Err(Error::InvalidArgument(format!(
            "op {value} was made for {:?}, the call is on {data_type:?}",
            pre_mul.data_type
        )));
    }
    Ok((RedOp::Sum, Some(pre_mul)))
}

/// Buffers lie apart, or as `nccl.h` says that an operation in place has them.
fn check_overlap(
    args: &Args,
    primitive: Primitive,
    (sent, received): (usize, usize),
    comm: &Comm,
) -> Result<()> {
    let (send, recv) = (args.send.addr(), args.recv.addr());
    let apart = send.saturating_add(sent) <= recv || recv.saturating_add(received) <= send;
    // The block of this rank: all of a smaller buffer, where the other one has a block for each rank.
    let block = comm.rank * sent.min(received);
    let (in_place, rule) = match primitive {
        Primitive::AllGather => (send == recv + block, "sendbuff = recvbuff + rank * sendcount"),
        Primitive::Gather { .. } => (send == recv + block, "sendbuff = recvbuff + root * count"),
        Primitive::ReduceScatter => (recv == send + block, "recvbuff = sendbuff + rank * recvcount"),
        Primitive::Scatter { .. } => (recv == send + block, "recvbuff = sendbuff + root * count"),
        _ => (send == recv && sent == received, "sendbuff = recvbuff"),
    };
    if sent == 0 || received == 0 || apart || in_place {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{}: sendbuff {send:#x} ({sent} bytes) and recvbuff {recv:#x} ({received} bytes) overlap; in place is {rule}",
        primitive.name()
    )))
}

/// Bytes that the primitive uses of the two buffers on this rank.
fn region_bytes(
    primitive: Primitive,
    args: &Args,
    data_type: DataType,
    comm: &Comm,
) -> Result<(usize, usize)> {
    let count = args.count;
    let bytes = count.checked_mul(data_type.size_bytes());
    let all = bytes
        .and_then(|bytes| bytes.checked_mul(comm.n_ranks.max(args.n_virtual)))
        .filter(|all| isize::try_from(*all).is_ok());
    let (Some(bytes), Some(_)) = (bytes, all) else {
        return Err(Error::InvalidArgument(format!("count {count} exceeds any memory")));
    };
    let all = bytes * comm.n_ranks;
    let at = |root: usize, bytes: usize| if root == comm.rank { bytes } else { 0 };
    Ok(match primitive {
        Primitive::AllReduce => (bytes * args.n_virtual, bytes),
        Primitive::AllGather => (bytes, all),
        Primitive::ReduceScatter => (all, bytes),
        Primitive::Broadcast { root } => (at(root, bytes), bytes),
        Primitive::Reduce { root } => (bytes, at(root, bytes)),
        Primitive::AllToAll => (all, all),
        Primitive::Gather { root } => (bytes, at(root, all)),
        Primitive::Scatter { root } => (at(root, all), bytes),
        Primitive::Send { .. } => (bytes, 0),
        Primitive::Recv { .. } => (0, bytes),
    })
}

fn rank_of(name: &str, value: c_int, comm: &Comm) -> Result<usize> {
    let rank = usize::try_from(value).ok().filter(|rank| *rank < comm.n_ranks);
    rank.ok_or_else(|| Error::InvalidArgument(format!("{name} {value} is no rank of {} ranks", comm.n_ranks)))
}
