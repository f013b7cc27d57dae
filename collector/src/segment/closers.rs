//! Who closes an operation. It is settled when the operation is called and never changes, so that none is counted twice.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU16};

use ringscope_wire::segment::layout::MAX_RECORDS;

/// Who closes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closer {
    /// The profiler, if anybody.
    Profiler,
    /// The CUDA events of its stream: their index in the table of stream events.
    Events(usize),
    /// Nobody: the call is captured into a graph.
    Nobody,
}

/// Stream events of each record plus one; 0 for those that no event closes. Beside the segment, because readers need it not.
static OWNERS: [AtomicU16; MAX_RECORDS] = [const { AtomicU16::new(0) }; MAX_RECORDS];
/// There is a driver that has events. Without one [`OWNERS`] is left alone, and takes no memory.
static HAS_EVENTS: AtomicBool = AtomicBool::new(false);

fn owner(ticket: u64) -> &'static AtomicU16 {
    const MASK: u64 = MAX_RECORDS as u64 - 1;
    let index = (ticket & MASK) as usize;
    &OWNERS[index]
}

/// From now on calls may be followed by events, and [`own`] is to be told of each.
pub(crate) fn begin() {
    HAS_EVENTS.store(true, Relaxed);
}

/// Whether calls may be followed by events. If not, the profiler closes all.
#[inline(always)]
pub(crate) fn has_events() -> bool {
    HAS_EVENTS.load(Relaxed)
}

/// Says who closes the record of a ticket. Before the record is published.
#[inline(always)]
pub(crate) fn own(ticket: u64, closer: Closer) {
    if has_events() {
        let owned_by = match closer {
            Closer::Events(stream_events) => u16::try_from(stream_events + 1).unwrap_or_default(),
            Closer::Profiler | Closer::Nobody => 0,
        };
        owner(ticket).store(owned_by, Relaxed);
    }
}

/// Whether the record of a ticket is closed by events, so that nobody else may.
#[inline(always)]
pub(crate) fn is_owned(ticket: u64) -> bool {
    owner(ticket).load(Relaxed) != 0
}

/// Whether it is closed by these stream events.
#[inline(always)]
pub(crate) fn is_owned_by(ticket: u64, stream_events: usize) -> bool {
    usize::from(owner(ticket).load(Relaxed)) == stream_events + 1
}

/// In a forked child: no record is followed by events.
pub(crate) fn forget() {
    if HAS_EVENTS.swap(false, Relaxed) {
        OWNERS.iter().for_each(|owner| owner.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_gets_another_owner_forgets_the_first() {
        begin();
        own(7, Closer::Profiler);
        assert!(!is_owned(7));
        own(7, Closer::Events(0));
        assert!(is_owned(7) && is_owned_by(7, 0) && !is_owned_by(7, 1) && !is_owned(8));
        own(7 + MAX_RECORDS as u64, Closer::Nobody);
        assert!(!is_owned(7), "its place is another's");
        own(7, Closer::Events(1));
        forget();
        assert!(!is_owned(7));
    }
}
