//! Whether the collector counts: obeys the control word, asks for as
//! much as the level needs, switches itself off on a fault, counts what is dropped.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use ringscope_wire::segment::calls::layout::MAX_THREADS;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_FORMING, COMPLETION_NONE, COMPLETION_PROFILER, CONTROL_CHANNELS,
    CONTROL_COUNTERS, CONTROL_OFF, CONTROL_RAISED, CONTROL_STEPS, Communicator, DropReason, LEVEL_CHANNELS,
    LEVEL_COUNTERS, LEVEL_STEPS, MADE_BY_UNSEEN, MAX_COMMUNICATORS, SOURCE_PLUGIN, STATE_FAULT, STATE_OFF,
    STATE_ON, Segment,
};

use crate::profiler::layout::{CE_COLL, COLL, COLL_API, KERNEL_CH, P2P, P2P_API, PROXY_OP, PROXY_STEP};
use crate::segment::own::OWN;
use crate::segment::{local, places, ticks};
use crate::{cuda_events, profiler};

/// The control word that has been obeyed to the end; no control word at first.
static OBEYED: AtomicU32 = AtomicU32::new(NO_CONTROL);
/// The control word that was last heard of.
static HEARD: AtomicU32 = AtomicU32::new(NO_CONTROL);
const NO_CONTROL: u32 = u32::MAX;
/// The level that the process was started with.
static START_LEVEL: AtomicU32 = AtomicU32::new(LEVEL_COUNTERS);
/// Version of the profiler interface that the library speaks, 0 while it does not.
static VERSION: AtomicU32 = AtomicU32::new(0);
/// What the library is asked for.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// The library is still asked for more than that, for the sake of calls that were begun before.
static IS_LOWERING: AtomicBool = AtomicBool::new(false);
/// How often it has been looked whether those calls are over.
static LOOKS: AtomicU32 = AtomicU32::new(0);
/// After so many the library is asked for less all the same: some thread does not come back.
const MAX_LOOKS: u32 = 1000;

/// Calls and tasks: what every level needs.
const TASKS: u32 = bits(COLL | P2P | COLL_API | P2P_API | CE_COLL);
/// Also each channel, which tells the end of an operation.
const CHANNELS: u32 = bits(KERNEL_CH);
/// Also each network step, and so bytes per link.
const STEPS: u32 = bits(PROXY_OP | PROXY_STEP);

/// From this version on the library says for which call an event is.
const NAMES_RECORDS: u32 = 5;

/// Event types as the library's activation mask has them.
#[expect(clippy::cast_possible_truncation, reason = "the mask is an int, and there are 16 event types")]
const fn bits(kinds: u64) -> u32 {
    kinds as u32
}

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
            ask(segment, to);
        }
        if live.state.compare_exchange(from, to, AcqRel, Relaxed).is_ok() {
            live.off_since_ticks.store(if to == STATE_OFF { ticks::now() } else { 0 }, Relaxed);
        }
        ask(segment, live.state.load(Relaxed));
    }
    if lower(segment) {
        OBEYED.store(control, Relaxed);
    }
}

/// The library is asked for less once no other thread is in a call that was begun while more was asked for: the library
/// settles during the call what it tells of it. True if it is done.
fn lower(segment: &Segment) -> bool {
    if !IS_LOWERING.load(Acquire) {
        return true;
    }
    let looks = LOOKS.fetch_add(1, Relaxed);
    let is_alone = segment.live.n_threads.load(Acquire) <= 1;
    // At the first look a thread may be on its way into a call, having seen what was asked for before.
    if !is_alone && (looks == 0 || looks < MAX_LOOKS && is_another_inside(segment)) {
        return false;
    }
    if IS_LOWERING.swap(false, AcqRel) {
        profiler::set_mask(ASKED.load(Acquire));
    }
    true
}

fn is_another_inside(segment: &Segment) -> bool {
    let used = (segment.live.n_threads.load(Acquire) as usize).min(MAX_THREADS);
    let own = local::with(|local| local.thread.get()).map(std::ptr::from_ref);
    segment.calls.threads[..used].iter().any(|thread| {
        own != Some(std::ptr::from_ref(thread))
            && thread.returned_ticks.load(Acquire) < thread.entered_ticks.load(Acquire)
    })
}

/// A new segment, for a process that starts with this level.
pub(crate) fn begin(level: u32) {
    START_LEVEL.store(level, Relaxed);
    disobey();
}

/// The library has begun to speak this version of the profiler interface, or speaks it to one more communicator.
pub(crate) fn begin_profiler(segment: &Segment, version: u32) {
    VERSION.store(version, Relaxed);
    if version < NAMES_RECORDS {
        places::keep_order();
    }
    segment.live.profiler_version.store(version, Relaxed);
    disobey();
    obey(segment);
}

