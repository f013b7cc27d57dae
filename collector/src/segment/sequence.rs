//! The order of collective calls on each communicator: how many, and a hash over their signatures
//! ([`ringscope_wire::segment::calls`]).
//!
//! Calls that the library refuses count: they were made. So do calls while recording is switched off, or the ranks would
//! differ for ever after. Not counted is what ranks need not make alike: calls captured into a graph, whose runs nobody
//! calls, and calls of a group that ends in `ncclGroupSimulateEnd`, which launches nothing.
//!
//! One thread at a time writes a communicator's numbers, because the library requires calls on one communicator to be
//! serialised by the caller.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use ringscope_wire::Primitive;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::calls::hash::{Signature, check};
use ringscope_wire::segment::calls::layout::{CALLS_PER_MARK, MARKS};
use ringscope_wire::segment::layout::{Communicator, GROUP_BITS, MAX_COMMUNICATORS};

use crate::segment::local::Local;
use crate::segment::table;

/// Groups with calls in them so far.
static GROUPS: AtomicU64 = AtomicU64::new(0);

/// Whether calls of the primitive are numbered. Those between two ranks are counted by pair ([`crate::segment::pairs`]); those of
/// the summation service have an order of their own.
#[inline(always)]
pub(crate) const fn is_numbered(primitive: Primitive) -> bool {
    matches!(
        primitive,
        Primitive::AllReduce
            | Primitive::Broadcast
            | Primitive::Reduce
            | Primitive::AllGather
            | Primitive::ReduceScatter
            | Primitive::AllToAll
            | Primitive::Gather
            | Primitive::Scatter
    )
}

/// Counts a call; gives its number.
#[inline(always)]
pub(crate) fn add(local: &Local, communicator: &Communicator, signature: Signature) -> u64 {
    let number = communicator.calls.load(Relaxed);
    let hash = communicator.calls_hash.load(Relaxed);
    let position = if local.group.get() == 0 { number } else { in_group(local, communicator, number, hash) };
    publish(communicator, number + 1, hash.wrapping_add(signature.at(position)));
    number
}

/// The number of the group's first call on the communicator.
#[inline(never)]
fn in_group(local: &Local, communicator: &Communicator, number: u64, hash: u64) -> u64 {
    let group = local.group.get();
    if communicator.group.load(Relaxed) == group {
        return communicator.group_calls.load(Relaxed);
    }
    communicator.group.store(group, Relaxed);
    communicator.group_calls.store(number, Relaxed);
    communicator.group_hash.store(hash, Relaxed);
    number
}

#[inline(always)]
fn publish(communicator: &Communicator, calls: u64, hash: u64) {
    communicator.calls_hash.store(hash, Relaxed);
    communicator.calls_check.store(check(calls, hash), Relaxed);
    communicator.calls.store(calls, Release);
}

/// The call that was counted last on the communicator has turned out to be captured into a graph.
#[cold]
pub(crate) fn take_back(local: &Local, communicator: &Communicator, signature: Signature) {
    let number = communicator.calls.load(Relaxed).saturating_sub(1);
    let position = if local.group.get() == 0 { number } else { communicator.group_calls.load(Relaxed) };
    let hash = communicator.calls_hash.load(Relaxed).wrapping_sub(signature.at(position));
    publish(communicator, number, hash);
}

/// A call outside of a group has been counted for good.
#[inline(always)]
pub(crate) fn settle(segment: &Segment, slot: usize) {
    if table::at(segment, slot).calls.load(Relaxed).is_multiple_of(CALLS_PER_MARK) {
        mark(segment, slot);
    }
}

#[cold]
fn mark(segment: &Segment, slot: usize) {
    let communicator = table::at(segment, slot);
    let number = communicator.n_marks.load(Relaxed);
    let index = usize::try_from(number % MARKS as u64).unwrap_or_default();
    let mark = &segment.calls.marks[slot % MAX_COMMUNICATORS][index];
    mark.calls.store(communicator.calls.load(Relaxed), Relaxed);
    mark.hash.store(communicator.calls_hash.load(Relaxed), Relaxed);
    communicator.n_marks.store(number + 1, Release);
}

/// A number for the group of a call that is the first of its group: never 0.
#[cold]
pub(crate) fn begin_group(local: &Local) {
    local.group.set(GROUPS.fetch_add(1, Relaxed) + 1);
}

/// The number of the thread's open group as a record has it; 0 if there is none.
#[inline(always)]
pub(crate) fn group_of(local: &Local) -> u32 {
    const NUMBERS: u64 = (1 << GROUP_BITS) - 1;
    match local.group.get() {
        0 => 0,
        group => (group % NUMBERS) as u32 + 1,
    }
}

/// The outermost group has ended.
pub(crate) fn end_group(segment: &Segment, local: &Local) {
    let group = local.group.take();
    each_of_group(segment, local, |slot| {
        let communicator = table::at(segment, slot);
        let (from, to) = (communicator.group_calls.load(Relaxed), communicator.calls.load(Relaxed));
        if communicator.group.load(Relaxed) == group && from / CALLS_PER_MARK != to / CALLS_PER_MARK {
            mark(segment, slot);
        }
    });
    local.clear_group_slots();
}

/// The outermost group has ended and launches nothing: its calls never were.
pub(crate) fn drop_group(segment: &Segment, local: &Local) {
    let group = local.group.take();
    each_of_group(segment, local, |slot| {
        let communicator = table::at(segment, slot);
        if communicator.group.load(Relaxed) == group {
            let (calls, hash) =
                (communicator.group_calls.load(Relaxed), communicator.group_hash.load(Relaxed));
            publish(communicator, calls, hash);
        }
    });
    local.clear_group_slots();
}

/// The slots with calls in the thread's group, and others too if it has more than the thread remembers.
pub(crate) fn each_of_group(segment: &Segment, local: &Local, f: impl FnMut(usize)) {
    if local.has_all_group_slots() {
        local.group_slots().for_each(f);
    } else {
        (0..table::n_used(segment)).for_each(f);
    }
}

/// A slot gets another communicator.
pub(crate) fn clear(communicator: &Communicator) {
    publish(communicator, 0, 0);
    communicator.n_marks.store(0, Relaxed);
    communicator.group.store(0, Relaxed);
}
