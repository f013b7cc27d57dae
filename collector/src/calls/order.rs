//! Broadcasts whose end nobody tells, closed by the order of their stream.
//!
//! Some versions of NCCL tell a profiler of a broadcast's call and of nothing else
//! ([`ringscope_wire::Primitive::is_untold_by`]). Where there is a CUDA driver such a call is followed by events like those of
//! a communicator without a profiler ([`crate::cuda_events`]). Where there is none, an operation that begins later on the same
//! stream shows that the broadcast is over, and so does the communicator's end.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    ENDS_BY_ORDER, GROUP_BITS, MAX_COMMUNICATORS, MAX_RECORDS, OPERATION_ISSUED, OPERATION_QUEUED, Record,
};

use crate::segment::records::{record, subject};

/// Records that are looked through at once for those before a call. What lies further back is not counted as completed.
const MAX_LOOKED_AT: u64 = MAX_RECORDS as u64 / 4;

/// What counts the operation of a record as completed.
pub(crate) type Close = fn(&Segment, &Record);

/// By slot, one more than the first ticket that may be open; 0 if none is.
static FIRST: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
const SLOT_MASK: usize = MAX_COMMUNICATORS - 1;
const GROUP_MASK: u32 = (1 << GROUP_BITS) - 1;

/// The record of the ticket is to be closed by what comes after it.
pub(crate) fn add(slot: usize, ticket: u64) {
    let _ = FIRST[slot & SLOT_MASK].compare_exchange(0, ticket + 1, SeqCst, Relaxed);
}

/// The operation of this record has begun, so what was called before it on its stream is over.
#[inline(always)]
pub(crate) fn begun(segment: &Segment, later: &Record, close: Close) {
    let (slot, _) = subject(later);
    if FIRST[slot & SLOT_MASK].load(Relaxed) != 0 {
        let place = later.place.load(Relaxed);
        let ticket = later.ticket.load(Relaxed).wrapping_sub(1);
        // Calls of one group run at the same time; stream 0 is one that is not known.
        let is_before = |earlier: u32| {
            let stream = place >> GROUP_BITS;
            stream != 0 && earlier >> GROUP_BITS == stream && (earlier != place || earlier & GROUP_MASK == 0)
        };
        settle(segment, slot, ticket, close, &is_before);
    }
}

/// The communicator has been destroyed, which waits for all that was called on it.
pub(crate) fn ended(segment: &Segment, slot: usize, close: Close) {
    settle(segment, slot, segment.live.next_ticket.load(Relaxed), close, &|_| true);
    FIRST[slot & SLOT_MASK].store(0, Relaxed);
}

#[inline(never)]
fn settle(segment: &Segment, slot: usize, end: u64, close: Close, is_before: &dyn Fn(u32) -> bool) {
    let known = FIRST[slot & SLOT_MASK].load(SeqCst);
    let Some(first) = known.checked_sub(1) else { return };
    let mut left = 0;
    for ticket in first.max(end.saturating_sub(MAX_LOOKED_AT))..end {
        let record = record(segment, ticket);
        if record.ticket.load(Acquire) != ticket + 1 || !is_open(record, slot) {
            continue;
        }
        if record.state.load(SeqCst) & 0xff == OPERATION_ISSUED && is_before(record.place.load(Relaxed)) {
            close(segment, record);
        } else if left == 0 {
            left = ticket + 1;
        }
    }
    // Not 0, for a call may have been added meanwhile, which comes after `end`.
    let next = if left == 0 { end + 1 } else { left };
    let _ = FIRST[slot & SLOT_MASK].compare_exchange(known, next, SeqCst, Relaxed);
}

fn is_open(record: &Record, slot: usize) -> bool {
    record.what.load(Relaxed) & ENDS_BY_ORDER != 0
        && subject(record).0 == slot
        && matches!(record.state.load(SeqCst) & 0xff, OPERATION_QUEUED | OPERATION_ISSUED)
}

/// The slot gets another communicator, or this is a forked child.
pub(crate) fn forget(slot: usize) {
    FIRST[slot & SLOT_MASK].store(0, Relaxed);
}
