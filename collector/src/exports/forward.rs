//! What every wrapper does that is no operation: finds the real function, says that the thread is inside the library, calls it,
//! and notes the error.

use std::ffi::c_int;

use crate::abi::nccl::Comm;
use crate::segment::counts::is_taken;
use crate::segment::local::{Inside, Local};
use crate::segment::{communicators, guard, segment, threads};

/// Defines an exported function: `$local` is the thread's memory, `$library` the copy of the library that `$which` finds,
/// `$real` its function. Calls from inside the library go straight back to it.
macro_rules! wrap {
    ($name:ident($($arg:ident: $type:ty),*), |$local:ident, $library:ident = $which:expr, $real:ident| $body:expr) => {
        #[doc = concat!("`", stringify!($name), "` of nccl.h.")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            crate::exports::forward::wrap!(@body $name($($arg: $type),*), |$local, $library = $which, $real| $body)
        }
    };
    (@body $name:ident($($arg:ident: $type:ty),*), |$local:ident, $library:ident = $which:expr, $real:ident| $body:expr) => {
        crate::segment::local::with(|$local| {
            let is_inside = $local.is_inside();
            let library = if is_inside { Some($local.library.get()) } else { $which };
            let real = library.map_or(std::ptr::null_mut(), |library| {
                resolve::real(Function::$name, library)
            });
            let Some($library) = library.filter(|_| !real.is_null()) else {
                return resolve::lacks();
            };
            // SAFETY: the library's function of this name has the signature that nccl.h gives it.
            let $real: unsafe extern "C-unwind" fn($($type),*) -> c_int = unsafe { std::mem::transmute(real) };
            if is_inside {
                // SAFETY: the caller's own arguments.
                return unsafe { $real($($arg),*) };
            }
            $local.library.set($library);
            $local.function.set(Function::$name.number());
            $body
        })
    };
}
pub(crate) use wrap;

/// Forwards a call that returns at once and of which nothing is recorded.
pub(super) fn quietly(local: &Local, forward: impl FnOnce() -> c_int) -> c_int {
    let _inside = local.enter(0, None);
    forward()
}

/// Forwards a call that may take long; on a communicator, or NULL. An error that it returns is noted.
pub(super) fn inside(local: &Local, comm: Comm, forward: impl FnOnce() -> c_int) -> c_int {
    let inside = track(local, slot_of(local, comm));
    let result = forward();
    drop(inside);
    if !is_taken(result) {
        note_error(local, comm, result);
    }
    result
}

/// Marks the thread as inside the library, with the function that is being forwarded and a communicator's slot.
pub(crate) fn track(local: &Local, slot: Option<usize>) -> Inside<'_> {
    guard(|| threads::enter_slow(local, local.function.get(), slot)).unwrap_or_else(|| local.enter(0, None))
}

pub(super) fn slot_of(local: &Local, comm: Comm) -> Option<usize> {
    if comm.is_null() {
        return None;
    }
    guard(|| communicators::find(segment()?, local, comm as u64)).flatten()
}

/// The function that is being forwarded has told an error of the communicator.
pub(super) fn note_error(local: &Local, comm: Comm, result: c_int) {
    if let Some(slot) = slot_of(local, comm)
        && let Some(segment) = segment()
    {
        communicators::note_error(segment, slot, local.function.get(), result);
    }
}
