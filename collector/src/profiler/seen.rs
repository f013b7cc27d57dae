//! Operations that the profiler speaks of without naming their record: those whose call did not pass the collector
//! get a record here; those whose call did, in a library too old to tell which (before version 5), are looked up.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use ringscope_wire::segment::calls::hash::NO_OP;
use ringscope_wire::segment::layout::{
    MAX_COMMUNICATORS, MAX_PRIMITIVES, MAX_RECORDS, OPERATION_CAPTURED, OPERATION_ISSUED, Segment,
};
use ringscope_wire::{Datatype, Primitive};

use crate::calls::issue::start_known;
use crate::segment::closers::Closer;
use crate::segment::counts;
use crate::segment::counts::{add_captured, add_issued};
use crate::segment::handle::Operation;
use crate::segment::places::place;
use crate::segment::records::{Fields, bytes, is_in_flight, record, subject};
use crate::segment::{communicators, local, places, records, room, ticks};

/// Records looked at for a task beyond the oldest that waits for one. Within a group the library sorts tasks by size.
const MAX_SEARCH: usize = 1024;

/// Per slot: no record with an older ticket still waits for its task.
static WAITING_FROM: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
/// Per record: the ticket plus one for which a task was found.
static CLAIMED: [AtomicU64; MAX_RECORDS] = [const { AtomicU64::new(0) }; MAX_RECORDS];

/// An operation as the profiler describes it.
#[derive(Clone, Copy)]
pub(crate) struct Described {
    pub(crate) slot: usize,
    pub(crate) primitive: Primitive,
    pub(crate) count: u64,
    pub(crate) datatype: Datatype,
    /// Peer or root, -1 if there is none or it is not said.
    pub(crate) peer: i32,
}

impl Described {
    pub(crate) fn bytes(&self) -> u64 {
        self.count.wrapping_mul(self.datatype.size_bytes())
    }
}

/// Records an operation whose call did not pass the collector: as issued now, or as captured into a graph. The calls of one
/// communicator come one after the other, as the library demands of the program. Inlined, or the operation goes through memory.
#[inline(always)]
pub(crate) fn add(segment: &Segment, seen: &Described, is_captured: bool) -> Operation {
    let state = if is_captured { OPERATION_CAPTURED } else { OPERATION_ISSUED };
    let primitive = seen.primitive.index() & (MAX_PRIMITIVES - 1);
    let counters = &communicators::at(segment, seen.slot).counters[primitive];
    let seq_number = counters.next_seq_number.load(Relaxed);
    counts::add(&counters.next_seq_number, 1);
    let ticket = place_record(segment, seen, (state, seq_number), ticks::now());
    if is_captured {
        add_captured(counters, 1, seen.bytes());
    } else {
        add_issued(counters, 1, seen.bytes());
    }
    Operation::new(ticket, seen.slot, primitive)
}

/// Records an operation as issued at these ticks, without counting it; the record's ticket. Several threads may do so at once,
/// which the summation service allows.
pub(crate) fn write(segment: &Segment, seen: &Described, issued_ticks: u64) -> u64 {
    let primitive = seen.primitive.index() & (MAX_PRIMITIVES - 1);
    let counters = &communicators::at(segment, seen.slot).counters[primitive];
    let seq_number = counters.next_seq_number.fetch_add(1, Relaxed);
    place_record(segment, seen, (OPERATION_ISSUED, seq_number), issued_ticks)
}

#[inline(always)]
fn place_record(
    segment: &Segment,
    seen: &Described,
    (kind, seq_number): (u32, u64),
    issued_ticks: u64,
) -> u64 {
    let communicator = communicators::at(segment, seen.slot);
    let (ticket, record) = local::with(|local| place(segment, local));
    let fields = Fields {
        slot: seen.slot,
        generation: communicator.generation.load(Relaxed),
        primitive: seen.primitive,
        count: seen.count,
        datatype: seen.datatype.0,
        // Neither the reduction nor the stream is said, and without them ranks could not be compared: it has no number.
        op: NO_OP,
        peer: seen.peer,
        seq_number,
        number: None,
        issued_ticks,
        queued_before: 0,
        channels: 0,
        place: 0,
        flags: start_known(communicator, Closer::Profiler),
        kind,
        closer: Closer::Profiler,
    };
    records::write(ticket, record, &fields);
    ticket
}

/// The oldest operation in flight that fits and has no task yet.
pub(crate) fn find(segment: &Segment, seen: &Described) -> Option<Operation> {
    let next = segment.live.next_ticket.load(Acquire);
    let waiting_from = &WAITING_FROM[seen.slot % MAX_COMMUNICATORS];
    let mut from = waiting_from.load(Relaxed).max(next.saturating_sub(MAX_RECORDS as u64));
    while from < next && !waits(segment, seen.slot, from) {
        from = places::after(from);
    }
    waiting_from.store(from, Relaxed);
    let tickets = std::iter::successors(Some(from), |ticket| Some(places::after(*ticket)));
    let mut tickets = tickets.take(MAX_SEARCH).take_while(|ticket| *ticket < next);
    let found = tickets.find(|ticket| fits(segment, seen, *ticket))?;
    claimed(found).store(found + 1, Relaxed);
    Some(Operation::new(found, seen.slot, seen.primitive.index()))
}

fn waits(segment: &Segment, slot: usize, ticket: u64) -> bool {
    let record = record(segment, ticket);
    // Where the file system had no page for it, the ticket was passed over, and to read there would ask for one.
    room::is_given(segment, record)
        && record.ticket.load(Acquire) == ticket + 1
        && subject(record).0 == slot
        && is_in_flight(record.state.load(Relaxed))
        && claimed(ticket).load(Relaxed) != ticket + 1
}

fn fits(segment: &Segment, seen: &Described, ticket: u64) -> bool {
    let record = record(segment, ticket);
    waits(segment, seen.slot, ticket)
        && subject(record).1 == seen.primitive.index()
        && bytes(record) == seen.bytes()
        && (!matches!(seen.primitive, Primitive::Send | Primitive::Recv)
            || record.peer.load(Relaxed) == seen.peer)
}

fn claimed(ticket: u64) -> &'static AtomicU64 {
    const MASK: u64 = MAX_RECORDS as u64 - 1;
    &CLAIMED[(ticket & MASK) as usize]
}

/// In a forked child: tickets begin anew.
pub(crate) fn forget() {
    // What was never written stays a page that nobody owns.
    for word in WAITING_FROM.iter().chain(&CLAIMED).filter(|word| word.load(Relaxed) != 0) {
        word.store(0, Relaxed);
    }
}
