//! Which slot a `ncclComm_t` leads to.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::segment::communicators;
use crate::segment::local::Local;

/// `ncclComm_t` of each slot, 0 while it cannot be called. Apart from the slots so that a search stays in the cache.
static POINTERS: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
/// Slots below here may have a pointer.
static N_USED: AtomicUsize = AtomicUsize::new(0);
/// By hash of the pointer, the slot plus one that was found last for one of this hash: a hint, which the slot's pointer
/// proves. Where it proves nothing all slots are searched.
static HINTS: [AtomicU16; N_HINTS] = [const { AtomicU16::new(0) }; N_HINTS];

/// Twice the communicators that there can be, so that few share a place.
const N_HINTS: usize = 2 * MAX_COMMUNICATORS;
/// A slot index that is certainly within bounds.
const SLOT_MASK: usize = MAX_COMMUNICATORS - 1;
const _: () = assert!(MAX_COMMUNICATORS.is_power_of_two());

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
    let hinted = places.map(|place| usize::from(HINTS[place].load(Relaxed)).wrapping_sub(1) & SLOT_MASK);
    hinted
        .into_iter()
        .find(|slot| POINTERS[*slot].load(Acquire) == pointer)
        .or_else(|| search_all(segment, pointer, places, hinted))
}

#[cold]
fn search_all(segment: &Segment, pointer: u64, places: [usize; 2], hinted: [usize; 2]) -> Option<usize> {
    let used = communicators::n_used(segment);
    let slot = POINTERS[..used].iter().position(|known| known.load(Acquire) == pointer)?;
    // In the place of one that can no longer be called, if there is such a one.
    let is_in_use = POINTERS[hinted[0]].load(Relaxed) != 0 && HINTS[places[0]].load(Relaxed) != 0;
    HINTS[places[usize::from(is_in_use)]].store(u16::try_from(slot + 1).unwrap_or_default(), Relaxed);
    Some(slot)
}

fn places(pointer: u64) -> [usize; 2] {
    // Fibonacci hashing: pointers are aligned, their low bits say nothing.
    let place = (pointer.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % N_HINTS;
    [place, place ^ 1]
}

/// Before a destroy or abort is forwarded: the library may give the pointer to another communicator at once.
pub(crate) fn detach(slot: usize) {
    POINTERS[slot & SLOT_MASK].store(0, Release);
}

/// From now on the pointer leads to the slot.
pub(crate) fn reattach(slot: usize, pointer: u64) {
    N_USED.fetch_max((slot & SLOT_MASK) + 1, Relaxed);
    POINTERS[slot & SLOT_MASK].store(pointer, Release);
}

/// In a forked child: none of the parent's communicators is its own.
pub(crate) fn forget() {
    let used = N_USED.swap(0, Relaxed);
    POINTERS[..used].iter().for_each(|pointer| pointer.store(0, Relaxed));
}
