//! What is this process's own: a page that a forked child finds full of zeros, as the kernel wipes it (`MADV_WIPEONFORK`)
//! or, where the kernel cannot, as [`forget`] does.
//!
//! So a child learns that it is one from the first call that it makes, and only then forgets what it has of its parent's
//! ([`settle`]): most children never call, and have not a page of their own to pay for. A child that shares its parent's
//! memory (`vfork`) finds the page as it is, and takes nothing away.

#![expect(unsafe_code, reason = "advises the kernel on a page")]

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use std::time::Duration;

use ringscope_wire::segment::Segment;

use crate::segment::busy::{Busy, wait_while};
use crate::segment::held_back::uninterrupted;

/// The page. Elsewhere than on x86-64 pages may be larger than 4 KiB.
#[repr(C)]
#[cfg_attr(target_arch = "x86_64", repr(align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
pub(super) struct Own {
    pub(super) segment: AtomicPtr<Segment>,
    /// Some thread is making the segment.
    pub(super) busy: Busy,
    /// Calls made while there was no segment; handed to the segment once there is one.
    pub(super) without_segment: AtomicU64,
    /// [`NEW`], [`SETTLING`] or [`OURS`].
    state: AtomicU32,
    forks: Forks,
}

/// What a process counts around its forks; each child from nothing.
pub(crate) struct Forks {
    /// Those that wait for who asks the linker, or are under way.
    pub(crate) begun: AtomicU32,
    /// Threads that ask the linker.
    pub(crate) asking: AtomicU32,
    /// Those that wait for nobody any more.
    pub(crate) under_way: AtomicU32,
    /// Those that are over.
    pub(crate) ended: AtomicU32,
}

pub(super) static OWN: Own = Own {
    segment: AtomicPtr::new(null_mut()),
    busy: Busy::new(),
    without_segment: AtomicU64::new(0),
    state: AtomicU32::new(NEW),
    forks: Forks {
        begun: AtomicU32::new(0),
        asking: AtomicU32::new(0),
        under_way: AtomicU32::new(0),
        ended: AtomicU32::new(0),
    },
};

/// Nobody has called yet; what there is may be the parent's.
const NEW: u32 = 0;
/// A thread is forgetting what is the parent's.
const SETTLING: u32 = 1;
/// What there is is this process's.
const OURS: u32 = 2;

/// The kernel wipes the page.
static IS_WIPED: AtomicBool = AtomicBool::new(false);
/// This process, or one that it was forked from, has called: there may be something to forget.
static HAS_CALLED: AtomicBool = AtomicBool::new(false);
/// A function that forgets what the layers behind this one have of the parent's.
static FORGET: OnceLock<fn()> = OnceLock::new();
/// Whether forks are watched: [`UNWATCHED`], [`BEGINS`] or [`WATCHED`]. Children inherit it.
static WATCH_STATE: AtomicU32 = AtomicU32::new(UNWATCHED);
const UNWATCHED: u32 = 0;
/// Some thread is having it done, or was, in the parent.
const BEGINS: u32 = 1;
const WATCHED: u32 = 2;
/// A function that has forks watched.
static WATCH: OnceLock<fn()> = OnceLock::new();

/// Asks the kernel to wipe the page for children; it keeps that for theirs.
pub(crate) fn begin() {
    let page = (&raw const OWN).cast_mut().cast();
    // SAFETY: whole pages of our own. Where the kernel cannot, `forget` is called in the child.
    let refused = unsafe { libc::madvise(page, size_of::<Own>(), libc::MADV_WIPEONFORK) };
    IS_WIPED.store(refused == 0, Relaxed);
}

/// Whether the kernel wipes the page: nothing has to be done in a child.
pub(crate) fn is_wiped() -> bool {
    IS_WIPED.load(Relaxed)
}

/// Forks of this process.
pub(crate) fn forks() -> &'static Forks {
    &OWN.forks
}

/// Leaves the function that has forks watched: called once, before anything that a fork must not meet.
pub(crate) fn set_watch(watch: fn()) {
    let _ = WATCH.set(watch);
}

/// Leaves the function that forgets what is the parent's. It does no more than store: the child of a process with threads
/// may do no more. It must not ask for the segment.
pub(crate) fn set_forget(forget: fn()) {
    let _ = FORGET.set(forget);
}

/// Whether this process itself has called. In a child that has not nothing is its own: at its end there is nothing to do.
pub(crate) fn is_ours() -> bool {
    OWN.state.load(Acquire) == OURS
}

/// Forgets what is the parent's, if this is a child and nobody has done it. Before anything is kept in a static that a
/// child must not inherit.
#[inline(always)]
pub(crate) fn settle() {
    if !is_ours() {
        settle_now();
    }
}

/// How long another thread is waited for.
const MAX_WAIT: Duration = Duration::from_millis(100);

#[cold]
fn settle_now() {
    uninterrupted(settle_uninterrupted);
}

fn settle_uninterrupted() {
    // Before the state changes: where the kernel does not wipe, nobody would tell a child that was made meanwhile that it is one.
    if WATCH_STATE.compare_exchange(UNWATCHED, BEGINS, AcqRel, Acquire).is_ok() {
        WATCH.get().inspect(|watch| watch());
        WATCH_STATE.store(WATCHED, Release);
    }
    wait_while(MAX_WAIT, || WATCH_STATE.load(Acquire) == BEGINS);
    // Another thread stores some thousand words.
    let mut before = SETTLING;
    wait_while(MAX_WAIT, || {
        before = OWN.state.compare_exchange(NEW, SETTLING, AcqRel, Acquire).unwrap_or_else(|state| state);
        before == SETTLING
    });
    if before != NEW {
        return;
    }
    if HAS_CALLED.swap(true, Relaxed)
        && let Some(forget) = FORGET.get()
    {
        forget();
    }
    OWN.state.store(OURS, Release);
}

/// In a forked child: as if the kernel had wiped the page.
pub(crate) fn forget() {
    for count in [&OWN.forks.begun, &OWN.forks.asking, &OWN.forks.under_way, &OWN.forks.ended] {
        count.store(0, SeqCst);
    }
    OWN.segment.store(null_mut(), Relaxed);
    OWN.busy.forget();
    OWN.without_segment.store(0, Relaxed);
    OWN.state.store(NEW, Release);
}
