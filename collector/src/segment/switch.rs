//! Whether the collector counts: obeys the control word, switches itself off on a fault, counts what is dropped. What the
//! library is asked for then the profiler's layer knows, which is told.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use ringscope_wire::segment::layout::{CONTROL_OFF, DropReason, STATE_FAULT, STATE_OFF, STATE_ON, Segment};

use crate::segment::map::segment;
use crate::segment::own::OWN;
use crate::segment::ticks;

/// Who asks the library for what it is to tell.
pub(crate) struct Asker {
    /// Asks for what this state and the level need: for more at once, for less only with `settle`.
    pub(crate) ask: fn(&Segment, u32),
    /// True once the library is asked for no more than that.
    pub(crate) settle: fn(&Segment) -> bool,
    /// Asks for nothing, for good.
    pub(crate) stop: fn(),
}

static ASKER: OnceLock<Asker> = OnceLock::new();

/// Leaves who asks the library, once.
pub(crate) fn set_asker(asker: Asker) {
    let _ = ASKER.set(asker);
}

/// The control word that has been obeyed to the end; no control word at first.
static OBEYED: AtomicU32 = AtomicU32::new(NO_CONTROL);
/// The control word that was last heard of.
static HEARD: AtomicU32 = AtomicU32::new(NO_CONTROL);
const NO_CONTROL: u32 = u32::MAX;
/// Whether calls are to be recorded now.
#[inline(always)]
pub(crate) fn is_on(segment: &Segment) -> bool {
    let live = &segment.live;
    if live.control.load(Relaxed) != OBEYED.load(Relaxed) {
        obey(segment);
    }
    live.state.load(Relaxed) == STATE_ON
}

/// Brings state and level in line with the control word. A fault is final. Calls come here again until the library is
/// asked for no more than that.
#[cold]
fn obey(segment: &Segment) {
    let live = &segment.live;
    let control = live.control.load(Relaxed);
    if HEARD.swap(control, AcqRel) != control {
        let (from, to) = if control == CONTROL_OFF { (STATE_ON, STATE_OFF) } else { (STATE_OFF, STATE_ON) };
        // Switched on, no call may be recorded before the library is asked to tell of it.
        if to == STATE_ON && live.state.load(Relaxed) == from {
            tell(segment, to);
        }
        if live.state.compare_exchange(from, to, AcqRel, Relaxed).is_ok() {
            live.off_since_ticks.store(if to == STATE_OFF { ticks::now() } else { 0 }, Relaxed);
        }
        tell(segment, live.state.load(Relaxed));
    }
    if ASKER.get().is_none_or(|asker| (asker.settle)(segment)) {
        OBEYED.store(control, Relaxed);
    }
}

fn tell(segment: &Segment, state: u32) {
    if let Some(asker) = ASKER.get() {
        (asker.ask)(segment, state);
    }
}

/// Brings all in line with the control word once more: what to ask the library for may be another.
pub(crate) fn obey_anew(segment: &Segment) {
    disobey();
    obey(segment);
}

/// The control word is to be obeyed anew: this is a new segment, or a forked child.
pub(crate) fn disobey() {
    HEARD.store(NO_CONTROL, Relaxed);
    OBEYED.store(NO_CONTROL, Relaxed);
}

/// Whether a fault has switched the collector off for good.
pub(crate) fn is_faulty(segment: &Segment) -> bool {
    segment.live.state.load(Relaxed) == STATE_FAULT
}

/// Switches the collector off for good, after a panic that was caught.
#[cold]
pub(crate) fn fault() {
    if let Some(segment) = segment() {
        if segment.live.state.swap(STATE_FAULT, Relaxed) == STATE_ON {
            segment.live.off_since_ticks.store(ticks::now(), Relaxed);
        }
        dropped(segment, DropReason::Panic, 1);
    }
    if let Some(asker) = ASKER.get() {
        (asker.stop)();
    }
}

/// Counts events that were dropped.
#[cold]
pub(crate) fn dropped(segment: &Segment, reason: DropReason, events: u64) {
    segment.live.dropped[reason as usize].fetch_add(events, Relaxed);
}

/// Counts a call that could not be recorded for want of a segment.
#[cold]
pub(crate) fn no_segment() {
    OWN.without_segment.fetch_add(1, Relaxed);
}

/// Moves what was counted without a segment into the new one.
pub(crate) fn settle_without_segment(segment: &Segment) {
    let calls = OWN.without_segment.swap(0, Relaxed);
    if calls > 0 {
        dropped(segment, DropReason::NoSegment, calls);
    }
}
