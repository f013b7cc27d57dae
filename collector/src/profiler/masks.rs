//! Where each copy of the library keeps its activation mask, from its first communicator's `init` to its last one's
//! `finalize`: after that the copy may be unloaded.

#![expect(unsafe_code, reason = "writes the library's masks")]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize};
use std::time::Duration;

use crate::segment::busy::{Busy, Held};

/// Places that are known at once: NCCL has one in each copy, and a process two or three copies. A place too many is told
/// the mask of its `init` and no change.
const MAX_PLACES: usize = 64;

struct Place {
    /// NULL if the entry is free.
    mask: AtomicPtr<c_int>,
    /// Communicators between `init` and `finalize`.
    n_contexts: AtomicUsize,
}

static PLACES: [Place; MAX_PLACES] =
    [const { Place { mask: AtomicPtr::new(null_mut()), n_contexts: AtomicUsize::new(0) } }; MAX_PLACES];
/// What the collector itself asks for.
static OURS: AtomicU32 = AtomicU32::new(0);
/// What the plugin that the program had before asks for; it may write here at any time.
static THEIRS: AtomicI32 = AtomicI32::new(0);
/// What it asked for when the library was last asked.
static THEIRS_SEEN: AtomicI32 = AtomicI32::new(0);
/// Some thread enters, leaves or writes. An event that changes the mask never waits for it: see [`IS_STALE`].
static BUSY: Busy = Busy::new();
/// The masks are to be written once more, by whoever is busy now.
static IS_STALE: AtomicBool = AtomicBool::new(false);

/// A communicator of the library that keeps its mask here begins. The number of the place for [`leave`], 0 if there is none.
pub(super) fn enter(mask: *mut c_int) -> usize {
    if mask.is_null() {
        return 0;
    }
    let held = wait();
    let known = PLACES.iter().position(|place| place.mask.load(Relaxed) == mask);
    let index = known.or_else(|| PLACES.iter().position(|place| place.mask.load(Relaxed).is_null()));
    if let Some(index) = index {
        PLACES[index].mask.store(mask, Relaxed);
        PLACES[index].n_contexts.fetch_add(1, Relaxed);
    } else {
        write(mask);
    }
    release(held);
    index.map_or(0, |index| index + 1)
}

/// A communicator of the place has ended.
pub(super) fn leave(number: usize) {
    let Some(place) = PLACES.get(number.wrapping_sub(1)) else { return };
    let held = wait();
    if place.n_contexts.fetch_sub(1, Relaxed) == 1 {
        place.mask.store(null_mut(), Relaxed);
    }
    release(held);
}

/// Asks all copies for these events, and for what the other plugin asks for.
pub(super) fn ask_for(ours: u32) {
    OURS.store(ours, Relaxed);
    ask();
}

/// Where the other plugin writes what it asks for.
pub(super) fn place_of_theirs() -> *mut c_int {
    THEIRS.as_ptr()
}

/// What it asks for; all copies are asked for that now.
pub(super) fn theirs() -> u32 {
    let theirs = THEIRS.load(Relaxed);
    if theirs != THEIRS_SEEN.load(Relaxed) {
        ask();
    }
    theirs.cast_unsigned()
}

/// Asks them again.
pub(super) fn ask() {
    IS_STALE.store(true, SeqCst);
    write_stale();
}

/// Before the flag is looked at, the thread that is busy has either let go or will look at the flag itself.
fn write_stale() {
    while IS_STALE.load(SeqCst)
        && let Some(held) = BUSY.take()
    {
        IS_STALE.store(false, SeqCst);
        PLACES.iter().map(|place| place.mask.load(Relaxed)).filter(|mask| !mask.is_null()).for_each(write);
        drop(held);
    }
}

fn write(mask: *mut c_int) {
    let theirs = THEIRS.load(Relaxed);
    THEIRS_SEEN.store(theirs, Relaxed);
    let asked = OURS.load(Relaxed).cast_signed() | theirs;
    // SAFETY: the library's own int, which is there while one of its communicators is between `init` and `finalize`, and
    // only whoever is busy takes it from the table; the library expects this write at any time.
    unsafe { mask.write_volatile(asked) };
}

/// Where a communicator begins or ends another thread is waited for: it writes some integers. One that does not come to that
/// in so long does not run at all, and what is changed here is changed without it.
fn wait() -> Option<Held<'static>> {
    BUSY.take_within(Duration::from_secs(1))
}

fn release(held: Option<Held<'_>>) {
    drop(held);
    write_stale();
}

/// In a forked child: the library's communicators are the parent's.
pub(super) fn forget() {
    for place in &PLACES {
        place.mask.store(null_mut(), Relaxed);
        place.n_contexts.store(0, Relaxed);
    }
    BUSY.forget();
    IS_STALE.store(false, Relaxed);
}
