//! The group that the process is in: which communicator carries it.

#![expect(unsafe_code, reason = "functions that the watcher calls")]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_DESTROYED, COMPLETION_NONE, COMPLETION_PROFILER, DropReason,
    MADE_BY_SUMMATION, MADE_BY_UNSEEN,
};
use ringscope_wire::watcher::{Carrier, JOINED_AGAIN, JOINED_NEW, JOINED_SECOND, Joined};

use crate::calls::ending;
use crate::segment::communicators::{Birth, at};
use crate::segment::names::{Name, name_of};
use crate::segment::{communicators, guard, segment, switch, table};

/// Slot plus one of the communicator that carries the group; 0 while there is no group.
static CARRIER: AtomicUsize = AtomicUsize::new(0);
/// The group's number; 0 while there is none.
static GROUP: AtomicU64 = AtomicU64::new(0);

/// The slot that carries the group, while there is one.
#[inline(always)]
pub(crate) fn carrier() -> Option<usize> {
    CARRIER.load(Acquire).checked_sub(1)
}

/// [`ringscope_wire::watcher::Collector::join`]
///
/// # Safety
/// NULL, or a structure that is valid during the call.
pub(super) unsafe extern "C" fn join(carrier: *const Carrier) -> Joined {
    // SAFETY: the caller's promise.
    let carrier = unsafe { carrier.as_ref() };
    guard(|| segment().zip(carrier).map(|(segment, carrier)| begin(segment, carrier)))
        .flatten()
        .unwrap_or(Joined { beginning: JOINED_SECOND, communicator: 0 })
}

fn begin(segment: &Segment, carrier: &Carrier) -> Joined {
    let beginning = match GROUP.compare_exchange(0, carrier.group, AcqRel, Acquire) {
        Ok(_) => {
            let slot = find(segment, carrier).or_else(|| form(segment, carrier));
            CARRIER.store(slot.map_or(0, |slot| slot + 1), Release);
            told_by_engine(segment);
            JOINED_NEW
        }
        Err(present) if present == carrier.group => JOINED_AGAIN,
        Err(_) => JOINED_SECOND,
    };
    let communicator = self::carrier()
        .map_or(0, |slot| u64::from(at(segment, slot).generation.load(Relaxed)) << 16 | slot as u64);
    Joined { beginning, communicator }
}

/// [`ringscope_wire::watcher::Collector::keep`]
pub(super) extern "C" fn keep() {
    guard(|| segment().map(told_by_engine));
}

/// The engine tells when operations of the group end, whatever the profiler is asked for: said again and again, because a
/// change of level takes it back.
fn told_by_engine(segment: &Segment) {
    if let Some(slot) = carrier() {
        at(segment, slot).completion.store(COMPLETION_PROFILER, Relaxed);
    }
}

/// [`ringscope_wire::watcher::Collector::leave`]
pub(super) extern "C" fn leave() {
    guard(|| segment().map(end));
}

/// [`ringscope_wire::watcher::Collector::too_large`]
pub(super) extern "C" fn too_large() {
    guard(|| segment().map(|segment| switch::dropped(segment, DropReason::SummationGroupTooLarge, 1)));
}

fn end(segment: &Segment) {
    GROUP.store(0, Release);
    let Some(slot) = CARRIER.swap(0, AcqRel).checked_sub(1) else { return };
    at(segment, slot).completion.store(COMPLETION_NONE, Relaxed);
    communicators::detach(slot);
    ending::end(segment, slot, COMMUNICATOR_DESTROYED);
}

/// The slot whose communicator the profiler has told of, which names no pointer. It is the group's from now on, and ends with
/// it.
fn find(segment: &Segment, carrier: &Carrier) -> Option<usize> {
    let used = table::n_used(segment);
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
    Some(slot)
}

fn name() -> Name {
    name_of(b"summation")
}

/// In a forked child: the group is the parent's.
pub(crate) fn forget() {
    CARRIER.store(0, Relaxed);
    GROUP.store(0, Relaxed);
}
