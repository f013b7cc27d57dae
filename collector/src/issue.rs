//! From a call to a record and to issued counters.
//!
//! A call outside a group is recorded as issued before it is forwarded, so that a crash inside the library shows it.
//! Its counters advance after the library took it: a refused call must not stay counted. Completion may come from
//! another thread before that, so the completed counters may for an instant be ahead of the issued ones.
//!
//! A call in a group is recorded as queued. The records of a group form a chain from the newest to the oldest through
//! `completed_ticks`; the end of the outermost group walks it. What they come to is summed apart, so that counters stay
//! exact where a large group outgrows the records. Completion that comes before the walk only counts
//! channels; the walk then finds them all done and closes the record itself ([`crate::complete`]).
//!
//! Issued counters and sequence numbers have one writer at a time, because the library requires calls on one
//! communicator to be serialised by the caller: plain loads and stores, no locked instructions.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use ringscope_wire::segment::calls::hash::Signature;
use ringscope_wire::segment::calls::layout::Thread;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMPLETION_NONE, COMPLETION_PROFILER, Communicator, Counters, DropReason,
    GROUP_BITS, LIVE_CALLED, MAX_PRIMITIVES, MAX_RECORDS, NUMBERED, OPERATION_CAPTURED, OPERATION_FAILED,
    OPERATION_ISSUED, OPERATION_QUEUED, Record, START_KNOWN, STATE_OFF, Segment,
};
use ringscope_wire::{Datatype, Primitive};

use crate::completion::{self, Closer};
use crate::fence::{segment, ticks};
use crate::local::{Local, Sum};
use crate::{communicators, complete, pairs, sequence, streams, switch, threads};

/// Places tried for a record before an operation in flight loses its own: the longest hang is what a user asks for.
const MAX_PLACES: usize = 4;

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
    /// Reduction as signatures have it.
    pub(crate) op: u8,
    /// Peer or root, -1 if the primitive has none.
    pub(crate) peer: i32,
    /// `cudaStream_t`.
    pub(crate) stream: u64,
}

impl Call {
    #[inline(always)]
    fn datatype(&self) -> u8 {
        u8::try_from(self.datatype).unwrap_or(u8::MAX)
    }

    #[inline(always)]
    fn signature(&self) -> Signature {
        let Self { primitive, count, op, peer, .. } = *self;
        Signature { primitive, count, datatype: self.datatype(), op, root: peer }
    }
}

/// A call that is being forwarded.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    pub(crate) segment: &'static Segment,
    pub(crate) ticket: u64,
    slot: usize,
    primitive: Primitive,
    counters: &'static Counters,
    bytes: u64,
    issued_ticks: u64,
    /// Among the collective calls of the communicator, if it is numbered.
    number: Option<u64>,
    /// Entry of the thread, in which the call stands.
    pub(crate) thread: Option<&'static Thread>,
    /// The library will report nothing of it: one rank, or nothing to move.
    is_trivial: bool,
    closer: Closer,
}

impl Open {
    /// The copy of the library that made the communicator.
    #[inline(always)]
    pub(crate) fn library(&self) -> usize {
        communicators::at(self.segment, self.slot).library.load(Relaxed) as usize
    }

    /// What it adds to a sum of calls.
    fn sum(&self) -> Sum {
        Sum {
            slot: self.slot,
            primitive: self.primitive.index(),
            closer: self.closer,
            calls: 1,
            bytes: self.bytes,
            issued_ticks: self.issued_ticks,
            first_ticket: self.ticket,
            end_ticket: self.ticket + 1,
        }
    }
}

/// `ncclSuccess`.
const SUCCESS: i32 = 0;
/// `ncclInProgress`: taken, and being enqueued on a thread of the library's own.
const IN_PROGRESS: i32 = 7;

/// Whether a result means that the library took the call.
#[inline(always)]
pub(crate) fn is_taken(result: i32) -> bool {
    result == SUCCESS || result == IN_PROGRESS
}

