//! Where among the records a new one goes. A thread gets the tickets of a block at once, so that it does not meet others at
//! each call.
//!
//! Not all places are in use: as all are written in turn, all take memory in time. More come into use before an operation in
//! flight loses its place, and when the agent asks for them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use ringscope_wire::segment::layout::{
    BEING_WRITTEN, COMMUNICATOR_ACTIVE, COMPLETION_NONE, DropReason, LOST_RECORD, MAX_RECORDS,
    RECORDS_PER_BLOCK, Record, Segment,
};

use crate::segment::local::Local;
use crate::segment::records::{generation, is_in_flight, record, subject};
use crate::segment::{closers, communicators, room, switch, table};

const BLOCK: u64 = RECORDS_PER_BLOCK as u64;
const N_BLOCKS: usize = MAX_RECORDS / RECORDS_PER_BLOCK;
const LAP: u64 = MAX_RECORDS as u64;

/// By block, the first ticket of those that its places were given for last.
static GIVEN: [AtomicU64; N_BLOCKS] = [const { AtomicU64::new(0) }; N_BLOCKS];
/// Each call gets the next ticket, whichever thread makes it.
static IN_ORDER: AtomicBool = AtomicBool::new(false);

/// Places that every process has from the beginning: 256 KiB. Between two readings of the agent, 250 ms, that is 16 000 calls
/// per second.
const FIRST_PLACES: u32 = 4096;
#[expect(clippy::cast_possible_truncation, reason = "16 384")]
const ALL_PLACES: u32 = MAX_RECORDS as u32;

/// Places in use.
static N_PLACES: AtomicU32 = AtomicU32::new(FIRST_PLACES);
/// Tickets from here on have the places that came into use last.
static FRESH_FROM: AtomicU64 = AtomicU64::new(0);

/// Places tried for a record before an operation in flight loses its own: the longest hang is what a user asks for.
const MAX_PLACES: usize = 4;

/// A place for a new record, by preference one whose operation is over. A ticket that is passed over never gets a
/// record: a reader finds the older one there.
#[inline(always)]
pub(crate) fn place<'a>(segment: &'a Segment, local: &Local) -> (u64, &'a Record) {
    let ticket = next_ticket(segment, local);
    let place = record(segment, ticket);
    if is_being_written(place) || is_open(segment, place) {
        return another_place(segment, local);
    }
    (ticket, place)
}

#[inline(always)]
fn next_ticket(segment: &Segment, local: &Local) -> u64 {
    let ticket = local.next_ticket.get();
    let is_ours = given(ticket).load(Relaxed) == first_of_block(ticket);
    if !is_ours || ticket.is_multiple_of(BLOCK) {
        return next_block(segment, local);
    }
    local.next_ticket.set(ticket + 1);
    ticket
}

/// The thread has no tickets left, or others have got their places.
#[cold]
fn next_block(segment: &Segment, local: &Local) -> u64 {
    // It ends: the first block of each lap has its page. Once tickets are in order, no block is given any more.
    while !IN_ORDER.load(Relaxed) {
        let first = segment.live.next_ticket.fetch_add(BLOCK, Relaxed);
        if !is_in_use(segment, first) || !room::ensure(segment, record(segment, first)) {
            continue;
        }
        // A lap of the others may have passed meanwhile.
        if given(first).fetch_max(first, AcqRel) <= first {
            local.next_ticket.set(first + 1);
            return first;
        }
    }
    local.next_ticket.set(0);
    next_in_order(segment)
}

fn next_in_order(segment: &Segment) -> u64 {
    loop {
        let ticket = segment.live.next_ticket.fetch_add(1, Relaxed);
        if !is_in_use(segment, ticket) {
            continue;
        }
        if room::ensure(segment, record(segment, ticket)) {
            return ticket;
        }
        segment.live.next_ticket.fetch_max(first_of_block(ticket) + BLOCK, Relaxed);
    }
}

/// Whether the ticket's place is in use. If not, the lap is over, and the next ones are of the next.
fn is_in_use(segment: &Segment, ticket: u64) -> bool {
    let (lap, index) = (ticket / LAP, ticket % LAP);
    let mut n_places = N_PLACES.load(Acquire);
    if index >= n_places.into() && n_places < segment.live.wanted_places.load(Relaxed).min(ALL_PLACES) {
        n_places = add_places(segment, n_places);
    }
    let is_in_use = index < n_places.into();
    if !is_in_use {
        segment.live.next_ticket.fetch_max((lap + 1) * LAP, Relaxed);
    }
    is_in_use
}

/// Twice as many places come into use, if nobody has seen to that; how many are in use.
fn add_places(segment: &Segment, n_places: u32) -> u32 {
    let more = (2 * n_places).min(ALL_PLACES);
    match N_PLACES.compare_exchange(n_places, more, AcqRel, Acquire) {
        Ok(_) => {
            segment.live.n_places.store(more, Relaxed);
            more
        }
        Err(others) => others,
    }
}

/// More places come into use, before an operation in flight loses its own to this ticket, and the next tickets are theirs.
/// False if all are in use.
fn grow(segment: &Segment, ticket: u64) -> bool {
    if ticket < FRESH_FROM.load(Acquire) {
        // The thread's block is an older one.
        return true;
    }
    let n_places = N_PLACES.load(Acquire);
    if n_places == ALL_PLACES {
        return false;
    }
    if add_places(segment, n_places) == 2 * n_places {
        let fresh = segment.live.next_ticket.load(Relaxed) / LAP * LAP + u64::from(n_places);
        segment.live.next_ticket.fetch_max(fresh, Relaxed);
        FRESH_FROM.fetch_max(fresh, Release);
    }
    true
}

