//! The group that the process is in: which communicator carries it, and what becomes of its open calls at its end.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMPLETION_NONE, COMPLETION_PROFILER, MADE_BY_SUMMATION,
    MADE_BY_UNSEEN, MAX_COMMUNICATORS,
};

use crate::calls::complete::close;
use crate::segment::communicators;
use crate::segment::communicators::{Birth, Name, at, name_of};
use crate::summation::calls;

/// Slot plus one of the communicator that carries the group; 0 while there is no group.
static CARRIER: AtomicUsize = AtomicUsize::new(0);
/// Whether the slot was taken for the group, because nobody else had told of the communicator.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// The group's number; 0 while there is none.
static GROUP: AtomicU64 = AtomicU64::new(0);

/// What is said of a group's communicator.
#[derive(Clone, Copy)]
pub(crate) struct Carrier {
    /// The group's number, which is the communicator's hash.
    pub(crate) group: u64,
    /// `ncclComm_t`.
    pub(crate) pointer: u64,
    pub(crate) rank: u32,
    pub(crate) n_ranks: u32,
}

/// What a beginning is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Of a group that was not there before.
    New,
    /// Of the present group, with more tensors.
    Again,
    /// Of another one while the present one has not ended.
    Second,
}

/// The slot that carries the group, while there is one.
#[inline(always)]
pub(crate) fn carrier() -> Option<usize> {
    CARRIER.load(Acquire).checked_sub(1)
}

/// A group begins.
pub(crate) fn begin(segment: &Segment, carrier: &Carrier) -> Beginning {
    match GROUP.compare_exchange(0, carrier.group, AcqRel, Acquire) {
        Ok(_) => {
            let slot = find(segment, carrier).or_else(|| form(segment, carrier));
            CARRIER.store(slot.map_or(0, |slot| slot + 1), Release);
            keep(segment);
            Beginning::New
        }
        Err(present) if present == carrier.group => Beginning::Again,
        Err(_) => Beginning::Second,
    }
}

/// The engine tells when operations of the group end, whatever the profiler is asked for: said again and again, because a
/// change of level takes it back.
pub(crate) fn keep(segment: &Segment) {
    if let Some(slot) = carrier() {
        at(segment, slot).completion.store(COMPLETION_PROFILER, Relaxed);
    }
}

/// The group has ended: what is open has failed.
pub(crate) fn end(segment: &Segment) {
    calls::fail_all(segment);
    GROUP.store(0, Release);
    let Some(slot) = CARRIER.swap(0, AcqRel).checked_sub(1) else { return };
    at(segment, slot).completion.store(COMPLETION_NONE, Relaxed);
    if IS_OURS.swap(false, Relaxed) {
        communicators::detach(slot);
        communicators::end(segment, slot, COMMUNICATOR_DESTROYED, close);
    }
}

/// The slot whose communicator the profiler has told of, which names no pointer.
fn find(segment: &Segment, carrier: &Carrier) -> Option<usize> {
    let used = (segment.live.n_communicators.load(Acquire) as usize).min(MAX_COMMUNICATORS);
    let is_unseen = |slot: &usize| {
        let communicator = at(segment, *slot);
        communicator.state.load(Acquire) == COMMUNICATOR_ACTIVE
            && communicator.made_by.load(Relaxed) == MADE_BY_UNSEEN
            && communicator.pointer.load(Relaxed) == 0
    };
    let has_hash = |slot: &usize| at(segment, *slot).comm_hash.load(Relaxed) == carrier.group;
    let slot = (0..used).filter(is_unseen).find(has_hash)?;
    communicators::activate(segment, slot, carrier.pointer);
    at(segment, slot).made_by.store(MADE_BY_SUMMATION, Relaxed);
    if at(segment, slot).name[0].load(Relaxed) == 0 {
        communicators::set_name(at(segment, slot), &name());
    }
    Some(slot)
}

fn form(segment: &Segment, carrier: &Carrier) -> Option<usize> {
    let slot = communicators::form(
        segment,
        &Birth {
            made_by: MADE_BY_SUMMATION,
            rank: i32::try_from(carrier.rank).unwrap_or(-1),
            n_ranks: i32::try_from(carrier.n_ranks).unwrap_or_default(),
            comm_hash: carrier.group,
            parent_hash: 0,
            name: name(),
        },
    )?;
    communicators::activate(segment, slot, carrier.pointer);
    IS_OURS.store(true, Relaxed);
    Some(slot)
}

fn name() -> Name {
    name_of(b"summation")
}

/// In a forked child: the group is the parent's.
pub(crate) fn forget() {
    CARRIER.store(0, Relaxed);
    IS_OURS.store(false, Relaxed);
    GROUP.store(0, Relaxed);
    calls::forget();
}
