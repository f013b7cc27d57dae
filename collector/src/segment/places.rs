//! Where among the records a new one goes.

use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::layout::{COMMUNICATOR_ACTIVE, COMPLETION_NONE, DropReason, Record, Segment};

use crate::cuda_events;
use crate::segment::records::{is_in_flight, record, subject};
use crate::segment::{communicators, switch};

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
            if is_busy && !cuda_events::is_owned(place.ticket.load(Relaxed).wrapping_sub(1)) {
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
