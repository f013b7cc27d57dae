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
/// Some record had stream events: until then [`OWNERS`] is left alone, and takes no memory.
static HAS_OWNERS: AtomicBool = AtomicBool::new(false);

fn owner(ticket: u64) -> &'static AtomicU16 {
    const MASK: u64 = MAX_RECORDS as u64 - 1;
    let index = (ticket & MASK) as usize;
    &OWNERS[index]
}

/// Says who closes the record of a ticket. Before the record is published.
#[inline(always)]
pub(crate) fn own(ticket: u64, closer: Closer) {
    let has_owners = HAS_OWNERS.load(Relaxed);
    if let Closer::Events(events) = closer {
        owner(ticket).store(u16::try_from(events + 1).unwrap_or_default(), Relaxed);
        if !has_owners {
            HAS_OWNERS.store(true, Relaxed);
        }
    } else if has_owners {
        owner(ticket).store(0, Relaxed);
    }
}

/// Whether the record of a ticket is closed by events, so that nobody else may.
#[inline(always)]
pub(crate) fn is_owned(ticket: u64) -> bool {
    owner(ticket).load(Relaxed) != 0
}

/// Whether it is closed by these stream events.
#[inline(always)]
pub(crate) fn is_owned_by(ticket: u64, events: usize) -> bool {
    usize::from(owner(ticket).load(Relaxed)) == events + 1
}

/// In a forked child: no record is followed by events.
pub(crate) fn forget() {
    if HAS_OWNERS.swap(false, Relaxed) {
        OWNERS.iter().for_each(|owner| owner.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_gets_another_owner_forgets_the_first() {
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
