//! What the library is asked to tell: as much as the state and the level need. More at once, less only when no call relies on
//! the rest any more.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use ringscope_wire::segment::calls::layout::Thread;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_FORMING, COMPLETION_NONE, COMPLETION_PROFILER, CONTROL_CHANNELS,
    CONTROL_COUNTERS, CONTROL_EVENTS, CONTROL_RAISED, CONTROL_STEPS, Communicator, LEVEL_CHANNELS,
    LEVEL_COUNTERS, LEVEL_EVENTS, LEVEL_STEPS, LOST_PROFILER_EVENT, MADE_BY_UNSEEN, MAX_COMMUNICATORS,
    SOURCE_PLUGIN, STATE_OFF, STATE_ON, Segment,
};

use crate::cuda_events::{driver, fit, times};
use crate::profiler::layout::{CE_COLL, COLL, COLL_API, KERNEL_CH, P2P, P2P_API, PROXY_OP, PROXY_STEP};
use crate::profiler::masks;
use crate::segment::switch::Asker;
use crate::segment::table::{SLOT_MASK, at};
use crate::segment::{communicators, local, places, switch, table, threads};

/// The level that the process was started with.
static START_LEVEL: AtomicU32 = AtomicU32::new(LEVEL_COUNTERS);
/// Version of the profiler interface that the library speaks, 0 while it does not.
static VERSION: AtomicU32 = AtomicU32::new(0);
/// The version, and whether there is a driver, at the last init: [`begun`].
static BEGUN: AtomicU32 = AtomicU32::new(0);
/// What the library is asked for.
static ASKED: AtomicU32 = AtomicU32::new(0);
/// The library is still asked for more than that, for the sake of calls that were begun before.
static IS_LOWERING: AtomicBool = AtomicBool::new(false);
/// How often it has been looked whether those calls are over.
static LOOKS: AtomicU32 = AtomicU32::new(0);
/// After so many the library is asked for less all the same: some thread does not come back.
const MAX_LOOKS: u32 = 1000;
/// By slot: calls pass the collector by, although the communicator was made through it.
static IS_PASSED_BY: [AtomicBool; MAX_COMMUNICATORS] = [const { AtomicBool::new(false) }; MAX_COMMUNICATORS];

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

/// What the switch knows of this.
pub(crate) const ASKER: Asker = Asker { ask, settle, stop };

/// A new segment, for a process that starts with this level.
pub(crate) fn begin(level: u32) {
    START_LEVEL.store(level, Relaxed);
    BEGUN.store(0, Release);
}

/// The library has begun to speak this version of the profiler interface, or speaks it to one more communicator, that of the
/// slot as far as it is known.
pub(super) fn begin_version(segment: &Segment, version: u32, slot: Option<usize>) {
    VERSION.store(version, Relaxed);
    if version < NAMES_RECORDS {
        places::keep_order();
    }
    segment.live.profiler_version.store(version, Relaxed);
    let begun = begun(version);
    let is_like_last = BEGUN.swap(begun, AcqRel) == begun;
    // Another communicator changes nothing of what is asked for, unless it was made unseen: with thousands of them it would take
    // long to look at all at each init.
    if is_like_last && slot.is_none_or(|slot| !is_unseen(segment, slot)) {
        masks::ask();
    } else {
        switch::obey_anew(segment);
    }
}

/// Never 0.
fn begun(version: u32) -> u32 {
    version << 2 | u32::from(driver::is_ready()) << 1 | 1
}

/// Asks the library for the events that this state and the level need; for less than before only later ([`settle`]).
fn ask(segment: &Segment, state: u32) {
    let (version, live) = (VERSION.load(Relaxed), &segment.live);
    let level = match live.control.load(Relaxed) {
        CONTROL_COUNTERS => LEVEL_COUNTERS,
        CONTROL_CHANNELS => LEVEL_CHANNELS,
        CONTROL_STEPS | CONTROL_RAISED => LEVEL_STEPS,
        CONTROL_EVENTS => LEVEL_EVENTS,
        _ => START_LEVEL.load(Relaxed),
    };
    let wants_times = state == STATE_ON && level == LEVEL_EVENTS;
    times::want(wants_times);
    if version == 0 {
        // The one level that needs no profiler.
        live.level.store(if wants_times { LEVEL_EVENTS } else { 0 }, Relaxed);
        return;
    }
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
    masks::ask_for(asked | before);
    ASKED.store(asked, Release);
    fit::set_profiler_tells(asked & CHANNELS != 0);
    if left & !asked != 0 {
        LOOKS.store(0, Relaxed);
        IS_LOWERING.store(true, Release);
    }
    living(segment).for_each(|slot| note_completion(at(segment, slot)));
}

/// Whether CUDA events tell the end of operations, so that the profiler need not.
fn is_told_by_events(segment: &Segment) -> bool {
    fit::can_use_events(segment) && !has_unseen(segment)
}

