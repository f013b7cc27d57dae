//! What still counts of a communicator that is being aborted. The thread that aborts asks the driver nothing and waits for
//! nobody: behind a hung kernel the driver may hold whoever asks until the abort has reached the library. So it only says
//! when it came, and the polling thread looks at once. What has ended by then counts; all else is given up when the library
//! returns, for behind a kernel that was thrown out events complete too.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::MAX_COMMUNICATORS;

use crate::cuda_events::{poller, stream_events};
use crate::segment::table::SLOT_MASK;
use crate::segment::ticks;

/// An event that is complete so soon after the abort came was complete before: a kernel looks for an abort after 10 000
/// looks at what it waits for (`NCCL_SPINS_BEFORE_CHECK_ABORT` in src/device/primitives.h), which take milliseconds.
const GRACE_NS: u64 = 500_000;

/// By slot, the ticks at which its abort came; 0 without one.
static CAME: [AtomicU64; MAX_COMMUNICATORS] = [const { AtomicU64::new(0) }; MAX_COMMUNICATORS];

/// The communicator is about to be aborted or revoked.
pub(crate) fn begin(slot: usize) {
    CAME[slot & SLOT_MASK].store(ticks::now().max(1), SeqCst);
    if stream_events::has_recorded(slot) {
        poller::hurry();
    }
}

/// The library has refused to.
pub(crate) fn refused(slot: usize) {
    CAME[slot & SLOT_MASK].store(0, SeqCst);
}

/// The library has done it: what no look has seen complete is given up.
pub(crate) fn done(slot: usize) {
    stream_events::drop_of(slot);
}

/// Whether the communicator is being aborted, or was.
pub(super) fn has_come(slot: usize) -> bool {
    CAME[slot & SLOT_MASK].load(SeqCst) != 0
}

/// Whether an event of the slot's that is complete now confirms anything.
pub(super) fn counts_now(segment: &Segment, slot: usize) -> bool {
    let came = CAME[slot & SLOT_MASK].load(SeqCst);
    came == 0 || ticks::now().saturating_sub(came) < ticks::of_duration(&segment.fixed, GRACE_NS)
}

/// The slot gets another communicator, or this is a forked child.
pub(super) fn forget(slot: usize) {
    CAME[slot & SLOT_MASK].store(0, SeqCst);
}
