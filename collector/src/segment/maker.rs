//! The segment is made at the first communicator, by the function that the process layer has left here: this layer knows no
//! files.

use std::sync::OnceLock;
use std::time::Duration;

use ringscope_wire::segment::Segment;

use crate::segment::guard::guard;
use crate::segment::held_back::{uncancelled, uninterrupted};
use crate::segment::map::segment;
use crate::segment::own::OWN;

static MAKER: OnceLock<Maker> = OnceLock::new();

/// Makes a segment and calls [`crate::segment::map::set`].
pub(crate) type Maker = fn() -> Option<&'static Segment>;

/// Leaves the function that makes segments, once.
pub(crate) fn set_maker(maker: Maker) {
    let _ = MAKER.set(maker);
}

/// How long another thread's making is waited for: mostly it takes a millisecond. Where the system holds that thread up, the
/// other communicators go without a segment.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The segment; made now if there is none. `None` if that fails: the next communicator tries again.
pub(crate) fn segment_or_create() -> Option<&'static Segment> {
    if let Some(segment) = segment() {
        return Some(segment);
    }
    let _held = OWN.busy.take_within(MAX_WAIT)?;
    let make = || MAKER.get().and_then(|make| make());
    segment().or_else(|| guard(|| uncancelled(|| uninterrupted(make))).flatten())
}