/// The library is asked for less once no other thread is in a call that was begun while more was asked for: the library
/// settles during the call what it tells of it. True if it is done.
fn settle(segment: &Segment) -> bool {
    if !IS_LOWERING.load(Acquire) {
        return true;
    }
    let looks = LOOKS.fetch_add(1, Relaxed);
    let own = local::with(|local| local.thread.get()).map(std::ptr::from_ref);
    // A thread that makes no calls has no entry, so that the only one may be another's.
    let n_threads = segment.live.n_threads.load(Acquire);
    let is_alone = n_threads == 0 || n_threads == 1 && own.is_some();
    // At the first look a thread may be on its way into a call, having seen what was asked for before.
    if !is_alone && (looks == 0 || looks < MAX_LOOKS && is_another_inside(segment, own)) {
        return false;
    }
    if IS_LOWERING.swap(false, AcqRel) {
        masks::ask_for(ASKED.load(Acquire));
    }
    true
}

fn is_another_inside(segment: &Segment, own: Option<*const Thread>) -> bool {
    threads::used(segment).any(|thread| {
        own != Some(std::ptr::from_ref(thread))
            && thread.returned_ticks.load(Acquire) < thread.entered_ticks.load(Acquire)
    })
}

/// For good.
fn stop() {
    forget_asked();
    masks::ask_for(0);
}

fn forget_asked() {
    ASKED.store(0, Relaxed);
    fit::set_profiler_tells(false);
    IS_LOWERING.store(false, Relaxed);
}

/// Whether a call without a record, of which the profiler tells, is to get one. If not it has come through the collector, which
/// had a reason. Else it has passed by: on a communicator that was made through the collector more of them may.
pub(super) fn is_unrecorded(segment: &Segment, slot: usize) -> bool {
    let communicator = at(segment, slot);
    if communicator.made_by.load(Relaxed) == MADE_BY_UNSEEN {
        return true;
    }
    if local::with(local::Local::is_inside) && communicator.pointer.load(Relaxed) != 0 {
        return false;
    }
    pass_by(segment, slot);
    true
}

/// From now on the profiler tells of the communicator's calls. The end of this one is lost where it was not asked to before.
#[cold]
fn pass_by(segment: &Segment, slot: usize) {
    if at(segment, slot).completion.load(Relaxed) != COMPLETION_PROFILER {
        communicators::lose(segment, slot, LOST_PROFILER_EVENT);
    }
    if !IS_PASSED_BY[slot & SLOT_MASK].swap(true, Relaxed) {
        switch::obey_anew(segment);
    }
}

/// The communicator has ended. If the profiler had to tell of its calls, it has to no more.
pub(super) fn ended(segment: &Segment, slot: usize) {
    if is_unseen(segment, slot) {
        forget_slot(slot);
        switch::obey_anew(segment);
    }
}

/// The slot gets another communicator, or this is a forked child.
pub(crate) fn forget_slot(slot: usize) {
    let is_passed_by = &IS_PASSED_BY[slot & SLOT_MASK];
    // A child takes no page of its parent's that it need not change.
    if is_passed_by.load(Relaxed) {
        is_passed_by.store(false, Relaxed);
    }
}

/// Whether the profiler alone can tell of calls on the communicator.
fn is_unseen(segment: &Segment, slot: usize) -> bool {
    at(segment, slot).made_by.load(Relaxed) == MADE_BY_UNSEEN || IS_PASSED_BY[slot & SLOT_MASK].load(Relaxed)
}

fn has_unseen(segment: &Segment) -> bool {
    living(segment).any(|slot| is_unseen(segment, slot))
}

/// The slots whose communicators are being made or there.
fn living(segment: &Segment) -> impl Iterator<Item = usize> {
    let state = |slot: usize| at(segment, slot).state.load(Acquire);
    (0..table::n_used(segment))
        .filter(move |slot| matches!(state(*slot), COMMUNICATOR_FORMING | COMMUNICATOR_ACTIVE))
}

/// Says how the end of the communicator's operations is known, if it is the profiler that tells it.
pub(crate) fn note_completion(communicator: &Communicator) {
    if communicator.sources.load(Relaxed) & SOURCE_PLUGIN == 0 {
        return;
    }
    // Versions 1 and 2 have no event for it.
    let is_told = VERSION.load(Relaxed) >= 3 && fit::profiler_tells();
    if is_told {
        communicator.completion.store(COMPLETION_PROFILER, Relaxed);
    } else {
        // Where events tell it from now on, the next call says so.
        let _ =
            communicator.completion.compare_exchange(COMPLETION_PROFILER, COMPLETION_NONE, AcqRel, Relaxed);
    }
}

/// In a forked child: what the parent's library was asked for is not the child's.
pub(crate) fn forget() {
    VERSION.store(0, Relaxed);
    BEGUN.store(0, Relaxed);
    forget_asked();
    (0..MAX_COMMUNICATORS).for_each(forget_slot);
}
