//! Communicators whose init goes on after its call has returned `ncclInProgress` (`ncclConfig_t.blocking` is 0).
//!
//! The library must not be asked about such a communicator until it says that it is done with it: the program polls
//! `ncclCommGetAsyncError` of the new communicator (an init) or of its parent (a split), and till then the init is not over. A
//! program that calls on it without polling makes us ask so. The pointer to a split one is not even
//! there before, and where the library writes it is the program's own memory, which may be gone a moment after: it is never
//! read later. So a child is met when the program names it, in its first operation or when its state is asked for.

use std::ffi::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::abi::nccl::{Comm, IN_PROGRESS, SUCCESS};
use crate::calls::resolve::{Function, library_of};
use crate::exports::describe::{ask, describe};
use crate::segment::local::Local;
use crate::segment::{communicators, segment};

/// What is awaited of a slot.
struct Wait {
    /// One of the constants below.
    kind: AtomicU8,
    parent: AtomicUsize,
}

const NOTHING: u8 = 0;
/// The pointer is known; rank, size and device are asked for when it can be.
const READY: u8 = 1;
/// The parent is not done with the child yet.
const FORMING: u8 = 2;
/// The child is there, and the program will name it some day.
const MADE: u8 = 3;

static WAITS: [Wait; MAX_COMMUNICATORS] =
    [const { Wait { kind: AtomicU8::new(NOTHING), parent: AtomicUsize::new(0) } }; MAX_COMMUNICATORS];
/// How many there are: mostly none, and then nothing is searched.
static N_WAITS: AtomicUsize = AtomicUsize::new(0);

/// The slot's communicator has its pointer and is still being made.
pub(crate) fn await_ready(slot: usize) {
    await_kind(slot, READY);
}

/// The slot's communicator is a child of `parent` whose pointer the program has not been given yet.
pub(crate) fn await_child(slot: usize, parent: usize) {
    let Some(wait) = WAITS.get(slot) else { return };
    wait.parent.store(parent, Relaxed);
    await_kind(slot, FORMING);
}

fn await_kind(slot: usize, kind: u8) {
    let Some(wait) = WAITS.get(slot) else { return };
    if wait.kind.swap(kind, Release) == NOTHING {
        N_WAITS.fetch_add(1, AcqRel);
    }
}

/// Whether anything is awaited at all.
#[inline(always)]
pub(crate) fn is_idle() -> bool {
    N_WAITS.load(Acquire) == 0
}

/// The library has said how far a communicator is.
pub(crate) fn heard(segment: &Segment, local: &Local, comm: Comm, progress: c_int) {
    if progress == IN_PROGRESS {
        return;
    }
    if progress == SUCCESS && communicators::find(segment, local, comm as u64).is_none() {
        meet_child(segment, local, comm);
    }
    let Some(slot) = communicators::find(segment, local, comm as u64) else { return };
    if take(slot, READY) {
        if progress == SUCCESS {
            describe(segment, local, slot, comm);
            communicators::succeed(segment, slot);
        } else {
            communicators::fail_attached(segment, slot);
        }
    }
    for child in children_of(slot) {
        if progress == SUCCESS {
            let _ = WAITS[child].kind.compare_exchange(FORMING, MADE, AcqRel, Relaxed);
        } else if take(child, FORMING) {
            communicators::note_error(segment, child, Function::ncclCommGetAsyncError.number(), progress);
            communicators::fail(segment, child);
        }
    }
}

/// The program names a communicator that it takes to be ready.
#[cold]
pub(crate) fn meet(local: &Local, comm: Comm) {
    let Some(segment) = segment().filter(|_| !comm.is_null()) else { return };
    let Some(slot) = communicators::find(segment, local, comm as u64) else {
        return meet_child(segment, local, comm);
    };
    if WAITS[slot].kind.load(Acquire) == READY {
        let library = communicators::at(segment, slot).library.load(Relaxed) as usize;
        if let Some(progress) = ask(local, Function::ncclCommGetAsyncError, library, comm) {
            heard(segment, local, comm, progress);
        }
    }
}

