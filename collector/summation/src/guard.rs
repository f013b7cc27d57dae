//! Where our own code ends, and the collector that it works for.

#![expect(unsafe_code, reason = "refers to the collector's table")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};

use ringscope_wire::watcher::Collector;

static COLLECTOR: AtomicPtr<Collector> = AtomicPtr::new(null_mut());

/// Works for this collector from now on.
pub(crate) fn set_collector(collector: &'static Collector) {
    COLLECTOR.store(from_ref(collector).cast_mut(), Release);
}

/// Runs code of ours so that no panic leaves it: a panic switches the collector off and is counted.
#[inline(always)]
pub(crate) fn guard<R>(f: impl FnOnce(&'static Collector) -> R) -> Option<R> {
    let collector = COLLECTOR.load(Acquire);
    // SAFETY: NULL, or the collector's own table, which is valid for ever and never written.
    let collector = unsafe { collector.as_ref() }?;
    catch_unwind(AssertUnwindSafe(|| f(collector))).map_err(|_| (collector.fault)()).ok()
}
