//! From the calls of a group to issued counters.
//!
//! A call in a group is recorded as queued. The records of a group form a chain from the newest to the oldest through
//! `completed_ticks`; the end of the outermost group walks it. What they come to is summed apart, so that counters stay
//! exact where a large group outgrows the records. Completion that comes before the walk only counts
//! channels; the walk then finds them all done and closes the record itself ([`crate::calls::complete`]).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use ringscope_wire::segment::layout::{
    MAX_PRIMITIVES, OPERATION_CAPTURED, OPERATION_FAILED, OPERATION_ISSUED, OPERATION_QUEUED, Segment,
};

use crate::abi::nccl::IN_PROGRESS;
use crate::calls::complete;
use crate::calls::follower::{End, Follower};
use crate::segment::closers::Closer;
use crate::segment::counts::{add_captured, add_issued, is_taken};
use crate::segment::local::{Local, Sum};
use crate::segment::records::{change, kind, record, state_of, subject};
use crate::segment::{closers, communicators, room, sequence};

/// The library took a call of an open group.
pub(crate) fn queue<F: Follower>(segment: &Segment, local: &Local, call: &Sum) {
    if !local.add_to_group(call) {
        settle_sums::<F>(segment, local, true);
        local.add_to_group(call);
    }
    local.group_last.set(call.end_ticket);
    local.group_len.set(local.group_len.get() + 1);
}

/// The outermost group is about to be ended.
#[inline(always)]
pub(crate) fn launch<F: Follower>(segment: &Segment, local: &Local) {
    let group = local.group.get();
    if group != 0 && closers::has_events() {
        F::launch(segment, group);
    }
}

/// The outermost group has ended: its calls are issued, or failed all together.
pub(crate) fn settle<F: Follower>(segment: &Segment, local: &Local, function: u8, result: i32) {
    if !is_taken(result) {
        let slots = local.group_slots();
        slots.for_each(|slot| communicators::note_error(segment, slot, function, result));
    }
    let group = local.group.get();
    sequence::end_group(segment, local);
    settle_sums::<F>(segment, local, is_taken(result));
    let end = match result {
        IN_PROGRESS => End::Enqueueing,
        _ if is_taken(result) => End::Enqueued,
        _ => End::Never,
    };
    end_group::<F>(segment, group, end);
}

fn end_group<F: Follower>(segment: &Segment, group: u64, end: End) {
    if group != 0 && closers::has_events() {
        F::end_group(segment, group, end);
    }
}

fn settle_sums<F: Follower>(segment: &Segment, local: &Local, is_taken: bool) {
    for sum in local.group_sums() {
        let counters = &communicators::at(segment, sum.slot).counters[sum.primitive & (MAX_PRIMITIVES - 1)];
        if !is_taken {
            counters.failed_calls.fetch_add(sum.calls, Relaxed);
        } else if sum.closer == Closer::Nobody {
            add_captured(counters, sum.calls, sum.bytes);
        } else {
            add_issued(counters, sum.calls, sum.bytes);
        }
    }
    if !settle_chain(segment, local, is_taken) {
        settle_remaining(segment, local, is_taken);
    }
    // After the records: what an event confirms has been issued.
    for sum in local.group_sums().filter(|_| is_taken) {
        if let Closer::Events(stream_events) = sum.closer {
            F::add(segment, stream_events, &sum);
        }
    }
    local.clear_group();
}

/// The outermost group has ended without launching anything (`ncclGroupSimulateEnd`): its calls never were. Their
/// numbers stay used.
pub(crate) fn drop<F: Follower>(segment: &Segment, local: &Local) {
    let group = local.group.get();
    sequence::drop_group(segment, local);
    let mut next = local.group_last.get();
    for _ in 0..local.group_len.get() {
        let Some(ticket) = next.checked_sub(1) else { break };
        let record = record(segment, ticket);
        if record.ticket.load(Acquire) != next {
            break;
        }
        next = record.completed_ticks.load(Relaxed);
        record.ticket.store(0, Release);
        record.state.store(0, Release);
    }
    local.clear_group();
    end_group::<F>(segment, group, End::Never);
}

/// Settles the group's records from the newest to the oldest; false if one of them has been overwritten.
fn settle_chain(segment: &Segment, local: &Local, is_taken: bool) -> bool {
    let mut next = local.group_last.get();
    for _ in 0..local.group_len.get() {
        let Some(ticket) = next.checked_sub(1) else { return false };
        let record = record(segment, ticket);
        if record.ticket.load(Acquire) != next {
            return false;
        }
        next = record.completed_ticks.load(Relaxed);
        settle_one(segment, ticket, is_taken);
    }
    true
}

/// Looks through all records for those of the group: queued, and on communicators that this thread has in its group,
/// which no other thread can have in its own. Only for a group of about as many calls as there are records.
#[cold]
fn settle_remaining(segment: &Segment, local: &Local, is_taken: bool) {
    // Of pages that were never given there is nothing to read, and to read them would ask for memory.
    for record in segment.records.iter().filter(|record| room::is_given(segment, *record)) {
        let is_queued = kind(record.state.load(Relaxed)) == OPERATION_QUEUED;
        if is_queued && local.group_sums().any(|sum| (sum.slot, sum.primitive) == subject(record)) {
            settle_one(segment, record.ticket.load(Acquire).wrapping_sub(1), is_taken);
        }
    }
}

fn settle_one(segment: &Segment, ticket: u64, is_taken: bool) {
    let record = record(segment, ticket);
    let Some(queued) = state_of(record, ticket) else { return };
    record.completed_ticks.store(0, Relaxed);
    if is_taken && kind(queued) == OPERATION_CAPTURED {
        return;
    }
    // Against `complete::channel_done`: it counts a channel, then looks at the state; here the state changes, then
    // the channels are looked at. In sequential consistency at least one of the two sees the other.
    change(record, queued, if is_taken { OPERATION_ISSUED } else { OPERATION_FAILED });
    let n_ranks = communicators::at(segment, subject(record).0).n_ranks.load(Relaxed);
    let is_trivial = record.count.load(Relaxed) == 0 || n_ranks == 1;
    if is_trivial || complete::is_done(record.channels.load(SeqCst)) && !closers::is_owned(ticket) {
        complete::close(segment, ticket);
    }
}
