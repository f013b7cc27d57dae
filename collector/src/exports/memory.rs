//! The functions of `nccl.h` that tell of registered memory, and signals without a payload.

#![expect(unsafe_code, reason = "exports C functions and calls the real ones")]

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

use crate::abi::nccl::{Comm, SUCCESS, Stream};
use crate::calls::resolve;
use crate::calls::resolve::{Function, library_of, library_of_outside};
use crate::exports::called::wrap_called;
use crate::exports::forward::{inside, wrap};
use crate::segment::local::Local;
use crate::segment::segment;

wrap!(
    ncclCommRegister(comm: Comm, buffer: *mut c_void, size: usize, handle: *mut *mut c_void),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        register(local, comm, || unsafe { real(comm, buffer, size, handle) })
    }
);

wrap!(
    ncclCommWindowRegister(comm: Comm, buffer: *mut c_void, size: usize, window: *mut *mut c_void, flags: c_int),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        register(local, comm, || unsafe { real(comm, buffer, size, window, flags) })
    }
);

wrap_called!(
    ncclMemAlloc(place: *mut *mut c_void, size: usize),
    |local, library = library_of_outside(), real| {
        // SAFETY: the caller's own arguments.
        register(local, null_mut(), || unsafe { real(place, size) })
    }
);

wrap!(ncclCommDeregister(comm: Comm, handle: *mut c_void), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own arguments.
    inside(local, comm, || unsafe { real(comm, handle) })
});

wrap!(ncclCommWindowDeregister(comm: Comm, window: *mut c_void), |local, library = library_of(local, comm), real| {
    // SAFETY: the caller's own arguments.
    inside(local, comm, || unsafe { real(comm, window) })
});

// No primitive fits these two: they move no payload. What the library calls for them is still its own.
wrap!(
    ncclSignal(peer: c_int, signal: c_int, context: c_int, flags: c_uint, comm: Comm, stream: Stream),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        inside(local, comm, || unsafe { real(peer, signal, context, flags, comm, stream) })
    }
);

wrap!(
    ncclWaitSignal(n: c_int, signals: *mut c_void, comm: Comm, stream: Stream),
    |local, library = library_of(local, comm), real| {
        // SAFETY: the caller's own arguments.
        inside(local, comm, || unsafe { real(n, signals, comm, stream) })
    }
);

/// Forwards a call that registers memory, and counts it.
fn register(local: &Local, comm: Comm, forward: impl FnOnce() -> c_int) -> c_int {
    let result = inside(local, comm, forward);
    if result == SUCCESS
        && let Some(segment) = segment()
    {
        segment.live.registrations.fetch_add(1, Relaxed);
    }
    result
}
