//! What a call adds to the counters once the library has taken it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::layout::Counters;

use crate::abi::nccl::{IN_PROGRESS, SUCCESS};

/// Whether a result means that the library took the call.
#[inline(always)]
pub(crate) fn is_taken(result: i32) -> bool {
    result == SUCCESS || result == IN_PROGRESS
}

/// The profiler's threads count them too.
#[cold]
pub(crate) fn add_captured(counters: &Counters, calls: u64, bytes: u64) {
    counters.captured_calls.fetch_add(calls, Relaxed);
    counters.captured_bytes.fetch_add(bytes, Relaxed);
}

/// Runs of captured calls are counted as issued on another thread than calls are.
#[inline(always)]
pub(crate) fn add_issued(counters: &Counters, calls: u64, bytes: u64) {
    if counters.captured_calls.load(Relaxed) == 0 {
        add(&counters.issued_calls, calls);
        add(&counters.issued_bytes, bytes);
    } else {
        counters.issued_calls.fetch_add(calls, Relaxed);
        counters.issued_bytes.fetch_add(bytes, Relaxed);
    }
}

/// Adds to a counter that has one writer at a time.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}
