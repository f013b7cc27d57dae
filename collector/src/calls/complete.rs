//! From finished channels to a closed record. Every operation is closed exactly once, by whoever moves its record from
//! issued to completed: the thread that reports the last channel, or the issuer if that report came first.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::fence;

use ringscope_wire::Primitive;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, DropReason, MAX_RECORDS, OPERATION_COMPLETED, OPERATION_FAILED, OPERATION_ISSUED,
    Record, STARTED_SHIFT, Segment,
};

use crate::calls::order;
use crate::segment::handle::{Handle, NO_CHANNEL, Operation};
use crate::segment::records::{change, generation, is_in_flight, kind, record, state_of, subject};
use crate::segment::{closers, communicators, records, switch, ticks};

/// Channels of each record's operation that are at work now, by bit; so that a channel that stops twice counts once.
static AT_WORK: [AtomicU64; MAX_RECORDS] = [const { AtomicU64::new(0) }; MAX_RECORDS];

/// A task of the operation was enqueued. `n_channels` is how many it runs on; `None` if that is not known, then the
/// operation has as many as begin. False if the record is closed or replaced: the task came too late.
#[inline(always)]
pub(crate) fn expect_channels(segment: &Segment, operation: Operation, n_channels: Option<u8>) -> bool {
    let record = record(segment, operation.ticket);
    if !operation.is(record.ticket.load(Acquire)) {
        return false;
    }
    if !is_in_flight(record.state.load(SeqCst)) {
        return false;
    }
    // A task that names no channel still reports one.
    let n_channels = n_channels.map_or(0, |n_channels| u32::from(n_channels.max(1)));
    if record.channels.fetch_add(n_channels, SeqCst) == 0 {
        at_work(operation.ticket).store(0, Relaxed);
    }
    true
}

/// Whether the library makes operations of this primitive of sends and receives, which it may launch one after the other: as
/// long as the call lasts there may be more.
#[inline(always)]
pub(crate) const fn is_of_parts(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::AllToAll | Primitive::Gather | Primitive::Scatter)
}

/// An operation that is not to be closed while its call lasts: its record begins with one channel, which is the call.
pub(crate) fn hold(ticket: u64) {
    at_work(ticket).store(0, Relaxed);
}

/// Its call is over.
pub(crate) fn let_go(segment: &Segment, ticket: u64) {
    let record = record(segment, ticket);
    if record.ticket.load(Acquire) != ticket + 1 {
        return;
    }
    let channels = record.channels.fetch_sub(1, SeqCst).wrapping_sub(1);
    if is_done(channels) && !closers::is_owned(ticket) {
        close(segment, ticket);
    }
}

/// One channel begins; gives its handle.
#[inline(always)]
pub(crate) fn channel_begun(
    segment: &Segment,
    operation: Operation,
    channel: u8,
    is_counted: bool,
) -> Handle {
    let record = record(segment, operation.ticket);
    if operation.is(record.ticket.load(Acquire)) {
        if !is_counted {
            record.channels.fetch_add(1, SeqCst);
        }
        if record.started.load(Relaxed) == 0 {
            note_start(record);
            order::begun(segment, record, close);
        }
    }
    let is_first =
        channel < 64 && at_work(operation.ticket).fetch_or(1 << channel, Relaxed) & 1 << channel == 0;
    // Two tasks of one call may be at work on a channel: those are not told apart.
    Handle::Channel(operation, if is_first { channel } else { NO_CHANNEL })
}

/// The first channel of the operation begins: the device has got to it. That of a proxy operation would say less, for the
/// library makes those as soon as it has enqueued the operation.
fn note_start(record: &Record) {
    let since = ticks::now().saturating_sub(record.issued_ticks.load(Relaxed)) >> STARTED_SHIFT;
    record.started.store(u32::try_from(since).unwrap_or(u32::MAX).max(1), Relaxed);
}

/// One channel of the operation has finished.
#[inline(always)]
pub(crate) fn channel_done(segment: &Segment, operation: Operation, channel: u8) {
    let record = record(segment, operation.ticket);
    let found = record.ticket.load(Acquire);
    if !operation.is(found) {
        return;
    }
    if channel < 64 && at_work(operation.ticket).fetch_and(!(1 << channel), Relaxed) & 1 << channel == 0 {
        return switch::dropped(segment, DropReason::EventOutOfOrder, 1);
    }
    let channels = record.channels.fetch_add(1 << 16, SeqCst).wrapping_add(1 << 16);
    if is_done(channels) && !closers::is_owned(operation.ticket) {
        close(segment, found.wrapping_sub(1));
    }
}

#[inline(always)]
fn at_work(ticket: u64) -> &'static AtomicU64 {
    const MASK: u64 = MAX_RECORDS as u64 - 1;
    let index = (ticket & MASK) as usize;
    &AT_WORK[index]
}

/// Whether all channels that take part have finished.
pub(crate) fn is_done(channels: u32) -> bool {
    channels & 0xffff != 0 && channels & 0xffff == channels >> 16
}

/// Counts the operation of the ticket as completed, if it is issued and its record is still there.
pub(crate) fn close(segment: &Segment, ticket: u64) {
    let record = record(segment, ticket);
    let Some(state) = state_of(record, ticket).filter(|state| kind(*state) == OPERATION_ISSUED) else {
        return;
    };
    let (slot, primitive) = subject(record);
    let communicator = communicators::at(segment, slot);
    if communicator.generation.load(Relaxed) & 0xff_ffff != generation(state) {
        return switch::dropped(segment, DropReason::UnmatchedEvent, 1);
    }
    if communicator.state.load(Acquire) == COMMUNICATOR_ABORTED {
        // Counted as failed by the abort.
        change(record, state, OPERATION_FAILED);
        return;
    }
    let now = ticks::now();
    let busy = now.saturating_sub(record.issued_ticks.load(Relaxed));
    let bytes = records::bytes(record);
    // All of that is of this ticket, or nothing is counted.
    fence(Acquire);
    if record.ticket.load(Relaxed) != ticket + 1 {
        return;
    }
    record.completed_ticks.store(now, Relaxed);
    if change(record, state, OPERATION_COMPLETED) {
        let counters = &communicator.counters[primitive];
        counters.busy_ticks.fetch_add(busy, Relaxed);
        counters.completed_bytes.fetch_add(bytes, Relaxed);
        counters.completed_calls.fetch_add(1, Relaxed);
    }
}
