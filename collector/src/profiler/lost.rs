//! Events that could not be followed: counted, and told of the communicator whose operations' end they were to tell. Of those
//! operations nobody shall believe that they hang.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{COMPLETION_PROFILER, DropReason, LOST_PROFILER_EVENT};

use crate::profiler::contexts;
use crate::segment::handle::{Handle, Operation};
use crate::segment::records::{is_in_flight, record, subject};
use crate::segment::{communicators, switch};

/// An event of the context's cannot be followed.
#[cold]
#[inline(never)]
pub(super) fn event(segment: &Segment, context: usize) {
    switch::dropped(segment, DropReason::UnmatchedEvent, 1);
    if let Some(slot) = contexts::slot(segment, context) {
        of_slot(segment, slot);
    }
}

/// An event of the slot's communicator cannot be followed. Where the profiler tells no completion, nothing is lost by that.
#[cold]
pub(super) fn of_slot(segment: &Segment, slot: usize) {
    if communicators::at(segment, slot).completion.load(Relaxed) == COMPLETION_PROFILER {
        communicators::lose(segment, slot, LOST_PROFILER_EVENT);
    }
}

/// The end of the event with this handle will not be heard.
#[cold]
pub(super) fn end(segment: &Segment, handle: u64) {
    if let Some(Handle::Channel(operation, _)) = Handle::decode(handle) {
        of_operation(segment, operation);
    }
}

fn of_operation(segment: &Segment, operation: Operation) {
    let record = record(segment, operation.ticket);
    if operation.is(record.ticket.load(Acquire)) && is_in_flight(record.state.load(Relaxed)) {
        of_slot(segment, subject(record).0);
    }
}