/// It is not known, and may be a child that is awaited: one about which all that is known is what the library says of this
/// pointer. Where several are, none is taken.
fn meet_child(segment: &Segment, local: &Local, comm: Comm) {
    let Some(library) = library_of(local, comm) else { return };
    let rank = ask(local, Function::ncclCommUserRank, library, comm);
    let Some((rank, n_ranks)) = rank.zip(ask(local, Function::ncclCommCount, library, comm)) else { return };
    // Whether it is awaited first: a look at a slot that was never used makes the file system give it a page.
    let fits = |slot: &usize| {
        if !is_child(*slot) || communicators::has_ended(segment, *slot) {
            return false;
        }
        let communicator = communicators::at(segment, *slot);
        communicator.library.load(Relaxed) as usize == library
            && can_be(communicator.rank.load(Relaxed), rank, -1)
            && can_be(communicator.n_ranks.load(Relaxed), n_ranks, 0)
    };
    let mut candidates = (0..MAX_COMMUNICATORS).filter(fits);
    if let (Some(child), None) = (candidates.next(), candidates.next())
        && (take(child, FORMING) || take(child, MADE))
    {
        describe(segment, local, child, comm);
        communicators::activate(segment, child, comm as u64);
    }
}

/// A communicator has ended that was not known: if it can only have been this child, that needs its slot no more.
#[cold]
pub(crate) fn ended_unknown(segment: &Segment) {
    // The profiler has told that it was this one.
    let has_ended = |slot: &usize| communicators::has_ended(segment, *slot);
    if let Some(child) = (0..MAX_COMMUNICATORS).filter(|slot| is_child(*slot)).find(has_ended) {
        return clear_slot(child);
    }
    let mut made = (0..MAX_COMMUNICATORS).filter(|slot| is_child(*slot));
    if let (Some(child), None) = (made.next(), made.next())
        && take(child, MADE)
    {
        communicators::release(segment, child);
    }
}

fn is_child(slot: usize) -> bool {
    matches!(WAITS[slot].kind.load(Acquire), FORMING | MADE)
}

fn can_be(known: i32, said: i32, unknown: i32) -> bool {
    known == unknown || known == said
}

/// The slot's communicator ends. Of what it is still making nothing comes any more.
pub(crate) fn abandon(segment: &Segment, slot: usize) {
    if is_idle() {
        return;
    }
    take(slot, READY);
    // One that is called already lives on.
    let unborn = children_of(slot).filter(|child| !communicators::is_without_pointer(segment, *child));
    for child in unborn.filter(|child| take(*child, FORMING)) {
        communicators::release(segment, child);
    }
}

fn children_of(parent: usize) -> impl Iterator<Item = usize> {
    (0..MAX_COMMUNICATORS).filter(move |child| {
        let wait = &WAITS[*child];
        wait.kind.load(Acquire) == FORMING && wait.parent.load(Relaxed) == parent
    })
}

fn take(slot: usize, kind: u8) -> bool {
    let taken = WAITS
        .get(slot)
        .is_some_and(|wait| wait.kind.compare_exchange(kind, NOTHING, AcqRel, Relaxed).is_ok());
    if taken {
        N_WAITS.fetch_sub(1, AcqRel);
    }
    taken
}

/// The slot gets another communicator, or its own has ended: nothing is awaited of it.
pub(crate) fn clear_slot(slot: usize) {
    for kind in [READY, FORMING, MADE] {
        take(slot, kind);
    }
}

/// In a forked child: the parent's.
pub(crate) fn forget() {
    if is_idle() {
        return;
    }
    for wait in &WAITS {
        wait.kind.store(NOTHING, Relaxed);
    }
    N_WAITS.store(0, Relaxed);
}
