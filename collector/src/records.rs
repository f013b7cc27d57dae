//! The ring of records: where a new one goes, and what one says.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMPLETION_NONE, Counters, DropReason, MAX_PRIMITIVES, MAX_RECORDS,
    OPERATION_CAPTURED, OPERATION_FAILED, OPERATION_ISSUED, OPERATION_QUEUED, Record, Segment,
};
use ringscope_wire::{Datatype, Primitive};

use crate::{communicators, completion, switch};

/// Places tried for a record before an operation in flight loses its own: the longest hang is what a user asks for.
const MAX_PLACES: usize = 4;

/// A place for a new record, by preference one whose operation is over. A ticket that is passed over never gets a
/// record: a reader finds the older one there.
#[inline(always)]
pub(crate) fn place(segment: &Segment) -> (u64, &Record) {
    let ticket = segment.live.next_ticket.fetch_add(1, Relaxed);
    let place = record(segment, ticket);
    if is_in_flight(place.state.load(Relaxed)) && is_followed(segment, place) {
        return another_place(segment);
    }
    (ticket, place)
}

#[cold]
fn another_place(segment: &Segment) -> (u64, &Record) {
    let mut tries = 2;
    loop {
        let ticket = segment.live.next_ticket.fetch_add(1, Relaxed);
        let place = record(segment, ticket);
        let is_busy = is_in_flight(place.state.load(Relaxed)) && is_followed(segment, place);
        if !is_busy || tries == MAX_PLACES {
            // What events confirm is counted without its record.
            if is_busy && !completion::is_owned(place.ticket.load(Relaxed).wrapping_sub(1)) {
                switch::dropped(segment, DropReason::RecordOverwritten, 1);
            }
            return (ticket, place);
        }
        tries += 1;
    }
}

/// Whether a record in flight will be closed: its communicator lives and something tells the end of its operations.
#[inline(never)]
fn is_followed(segment: &Segment, record: &Record) -> bool {
    let communicator = communicators::at(segment, subject(record).0);
    communicator.completion.load(Relaxed) != COMPLETION_NONE
        && communicator.generation.load(Relaxed) & 0xff_ffff == record.state.load(Relaxed) >> 8
        && communicator.state.load(Relaxed) == COMMUNICATOR_ACTIVE
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
    ((what >> 24) as usize, (what >> 8) as usize & (MAX_PRIMITIVES - 1))
}

#[inline(always)]
pub(crate) fn what(slot: usize, primitive: Primitive, datatype: u8, op: u8) -> u32 {
    u32::try_from(slot & 0xff).unwrap_or_default() << 24
        | u32::from(op) << 16
        | (primitive as u32) << 8
        | u32::from(datatype)
}

/// Payload bytes of a record's operation.
#[inline(always)]
pub(crate) fn bytes(record: &Record) -> u64 {
    let datatype = Datatype((record.what.load(Relaxed) & 0xff) as u8);
    record.count.load(Relaxed).wrapping_mul(datatype.size_bytes())
}

#[inline(always)]
fn is_in_flight(state: u32) -> bool {
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
