//! Communicators that were destroyed and whose last events have not answered yet. The thread that destroys one does not ask
//! the driver: the polling thread does, and marks the end when all have answered.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{COMMUNICATOR_DESTROYED, MAX_COMMUNICATORS};

use crate::calls::ending;
use crate::cuda_events::{poller, stream_events};
use crate::segment::ticks;

/// After so long a communicator ends all the same, with what is left in flight: what was called before the destroy has mostly
/// ended by then, and its place is wanted.
const LONGEST_NS: u64 = 2_000_000_000;

/// By slot, the ticks at which it was destroyed; 0 if it is not ending.
static SINCE: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];
static N_ENDING: AtomicUsize = AtomicUsize::new(0);

/// Leaves the end of a communicator that was destroyed to the polling thread; false if there is nothing to ask.
pub(crate) fn leave(slot: usize) -> bool {
    let Some(since) = SINCE.get(slot) else { return false };
    if !poller::can_look() || !stream_events::has_recorded(slot) {
        return false;
    }
    N_ENDING.fetch_add(1, SeqCst);
    since.store(ticks::now().max(1), SeqCst);
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
    let longest = ticks::of_duration(&segment.fixed, LONGEST_NS);
    for (slot, since) in SINCE.iter().enumerate() {
        let is_late = match since.load(SeqCst) {
            0 => continue,
            since => ticks::now().saturating_sub(since) >= longest,
        };
        if is_late || is_last || !stream_events::has_recorded(slot) {
            stream_events::drop_of(slot);
            since.store(0, SeqCst);
            N_ENDING.fetch_sub(1, SeqCst);
            ending::end(segment, slot, COMMUNICATOR_DESTROYED);
        }
    }
}

/// In a forked child: the parent's.
pub(super) fn forget() {
    SINCE.iter().for_each(|since| since.store(0, SeqCst));
    N_ENDING.store(0, SeqCst);
}
