//! The operations of `nccl.h`, standing in front of the library's own.
//!
//! `extern "C-unwind"`: an exception or `pthread_exit` of the library passes through a wrapper as if it were not
//! there. Panics of ours are caught around our own code only.

#![expect(unsafe_code, reason = "exports C functions and calls the real ones")]

use std::ffi::{c_int, c_uint, c_void};

use ringscope_wire::Primitive;
use ringscope_wire::segment::calls::hash::{self, NO_OP};

use crate::abi::nccl::{Comm, Stream};
use crate::calls::call::Call;
use crate::calls::resolve::Function;
use crate::calls::{issue, resolve};
use crate::cuda_events::follow::CudaEvents;
use crate::exports::nonblocking;
use crate::segment::local::Local;
use crate::segment::{guard, local};

/// Per line: the primitive; the call's elements, datatype, reduction (else [`NO_OP`]), peer or root (else -1), communicator
/// and stream; the signature.
macro_rules! operations {
    ($($primitive:ident($count:ident, $datatype:ident, $op:expr, $peer:expr, $comm:ident, $stream:ident)
        = $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of nccl.h: records the call and forwards it.")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let call = Call {
                primitive: Primitive::$primitive,
                comm: $comm as u64,
                count: $count as u64,
                datatype: u8::try_from($datatype).unwrap_or(u8::MAX),
                op: $op,
                peer: $peer,
                stream: $stream as u64,
            };
            around(Function::$name, call, $comm, |real| {
                // SAFETY: the library's function of this name has the signature that nccl.h gives it.
                let real: unsafe extern "C-unwind" fn($($type),*) -> c_int = unsafe { std::mem::transmute(real) };
                // SAFETY: the caller's own arguments.
                unsafe { real($($arg),*) }
            })
        }
    )*};
}

operations! {
    AllReduce(count, datatype, hash::op(op), -1, comm, stream) = ncclAllReduce(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, comm: Comm, stream: Stream);
    Broadcast(count, datatype, NO_OP, root, comm, stream) = ncclBroadcast(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream);
    Reduce(count, datatype, hash::op(op), root, comm, stream) = ncclReduce(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, root: c_int, comm: Comm, stream: Stream);
    AllGather(count, datatype, NO_OP, -1, comm, stream) = ncclAllGather(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, comm: Comm, stream: Stream);
    ReduceScatter(count, datatype, hash::op(op), -1, comm, stream) = ncclReduceScatter(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, comm: Comm, stream: Stream);
    AllToAll(count, datatype, NO_OP, -1, comm, stream) = ncclAlltoAll(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, comm: Comm, stream: Stream);
    Gather(count, datatype, NO_OP, root, comm, stream) = ncclGather(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream);
    Scatter(count, datatype, NO_OP, root, comm, stream) = ncclScatter(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream);
    Broadcast(count, datatype, NO_OP, root, comm, stream) = ncclBcast(buffer: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream);
    Send(count, datatype, NO_OP, peer, comm, stream) = ncclSend(buffer: *const c_void, count: usize, datatype: c_int, peer: c_int, comm: Comm, stream: Stream);
    Recv(count, datatype, NO_OP, peer, comm, stream) = ncclRecv(buffer: *mut c_void, count: usize, datatype: c_int, peer: c_int, comm: Comm, stream: Stream);
    PutSignal(count, datatype, NO_OP, peer, comm, stream) = ncclPutSignal(buffer: *const c_void, count: usize, datatype: c_int, peer: c_int, window: *mut c_void, offset: usize, signal: c_int, context: c_int, flags: c_uint, comm: Comm, stream: Stream);
    AllReduce(count, datatype, hash::op(op), -1, comm, stream) = ncclAllReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, comm: Comm, stream: Stream, config: *const c_void);
    Broadcast(count, datatype, NO_OP, root, comm, stream) = ncclBroadcastConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream, config: *const c_void);
    Reduce(count, datatype, hash::op(op), root, comm, stream) = ncclReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, root: c_int, comm: Comm, stream: Stream, config: *const c_void);
    AllGather(count, datatype, NO_OP, -1, comm, stream) = ncclAllGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, comm: Comm, stream: Stream, config: *const c_void);
    ReduceScatter(count, datatype, hash::op(op), -1, comm, stream) = ncclReduceScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, comm: Comm, stream: Stream, config: *const c_void);
    AllToAll(count, datatype, NO_OP, -1, comm, stream) = ncclAlltoAllConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, comm: Comm, stream: Stream, config: *const c_void);
    Gather(count, datatype, NO_OP, root, comm, stream) = ncclGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream, config: *const c_void);
    Scatter(count, datatype, NO_OP, root, comm, stream) = ncclScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, root: c_int, comm: Comm, stream: Stream, config: *const c_void);
}

/// Forwards one call, with the record before and the result after. What the library calls of itself passes unseen.
#[inline(always)]
fn around(function: Function, call: Call, comm: Comm, forward: impl FnOnce(*mut c_void) -> c_int) -> c_int {
    // Out of the closure, which the compiler would not inline at each of its uses.
    let local = local::with(std::ptr::from_ref);
    // SAFETY: this thread's own, which lives as long as the thread and has no destructor.
    let local = unsafe { &*local };
    if local.is_inside() {
        let real = resolve::real(function, local.library.get());
        return if real.is_null() { resolve::lacks() } else { forward(real) };
    }
    if !nonblocking::is_idle() {
        guard(|| nonblocking::meet(local, comm));
    }
    let open = guard(|| issue::begin::<CudaEvents>(local, &call, function.number())).flatten();
    let real = if resolve::is_single() {
        local.library.set(0);
        resolve::real(function, 0)
    } else {
        real_of_several(local, open.map(|open| open.library()), comm, function)
    };
    let (current, thread) = match open {
        Some(open) => (open.ticket + 1, local.thread.get()),
        None => (0, None),
    };
    let inside = local.enter(current, thread);
    let result = if real.is_null() { resolve::lacks() } else { forward(real) };
    drop(inside);
    if let Some(open) = open {
        guard(|| issue::finish::<CudaEvents>(local, &open, &call, function.number(), result));
    }
    result
}

/// The function of the copy that made the communicator; null if none is known, or it has none.
#[inline(never)]
fn real_of_several(local: &Local, made_by: Option<usize>, comm: Comm, function: Function) -> *mut c_void {
    let library = made_by.or_else(|| resolve::library_of(local, comm));
    library.map_or(std::ptr::null_mut(), |library| {
        local.library.set(library);
        resolve::real(function, library)
    })
}
