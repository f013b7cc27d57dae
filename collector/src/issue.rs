//! From a call to a record and to issued counters.
//!
//! A call outside a group is recorded as issued before it is forwarded, so that a crash inside the library shows it.
//! Its counters advance after the library took it: a refused call must not stay counted. Completion may come from
//! another thread before that, so the completed counters may for an instant be ahead of the issued ones.
//!
//! A call in a group is recorded as queued. The records of a group form a chain from the newest to the oldest through
//! `completed_ticks`; the end of the outermost group walks it. Completion that comes before the walk only counts
//! channels; the walk then finds them all done and closes the record itself ([`crate::complete`]).
//!
//! Issued counters and sequence numbers have one writer at a time, because the library requires calls on one
//! communicator to be serialised by the caller: plain loads and stores, no locked instructions.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, Counters, DropReason, MAX_PRIMITIVES, MAX_RECORDS, OPERATION_FAILED,
    OPERATION_ISSUED, OPERATION_QUEUED, Record, Segment,
};
use ringscope_wire::{Datatype, Primitive};

use crate::fence::{segment, ticks};
use crate::local::Local;
use crate::{communicators, complete, switch};

/// A group that grows to this many records is counted as issued before its end, lest it overwrite itself.
const MAX_GROUP_RECORDS: usize = MAX_RECORDS / 2;

/// One call as the caller made it.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) primitive: Primitive,
    /// `ncclComm_t`.
    pub(crate) comm: u64,
    /// Elements.
    pub(crate) count: u64,
    /// `ncclDataType_t`.
    pub(crate) datatype: i32,
    /// Peer or root, -1 if the primitive has none.
    pub(crate) peer: i32,
}

/// A call that is being forwarded.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) segment: &'static Segment,
    pub(crate) ticket: u64,
    counters: &'static Counters,
    bytes: u64,
    /// The library will report nothing of it: one rank, or nothing to move.
    is_trivial: bool,
}

/// Whether a result means that the library took the call: `ncclSuccess` or `ncclInProgress`.
#[inline(always)]
pub(crate) fn is_taken(result: i32) -> bool {
    result == 0 || result == 7
}

/// Records a call that is about to be forwarded.
#[inline(always)]
pub(crate) fn begin(local: &Local, call: &Call) -> Option<Open> {
    let Some(segment) = segment() else {
        switch::no_segment();
        return None;
    };
    if !switch::is_on(segment) {
        return None;
    }
    let Some(slot) = communicators::find(segment, local, call.comm) else {
        switch::dropped(segment, DropReason::UnknownCommunicator, 1);
        return None;
    };
    let communicator = communicators::at(segment, slot);
    let counters = &communicator.counters[call.primitive.index() & (MAX_PRIMITIVES - 1)];
    let datatype = u8::try_from(call.datatype).unwrap_or(u8::MAX);
    let bytes = call.count.wrapping_mul(Datatype(datatype).size_bytes());
    let in_group = local.group_depth.get() > 0;
    let state = if in_group { OPERATION_QUEUED } else { OPERATION_ISSUED };
    let ticket = segment.live.next_ticket.fetch_add(1, Relaxed);
    let record = record(segment, ticket);
    if is_in_flight(record.state.load(Relaxed)) {
        note_overwritten(segment, record);
    }
    record.ticket.store(0, Relaxed);
    fence(Release);
    record.issued_ticks.store(ticks::now(), Relaxed);
    record.completed_ticks.store(if in_group { local.group_last.get() } else { 0 }, Relaxed);
    record.bytes.store(bytes, Relaxed);
    record.count.store(call.count, Relaxed);
    record.seq_number.store(counters.next_seq_number.load(Relaxed), Relaxed);
    record.what.store(what(slot, call.primitive, datatype), Relaxed);
    record.peer.store(call.peer, Relaxed);
    record.state.store(communicator.generation.load(Relaxed) << 8 | state, Relaxed);
    record.channels.store(0, Relaxed);
    record.ticket.store(ticket + 1, Release);
    add(&counters.next_seq_number, 1);
    let is_trivial = call.count == 0 || communicator.n_ranks.load(Relaxed) == 1;
    Some(Open { segment, ticket, counters, bytes, is_trivial })
}

