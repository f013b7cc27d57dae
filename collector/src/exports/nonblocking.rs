//! Communicators whose init goes on after its call has returned `ncclInProgress` (`ncclConfig_t.blocking` is 0).
//!
//! The library must not be asked about such a communicator, and the pointer to a split one is not even there, until it
//! says so: the program polls `ncclCommGetAsyncError` of the new communicator (an init) or of its parent (a split), and the
//! first answer that is not `ncclInProgress` is the moment at which both are in place and the program does not know yet.

#![expect(unsafe_code, reason = "reads the caller's pointers")]

use std::ffi::c_int;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::abi::nccl::{Comm, IN_PROGRESS, SUCCESS};
use crate::calls::resolve::Function;
use crate::exports::lifecycle::describe;
use crate::segment::communicators;

/// What is awaited of a slot.
struct Wait {
    /// One of the constants below.
    kind: AtomicU8,
    /// Where the library will put the pointer.
    place: AtomicUsize,
    parent: AtomicUsize,
}

const NOTHING: u8 = 0;
/// The pointer is known; rank, size and device are asked for when it can be.
const READY: u8 = 1;
/// The pointer will be in its place when the parent is done.
const POINTER: u8 = 2;

static WAITS: [Wait; MAX_COMMUNICATORS] = [const {
    Wait { kind: AtomicU8::new(NOTHING), place: AtomicUsize::new(0), parent: AtomicUsize::new(0) }
}; MAX_COMMUNICATORS];
/// How many there are: mostly none, and then nothing is searched.
static N_WAITS: AtomicUsize = AtomicUsize::new(0);

/// The slot's communicator has its pointer and is still being made.
pub(crate) fn await_ready(slot: usize) {
    await_kind(slot, READY);
}

/// The pointer to the slot's communicator will be at `place` when `parent` is done.
pub(crate) fn await_pointer(slot: usize, place: *mut Comm, parent: usize) {
    let Some(wait) = WAITS.get(slot) else { return };
    wait.place.store(place.expose_provenance(), Relaxed);
    wait.parent.store(parent, Relaxed);
    await_kind(slot, POINTER);
}

fn await_kind(slot: usize, kind: u8) {
    let Some(wait) = WAITS.get(slot) else { return };
    if wait.kind.swap(kind, Release) == NOTHING {
        N_WAITS.fetch_add(1, AcqRel);
    }
}

/// Whether anything is awaited at all.
pub(crate) fn is_idle() -> bool {
    N_WAITS.load(Acquire) == 0
}

/// The library has said how far the slot's communicator is.
pub(crate) fn heard(segment: &Segment, slot: usize, progress: c_int) {
    if progress == IN_PROGRESS {
        return;
    }
    if take(slot, READY) && progress == SUCCESS {
        let pointer = communicators::at(segment, slot).pointer.load(Relaxed);
        describe(segment, slot, pointer_of(pointer));
    }
    for (child, wait) in WAITS.iter().enumerate() {
        if wait.parent.load(Relaxed) == slot && take(child, POINTER) {
            arrive(segment, child, wait, progress);
        }
    }
}

fn arrive(segment: &Segment, child: usize, wait: &Wait, progress: c_int) {
    if progress != SUCCESS {
        communicators::note_error(segment, child, Function::ncclCommGetAsyncError.number(), progress);
        return communicators::fail(segment, child);
    }
    let place: *mut Comm = std::ptr::with_exposed_provenance_mut(wait.place.load(Relaxed));
    // SAFETY: the program gave the place to the library, which has written it and says so in the answer that the
    // program has yet to see: it cannot have taken it back.
    let pointer = unsafe { place.read() };
    if pointer.is_null() {
        return communicators::release(segment, child);
    }
    describe(segment, child, pointer);
    communicators::activate(segment, child, pointer as u64);
}

/// The slot's communicator ends: nothing more will come of it.
pub(crate) fn abandon(segment: &Segment, slot: usize) {
    take(slot, READY);
    for (child, wait) in WAITS.iter().enumerate() {
        if wait.parent.load(Relaxed) == slot && take(child, POINTER) {
            communicators::release(segment, child);
        }
    }
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

fn pointer_of(number: u64) -> Comm {
    std::ptr::with_exposed_provenance_mut(usize::try_from(number).unwrap_or_default())
}

/// In a forked child: the parent's.
pub(crate) fn forget() {
    for wait in &WAITS {
        wait.kind.store(NOTHING, Relaxed);
    }
    N_WAITS.store(0, Relaxed);
}
