//! Slots of communicators that have ended, in the order of their ends: a ring of places, each written by the end that got
//! its number. No place is waited for, so a thread that stands still holds nobody up.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::segment::table::SLOT_MASK;

/// Twice the slots that there are: half of the places are free even where all have ended.
const N_PLACES: usize = 2 * MAX_COMMUNICATORS;
/// Slots that are offered. Ends are read in their order, but for those that come while an agent reads.
const MAX_OFFERS: usize = 16;
/// Numbers after which one that has not been written yet is no longer waited for.
const MAX_AHEAD: u64 = 64;

/// What a place holds: `number << NUMBER_SHIFT | slot << 1 | IS_HERE`. Once the slot has been taken, IS_HERE is 0.
static PLACES: [AtomicU64; N_PLACES] = [const { AtomicU64::new(0) }; N_PLACES];
const IS_HERE: u64 = 1;
const NUMBER_SHIFT: u32 = 1 + MAX_COMMUNICATORS.trailing_zeros();
const _: () = assert!(MAX_COMMUNICATORS.is_power_of_two());

/// The number of the last end, from 1.
static NEWEST: AtomicU64 = AtomicU64::new(0);
/// All before this number have been taken.
static OLDEST: AtomicU64 = AtomicU64::new(1);

/// A slot that ended, and what its place held.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) slot: usize,
    place: &'static AtomicU64,
    held: u64,
}

impl End {
    /// False if another thread has taken it.
    pub(super) fn take(self) -> bool {
        self.place.compare_exchange(self.held, self.held & !IS_HERE, AcqRel, Relaxed).is_ok()
    }
}

/// The slot's communicator has ended.
pub(super) fn add(slot: usize) {
    let mut slot = slot & SLOT_MASK;
    // One that has stayed for a whole turn of the ring, while others were taken before it, gets a new number. No more of them
    // are there than slots.
    for _ in 0..N_PLACES {
        let number = NEWEST.fetch_add(1, AcqRel) + 1;
        let held = number << NUMBER_SHIFT | (slot as u64) << 1 | IS_HERE;
        let before = place(number).swap(held, AcqRel);
        if before & IS_HERE == 0 {
            return;
        }
        slot = slot_of(before);
    }
}

/// Of those that have ended the first few, the one that ended first before others.
pub(super) fn first() -> impl Iterator<Item = End> {
    let newest = NEWEST.load(Acquire);
    let from = OLDEST.load(Acquire).max(newest.saturating_sub(N_PLACES as u64 - 1));
    let mut is_first = true;
    let ends = (from..=newest).filter_map(move |number| {
        let held = place(number).load(Acquire);
        let is_here = held & IS_HERE != 0;
        // Where the number is another, its end is yet to be written here. If that takes long it is found a turn later.
        is_first &= !is_here && (held >> NUMBER_SHIFT == number || newest - number > MAX_AHEAD);
        if is_first {
            OLDEST.fetch_max(number + 1, AcqRel);
        }
        is_here.then(|| End { slot: slot_of(held), place: place(number), held })
    });
    ends.take(MAX_OFFERS)
}

fn place(number: u64) -> &'static AtomicU64 {
    const MASK: u64 = N_PLACES as u64 - 1;
    &PLACES[(number & MASK) as usize]
}

fn slot_of(held: u64) -> usize {
    (held >> 1) as usize & SLOT_MASK
}

/// In a forked child: none has ended.
pub(super) fn forget() {
    let used = usize::try_from(NEWEST.swap(0, Relaxed)).map_or(N_PLACES, |newest| (newest + 1).min(N_PLACES));
    PLACES[..used].iter().for_each(|place| place.store(0, Relaxed));
    OLDEST.store(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Vec<usize> {
        first().map(|end| end.slot).collect()
    }

    /// One test, for there is one ring.
    #[test]
    fn slots_come_in_the_order_of_their_ends_and_none_is_lost() {
        assert_eq!(slots(), []);
        [7, 3, 9].into_iter().for_each(add);
        assert_eq!(slots(), [7, 3, 9]);
        let second = first().nth(1).unwrap();
        assert!(second.take() && !second.take(), "once");
        assert_eq!(slots(), [7, 9]);

        // The first one stays through a whole turn of the ring.
        for _ in 0..N_PLACES {
            add(3);
            assert!(first().find(|end| end.slot != 7).unwrap().take());
        }
        let mut left = slots();
        left.sort_unstable();
        assert_eq!(left, [3, 7]);
        first().for_each(|end| assert!(end.take()));

        // Many threads end and take: each slot is somebody's, or has ended, and never both.
        (0..8).for_each(add);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if let Some(end) = first().find(|end| end.take()) {
                            add(end.slot);
                        }
                    }
                });
            }
        });
        // What a thread wrote late, because it stood still meanwhile, is found a turn later.
        for _ in 0..N_PLACES {
            add(9);
            assert!(first().find(|end| end.slot == 9).unwrap().take());
        }
        let mut left = Vec::new();
        while let Some(end) = first().find(|end| end.take()) {
            left.push(end.slot);
        }
        left.sort_unstable();
        assert_eq!(left, (0..8).collect::<Vec<_>>());

        add(5);
        forget();
        assert_eq!(slots(), []);
        add(6);
        assert_eq!(slots(), [6]);
    }
}
