//! The ring of records: which is a ticket's, and what it says.
//!
//! A record's place may be given to a newer call at any time. Who changes the state of an operation names its ticket, and
//! changes nothing if the place is another's by then: the state has the lap of its ticket in it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use ringscope_wire::segment::layout::{
    BEING_WRITTEN, Counters, LAP_BITS, LAP_SHIFT, MAX_COMMUNICATORS, MAX_PRIMITIVES, MAX_RECORDS, NUMBERED,
    OPERATION_CAPTURED, OPERATION_FAILED, OPERATION_ISSUED, OPERATION_MASK, OPERATION_QUEUED, Record,
    Segment, WHAT_OP_SHIFT, WHAT_PRIMITIVE_SHIFT, WHAT_SLOT_SHIFT,
};
use ringscope_wire::{Datatype, Primitive};

use crate::segment::closers;
use crate::segment::closers::Closer;

/// All that a new record says, and what is kept of its operation beside it.
pub(crate) struct Fields {
    pub(crate) slot: usize,
    /// The slot's.
    pub(crate) generation: u32,
    pub(crate) primitive: Primitive,
    /// Elements.
    pub(crate) count: u64,
    pub(crate) datatype: u8,
    pub(crate) op: u8,
    pub(crate) peer: i32,
    /// Among the calls of its primitive.
    pub(crate) seq_number: u64,
    /// Among the communicator's collectives, if it is one whose number is known.
    pub(crate) number: Option<u64>,
    pub(crate) issued_ticks: u64,
    /// While it is queued: ticket plus one of the one before it in its group, or 0.
    pub(crate) queued_before: u64,
    /// Channels that it waits for from the beginning.
    pub(crate) channels: u32,
    /// Stream and group.
    pub(crate) place: u32,
    /// `START_KNOWN`, `ENDS_BY_ORDER`.
    pub(crate) flags: u32,
    /// One of the `OPERATION_*`.
    pub(crate) kind: u32,
    pub(crate) closer: Closer,
}

/// Writes the record of a ticket that is ours. Whoever read it before and looks at the ticket again knows that it has changed.
#[inline(always)]
pub(crate) fn write(ticket: u64, record: &Record, fields: &Fields) {
    record.ticket.store(BEING_WRITTEN | (ticket + 1), Relaxed);
    fence(Release);
    record.issued_ticks.store(fields.issued_ticks, Relaxed);
    record.completed_ticks.store(fields.queued_before, Relaxed);
    record.count.store(fields.count, Relaxed);
    record.numbers.store(fields.seq_number & 0xffff_ffff | fields.number.unwrap_or(0) << 32, Relaxed);
    let numbered = if fields.number.is_some() { NUMBERED } else { 0 };
    let what = what(fields.slot, fields.primitive, fields.datatype, fields.op);
    record.what.store(what | numbered | fields.flags, Relaxed);
    record.peer.store(fields.peer, Relaxed);
    record.state.store(state(fields.generation, ticket, fields.kind), Relaxed);
    record.channels.store(fields.channels, Relaxed);
    record.started.store(0, Relaxed);
    record.place.store(fields.place, Relaxed);
    closers::own(ticket, fields.closer);
    record.ticket.store(ticket + 1, Release);
}

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
fn what(slot: usize, primitive: Primitive, datatype: u8, op: u8) -> u32 {
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

/// The state of the ticket's record: one of the `OPERATION_*`, with what tells it from that of another record.
#[inline(always)]
pub(crate) fn state(generation: u32, ticket: u64, kind: u32) -> u32 {
    generation << 8 | lap(ticket) | kind
}

#[inline(always)]
fn lap(ticket: u64) -> u32 {
    const MASK: u64 = (1 << LAP_BITS) - 1;
    (((ticket / MAX_RECORDS as u64) & MASK) as u32) << LAP_SHIFT
}

/// The `OPERATION_*` of a state.
#[inline(always)]
pub(crate) fn kind(state: u32) -> u32 {
    state & OPERATION_MASK
}

/// Low 24 bits of the communicator's generation in a state.
#[inline(always)]
pub(crate) fn generation(state: u32) -> u32 {
    state >> 8
}

/// The state of the ticket's record; `None` if its place is another's, or is being given to another.
#[inline(always)]
pub(crate) fn state_of(record: &Record, ticket: u64) -> Option<u32> {
    let state = record.state.load(SeqCst);
    let is_its = record.ticket.load(Acquire) == ticket + 1 && state & LAP_MASK == lap(ticket);
    is_its.then_some(state)
}

const LAP_MASK: u32 = ((1 << LAP_BITS) - 1) << LAP_SHIFT;

/// Communicator slot, index of the primitive and payload bytes of the ticket's call; `None` if its place is another's.
pub(crate) fn call_of(segment: &Segment, ticket: u64) -> Option<(usize, usize, u64)> {
    call_in(record(segment, ticket), ticket)
}

fn call_in(record: &Record, ticket: u64) -> Option<(usize, usize, u64)> {
    state_of(record, ticket)?;
    let (slot, primitive) = subject(record);
    let bytes = bytes(record);
    // All of that is of this ticket, or it is nothing.
    fence(Acquire);
    (record.ticket.load(Relaxed) == ticket + 1).then_some((slot, primitive, bytes))
}

/// Moves a record from this state on; false if it is in another one by now, or another's.
#[inline(always)]
pub(crate) fn change(record: &Record, state: u32, kind: u32) -> bool {
    record.state.compare_exchange(state, state & !OPERATION_MASK | kind, SeqCst, SeqCst).is_ok()
}

/// Whether a record in this state has been called and is not over.
#[inline(always)]
pub(crate) fn is_in_flight(state: u32) -> bool {
    matches!(kind(state), OPERATION_QUEUED | OPERATION_ISSUED)
}

/// The library refused the operation of the ticket, which counts whatever has become of its record.
#[cold]
pub(crate) fn refuse(segment: &Segment, ticket: u64, counters: &Counters) {
    let record = record(segment, ticket);
    let is_refused = match state_of(record, ticket) {
        Some(state) if is_in_flight(state) || kind(state) == OPERATION_CAPTURED => {
            change(record, state, OPERATION_FAILED)
        }
        Some(_) => false,
        None => true,
    };
    if is_refused {
        counters.failed_calls.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn a_record_says_nothing_of_a_ticket_whose_place_is_another_calls() {
        let record = Record::new_zeroed();
        let call = |ticket: u64, primitive| {
            record.count.store(ticket, Relaxed);
            record.what.store(what(3, primitive, 0, 0), Relaxed);
            record.state.store(state(1, ticket, OPERATION_ISSUED), Relaxed);
            record.ticket.store(ticket + 1, Relaxed);
        };
        call(7, Primitive::Push);
        assert_eq!(call_in(&record, 7), Some((3, Primitive::Push.index(), 7)));
        let later = 7 + MAX_RECORDS as u64;
        call(later, Primitive::Pull);
        assert_eq!(call_in(&record, 7), None);
        assert_eq!(call_in(&record, later), Some((3, Primitive::Pull.index(), later)));
    }
}