/// The library returned `result` for the call.
#[inline(always)]
pub(crate) fn finish(local: &Local, open: &Open, result: i32) {
    if !is_taken(result) {
        refuse(record(open.segment, open.ticket), open.counters);
    } else if local.group_depth.get() > 0 {
        queue(local, open);
    } else {
        add(&open.counters.issued_calls, 1);
        add(&open.counters.issued_bytes, open.bytes);
        if open.is_trivial {
            complete::close(open.segment, record(open.segment, open.ticket));
        }
    }
}

#[inline(never)]
fn queue(local: &Local, open: &Open) {
    local.group_last.set(open.ticket + 1);
    local.group_len.set(local.group_len.get() + 1);
    if local.group_len.get() >= MAX_GROUP_RECORDS {
        settle_group(open.segment, local, true);
    }
}

/// The outermost group has ended: its records are issued, or failed all together.
pub(crate) fn settle_group(segment: &'static Segment, local: &Local, is_taken: bool) {
    let mut next = local.group_last.take();
    for _ in 0..local.group_len.take() {
        let Some(ticket) = next.checked_sub(1) else { return };
        let record = record(segment, ticket);
        if record.ticket.load(Acquire) != next {
            return;
        }
        next = record.completed_ticks.load(Relaxed);
        settle(segment, record, is_taken);
    }
}

fn settle(segment: &Segment, record: &Record, is_taken: bool) {
    let (slot, primitive) = subject(record);
    let communicator = communicators::at(segment, slot);
    let counters = &communicator.counters[primitive];
    if !is_taken {
        return refuse(record, counters);
    }
    add(&counters.issued_calls, 1);
    add(&counters.issued_bytes, record.bytes.load(Relaxed));
    record.completed_ticks.store(0, Relaxed);
    let queued = record.state.load(Relaxed);
    let issued = queued & !0xff | OPERATION_ISSUED;
    // Against `complete::channel_done`: it counts a channel, then looks at the state; here the state changes, then
    // the channels are looked at. In sequential consistency at least one of the two sees the other.
    let _ = record.state.compare_exchange(queued, issued, SeqCst, SeqCst);
    let is_trivial = record.count.load(Relaxed) == 0 || communicator.n_ranks.load(Relaxed) == 1;
    if is_trivial || complete::is_done(record.channels.load(SeqCst)) {
        complete::close(segment, record);
    }
}

#[cold]
fn refuse(record: &Record, counters: &Counters) {
    let state = record.state.load(Relaxed);
    if is_in_flight(state)
        && record.state.compare_exchange(state, state & !0xff | OPERATION_FAILED, SeqCst, Relaxed).is_ok()
    {
        counters.failed_calls.fetch_add(1, Relaxed);
    }
}

/// Counts a record that is overwritten before its operation completed, unless nothing would ever have closed it.
#[cold]
fn note_overwritten(segment: &Segment, old: &Record) {
    let communicator = communicators::at(segment, subject(old).0);
    let same_communicator = communicator.generation.load(Relaxed) & 0xff_ffff == old.state.load(Relaxed) >> 8;
    let has_profiler = communicator.n_nodes.load(Relaxed) != 0;
    if same_communicator && has_profiler && communicator.state.load(Relaxed) != COMMUNICATOR_ABORTED {
        switch::dropped(segment, DropReason::RecordOverwritten, 1);
    }
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
    ((what >> 16) as usize, (what >> 8) as usize & (MAX_PRIMITIVES - 1))
}

#[inline(always)]
fn what(slot: usize, primitive: Primitive, datatype: u8) -> u32 {
    u32::try_from(slot).unwrap_or_default() << 16 | (primitive as u32) << 8 | u32::from(datatype)
}

#[inline(always)]
fn is_in_flight(state: u32) -> bool {
    matches!(state & 0xff, OPERATION_QUEUED | OPERATION_ISSUED)
}

/// Adds to a counter that has one writer at a time.
#[inline(always)]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}
