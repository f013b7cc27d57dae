//! The profiler's contexts: which communicator slot the library means by the number that it got at init.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

/// Communicators that can have a context at once: more than slots, for those that only another plugin follows.
pub(crate) const MAX_CONTEXTS: usize = 2 * MAX_COMMUNICATORS;

struct Context {
    is_used: AtomicBool,
    /// Slot plus one; 0 while it is not known which it is, or if it is not followed.
    slot: AtomicUsize,
}

static CONTEXTS: [Context; MAX_CONTEXTS] =
    [const { Context { is_used: AtomicBool::new(false), slot: AtomicUsize::new(0) } }; MAX_CONTEXTS];

/// What the library has as its context, never 0: without one it would not call `finalize`.
pub(crate) const UNFOLLOWED: usize = MAX_CONTEXTS + 1;

/// Takes a context; gives the number for the library. [`UNFOLLOWED`] if there is no room.
pub(crate) fn open(slot: Option<usize>) -> usize {
    let taken = CONTEXTS
        .iter()
        .position(|context| context.is_used.compare_exchange(false, true, AcqRel, Acquire).is_ok());
    let Some(index) = taken else { return UNFOLLOWED };
    CONTEXTS[index].slot.store(slot.map_or(0, |slot| slot + 1), Release);
    index + 1
}

/// The slot of a context, if it is known and followed.
#[inline(always)]
pub(crate) fn slot(number: usize) -> Option<usize> {
    CONTEXTS.get(number.wrapping_sub(1))?.slot.load(Acquire).checked_sub(1)
}

/// It has become known which slot it is.
pub(crate) fn settle(number: usize, slot: usize) {
    if let Some(context) = CONTEXTS.get(number.wrapping_sub(1)) {
        context.slot.store(slot + 1, Release);
    }
}

/// The communicator has ended. False if there was no such context.
pub(crate) fn close(number: usize) -> bool {
    let Some(context) = CONTEXTS.get(number.wrapping_sub(1)) else { return number == UNFOLLOWED };
    context.slot.store(0, Release);
    context.is_used.swap(false, AcqRel)
}

/// In a forked child: none of the parent's communicators is its own.
pub(crate) fn forget() {
    for context in &CONTEXTS {
        context.slot.store(0, Release);
        context.is_used.store(false, Release);
    }
}
