//! Which slot a new communicator gets. One whose last communicator has ended is used again, the one that ended first
//! before others: once its end has been read, or where no other is left.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ringscope_wire::segment::layout::{COMMUNICATOR_FREE, DropReason, MAX_COMMUNICATORS, Segment};

use crate::segment::{communicators, room, switch};

/// Slots that are used before any is used again: what comes late of an ended communicator mostly meets no other.
const FIRST_USES: usize = 64;
/// Slots tried where other threads take slots at the same time.
const MAX_TRIES: usize = 64;
const SLOT_MASK: usize = MAX_COMMUNICATORS - 1;

/// By slot, the number of the end of its last communicator, from 1; 0 while it is in use. Apart from the slots so that a
/// search stays in the cache.
static ENDS: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
/// Ends so far.
static N_ENDS: AtomicU64 = AtomicU64::new(0);
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
    let number = N_ENDS.fetch_add(1, Relaxed) + 1;
    ENDS[slot & SLOT_MASK].store(number, Release);
}

fn claim_fresh(segment: &Segment) -> Option<usize> {
    let next = communicators::n_used(segment);
    if next < MAX_COMMUNICATORS && !has_room(segment, next) {
        return None;
    }
    let may_use = |used: u32| ((used as usize) < MAX_COMMUNICATORS).then(|| used + 1);
    let taken = segment.live.n_communicators.fetch_update(AcqRel, Relaxed, may_use);
    let slot = taken.ok()?;
    N_USED.fetch_max(u64::from(slot) + 1, Relaxed);
    // Not the one asked for above if another thread took that meanwhile. Left alone without room, it reads as free.
    has_room(segment, slot as usize).then_some(slot as usize)
}

/// Whether the file system gives the pages of the slot.
fn has_room(segment: &Segment, slot: usize) -> bool {
    room::ensure(segment, communicators::at(segment, slot))
        && room::ensure(segment, &segment.calls.marks[slot & SLOT_MASK])
}

/// The slot that ended first, if somebody has read its end.
fn claim_read(segment: &Segment) -> Option<usize> {
    if communicators::n_used(segment) < FIRST_USES {
        return None;
    }
    let (slot, number) = oldest(segment)?;
    (is_read(segment, slot) && take(slot, number)).then_some(slot)
}

/// One that has been read, else the slot that ended first: what nobody has read of it is lost, which is counted.
fn claim_unread(segment: &Segment) -> Option<usize> {
    if let Some((slot, _)) =
        ended(segment).find(|(slot, number)| is_read(segment, *slot) && take(*slot, *number))
    {
        return Some(slot);
    }
    for _ in 0..MAX_TRIES {
        let (slot, number) = oldest(segment)?;
        if take(slot, number) {
            switch::dropped(segment, DropReason::CommunicatorNotRead, 1);
            return Some(slot);
        }
    }
    None
}

fn oldest(segment: &Segment) -> Option<(usize, u64)> {
    ended(segment).min_by_key(|(_, number)| *number)
}

fn ended(segment: &Segment) -> impl Iterator<Item = (usize, u64)> {
    let ends = ENDS[..communicators::n_used(segment)].iter().map(|end| end.load(Acquire)).enumerate();
    ends.filter(|(_, number)| *number != 0)
}

fn is_read(segment: &Segment, slot: usize) -> bool {
    let communicator = communicators::at(segment, slot);
    communicator.state.load(Acquire) == COMMUNICATOR_FREE
        || communicator.read_generation.load(Acquire) == communicator.generation.load(Relaxed)
}

fn take(slot: usize, number: u64) -> bool {
    ENDS[slot & SLOT_MASK].compare_exchange(number, 0, AcqRel, Relaxed).is_ok()
}

/// In a forked child: none of the parent's communicators is its own. Gives the slots that the parent used.
pub(crate) fn forget() -> Range<usize> {
    let used = usize::try_from(N_USED.swap(0, Relaxed)).unwrap_or(0).min(MAX_COMMUNICATORS);
    ENDS[..used].iter().for_each(|end| end.store(0, Relaxed));
    N_ENDS.store(0, Relaxed);
    0..used
}
