//! Communicator slots: formed when an init is called, active once it succeeded, ended by destroy or abort, and used
//! again ([`crate::segment::slots`]). Found by their pointer ([`crate::segment::pointers`]).

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMMUNICATOR_FAILED,
    COMMUNICATOR_FORMING, COMMUNICATOR_FREE, COMPLETION_EVENTS, COMPLETION_NONE, Communicator, DropReason,
    LOST_CUDA_EVENT, LOST_PROFILER_EVENT, Segment,
};

use crate::segment::names::Name;
use crate::segment::{lineage, links, pairs, pointers, sequence, slots, switch, ticks};

pub(crate) use crate::segment::pointers::{detach, find, reattach};
pub(crate) use crate::segment::table::at;

/// What is known of a communicator when its init is called.
pub(crate) struct Birth {
    /// One of `layout::MADE_BY_*`.
    pub(crate) made_by: u32,
    /// -1 while not known.
    pub(crate) rank: i32,
    /// 0 while not known.
    pub(crate) n_ranks: i32,
    /// 0 while not known.
    pub(crate) comm_hash: u64,
    pub(crate) parent_hash: u64,
    pub(crate) name: Name,
}

/// Clears what the layers behind this one have by slot.
static CLEAR_BEHIND: OnceLock<fn(usize)> = OnceLock::new();

/// Leaves the function that clears what the layers behind this one have of a slot, which is used again.
pub(crate) fn set_clear(clear: fn(usize)) {
    let _ = CLEAR_BEHIND.set(clear);
}

/// Takes a slot for a communicator whose init is being called.
pub(crate) fn form(segment: &Segment, birth: &Birth) -> Option<usize> {
    let slot = slots::claim(segment)?;
    fill(segment, slot, birth);
    Some(slot)
}

fn fill(segment: &Segment, slot: usize, birth: &Birth) {
    let communicator = at(segment, slot);
    communicator.state.store(COMMUNICATOR_FREE, Relaxed);
    fence(Release);
    if communicator.generation.load(Relaxed) > 0 {
        clear_counters(communicator);
        if let Some(clear) = CLEAR_BEHIND.get() {
            clear(slot);
        }
        links::clear(segment, slot);
        pairs::clear(segment, slot);
    }
    sequence::clear(communicator);
    communicator.error.store(0, Relaxed);
    communicator.lost.store(0, Relaxed);
    communicator.generation.fetch_add(1, Relaxed);
    communicator.made_by.store(birth.made_by, Relaxed);
    communicator.pointer.store(0, Relaxed);
    communicator.comm_hash.store(birth.comm_hash, Relaxed);
    communicator.parent_hash.store(birth.parent_hash, Relaxed);
    communicator.created_ticks.store(ticks::now(), Relaxed);
    communicator.ended_ticks.store(0, Relaxed);
    communicator.rank.store(birth.rank, Relaxed);
    communicator.n_ranks.store(birth.n_ranks, Relaxed);
    communicator.n_nodes.store(0, Relaxed);
    communicator.device.store(-1, Relaxed);
    communicator.sources.store(0, Relaxed);
    communicator.completion.store(COMPLETION_NONE, Relaxed);
    communicator.compute_capability.store(0, Relaxed);
    communicator.min_ctas.store(0, Relaxed);
    communicator.max_ctas.store(0, Relaxed);
    communicator.shares_resources.store(0, Relaxed);
    communicator.library.store(0, Relaxed);
    set_name(communicator, &birth.name);
    lineage::clear(slot);
    communicator.state.store(COMMUNICATOR_FORMING, Release);
}

fn clear_counters(communicator: &Communicator) {
    for counters in &communicator.counters {
        for counter in [
            &counters.issued_calls,
            &counters.issued_bytes,
            &counters.failed_calls,
            &counters.next_seq_number,
            &counters.completed_calls,
            &counters.completed_bytes,
            &counters.busy_ticks,
            &counters.captured_calls,
            &counters.captured_bytes,
            &counters.replayed_calls,
            &counters.replayed_bytes,
        ] {
            counter.store(0, Relaxed);
        }
    }
}

pub(crate) fn set_name(communicator: &Communicator, name: &Name) {
    for (word, value) in communicator.name.iter().zip(name) {
        word.store(*value, Relaxed);
    }
}

/// The init succeeded, and the pointer leads to the slot.
pub(crate) fn activate(segment: &Segment, slot: usize, pointer: u64) {
    attach(segment, slot, pointer);
    at(segment, slot).state.store(COMMUNICATOR_ACTIVE, Release);
}

/// From now on the pointer leads to the slot, whose init may go on. The communicator that it led to before has been
/// destroyed, unseen: the library gives a pointer to one at a time.
pub(crate) fn attach(segment: &Segment, slot: usize, pointer: u64) {
    if let Some(replaced) = pointers::slot_of(segment, pointer).filter(|replaced| *replaced != slot) {
        detach(replaced);
        end(segment, replaced, COMMUNICATOR_DESTROYED);
        switch::dropped(segment, DropReason::CommunicatorReplaced, 1);
    }
    at(segment, slot).pointer.store(pointer, Relaxed);
    reattach(slot, pointer);
}

