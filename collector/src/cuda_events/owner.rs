//! Which communicator has the events of a stream. While a call or an open group of it counts on them they are held, and only
//! its end takes them from it; else a stream that has none may get them.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// The communicator's slot plus one, perhaps with [`HELD`]; 0 if nobody has them.
pub(super) struct Owner(AtomicU32);

const HELD: u32 = 1 << 31;
/// They change hands.
const CHANGING: u32 = HELD - 1;

impl Owner {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(super) fn slot(&self) -> Option<usize> {
        slot_of(self.0.load(SeqCst))
    }

    /// A call or a group of the slot's counts on them; false if it has them no more.
    #[inline(always)]
    pub(super) fn hold(&self, slot: usize) -> bool {
        let free = word_of(slot);
        self.0.load(Relaxed) == free | HELD
            || self.0.compare_exchange(free, free | HELD, SeqCst, Relaxed).is_ok()
    }

    /// That is over. An abort may have taken them from the slot meanwhile, and others hold them.
    #[inline(always)]
    pub(super) fn leave(&self, slot: usize) {
        let free = word_of(slot);
        let _ = self.0.compare_exchange(free | HELD, free, SeqCst, Relaxed);
    }

    /// Takes them if they are `fit`: from nobody, or from somebody who does not hold them. Then they are the caller's, until
    /// he gives them to somebody.
    pub(super) fn seize(&self, from_nobody: bool, is_fit: impl Fn() -> bool) -> bool {
        let word = self.0.load(SeqCst);
        let may = if from_nobody { word == 0 } else { word != CHANGING && word & HELD == 0 };
        // Looked at before, so that an owner who calls just now does not find that he has lost them for a moment.
        if !may || !is_fit() || self.0.compare_exchange(word, CHANGING, SeqCst, Relaxed).is_err() {
            return false;
        }
        let is_fit = is_fit();
        if !is_fit {
            self.0.store(word, SeqCst);
        }
        is_fit
    }

    /// Takes them from the slot, held or not; false if it does not have them. Then they are the caller's.
    pub(super) fn take_away(&self, slot: usize) -> bool {
        let taken = |word| (slot_of(word) == Some(slot)).then_some(CHANGING);
        self.0.fetch_update(SeqCst, Relaxed, taken).is_ok()
    }

    /// The caller's become those of a slot that holds them.
    pub(super) fn give_to(&self, slot: usize) {
        self.0.store(word_of(slot) | HELD, SeqCst);
    }

    /// The caller's become nobody's.
    pub(super) fn give_up(&self) {
        self.0.store(0, SeqCst);
    }
}

fn slot_of(word: u32) -> Option<usize> {
    if word == CHANGING { None } else { ((word & !HELD) as usize).checked_sub(1) }
}

fn word_of(slot: usize) -> u32 {
    u32::try_from(slot + 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_goes_with_its_owner_alone() {
        let owner = Owner::new();
        assert!(!owner.seize(true, || false) && owner.seize(true, || true));
        assert!(!owner.hold(3) && owner.slot().is_none(), "changing");
        owner.give_to(3);
        assert!(!owner.seize(false, || true), "held by the one that got them");
        owner.leave(3);
        assert!(owner.hold(3) && owner.hold(3) && !owner.hold(4));
        assert!(!owner.seize(false, || true) && owner.slot() == Some(3));
        assert!(!owner.take_away(4) && owner.take_away(3));
        owner.leave(3);
        assert!(owner.slot().is_none() && !owner.seize(false, || true), "still changing");
        owner.give_up();
        assert!(owner.seize(true, || true));
        owner.give_to(4);
        owner.leave(3);
        assert!(!owner.seize(false, || true), "held by the next, whatever the one before leaves");
        owner.leave(4);
        assert!(owner.seize(false, || true) && !owner.hold(4));
    }
}
