//! What a forked child must forget: everything that it has of its parent's.

#![expect(unsafe_code, reason = "registers a handler and closes a descriptor")]

use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

use crate::exports::nonblocking;
use crate::profiler::{contexts, replay, seen, steps};
use crate::segment::{communicators, local, map, switch};
use crate::{cuda_events, profiler, summation};

/// Descriptor that holds the segment's lock; -1 if there is none.
static LOCK: AtomicI32 = AtomicI32::new(-1);

/// From now on children forget.
pub(super) fn watch() {
    // SAFETY: the handler is a function of an object that is never unloaded (-z nodelete).
    unsafe { libc::pthread_atfork(None, None, Some(forget_parent)) };
}

/// The descriptor holds the segment's lock for as long as the process lives.
pub(super) fn keep_lock(descriptor: libc::c_int) {
    LOCK.store(descriptor, Relaxed);
}

/// In a forked child: the segment, its lock and all that it holds are the parent's. Only stores and a `close`: the
/// child of a process with threads may do no more.
extern "C" fn forget_parent() {
    map::forget();
    let lock = LOCK.swap(-1, Relaxed);
    if lock >= 0 {
        // SAFETY: our own descriptor. Left open it would hold the parent's lock after the parent is gone.
        unsafe { libc::close(lock) };
    }
    communicators::forget();
    cuda_events::forget();
    nonblocking::forget();
    contexts::forget();
    profiler::forget();
    replay::forget();
    seen::forget();
    steps::forget();
    summation::group::forget();
    switch::forget();
    local::with(local::Local::forget);
}
