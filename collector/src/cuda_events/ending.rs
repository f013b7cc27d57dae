//! Communicators that were destroyed and whose last events have not answered yet. The thread that destroys one does not ask
//! the driver: the polling thread does, and marks the end when all have answered.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{COMMUNICATOR_DESTROYED, MAX_COMMUNICATORS};

use crate::calls::ending;
use crate::cuda_events::{poller, stream_events};

/// Looks after which a communicator ends all the same, with what is left in flight: about a second.
const MAX_LOOKS: u32 = 100;

/// By slot, the looks that are left to it; 0 if it is not ending.
static LOOKS: [AtomicU32; MAX_COMMUNICATORS] = [const { AtomicU32::new(0) }; MAX_COMMUNICATORS];
static N_ENDING: AtomicUsize = AtomicUsize::new(0);

/// Leaves the end of a communicator that was destroyed to the polling thread; false if there is nothing to ask.
pub(crate) fn leave(slot: usize) -> bool {
    let Some(looks) = LOOKS.get(slot) else { return false };
    if !poller::can_look() || !stream_events::has_recorded(slot) {
        return false;
    }
    N_ENDING.fetch_add(1, SeqCst);
    looks.store(MAX_LOOKS, SeqCst);
    poller::hurry();
    true
}

pub(super) fn any() -> bool {
    N_ENDING.load(SeqCst) > 0
}

/// After a look, on the polling thread: ends those that have been answered; in the last look all.
pub(super) fn settle(segment: &Segment, is_last: bool) {
    if !any() {
        return;
    }
    for (slot, looks) in LOOKS.iter().enumerate() {
        let left = looks.load(SeqCst);
        if left > 1 && !is_last && stream_events::has_recorded(slot) {
            looks.store(left - 1, SeqCst);
        } else if left > 0 {
            stream_events::drop_of(slot);
            looks.store(0, SeqCst);
            N_ENDING.fetch_sub(1, SeqCst);
            ending::end(segment, slot, COMMUNICATOR_DESTROYED);
        }
    }
}

/// In a forked child: the parent's.
pub(super) fn forget() {
    LOOKS.iter().for_each(|looks| looks.store(0, SeqCst));
    N_ENDING.store(0, SeqCst);
}