/// The first ticket after this one that may have a record.
pub(crate) fn after(ticket: u64) -> u64 {
    let (next, n_places) = (ticket + 1, u64::from(N_PLACES.load(Relaxed)));
    if next % LAP < n_places { next } else { next.next_multiple_of(LAP) }
}

/// Has the file system give pages for the first records. False if it has none even for one block. Each later block is asked
/// for when a call first gets there: that call makes a system call.
pub(crate) fn begin(segment: &Segment) -> bool {
    N_PLACES.store(FIRST_PLACES, Relaxed);
    FRESH_FROM.store(0, Relaxed);
    segment.live.n_places.store(FIRST_PLACES, Relaxed);
    let firsts = segment.records[..FIRST_PLACES as usize].iter().step_by(RECORDS_PER_BLOCK);
    firsts.take_while(|first| room::ensure(segment, *first)).count() > 0
}

#[inline(always)]
fn first_of_block(ticket: u64) -> u64 {
    ticket & !(BLOCK - 1)
}

/// Eight words in a cache line.
const LINE_SHIFT: u32 = 3;
const LINE_MASK: usize = (1 << LINE_SHIFT) - 1;
const LINES_SHIFT: u32 = N_BLOCKS.trailing_zeros() - LINE_SHIFT;

#[inline(always)]
fn given(ticket: u64) -> &'static AtomicU64 {
    const MASK: usize = N_BLOCKS - 1;
    // Blocks that follow each other are mostly different threads': not in one cache line.
    let block = (ticket / BLOCK) as usize;
    &GIVEN[(block << LINE_SHIFT | block >> LINES_SHIFT & LINE_MASK) & MASK]
}

/// From now on tickets tell the order of the calls of all threads: the profiler is of a version that names no records, and
/// what it tells of is looked for in that order.
pub(crate) fn keep_order() {
    if !IN_ORDER.swap(true, AcqRel) {
        GIVEN.iter().for_each(|given| given.store(u64::MAX, Relaxed));
    }
}

/// In a forked child: tickets begin anew.
pub(crate) fn forget() {
    IN_ORDER.store(false, Relaxed);
    GIVEN.iter().for_each(|given| given.store(0, Relaxed));
}

#[cold]
fn another_place<'a>(segment: &'a Segment, local: &Local) -> (u64, &'a Record) {
    let mut tries = 2;
    loop {
        let ticket = next_ticket(segment, local);
        let place = record(segment, ticket);
        let is_open = is_open(segment, place);
        let is_busy = is_open || is_being_written(place);
        if is_busy && tries == MAX_PLACES && grow(segment, ticket) {
            // It takes a block of the new ones.
            local.next_ticket.set(0);
            continue;
        }
        if !is_busy || tries == MAX_PLACES {
            // What events confirm is counted without its record.
            if is_open && !closers::is_owned(place.ticket.load(Relaxed).wrapping_sub(1)) {
                switch::dropped(segment, DropReason::RecordOverwritten, 1);
                communicators::lose(segment, subject(place).0, LOST_RECORD);
            }
            return (ticket, place);
        }
        tries += 1;
    }
}

/// Whether the thread that has the place is at it: it was not scheduled for as long as others took for a lap.
#[inline(always)]
fn is_being_written(place: &Record) -> bool {
    place.ticket.load(Relaxed) & BEING_WRITTEN != 0
}

/// Whether the place's operation is in flight, and will be closed.
#[inline(always)]
fn is_open(segment: &Segment, place: &Record) -> bool {
    is_in_flight(place.state.load(Relaxed)) && is_followed(segment, place)
}

/// Whether a record in flight will be closed: its communicator lives and something tells the end of its operations.
#[inline(never)]
fn is_followed(segment: &Segment, record: &Record) -> bool {
    let communicator = table::at(segment, subject(record).0);
    communicator.completion.load(Relaxed) != COMPLETION_NONE
        && communicator.generation.load(Relaxed) & 0xff_ffff == generation(record.state.load(Relaxed))
        && communicator.state.load(Relaxed) == COMMUNICATOR_ACTIVE
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "makes a segment of zeros")]

    use std::alloc::Layout;
    use std::sync::atomic::Ordering::Release;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::segment::local;

    fn segment() -> &'static Segment {
        let layout = Layout::new::<Segment>().align_to(4096).unwrap();
        // SAFETY: not empty.
        let zeros = unsafe { std::alloc::alloc_zeroed(layout) };
        // SAFETY: zeros are a segment, and it is never freed.
        unsafe { &*zeros.cast::<Segment>() }
    }

    /// Until all is asked for in order, a thread that looks for a block may find none that is free.
    #[test]
    fn who_looks_for_a_block_ends_when_tickets_get_in_order() {
        let segment = segment();
        GIVEN.iter().for_each(|given| given.store(u64::MAX, Release));
        let (said, heard) = mpsc::channel();
        let looks = std::thread::Builder::new().spawn(move || {
            let ticket = local::with(|local| next_block(segment, local));
            let _ = said.send(ticket);
        });
        assert!(looks.is_ok());
        while segment.live.next_ticket.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        keep_order();
        assert!(heard.recv_timeout(Duration::from_secs(20)).is_ok());
        forget();
    }
}