/// Records a call that is about to be forwarded, of the function of this number.
#[inline(always)]
pub(crate) fn begin(local: &Local, call: &Call, function: u8) -> Option<Open> {
    let Some(segment) = segment() else {
        switch::no_segment();
        return None;
    };
    if !switch::is_on(segment) {
        count_unrecorded(segment, local, call);
        return None;
    }
    let Some(slot) = communicators::find(segment, local, call.comm) else {
        segment.live.flags.fetch_or(LIVE_CALLED, Relaxed);
        switch::dropped(segment, DropReason::UnknownCommunicator, 1);
        return None;
    };
    let communicator = communicators::at(segment, slot);
    let counters = &communicator.counters[call.primitive.index() & (MAX_PRIMITIVES - 1)];
    let datatype = call.datatype();
    let bytes = call.count.wrapping_mul(Datatype(datatype).size_bytes());
    let in_group = local.group_depth.get() > 0;
    if in_group {
        enter_group(local, slot);
    }
    let generation = communicator.generation.load(Relaxed);
    let closer = completion::closer(segment, local, slot, call.stream);
    let state = match closer {
        Closer::Nobody => OPERATION_CAPTURED,
        _ if in_group => OPERATION_QUEUED,
        _ => OPERATION_ISSUED,
    };
    let number = count(segment, local, slot, call, closer);
    let (ticket, record) = place(segment);
    record.ticket.store(0, Relaxed);
    fence(Release);
    let issued_ticks = ticks::now();
    record.issued_ticks.store(issued_ticks, Relaxed);
    record.completed_ticks.store(if in_group { local.group_last.get() } else { 0 }, Relaxed);
    record.count.store(call.count, Relaxed);
    let seq_number = counters.next_seq_number.load(Relaxed);
    record.numbers.store(seq_number & 0xffff_ffff | number.unwrap_or(0) << 32, Relaxed);
    let flags = if number.is_some() { NUMBERED } else { 0 } | start_known(communicator, closer);
    record.what.store(what(slot, call.primitive, datatype, call.op) | flags, Relaxed);
    record.peer.store(call.peer, Relaxed);
    record.state.store(generation << 8 | state, Relaxed);
    record.channels.store(0, Relaxed);
    record.started.store(0, Relaxed);
    let stream = streams::number(local, communicator, call.stream);
    record.place.store(stream << GROUP_BITS | sequence::group_of(local), Relaxed);
    completion::own(ticket, closer);
    record.ticket.store(ticket + 1, Release);
    add(&counters.next_seq_number, 1);
    let is_trivial = call.count == 0 || communicator.n_ranks.load(Relaxed) == 1;
    let thread = threads::entry(segment, local);
    if let Some(thread) = thread {
        threads::enter(thread, function, slot, generation, issued_ticks);
    }
    let primitive = call.primitive;
    Some(Open {
        segment,
        ticket,
        slot,
        primitive,
        counters,
        bytes,
        issued_ticks,
        number,
        thread,
        is_trivial,
        closer,
    })
}

/// The first call of a group, and the first on each communicator, are told to the group's end.
#[inline(never)]
fn enter_group(local: &Local, slot: usize) {
    if local.group.get() == 0 {
        sequence::begin_group(local);
    }
    local.note_group_slot(slot);
}

/// Counts the call among those of its communicator, or of its peer; gives its number there. A template is not counted.
#[inline(always)]
fn count(segment: &Segment, local: &Local, slot: usize, call: &Call, closer: Closer) -> Option<u64> {
    let communicator = communicators::at(segment, slot);
    if closer == Closer::Nobody {
        return None;
    }
    if sequence::is_numbered(call.primitive) {
        return Some(sequence::add(local, communicator, call.signature()));
    }
    if matches!(call.primitive, Primitive::Send | Primitive::Recv) {
        pairs::add(segment, slot, communicator.generation.load(Relaxed), call);
    }
    None
}

/// While recording is switched off calls are still numbered, so that those after it have the numbers that other ranks
/// give them.
#[cold]
fn count_unrecorded(segment: &Segment, local: &Local, call: &Call) {
    if segment.live.state.load(Relaxed) != STATE_OFF {
        return;
    }
    let Some(slot) = communicators::find(segment, local, call.comm) else { return };
    let in_group = local.group_depth.get() > 0;
    if in_group {
        enter_group(local, slot);
    }
    let closer = if completion::is_captured(call.stream) { Closer::Nobody } else { Closer::Profiler };
    let number = count(segment, local, slot, call, closer);
    if let Some(number) = number.filter(|_| !in_group) {
        sequence::settle(segment, slot, number);
    }
}

/// [`START_KNOWN`] if the profiler tells when the operation begins on the device: it is then asked for channels.
#[inline(always)]
pub(crate) fn start_known(communicator: &Communicator, closer: Closer) -> u32 {
    let is_told = closer == Closer::Profiler && communicator.completion.load(Relaxed) == COMPLETION_PROFILER;
    if is_told { START_KNOWN } else { 0 }
}

/// The library returned `result` for the call.
#[inline(always)]
pub(crate) fn finish(local: &Local, open: &Open, call: &Call, function: u8, result: i32) {
    let is_captured = is_captured(open);
    if is_captured {
        uncount(local, open, call);
    } else if let Some(number) = open.number.filter(|_| local.group_depth.get() == 0) {
        sequence::settle(open.segment, open.slot, number);
    }
    if !is_taken(result) {
        refuse(record(open.segment, open.ticket), open.counters);
        communicators::note_error(open.segment, open.slot, function, result);
    } else if local.group_depth.get() > 0 {
        queue(local, open, is_captured);
    } else if is_captured {
        add_captured(open.counters, 1, open.bytes);
    } else {
        add_issued(open.counters, 1, open.bytes);
        if open.is_trivial {
            complete::close(open.segment, record(open.segment, open.ticket));
        } else if let Closer::Events(lane) = open.closer {
            completion::follow(open.segment, lane, &open.sum(), result == SUCCESS);
        }
    }
}

