//! Where the segment lies in memory. It is made at the first communicator, by the function that the process layer has
//! left here: this layer knows no files.

#![expect(unsafe_code, reason = "refers to mapped memory")]

use std::ptr::null_mut;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr};

use ringscope_wire::segment::Segment;

use super::{guard, uncancelled};

static SEGMENT: AtomicPtr<Segment> = AtomicPtr::new(null_mut());
/// Some thread is making the segment.
static BUSY: AtomicBool = AtomicBool::new(false);
/// A [`Maker`], NULL before the process layer has left it.
static MAKER: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Makes a segment and calls [`set`].
pub(crate) type Maker = fn() -> Option<&'static Segment>;

/// Leaves the function that makes segments.
pub(crate) fn set_maker(maker: Maker) {
    MAKER.store(maker as *mut (), Release);
}

/// The segment, if this process has one.
#[inline(always)]
pub(crate) fn segment() -> Option<&'static Segment> {
    let segment = SEGMENT.load(Acquire);
    // SAFETY: null, or a whole mapping that is never unmapped; all that changes in it is atomic.
    unsafe { segment.as_ref() }
}

/// The segment; made now if there is none. `None` if that fails: the next communicator tries again.
pub(crate) fn segment_or_create() -> Option<&'static Segment> {
    if let Some(segment) = segment() {
        return Some(segment);
    }
    // Not on the record path: another thread's creation may be waited for.
    while BUSY.swap(true, AcqRel) {
        std::thread::yield_now();
    }
    let segment = segment().or_else(|| guard(|| uncancelled(make)).flatten());
    BUSY.store(false, Release);
    segment
}

fn make() -> Option<&'static Segment> {
    let maker = MAKER.load(Acquire);
    if maker.is_null() {
        return None;
    }
    // SAFETY: only `set_maker` writes here.
    let maker: Maker = unsafe { std::mem::transmute(maker) };
    maker()
}

/// The process has this segment from now on: whole, mapped, and never unmapped.
pub(crate) fn set(segment: &'static Segment) {
    SEGMENT.store(std::ptr::from_ref(segment).cast_mut(), Release);
}

/// In a forked child: the segment is the parent's.
pub(crate) fn forget() {
    SEGMENT.store(null_mut(), Release);
    BUSY.store(false, Relaxed);
}
