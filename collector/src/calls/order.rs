//! Broadcasts whose end nobody tells, closed by the order of their stream.
//!
//! Some versions of NCCL tell a profiler of a broadcast's call and of nothing else
//! ([`ringscope_wire::Primitive::is_untold_by`]). Where there is a CUDA driver such a call is followed by events like those of
//! a communicator without a profiler ([`crate::cuda_events`]). Where there is none, an operation that begins later on the same
//! stream shows that the broadcast is over, and so does the communicator's end.
//!
//! Those of a communicator form a chain from the newest to the oldest. Who settles it takes it off, and puts back what
//! stays open.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    BEING_WRITTEN, ENDS_BY_ORDER, GROUP_BITS, LOST_RECORD, MAX_COMMUNICATORS, MAX_RECORDS, OPERATION_ISSUED,
    Record,
};

use crate::segment::communicators;
use crate::segment::records::{is_in_flight, kind, record, state_of, subject};
use crate::segment::table::SLOT_MASK;

/// What counts the operation of a ticket as completed.
pub(crate) type Close = fn(&Segment, u64);

/// By slot, one more than the ticket of its newest call that may be open; 0 if none is.
static NEWEST: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
/// By record of such a call, the same of the one before it in the chain.
static OLDER: [AtomicU64; MAX_RECORDS] = [const { AtomicU64::new(0) }; MAX_RECORDS];
const GROUP_MASK: u32 = (1 << GROUP_BITS) - 1;

/// The record of the ticket is to be closed by what comes after it.
pub(crate) fn add(segment: &Segment, slot: usize, ticket: u64) {
    let newest = &NEWEST[slot & SLOT_MASK];
    let mut known = newest.load(Relaxed);
    loop {
        older(ticket).store(newest_open(segment, slot, known), Relaxed);
        match newest.compare_exchange_weak(known, ticket + 1, AcqRel, Relaxed) {
            Ok(_) => return,
            Err(found) => known = found,
        }
    }
}

/// The chain from here on, without those at its beginning that have been refused.
fn newest_open(segment: &Segment, slot: usize, mut newest: u64) -> u64 {
    while let Some(ticket) = newest.checked_sub(1)
        && !is_open(record(segment, ticket), ticket, slot)
        && let Some(before) = before(segment, ticket)
    {
        newest = before;
    }
    newest
}

/// One more than the ticket of the one before it in its chain, or 0; `None` if another call of a chain has its place.
fn before(segment: &Segment, ticket: u64) -> Option<u64> {
    let record = record(segment, ticket);
    let found = record.ticket.load(Acquire);
    let is_in_no_chain = found & BEING_WRITTEN == 0 && record.what.load(Relaxed) & ENDS_BY_ORDER == 0;
    (found == ticket + 1 || is_in_no_chain).then(|| older(ticket).load(Relaxed))
}

fn older(ticket: u64) -> &'static AtomicU64 {
    const MASK: u64 = MAX_RECORDS as u64 - 1;
    let index = (ticket & MASK) as usize;
    &OLDER[index]
}

/// The operation of this record has begun, so what was called before it on its stream is over.
#[inline(always)]
pub(crate) fn begun(segment: &Segment, later: &Record, close: Close) {
    let (slot, _) = subject(later);
    if NEWEST[slot & SLOT_MASK].load(Relaxed) != 0 {
        begun_after(segment, slot, later, close);
    }
}

#[inline(never)]
fn begun_after(segment: &Segment, slot: usize, later: &Record, close: Close) {
    let (place, issued_ticks) = (later.place.load(Relaxed), later.issued_ticks.load(Relaxed));
    let stream = place >> GROUP_BITS;
    // Calls of one group run at the same time; stream 0 is one that is not known.
    settle(segment, slot, close, &|record| {
        let earlier = record.place.load(Relaxed);
        stream != 0
            && earlier >> GROUP_BITS == stream
            && (earlier != place || earlier & GROUP_MASK == 0)
            && record.issued_ticks.load(Relaxed) < issued_ticks
    });
}

/// The communicator has been destroyed, which waits for all that was called on it.
pub(crate) fn ended(segment: &Segment, slot: usize, close: Close) {
    settle(segment, slot, close, &|_| true);
    forget(slot);
}

fn settle(segment: &Segment, slot: usize, close: Close, is_before: &dyn Fn(&Record) -> bool) {
    let mut next = NEWEST[slot & SLOT_MASK].swap(0, AcqRel);
    for _ in 0..MAX_RECORDS {
        let Some(ticket) = next.checked_sub(1) else { return };
        let record = record(segment, ticket);
        let Some(before) = before(segment, ticket) else {
            return communicators::lose(segment, slot, LOST_RECORD);
        };
        next = before;
        if !is_open(record, ticket, slot) {
            continue;
        }
        if kind(record.state.load(SeqCst)) == OPERATION_ISSUED && is_before(record) {
            close(segment, ticket);
        } else {
            add(segment, slot, ticket);
        }
    }
}

fn is_open(record: &Record, ticket: u64, slot: usize) -> bool {
    record.what.load(Relaxed) & ENDS_BY_ORDER != 0
        && subject(record).0 == slot
        && state_of(record, ticket).is_some_and(is_in_flight)
}

/// The slot gets another communicator, or this is a forked child.
pub(crate) fn forget(slot: usize) {
    let newest = &NEWEST[slot & SLOT_MASK];
    if newest.load(Relaxed) != 0 {
        newest.store(0, Relaxed);
    }
}
