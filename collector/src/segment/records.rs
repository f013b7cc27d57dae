//! The ring of records: which is a ticket's, and what it says.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use ringscope_wire::segment::layout::{
    Counters, MAX_COMMUNICATORS, MAX_PRIMITIVES, MAX_RECORDS, OPERATION_CAPTURED, OPERATION_FAILED,
    OPERATION_ISSUED, OPERATION_QUEUED, Record, Segment, WHAT_OP_SHIFT, WHAT_PRIMITIVE_SHIFT,
    WHAT_SLOT_SHIFT,
};
use ringscope_wire::{Datatype, Primitive};

/// The record of a ticket, or of a newer one that has its place.
#[inline(always)]
pub(crate) fn record(segment: &Segment, ticket: u64) -> &Record {
    const MASK: u64 = MAX_RECORDS as u64 - 1;
    let index = (ticket & MASK) as usize;
    &segment.records[index]
}

/// Communicator slot and index of the primitive, within bounds whatever stands in the record.
pub(crate) fn subject(record: &Record) -> (usize, usize) {
    let what = record.what.load(Relaxed);
    ((what >> WHAT_SLOT_SHIFT) as usize, (what >> WHAT_PRIMITIVE_SHIFT) as usize & (MAX_PRIMITIVES - 1))
}

#[inline(always)]
pub(crate) fn what(slot: usize, primitive: Primitive, datatype: u8, op: u8) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "a slot has 12 bits")]
    let slot = (slot & (MAX_COMMUNICATORS - 1)) as u32;
    slot << WHAT_SLOT_SHIFT
        | u32::from(op & 0xf) << WHAT_OP_SHIFT
        | (primitive as u32) << WHAT_PRIMITIVE_SHIFT
        | u32::from(datatype)
}

/// Payload bytes of a record's operation.
#[inline(always)]
pub(crate) fn bytes(record: &Record) -> u64 {
    let datatype = Datatype((record.what.load(Relaxed) & 0xff) as u8);
    record.count.load(Relaxed).wrapping_mul(datatype.size_bytes())
}

/// Whether a record in this state has been called and is not over.
#[inline(always)]
pub(crate) fn is_in_flight(state: u32) -> bool {
    matches!(state & 0xff, OPERATION_QUEUED | OPERATION_ISSUED)
}

/// The library refused the operation.
#[cold]
pub(crate) fn refuse(record: &Record, counters: &Counters) {
    let state = record.state.load(Relaxed);
    if (is_in_flight(state) || state & 0xff == OPERATION_CAPTURED)
        && record.state.compare_exchange(state, state & !0xff | OPERATION_FAILED, SeqCst, Relaxed).is_ok()
    {
        counters.failed_calls.fetch_add(1, Relaxed);
    }
}
