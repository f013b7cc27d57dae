//! From a call to a record and to issued counters.
//!
//! A call outside a group is recorded as issued before it is forwarded, so that a crash inside the library shows it.
//! Its counters advance after the library took it: a refused call must not stay counted. Completion may come from
//! another thread before that, so the completed counters may for an instant be ahead of the issued ones. A call in a
//! group is recorded as queued, and issued with its group ([`crate::calls::group`]).
//!
//! Issued counters and sequence numbers have one writer at a time, because the library requires calls on one
//! communicator to be serialised by the caller: plain loads and stores, no locked instructions.
//!
//! What is needed after the call is derived anew where that is a load or two: what is kept has to be written to memory
//! before the call and read after it. For the same reason [`Open`] leaves the path by value.

use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::Primitive;
use ringscope_wire::segment::layout::{
    COMPLETION_PROFILER, Communicator, Counters, DropReason, ENDS_BY_ORDER, GROUP_BITS, LIVE_CALLED,
    MAX_PRIMITIVES, NUMBERED, OPERATION_CAPTURED, OPERATION_ISSUED, OPERATION_QUEUED, START_KNOWN, STATE_OFF,
    Segment,
};

use crate::abi::nccl::SUCCESS;
use crate::calls::call::Call;
use crate::calls::follower::Follower;
use crate::calls::resolve::version;
use crate::calls::{complete, group, order};
use crate::segment::closers::Closer;
use crate::segment::counts::{add, add_captured, add_issued, is_taken};
use crate::segment::local::{Local, Sum};
use crate::segment::places::place;
use crate::segment::records::{Fields, kind, record, refuse};
use crate::segment::{
    closers, communicators, pairs, records, segment, sequence, streams, switch, threads, ticks,
};

/// A call that is being forwarded.
#[derive(Clone, Copy)]
pub(crate) struct Open {
    segment: &'static Segment,
    pub(crate) ticket: u64,
    slot: usize,
    issued_ticks: u64,
    closer: Closer,
}

impl Open {
    /// The copy of the library that made the communicator.
    #[inline(always)]
    pub(crate) fn library(&self) -> usize {
        self.communicator().library.load(Relaxed) as usize
    }

    #[inline(always)]
    fn communicator(&self) -> &'static Communicator {
        communicators::at(self.segment, self.slot)
    }

    #[inline(always)]
    fn counters(&self, call: &Call) -> &'static Counters {
        &self.communicator().counters[call.primitive.index() & (MAX_PRIMITIVES - 1)]
    }

    /// What it adds to a sum of calls.
    fn sum(&self, call: &Call) -> Sum {
        Sum {
            slot: self.slot,
            primitive: call.primitive.index(),
            closer: self.closer,
            calls: 1,
            bytes: call.bytes(),
            issued_ticks: self.issued_ticks,
            last_ticks: self.issued_ticks,
            first_ticket: self.ticket,
            end_ticket: self.ticket + 1,
        }
    }
}

/// Records a call that is about to be forwarded, of the function of this number.
#[inline(always)]
pub(crate) fn begin<F: Follower>(local: &Local, call: &Call, function: u8) -> Option<Open> {
    let Some(segment) = segment() else {
        switch::no_segment();
        return None;
    };
    if !switch::is_on(segment) {
        count_unrecorded::<F>(segment, local, call);
        return None;
    }
    let Some(slot) = communicators::find(segment, local, call.comm) else {
        segment.live.flags.fetch_or(LIVE_CALLED, Relaxed);
        switch::dropped(segment, DropReason::UnknownCommunicator, 1);
        return None;
    };
    let in_group = local.group_depth.get() > 0;
    if in_group {
        enter_group(local, slot);
    }
    let communicator = communicators::at(segment, slot);
    let is_untold = is_untold(communicator, call.primitive);
    let closer = if closers::has_events() {
        F::closer(segment, local, slot, call.stream, is_untold)
    } else {
        Closer::Profiler
    };
    let ends_by_order = is_untold && closer == Closer::Profiler && !is_trivial(communicator, call);
    let number = count(segment, local, slot, call, closer);
    let (ticket, record) = place(segment, local);
    let issued_ticks = ticks::now();
    let counters = &communicator.counters[call.primitive.index() & (MAX_PRIMITIVES - 1)];
    let stream = streams::number(local, communicator, call.stream);
    let is_held = complete::is_of_parts(call.primitive) && !in_group;
    if is_held {
        complete::hold(ticket);
    }
    let fields = Fields {
        slot,
        generation: communicator.generation.load(Relaxed),
        primitive: call.primitive,
        count: call.count,
        datatype: call.datatype,
        op: call.op,
        peer: call.peer,
        seq_number: counters.next_seq_number.load(Relaxed),
        number,
        issued_ticks,
        queued_before: if in_group { local.group_last.get() } else { 0 },
        channels: u32::from(is_held),
        place: stream << GROUP_BITS | sequence::group_of(local),
        flags: match closer {
            _ if ends_by_order => ENDS_BY_ORDER,
            // Of one that does nothing there is nothing to tell.
            Closer::Events(_) if is_trivial(communicator, call) && F::is_timed() => START_KNOWN,
            Closer::Events(at) if F::is_timed() => timed::<F>(segment, local, at, ticket, issued_ticks),
            _ => start_known(communicator, closer),
        },
        kind: match closer {
            Closer::Nobody => OPERATION_CAPTURED,
            _ if in_group => OPERATION_QUEUED,
            _ => OPERATION_ISSUED,
        },
        closer,
    };
    records::write(ticket, record, &fields);
    if ends_by_order {
        order::add(segment, slot, ticket);
    }
    add(&counters.next_seq_number, 1);
    if let Some(thread) = threads::entry(segment, local) {
        threads::enter(thread, function, slot, fields.generation, issued_ticks);
    }
    Some(Open { segment, ticket, slot, issued_ticks, closer })
}

