//! Where the segment lies in memory. It is made at the first communicator, by the function that the process layer has
//! left here: this layer knows no files.

#![expect(unsafe_code, reason = "refers to mapped memory")]

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use ringscope_wire::segment::Segment;

use super::own::OWN;
use super::{guard, own, uncancelled};

static MAKER: OnceLock<Maker> = OnceLock::new();

/// Makes a segment and calls [`set`].
pub(crate) type Maker = fn() -> Option<&'static Segment>;

/// Leaves the function that makes segments, once.
pub(crate) fn set_maker(maker: Maker) {
    let _ = MAKER.set(maker);
}

/// The segment, if this process has one. A child that calls for the first time forgets its parent's.
#[inline(always)]
pub(crate) fn segment() -> Option<&'static Segment> {
    existing().or_else(absent)
}

#[cold]
fn absent() -> Option<&'static Segment> {
    own::settle();
    existing()
}

/// The same, which leaves a child as it is: where a process ends, or forks.
#[inline(always)]
pub(crate) fn existing() -> Option<&'static Segment> {
    let segment = OWN.segment.load(Acquire);
    // SAFETY: null, or a whole mapping that is never unmapped; all that changes in it is atomic.
    unsafe { segment.as_ref() }
}

/// The segment; made now if there is none. `None` if that fails: the next communicator tries again.
pub(crate) fn segment_or_create() -> Option<&'static Segment> {
    if let Some(segment) = segment() {
        return Some(segment);
    }
    // Not on the record path: another thread's creation may be waited for.
    while OWN.is_busy.swap(true, AcqRel) {
        std::thread::yield_now();
    }
    let make = || MAKER.get().and_then(|make| make());
    let segment = segment().or_else(|| guard(|| uncancelled(make)).flatten());
    OWN.is_busy.store(false, Release);
    segment
}

/// The process has this segment from now on: whole, mapped, and never unmapped.
pub(crate) fn set(segment: &'static Segment) {
    OWN.segment.store(std::ptr::from_ref(segment).cast_mut(), Release);
}
