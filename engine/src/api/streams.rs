//! The extension `rsccl_stream.h`: streams, which NCCL takes from CUDA.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};

use crate::api::fence::guard;
use crate::api::place::Out;
use crate::error::{Error, IN_PROGRESS, SUCCESS};
use crate::run::stream;

/// Makes a stream.
///
/// # Safety
/// `stream` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rscclStreamCreate(stream: *mut *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the caller's place.
        let place = unsafe { Out::new(stream, "stream") }?;
        place.set(std::ptr::without_provenance_mut(stream::create()));
        Ok(())
    })
}

/// Waits for all that is enqueued; returns the first error since the last call. NULL is the default stream.
#[unsafe(no_mangle)]
pub extern "C" fn rscclStreamSynchronize(stream: *mut c_void) -> c_int {
    guard(|| stream::find(stream.addr())?.synchronize())
}

/// `ncclSuccess` if all that is enqueued is done, else `ncclInProgress`.
#[unsafe(no_mangle)]
pub extern "C" fn rscclStreamQuery(stream: *mut c_void) -> c_int {
    let mut idle = false;
    let code = guard(|| {
        idle = stream::find(stream.addr())?.is_idle();
        Ok::<(), Error>(())
    });
    if code == SUCCESS && !idle { IN_PROGRESS } else { code }
}

/// Forgets a stream; what is enqueued is still done.
#[unsafe(no_mangle)]
pub extern "C" fn rscclStreamDestroy(stream: *mut c_void) -> c_int {
    guard(|| stream::destroy(stream.addr()))
}
