//! The end of a communicator: what was called on it, and nobody tells the end of, ends with it.

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::COMMUNICATOR_DESTROYED;

use crate::calls::{complete, order};
use crate::segment::communicators;

/// The communicator has ended, and all its events have come. A destroy has waited for what was called; where the
/// communicator was revoked before, that was given up.
pub(crate) fn end(segment: &Segment, slot: usize, state: u32) {
    if state == COMMUNICATOR_DESTROYED && !communicators::is_aborted(segment, slot) {
        order::ended(segment, slot, complete::close);
    }
    communicators::end(segment, slot, state);
}