/// The init that went on is over, for the library has said so, or the communicator is being called, though perhaps nobody has told
/// its pointer. Unless it has ended meanwhile.
#[cold]
pub(crate) fn succeed(segment: &Segment, slot: usize) {
    let state = &at(segment, slot).state;
    let _ = state.compare_exchange(COMMUNICATOR_FORMING, COMMUNICATOR_ACTIVE, AcqRel, Relaxed);
}

/// The init that went on has failed. Its pointer leads to the slot until the program ends what there is of it.
pub(crate) fn fail_attached(segment: &Segment, slot: usize) {
    if at(segment, slot).state.load(Acquire) == COMMUNICATOR_FORMING {
        mark_ended(segment, slot, COMMUNICATOR_FAILED);
    }
}

/// Whether it lives and no function that ends it can find it.
pub(crate) fn is_without_pointer(segment: &Segment, slot: usize) -> bool {
    let communicator = at(segment, slot);
    communicator.pointer.load(Relaxed) == 0 && communicator.state.load(Acquire) == COMMUNICATOR_ACTIVE
}

/// The init failed.
pub(crate) fn fail(segment: &Segment, slot: usize) {
    end(segment, slot, COMMUNICATOR_FAILED);
}

/// A function of the library said that something failed. The same error again says nothing new.
#[cold]
pub(crate) fn note_error(segment: &Segment, slot: usize, function: u8, result: i32) {
    let communicator = at(segment, slot);
    let result = result.cast_unsigned();
    if communicator.error.load(Relaxed) != result {
        communicator.error_ticks.store(ticks::now(), Relaxed);
        communicator.error_function.store(function.into(), Relaxed);
        communicator.error.store(result, Release);
    }
}

/// It will not be known of all operations of the communicator whether they are over, for this reason: one of `LOST_*`.
/// That stays, and nobody shall believe that they hang.
#[cold]
pub(crate) fn lose(segment: &Segment, slot: usize, reason: u32) {
    at(segment, slot).lost.fetch_or(reason, Relaxed);
}

/// The same where what was to tell it is lost: CUDA events, or the profiler's.
#[cold]
pub(crate) fn lose_events(segment: &Segment, slot: usize) {
    let is_cuda = at(segment, slot).completion.load(Relaxed) == COMPLETION_EVENTS;
    lose(segment, slot, if is_cuda { LOST_CUDA_EVENT } else { LOST_PROFILER_EVENT });
}

/// There is no communicator after all (`ncclCommSplit` without a colour), or no way to find it again.
pub(crate) fn release(segment: &Segment, slot: usize) {
    at(segment, slot).state.store(COMMUNICATOR_FREE, Release);
    slots::give_back(slot);
}

/// The communicator has ended, and all its events have come. One that was revoked before stays aborted, and one whose init
/// failed stays failed.
pub(crate) fn end(segment: &Segment, slot: usize, state: u32) {
    if !matches!(at(segment, slot).state.load(Acquire), COMMUNICATOR_ABORTED | COMMUNICATOR_FAILED) {
        mark_ended(segment, slot, state);
    }
    slots::give_back(slot);
}

/// Whether it is over, and its slot may be used again.
pub(crate) fn has_ended(segment: &Segment, slot: usize) -> bool {
    let state = at(segment, slot).state.load(Acquire);
    matches!(state, COMMUNICATOR_DESTROYED | COMMUNICATOR_ABORTED | COMMUNICATOR_FAILED)
}

/// Whether its operations were aborted.
pub(crate) fn is_aborted(segment: &Segment, slot: usize) -> bool {
    at(segment, slot).state.load(Acquire) == COMMUNICATOR_ABORTED
}

/// The communicator's operations were aborted, but it can still be shrunk or destroyed.
pub(crate) fn revoke(segment: &Segment, slot: usize) {
    mark_ended(segment, slot, COMMUNICATOR_ABORTED);
}

fn mark_ended(segment: &Segment, slot: usize, state: u32) {
    let communicator = at(segment, slot);
    if state == COMMUNICATOR_ABORTED {
        give_up_in_flight(communicator);
    }
    communicator.ended_ticks.store(ticks::now(), Relaxed);
    communicator.state.store(state, Release);
}

/// What an abort leaves in flight can never complete.
fn give_up_in_flight(communicator: &Communicator) {
    for counters in &communicator.counters {
        let issued = counters.issued_calls.load(Relaxed);
        let in_flight = issued.saturating_sub(counters.completed_calls.load(Relaxed));
        if in_flight > 0 {
            counters.failed_calls.fetch_add(in_flight, Relaxed);
        }
    }
}

/// In a forked child: none of the parent's communicators is its own. Gives the slots that the parent used.
pub(crate) fn forget() -> Range<usize> {
    pointers::forget();
    let used = slots::forget();
    used.clone().for_each(lineage::clear);
    used
}
