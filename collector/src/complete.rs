//! From finished channels to a closed record. Every operation is closed exactly once, by whoever moves its record from
//! issued to completed: the thread that reports the last channel, or the issuer if that report came first.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, DropReason, OPERATION_COMPLETED, OPERATION_FAILED, OPERATION_ISSUED,
    OPERATION_QUEUED, Record, Segment,
};

use crate::fence::ticks;
use crate::issue::{record, subject};
use crate::{communicators, completion, switch};

/// A task of the operation was enqueued, to run on `n_channels`. False if the record is closed or replaced: the
/// task is a replay of a captured graph, or came too late.
pub(crate) fn expect_channels(segment: &Segment, ticket: u64, n_channels: u8) -> bool {
    let record = record(segment, ticket);
    if record.ticket.load(Acquire) != ticket + 1 {
        return false;
    }
    if !matches!(record.state.load(SeqCst) & 0xff, OPERATION_QUEUED | OPERATION_ISSUED) {
        return false;
    }
    // A task that names no channel still reports one.
    record.channels.fetch_add(u32::from(n_channels.max(1)), SeqCst);
    true
}

/// One channel of the operation has finished.
pub(crate) fn channel_done(segment: &Segment, ticket: u64) {
    let record = record(segment, ticket);
    if record.ticket.load(Acquire) != ticket + 1 {
        return;
    }
    let channels = record.channels.fetch_add(1 << 16, SeqCst).wrapping_add(1 << 16);
    if is_done(channels) && !completion::is_owned(ticket) {
        close(segment, record);
    }
}

/// Whether all channels that take part have finished.
pub(crate) fn is_done(channels: u32) -> bool {
    channels & 0xffff != 0 && channels & 0xffff == channels >> 16
}

/// Closes an issued record and counts its operation as completed. Does nothing to a record in any other state.
pub(crate) fn close(segment: &Segment, record: &Record) {
    let state = record.state.load(SeqCst);
    if state & 0xff != OPERATION_ISSUED {
        return;
    }
    let (slot, primitive) = subject(record);
    let communicator = communicators::at(segment, slot);
    if communicator.generation.load(Relaxed) & 0xff_ffff != state >> 8 {
        return switch::dropped(segment, DropReason::UnmatchedEvent, 1);
    }
    if communicator.state.load(Acquire) == COMMUNICATOR_ABORTED {
        // Counted as failed by the abort.
        let _ = record.state.compare_exchange(state, state & !0xff | OPERATION_FAILED, SeqCst, Relaxed);
        return;
    }
    let now = ticks::now();
    let busy = now.saturating_sub(record.issued_ticks.load(Relaxed));
    let bytes = record.bytes.load(Relaxed);
    record.completed_ticks.store(now, Relaxed);
    if record.state.compare_exchange(state, state & !0xff | OPERATION_COMPLETED, SeqCst, Relaxed).is_ok() {
        let counters = &communicator.counters[primitive];
        counters.busy_ticks.fetch_add(busy, Relaxed);
        counters.completed_bytes.fetch_add(bytes, Relaxed);
        counters.completed_calls.fetch_add(1, Relaxed);
    }
}
