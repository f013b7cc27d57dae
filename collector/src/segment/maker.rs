//! The segment is made at the first communicator, by the function that the process layer has left here: this layer knows no
//! files.

use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Release};

use ringscope_wire::segment::Segment;

use crate::segment::guard::{guard, uncancelled};
use crate::segment::map::segment;
use crate::segment::own::OWN;

static MAKER: OnceLock<Maker> = OnceLock::new();

/// Makes a segment and calls [`crate::segment::map::set`].
pub(crate) type Maker = fn() -> Option<&'static Segment>;

/// Leaves the function that makes segments, once.
pub(crate) fn set_maker(maker: Maker) {
    let _ = MAKER.set(maker);
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
