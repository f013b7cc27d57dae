//! Which slot a new communicator gets. One whose last communicator has ended is used again, the one that ended first
//! before others: once its end has been read, or where no other is left.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::{COMMUNICATOR_FREE, DropReason, MAX_COMMUNICATORS, Segment};

use crate::segment::ended::End;
use crate::segment::table::SLOT_MASK;
use crate::segment::{ended, room, switch, table};

/// Slots that are used before any is used again: what comes late of an ended communicator mostly meets no other.
const FIRST_USES: usize = 64;
/// Slots tried where other threads take slots at the same time.
const MAX_TRIES: usize = 64;

/// Slots ever used in this process.
static N_USED: AtomicU64 = AtomicU64::new(0);

/// Takes a slot. `None`, and counted, if all are in use.
pub(crate) fn claim(segment: &Segment) -> Option<usize> {
    let slot = claim_read(segment).or_else(|| claim_fresh(segment)).or_else(|| claim_unread(segment));
    if slot.is_none() {
        switch::dropped(segment, DropReason::CommunicatorTableFull, 1);
    }
    slot
}

/// The slot's communicator has ended, or there is none after all.
pub(crate) fn give_back(slot: usize) {
    ended::add(slot);
}

fn claim_fresh(segment: &Segment) -> Option<usize> {
    loop {
        let next = table::n_used(segment);
        // Counted only with its pages: whoever looks at all that are counted must find them.
        if next >= MAX_COMMUNICATORS || !has_room(segment, next) {
            return None;
        }
        let used = u32::try_from(next).ok()?;
        if segment.live.n_communicators.compare_exchange(used, used + 1, AcqRel, Relaxed).is_ok() {
            N_USED.fetch_max(u64::from(used) + 1, Relaxed);
            return Some(next);
        }
    }
}

/// Whether the file system gives the pages of the slot.
fn has_room(segment: &Segment, slot: usize) -> bool {
    room::ensure(segment, table::at(segment, slot))
        && room::ensure(segment, &segment.calls.marks[slot & SLOT_MASK])
}

/// The slot that ended first, if somebody has read its end.
fn claim_read(segment: &Segment) -> Option<usize> {
    if table::n_used(segment) < FIRST_USES {
        return None;
    }
    ended::first().next().and_then(|end| take_read(segment, end))
}

/// One that has been read, else the slot that ended first: what nobody has read of it is lost, which is counted.
fn claim_unread(segment: &Segment) -> Option<usize> {
    if let Some(slot) = ended::first().find_map(|end| take_read(segment, end)) {
        return Some(slot);
    }
    for _ in 0..MAX_TRIES {
        let end = ended::first().next()?;
        if end.take() {
            switch::dropped(segment, DropReason::CommunicatorNotRead, 1);
            return Some(end.slot);
        }
    }
    None
}

fn take_read(segment: &Segment, end: End) -> Option<usize> {
    (is_read(segment, end.slot) && end.take()).then_some(end.slot)
}

fn is_read(segment: &Segment, slot: usize) -> bool {
    let communicator = table::at(segment, slot);
    communicator.state.load(Acquire) == COMMUNICATOR_FREE
        || communicator.read_generation.load(Acquire) == communicator.generation.load(Relaxed)
}

/// In a forked child: none of the parent's communicators is its own. Gives the slots that the parent used.
pub(crate) fn forget() -> Range<usize> {
    let used = usize::try_from(N_USED.swap(0, Relaxed)).unwrap_or(0).min(MAX_COMMUNICATORS);
    ended::forget();
    0..used
}
