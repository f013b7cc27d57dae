//! Whether the collector counts: obeys the control word, switches itself off on a fault, counts what is dropped.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use ringscope_wire::segment::layout::{CONTROL_ON, DropReason, STATE_FAULT, STATE_OFF, STATE_ON, Segment};

use crate::fence;

/// Calls made while there was no segment; handed to the segment once there is one.
static WITHOUT_SEGMENT: AtomicU64 = AtomicU64::new(0);

/// Whether calls are to be recorded now.
#[inline(always)]
pub(crate) fn is_on(segment: &Segment) -> bool {
    let live = &segment.live;
    if live.control.load(Relaxed) == CONTROL_ON && live.state.load(Relaxed) == STATE_ON {
        return true;
    }
    obey(segment)
}

/// Brings the state in line with the control word. A fault is final.
#[cold]
fn obey(segment: &Segment) -> bool {
    let live = &segment.live;
    let want_on = live.control.load(Relaxed) == CONTROL_ON;
    let (from, to) = if want_on { (STATE_OFF, STATE_ON) } else { (STATE_ON, STATE_OFF) };
    match live.state.compare_exchange(from, to, AcqRel, Relaxed) {
        Ok(_) => {
            fence::set_profiler_mask(want_on);
            want_on
        }
        Err(state) => want_on && state == STATE_ON,
    }
}

/// Whether a fault has switched the collector off for good.
pub(crate) fn is_faulty(segment: &Segment) -> bool {
    segment.live.state.load(Relaxed) == STATE_FAULT
}

/// Switches the collector off for good, after a panic that was caught.
#[cold]
pub(crate) fn fault() {
    if let Some(segment) = fence::segment() {
        segment.live.state.store(STATE_FAULT, Relaxed);
        dropped(segment, DropReason::Panic, 1);
    }
    fence::set_profiler_mask(false);
}

/// Counts events that were dropped.
#[cold]
pub(crate) fn dropped(segment: &Segment, reason: DropReason, events: u64) {
    segment.live.dropped[reason as usize].fetch_add(events, Relaxed);
}

/// Counts a call that could not be recorded for want of a segment.
#[cold]
pub(crate) fn no_segment() {
    WITHOUT_SEGMENT.fetch_add(1, Relaxed);
}

/// Moves what was counted without a segment into the new one.
pub(crate) fn settle_without_segment(segment: &Segment) {
    let calls = WITHOUT_SEGMENT.swap(0, Relaxed);
    if calls > 0 {
        dropped(segment, DropReason::NoSegment, calls);
    }
}

/// In a forked child: what the parent lost is not the child's.
pub(crate) fn forget() {
    WITHOUT_SEGMENT.store(0, Relaxed);
}
