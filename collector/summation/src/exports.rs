//! The one function that is exported, and the table of those that the collector calls.

#![expect(unsafe_code, reason = "exports a C function and reads the collector's structures")]

use std::ffi::c_int;
use std::panic::{catch_unwind, set_hook};
use std::ptr::null;

use ringscope_wire::watcher::{Call, Collector, VERSION, Watcher};

use crate::guard::{guard, set_collector};
use crate::{calls, observer};

static WATCHER: Watcher = Watcher {
    begin: observer::begin,
    sample: observer::sample,
    round: observer::round,
    finished: observer::finished,
    end: observer::end,
    declared,
    contribute,
    ask,
    pushed,
    finish,
};

/// [`ringscope_wire::watcher::Start`].
///
/// # Safety
/// NULL, or a table that is valid for ever.
#[unsafe(no_mangle)]
unsafe extern "C" fn ringscope_watcher(collector: *const Collector) -> *const Watcher {
    // SAFETY: the caller's promise. A table of another version has its version at the same place.
    let Some(collector) = (unsafe { collector.as_ref() }).filter(|collector| collector.version == VERSION)
    else {
        return null();
    };
    // The default hook would print to the job's stderr. This is the hook of our own copy of Rust's library alone.
    let is_ready = catch_unwind(|| {
        set_hook(Box::new(|_| {}));
        calls::forget();
    });
    if is_ready.is_err() {
        return null();
    }
    set_collector(collector);
    &raw const WATCHER
}

extern "C" fn declared(tensor: c_int, count: u64, datatype: c_int) {
    guard(|_| calls::declared(tensor, count, datatype));
}

extern "C" fn contribute(primitive: u8, tensor: c_int) -> Call {
    guard(|collector| calls::contribute(collector, primitive, tensor)).flatten().unwrap_or_default()
}

extern "C" fn ask(push: c_int) -> Call {
    guard(|collector| calls::ask(collector, push)).flatten().unwrap_or_default()
}

extern "C" fn pushed(call: *const Call, handle: c_int) {
    // SAFETY: NULL, or the call that the collector has got.
    if let Some(call) = unsafe { call.as_ref() } {
        guard(|_| calls::pushed(call, handle));
    }
}

extern "C" fn finish(call: *const Call, is_taken: bool) {
    // SAFETY: NULL, or the call that the collector has got.
    if let Some(call) = unsafe { call.as_ref() } {
        guard(|collector| calls::finish(collector, call, is_taken));
    }
}