/// [`START_KNOWN`] if the call gets the times of the device.
#[inline(always)]
fn timed<F: Follower>(
    segment: &Segment,
    local: &Local,
    events: usize,
    ticket: u64,
    issued_ticks: u64,
) -> u32 {
    let is_timed = F::begin(segment, events, ticket, issued_ticks, local.group.get());
    if is_timed { START_KNOWN } else { 0 }
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
        pairs::add(segment, slot, communicator.generation.load(Relaxed), call.signature());
    }
    None
}

/// While recording is switched off calls are still numbered, so that those after it have the numbers that other ranks
/// give them.
#[cold]
fn count_unrecorded<F: Follower>(segment: &Segment, local: &Local, call: &Call) {
    if segment.live.state.load(Relaxed) != STATE_OFF {
        return;
    }
    let Some(slot) = communicators::find(segment, local, call.comm) else { return };
    let in_group = local.group_depth.get() > 0;
    if in_group {
        enter_group(local, slot);
    }
    let closer = if F::is_captured(call.stream) { Closer::Nobody } else { Closer::Profiler };
    if count(segment, local, slot, call, closer).is_some() && !in_group {
        sequence::settle(segment, slot);
    }
}

/// Whether the profiler tells nothing of what becomes of the communicator's calls of this primitive.
#[inline(always)]
fn is_untold(communicator: &Communicator, primitive: Primitive) -> bool {
    primitive == Primitive::Broadcast
        && primitive.is_untold_by(version(communicator.library.load(Relaxed) as usize))
}

/// The library will report nothing of the call: one rank, or nothing to move.
#[inline(always)]
fn is_trivial(communicator: &Communicator, call: &Call) -> bool {
    call.count == 0 || communicator.n_ranks.load(Relaxed) == 1
}

/// [`START_KNOWN`] if the profiler tells when the operation begins on the device: it is then asked for channels.
#[inline(always)]
pub(crate) fn start_known(communicator: &Communicator, closer: Closer) -> u32 {
    let is_told = closer == Closer::Profiler && communicator.completion.load(Relaxed) == COMPLETION_PROFILER;
    if is_told { START_KNOWN } else { 0 }
}

/// The library returned `result` for the call.
#[inline(always)]
pub(crate) fn finish<F: Follower>(local: &Local, open: &Open, call: &Call, function: u8, result: i32) {
    let in_group = local.group_depth.get() > 0;
    let is_captured = is_captured(open);
    if is_captured {
        uncount(local, *open, call);
    } else if sequence::is_numbered(call.primitive) && !in_group {
        sequence::settle(open.segment, open.slot);
    }
    if !is_taken(result) {
        refuse(open.segment, open.ticket, open.counters(call));
        communicators::note_error(open.segment, open.slot, function, result);
    } else if in_group {
        queue::<F>(local, *open, call, is_captured);
    } else if is_captured {
        add_captured(open.counters(call), 1, call.bytes());
    } else {
        add_issued(open.counters(call), 1, call.bytes());
        if is_trivial(open.communicator(), call) {
            complete::close(open.segment, open.ticket);
        } else if let Closer::Events(stream_events) = open.closer {
            return F::follow(open.segment, stream_events, &open.sum(call), result == SUCCESS);
        } else if complete::is_of_parts(call.primitive) {
            complete::let_go(open.segment, open.ticket);
        }
    }
    if let Closer::Events(stream_events) = open.closer
        && !in_group
    {
        F::let_go(stream_events, open.slot);
    }
}

/// The profiler has said during the call that it is a template; or it was known before, and then it was not counted.
#[cold]
fn uncount(local: &Local, open: Open, call: &Call) {
    if open.closer != Closer::Nobody && sequence::is_numbered(call.primitive) {
        sequence::take_back(local, open.communicator(), call.signature());
        let record = record(open.segment, open.ticket);
        if record.ticket.load(Relaxed) == open.ticket + 1 {
            record.what.fetch_and(!NUMBERED, Relaxed);
        }
    }
}

/// Whether the call is a template of a graph: the driver said so before it, or the profiler during it.
#[inline(always)]
fn is_captured(open: &Open) -> bool {
    let record = record(open.segment, open.ticket);
    open.closer == Closer::Nobody
        || kind(record.state.load(Relaxed)) == OPERATION_CAPTURED
            && record.ticket.load(Relaxed) == open.ticket + 1
}

#[inline(never)]
fn queue<F: Follower>(local: &Local, open: Open, call: &Call, is_captured: bool) {
    let mut sum = open.sum(call);
    if is_captured {
        sum.closer = Closer::Nobody;
    } else if is_trivial(open.communicator(), call) {
        // Closed at the end of the group, whoever closes the rest.
        sum.closer = Closer::Profiler;
    }
    group::queue::<F>(open.segment, local, &sum);
}
