//! Fence: what every function of the tables begins with. No panic gets out, and NULL is an error.

#![expect(unsafe_code, reason = "pointers of C")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use nccl_net::{Code, INTERNAL_ERROR, SUCCESS};

use crate::failure::{Failure, Result};
use crate::log;

/// Runs the body; its failure is warned of, and is the code.
pub(super) fn fence(body: impl FnOnce() -> Result<()>) -> Code {
    quiet_fence(|| body().inspect_err(|failure| log::warn(&format!("NET/ringscope : {}", failure.text))))
}

/// Runs the body, whose failure somebody else tells of.
pub(super) fn quiet_fence(body: impl FnOnce() -> Result<()>) -> Code {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(failure)) => failure.code,
        Err(_) => {
            log::warn("NET/ringscope : a panic, which is a bug of this plugin");
            INTERNAL_ERROR
        }
    }
}

/// Writes where the caller wants a result.
///
/// # Safety
/// `place` is null or valid for a write.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> Result<()> {
    let place = NonNull::new(place).ok_or_else(|| Failure::internal("a result is wanted at NULL"))?;
    // SAFETY: not null; the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// # Safety
/// Null, or a pointer that this plugin gave for a `T` that was not given back.
pub(super) unsafe fn object<'a, T>(pointer: *mut c_void) -> Result<&'a mut T> {
    // SAFETY: the caller's promise, and NCCL's that one thread at a time uses it.
    unsafe { pointer.cast::<T>().as_mut() }.ok_or_else(|| Failure::internal("an object that is NULL"))
}
