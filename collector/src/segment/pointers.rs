//! Which slot a `ncclComm_t` leads to.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::segment::local::Local;
use crate::segment::table;
use crate::segment::table::SLOT_MASK;

/// `ncclComm_t` of each slot, 0 while it cannot be called. Apart from the slots so that a search stays in the cache.
static POINTERS: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
/// Slots below here may have a pointer.
static N_USED: AtomicUsize = AtomicUsize::new(0);
/// By hash of the pointer, the slot plus one that was found last for one of this hash: a hint, which the slot's pointer
/// proves. Where it proves nothing all slots are searched.
static HINTS: [AtomicU16; N_HINTS] = [const { AtomicU16::new(0) }; N_HINTS];

/// By the same hash, how many slots have a pointer of it: where none has, nothing is searched.
static N_POINTERS: [AtomicU16; N_HINTS] = [const { AtomicU16::new(0) }; N_HINTS];

/// Twice the communicators that there can be, so that few share a place.
const N_HINTS: usize = 2 * MAX_COMMUNICATORS;

/// The slot of a communicator that can be called.
#[inline(always)]
pub(crate) fn find(segment: &Segment, local: &Local, pointer: u64) -> Option<usize> {
    let cached = local.last_slot.get() & SLOT_MASK;
    if POINTERS[cached].load(Relaxed) == pointer && pointer != 0 {
        return Some(cached);
    }
    search(segment, local, pointer)
}

#[inline(never)]
fn search(segment: &Segment, local: &Local, pointer: u64) -> Option<usize> {
    let slot = slot_of(segment, pointer)?;
    local.last_slot.set(slot);
    Some(slot)
}

/// The same, of whatever thread asks.
pub(crate) fn slot_of(segment: &Segment, pointer: u64) -> Option<usize> {
    if pointer == 0 {
        return None;
    }
    let places = places(pointer);
    if N_POINTERS[places[0]].load(Acquire) == 0 {
        return None;
    }
    let is_it = |slot: &usize| POINTERS[*slot].load(Acquire) == pointer;
    hinted(places).into_iter().find(is_it).or_else(|| search_all(segment, pointer))
}

#[cold]
fn search_all(segment: &Segment, pointer: u64) -> Option<usize> {
    let used = table::n_used(segment);
    let slot = POINTERS[..used].iter().position(|known| known.load(Acquire) == pointer)?;
    hint(slot, pointer);
    Some(slot)
}

/// The next search for the pointer finds the slot at once.
fn hint(slot: usize, pointer: u64) {
    let places = places(pointer);
    // In the place of one that can no longer be called, if there is such a one.
    let is_in_use = POINTERS[hinted(places)[0]].load(Relaxed) != 0 && HINTS[places[0]].load(Relaxed) != 0;
    HINTS[places[usize::from(is_in_use)]].store(u16::try_from(slot + 1).unwrap_or_default(), Relaxed);
}

fn hinted(places: [usize; 2]) -> [usize; 2] {
    places.map(|place| usize::from(HINTS[place].load(Relaxed)).wrapping_sub(1) & SLOT_MASK)
}

fn places(pointer: u64) -> [usize; 2] {
    // Fibonacci hashing: pointers are aligned, their low bits say nothing.
    let place = (pointer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % N_HINTS;
    [place, place ^ 1]
}

/// Before a destroy or abort is forwarded: the library may give the pointer to another communicator at once.
pub(crate) fn detach(slot: usize) {
    set(slot & SLOT_MASK, 0);
}

/// From now on the pointer leads to the slot.
pub(crate) fn reattach(slot: usize, pointer: u64) {
    N_USED.fetch_max((slot & SLOT_MASK) + 1, Relaxed);
    set(slot & SLOT_MASK, pointer);
    if pointer != 0 {
        hint(slot & SLOT_MASK, pointer);
    }
}

fn set(slot: usize, pointer: u64) {
    // Counted before it can be found, and for as long.
    if pointer != 0 {
        N_POINTERS[places(pointer)[0]].fetch_add(1, AcqRel);
    }
    let before = POINTERS[slot].swap(pointer, AcqRel);
    if before != 0 {
        N_POINTERS[places(before)[0]].fetch_sub(1, AcqRel);
    }
}

/// In a forked child: none of the parent's communicators is its own.
pub(crate) fn forget() {
    let used = N_USED.swap(0, Relaxed);
    (0..used).for_each(|slot| set(slot, 0));
}
