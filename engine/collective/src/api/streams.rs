//! The extension `rsccl_stream.h`: streams, which NCCL takes from CUDA.

#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_int, c_void};
use std::time::Duration;

use crate::api::fence::guard;
use crate::api::place::Out;
use crate::error::{Error, IN_PROGRESS, Progress, SUCCESS};
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

/// How many operations were enqueued on a stream so far: after a call, the number of the last one that it enqueued.
///
/// # Safety
/// `count` is NULL or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rscclStreamCount(stream: *mut c_void, count: *mut u64) -> c_int {
    guard(|| {
        // SAFETY: the caller's place.
        let place = unsafe { Out::new(count, "count") }?;
        place.set(stream::find(stream.addr())?.count());
        Ok(())
    })
}

/// Waits until the first `count` operations of a stream are over, for `timeout_ms` at most: `ncclSuccess` if they are, else
/// `ncclInProgress`, or the error of the first of them that failed.
#[unsafe(no_mangle)]
pub extern "C" fn rscclStreamWait(stream: *mut c_void, count: u64, timeout_ms: c_int) -> c_int {
    guard(|| {
        let at_most = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let is_over = stream::find(stream.addr())?.wait_for(count, at_most)?;
        Ok(if is_over { Progress::Done } else { Progress::Started })
    })
}

/// Enqueues a call of a function: what comes after it on the stream waits until it has returned.
///
/// # Safety
/// `function` may be called with `argument`, once, from another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rscclStreamCall(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> c_int {
    guard(|| {
        let function = function.ok_or_else(|| Error::InvalidArgument("function is NULL".to_owned()))?;
        let argument = argument.expose_provenance();
        stream::find(stream.addr())?.enqueue(Box::new(move || {
            // SAFETY: the caller's contract; the stream runs its work once.
            unsafe { function(std::ptr::with_exposed_provenance_mut(argument)) };
            Ok(())
        }))
    })
}

/// Forgets a stream; what is enqueued is still done.
#[unsafe(no_mangle)]
pub extern "C" fn rscclStreamDestroy(stream: *mut c_void) -> c_int {
    guard(|| stream::destroy(stream.addr()))
}