/// The profiler has said during the call that it is a template.
#[cold]
fn uncount(local: &Local, open: &Open, call: &Call) {
    if open.number.is_some() {
        sequence::take_back(local, communicators::at(open.segment, open.slot), call.signature());
        let record = record(open.segment, open.ticket);
        record.what.fetch_and(!NUMBERED, Relaxed);
    }
}

/// Whether the call is a template of a graph: the driver said so before it, or the profiler during it.
#[inline(always)]
fn is_captured(open: &Open) -> bool {
    let record = record(open.segment, open.ticket);
    open.closer == Closer::Nobody
        || record.state.load(Relaxed) & 0xff == OPERATION_CAPTURED
            && record.ticket.load(Relaxed) == open.ticket + 1
}

/// The profiler's threads count them too.
#[cold]
fn add_captured(counters: &Counters, calls: u64, bytes: u64) {
    counters.captured_calls.fetch_add(calls, Relaxed);
    counters.captured_bytes.fetch_add(bytes, Relaxed);
}

/// Runs of captured calls are counted as issued on another thread than calls are.
#[inline(always)]
fn add_issued(counters: &Counters, calls: u64, bytes: u64) {
    if counters.captured_calls.load(Relaxed) == 0 {
        add(&counters.issued_calls, calls);
        add(&counters.issued_bytes, bytes);
    } else {
        counters.issued_calls.fetch_add(calls, Relaxed);
        counters.issued_bytes.fetch_add(bytes, Relaxed);
    }
}

#[inline(never)]
fn queue(local: &Local, open: &Open, is_captured: bool) {
    let mut sum = open.sum();
    if is_captured {
        sum.closer = Closer::Nobody;
    } else if open.is_trivial {
        // Closed at the end of the group, whoever closes the rest.
        sum.closer = Closer::Profiler;
    }
    if !local.add_to_group(&sum) {
        settle_sums(open.segment, local, true);
        local.add_to_group(&sum);
    }
    local.group_last.set(open.ticket + 1);
    local.group_len.set(local.group_len.get() + 1);
}

/// The outermost group has ended: its calls are issued, or failed all together.
pub(crate) fn settle_group(segment: &Segment, local: &Local, function: u8, result: i32) {
    if !is_taken(result) {
        let slots = local.group_slots();
        slots.for_each(|slot| communicators::note_error(segment, slot, function, result));
    }
    sequence::end_group(segment, local);
    settle_sums(segment, local, is_taken(result));
    completion::end_group(segment, local, result != IN_PROGRESS);
}

fn settle_sums(segment: &Segment, local: &Local, is_taken: bool) {
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
        if let Closer::Events(lane) = sum.closer {
            completion::add(segment, local, lane, &sum);
        }
    }
    local.clear_group();
}

/// The outermost group has ended without launching anything (`ncclGroupSimulateEnd`): its calls never were. Their
/// numbers stay used.
pub(crate) fn drop_group(segment: &Segment, local: &Local) {
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
    completion::end_group(segment, local, true);
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
        settle(segment, record, is_taken);
    }
    true
}

/// Looks through all records for those of the group: queued, and on communicators that this thread has in its group,
/// which no other thread can have in its own. Only for a group of about as many calls as there are records.
#[cold]
fn settle_remaining(segment: &Segment, local: &Local, is_taken: bool) {
    for record in &segment.records {
        let is_queued = record.state.load(Relaxed) & 0xff == OPERATION_QUEUED;
        if is_queued && local.group_sums().any(|sum| (sum.slot, sum.primitive) == subject(record)) {
            settle(segment, record, is_taken);
        }
    }
}

fn settle(segment: &Segment, record: &Record, is_taken: bool) {
    record.completed_ticks.store(0, Relaxed);
    let queued = record.state.load(Relaxed);
    if is_taken && queued & 0xff == OPERATION_CAPTURED {
        return;
    }
    let settled = queued & !0xff | if is_taken { OPERATION_ISSUED } else { OPERATION_FAILED };
    // Against `complete::channel_done`: it counts a channel, then looks at the state; here the state changes, then
    // the channels are looked at. In sequential consistency at least one of the two sees the other.
    let _ = record.state.compare_exchange(queued, settled, SeqCst, SeqCst);
    let n_ranks = communicators::at(segment, subject(record).0).n_ranks.load(Relaxed);
    let is_trivial = record.count.load(Relaxed) == 0 || n_ranks == 1;
    let ticket = record.ticket.load(Relaxed).wrapping_sub(1);
    if is_trivial || complete::is_done(record.channels.load(SeqCst)) && !completion::is_owned(ticket) {
        complete::close(segment, record);
    }
}

#[cold]
pub(crate) fn refuse(record: &Record, counters: &Counters) {
    let state = record.state.load(Relaxed);
    if (is_in_flight(state) || state & 0xff == OPERATION_CAPTURED)
        && record.state.compare_exchange(state, state & !0xff | OPERATION_FAILED, SeqCst, Relaxed).is_ok()
    {
        counters.failed_calls.fetch_add(1, Relaxed);
    }
}

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

/// Adds to a counter that has one writer at a time.
#[inline(always)]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}
