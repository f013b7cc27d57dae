//! Where the segment lies in memory.

#![expect(unsafe_code, reason = "refers to mapped memory")]

use std::sync::atomic::Ordering::{Acquire, Release};

use ringscope_wire::segment::Segment;

use crate::segment::own;
use crate::segment::own::OWN;

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
    // SAFETY: null, or a whole mapping that this process never unmaps, and of which a child finds zeros; all that changes in
    // it is atomic. Not so in a child that was not forked by the C library, on a kernel that wipes nothing (before 4.14).
    unsafe { segment.as_ref() }
}

/// The process has this segment from now on: whole, mapped, and never unmapped.
pub(crate) fn set(segment: &'static Segment) {
    OWN.segment.store(std::ptr::from_ref(segment).cast_mut(), Release);
}
