//! The functions of `rsum.h` that contribute and ask for sums. The others go straight to the engine.

#![expect(unsafe_code, reason = "exports C functions and calls the real ones")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use ringscope_wire::Primitive;
use ringscope_wire::watcher::{Call, Watcher};

use crate::abi::nccl::SYSTEM_ERROR;
use crate::calls::{linker_scope, resolve};
use crate::segment::forks::between_forks;
use crate::segment::{guard, uncancelled};
use crate::summation::watcher::{watcher, watcher_or_open};

/// What a function returns in place of a handle or a number when there is no engine behind it.
const NONE: c_int = -1;

/// The engine's function: the first copy that was called, as a process is in one group at a time.
fn real(place: &AtomicPtr<c_void>, name: &CStr) -> Option<*mut c_void> {
    let known = place.load(Acquire);
    if !known.is_null() {
        return Some(known);
    }
    let found = uncancelled(|| between_forks(|| find(name)))?;
    place.store(found, Release);
    Some(found)
}

fn find(name: &CStr) -> Option<*mut c_void> {
    let caller = linker_scope::caller();
    let scope = linker_scope::of_caller(caller, name, name)?;
    let found = scope.find(name, name)?;
    // The engine stays, the caller need not.
    if linker_scope::Kept::default().keep(found) {
        scope.close();
    }
    Some(found)
}

/// A call that contributes is about to be forwarded. What the watcher does lets no panic out.
fn contribute(primitive: Primitive, tensor: c_int) -> Option<(&'static Watcher, Call)> {
    let watcher = watcher()?;
    Some((watcher, (watcher.contribute)(primitive as u8, tensor)))
}

/// The call was taken, or refused.
fn finish(call: Option<&(&'static Watcher, Call)>, is_taken: bool) {
    if let Some((watcher, call)) = call {
        (watcher.finish)(call, is_taken);
    }
}

/// Per line: the signature, what is returned without an engine, and what is done around the call.
macro_rules! wrap {
    ($name:ident($($arg:ident: $type:ty),*), $lacks:expr, |$real:ident| $body:expr) => {
        #[doc = concat!("`", stringify!($name), "` of rsum.h: records the call and forwards it.")]
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            let name = const {
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            };
            let Some(found) = guard(|| real(&REAL, name)).flatten() else {
                resolve::lacks();
                return $lacks;
            };
            // SAFETY: the engine's function of this name has the signature that rsum.h gives it.
            let $real: unsafe extern "C-unwind" fn($($type),*) -> c_int = unsafe { std::mem::transmute(found) };
            $body
        }
    };
}

wrap!(
    rsum_declare(name: *const c_char, count: u64, datatype: c_int, options: *const c_void),
    NONE,
    |real| {
        // SAFETY: the caller's own arguments.
        let tensor = unsafe { real(name, count, datatype, options) };
        // Whoever has declared a tensor is in a group, or about to make it.
        if tensor >= 0 {
            guard(|| watcher_or_open().map(|watcher| (watcher.declared)(tensor, count, datatype)));
        }
        tensor
    }
);

wrap!(
    rsum_push_pull(tensor: c_int, send: *const c_void, recv: *mut c_void, operation: c_int),
    SYSTEM_ERROR,
    |real| {
        let call = contribute(Primitive::PushPull, tensor);
        // It comes back when all is over, so it is in flight from here on.
        finish(call.as_ref(), true);
        // SAFETY: the caller's own arguments.
        let result = unsafe { real(tensor, send, recv, operation) };
        if result != 0 {
            finish(call.as_ref(), false);
        }
        result
    }
);

wrap!(
    rsum_push_pull_async(tensor: c_int, send: *const c_void, recv: *mut c_void, operation: c_int),
    NONE,
    |real| {
        let call = contribute(Primitive::PushPull, tensor);
        // SAFETY: the caller's own arguments.
        let handle = unsafe { real(tensor, send, recv, operation) };
        finish(call.as_ref(), handle >= 0);
        handle
    }
);

wrap!(
    rsum_push_pull_on_stream(
        tensor: c_int, send: *const c_void, recv: *mut c_void, operation: c_int, stream: *mut c_void
    ),
    NONE,
    |real| {
        let call = contribute(Primitive::PushPull, tensor);
        // SAFETY: the caller's own arguments.
        let handle = unsafe { real(tensor, send, recv, operation, stream) };
        finish(call.as_ref(), handle >= 0);
        handle
    }
);

wrap!(rsum_push_async(tensor: c_int, send: *const c_void, operation: c_int), NONE, |real| {
    let call = contribute(Primitive::Push, tensor);
    // SAFETY: the caller's own arguments.
    let handle = unsafe { real(tensor, send, operation) };
    if let Some((watcher, call)) = call {
        (watcher.pushed)(&raw const call, handle);
    }
    finish(call.as_ref(), handle >= 0);
    handle
});

wrap!(rsum_pull_async(push: c_int, recv: *mut c_void), SYSTEM_ERROR, |real| {
    let call = watcher().map(|watcher| (watcher, (watcher.ask)(push)));
    // SAFETY: the caller's own arguments.
    let result = unsafe { real(push, recv) };
    finish(call.as_ref(), result == 0);
    result
});
