//! The table of communicators, by slot.

use std::sync::atomic::Ordering::Acquire;

use ringscope_wire::segment::layout::{Communicator, MAX_COMMUNICATORS, Segment};

/// A slot index that is certainly within bounds.
pub(crate) const SLOT_MASK: usize = MAX_COMMUNICATORS - 1;
const _: () = assert!(MAX_COMMUNICATORS.is_power_of_two());

/// The slot's communicator.
#[inline(always)]
pub(crate) fn at(segment: &Segment, slot: usize) -> &Communicator {
    &segment.communicators[slot & SLOT_MASK]
}

/// How many slots were ever used: those from there on are zero.
pub(crate) fn n_used(segment: &Segment) -> usize {
    (segment.live.n_communicators.load(Acquire) as usize).min(MAX_COMMUNICATORS)
}