/// The control word is to be obeyed anew.
fn disobey() {
    HEARD.store(NO_CONTROL, Relaxed);
    OBEYED.store(NO_CONTROL, Relaxed);
}

/// Asks the library for the events that this state and the level need; for less than before only later ([`lower`]).
fn ask(segment: &Segment, state: u32) {
    let (version, live) = (VERSION.load(Relaxed), &segment.live);
    if version == 0 {
        return;
    }
    let level = match live.control.load(Relaxed) {
        CONTROL_COUNTERS => LEVEL_COUNTERS,
        CONTROL_CHANNELS => LEVEL_CHANNELS,
        CONTROL_STEPS | CONTROL_RAISED => LEVEL_STEPS,
        _ => START_LEVEL.load(Relaxed),
    };
    let asked = match state {
        STATE_ON => match level {
            LEVEL_STEPS => TASKS | CHANNELS | STEPS,
            LEVEL_CHANNELS => TASKS | CHANNELS,
            _ if is_told_by_events(segment) => TASKS,
            _ => TASKS | CHANNELS,
        },
        // Where no calls pass the collector, only events can show that it is to be on again.
        STATE_OFF if has_unseen(segment) => TASKS,
        _ => 0,
    };
    live.level.store(level, Relaxed);
    // In this order: a call of another thread that relies on the profiler from now on finds the library asked already.
    let before = ASKED.load(Acquire);
    let left = if IS_LOWERING.load(Acquire) { bits(u64::MAX) } else { before };
    profiler::set_mask(asked | before);
    ASKED.store(asked, Release);
    if left & !asked != 0 {
        LOOKS.store(0, Relaxed);
        IS_LOWERING.store(true, Release);
    }
    each(segment, note_completion);
}

/// Whether CUDA events tell the end of operations, so that the profiler need not.
fn is_told_by_events(segment: &Segment) -> bool {
    cuda_events::can_use_events(segment) && !has_unseen(segment)
}

/// Events have turned out not to work for a communicator, or the driver has been found: what to ask for may be another.
pub(crate) fn ask_again(segment: &Segment) {
    disobey();
    obey(segment);
}

fn has_unseen(segment: &Segment) -> bool {
    let mut found = false;
    each(segment, |communicator| found |= communicator.made_by.load(Relaxed) == MADE_BY_UNSEEN);
    found
}

fn each(segment: &Segment, mut f: impl FnMut(&Communicator)) {
    let used = (segment.live.n_communicators.load(Acquire) as usize).min(MAX_COMMUNICATORS);
    for communicator in &segment.communicators[..used] {
        if matches!(communicator.state.load(Acquire), COMMUNICATOR_FORMING | COMMUNICATOR_ACTIVE) {
            f(communicator);
        }
    }
}

/// Says how the end of the communicator's operations is known, if it is the profiler that tells it.
pub(crate) fn note_completion(communicator: &Communicator) {
    if communicator.sources.load(Relaxed) & SOURCE_PLUGIN == 0 {
        return;
    }
    // Versions 1 and 2 have no event for it.
    let is_told = VERSION.load(Relaxed) >= 3 && asks_for_channels();
    if is_told {
        communicator.completion.store(COMPLETION_PROFILER, Relaxed);
    } else {
        // Where events tell it from now on, the next call says so.
        let _ =
            communicator.completion.compare_exchange(COMPLETION_PROFILER, COMPLETION_NONE, AcqRel, Relaxed);
    }
}

/// Whether the library is asked to report each channel.
#[inline(always)]
pub(crate) fn asks_for_channels() -> bool {
    ASKED.load(Acquire) & CHANNELS != 0
}

/// Whether a fault has switched the collector off for good.
pub(crate) fn is_faulty(segment: &Segment) -> bool {
    segment.live.state.load(Relaxed) == STATE_FAULT
}

/// Switches the collector off for good, after a panic that was caught.
#[cold]
pub(crate) fn fault() {
    if let Some(segment) = super::segment() {
        if segment.live.state.swap(STATE_FAULT, Relaxed) == STATE_ON {
            segment.live.off_since_ticks.store(ticks::now(), Relaxed);
        }
        dropped(segment, DropReason::Panic, 1);
    }
    ASKED.store(0, Relaxed);
    IS_LOWERING.store(false, Relaxed);
    profiler::set_mask(0);
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

/// In a forked child: what the parent's library was asked for is not the child's.
pub(crate) fn forget() {
    disobey();
    VERSION.store(0, Relaxed);
    ASKED.store(0, Relaxed);
    IS_LOWERING.store(false, Relaxed);
}
