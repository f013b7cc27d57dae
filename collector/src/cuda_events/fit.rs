//! Where events work: in a process with a driver, on communicators for which they have not failed. And what is lost where they
//! do not.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, COMMUNICATOR_FORMING, COMPLETION_EVENTS, COMPLETION_NONE, DropReason,
    MAX_COMMUNICATORS, SOURCE_PLUGIN,
};

use crate::cuda_events::driver;
use crate::segment::table::SLOT_MASK;
use crate::segment::{communicators, segment, switch};

/// Communicators for which events have turned out not to work.
static IS_UNFIT: [AtomicBool; MAX_COMMUNICATORS] = [const { AtomicBool::new(false) }; MAX_COMMUNICATORS];

/// The library is asked to report each channel, and so tells the end of operations itself.
static PROFILER_TELLS: AtomicBool = AtomicBool::new(false);

/// The profiler's layer has asked the library for each channel, or no longer.
pub(crate) fn set_profiler_tells(tells: bool) {
    PROFILER_TELLS.store(tells, Release);
}

/// Whether the library is asked to report each channel.
#[inline(always)]
pub(crate) fn profiler_tells() -> bool {
    PROFILER_TELLS.load(Acquire)
}

/// Whether the end of the communicator's operations is told by CUDA events now: a driver is there, events work on the
/// communicator's device, and the profiler is not asked for channels.
fn by_events(slot: usize) -> bool {
    driver::is_ready() && segment().is_some_and(|segment| is_by_events(segment, slot))
}

pub(super) fn is_by_events(segment: &Segment, slot: usize) -> bool {
    let has_profiler = communicators::at(segment, slot).sources.load(Relaxed) & SOURCE_PLUGIN != 0;
    let is_told = has_profiler && profiler_tells();
    !is_told && !IS_UNFIT[slot & SLOT_MASK].load(Relaxed)
}

/// Whether events can tell completion in this process: there is a driver, and no living communicator on which they failed.
pub(crate) fn can_use_events(segment: &Segment) -> bool {
    driver::find(segment);
    let lives = |slot| {
        let state = communicators::at(segment, slot).state.load(Acquire);
        matches!(state, COMMUNICATOR_FORMING | COMMUNICATOR_ACTIVE)
    };
    let mut slots = (0..MAX_COMMUNICATORS).filter(|slot| IS_UNFIT[*slot].load(Relaxed));
    driver::is_ready() && !slots.any(lives)
}

/// The communicator has ended. If events did not work for it, the others need not pay for that any longer.
pub(crate) fn ended(segment: &Segment, slot: usize) {
    if IS_UNFIT[slot & SLOT_MASK].swap(false, Relaxed) {
        switch::obey_anew(segment);
    }
}

/// The slot gets another communicator, or this is a forked child.
pub(super) fn forget(slot: usize) {
    let is_unfit = &IS_UNFIT[slot & SLOT_MASK];
    // A child takes no page of its parent's that it need not change.
    if is_unfit.load(Relaxed) {
        is_unfit.store(false, Relaxed);
    }
}

/// The communicator of the slot is new: finds the driver, and asks it what the device can do.
pub(crate) fn begin_communicator(segment: &Segment, slot: usize) {
    driver::find(segment);
    IS_UNFIT[slot & SLOT_MASK].store(false, Relaxed);
    let communicator = communicators::at(segment, slot);
    let device = communicator.device.load(Relaxed);
    if !driver::is_ready() {
        return;
    }
    if device >= 0 {
        communicator.compute_capability.store(driver::compute_capability(device), Relaxed);
    }
    if by_events(slot) {
        communicator.completion.store(COMPLETION_EVENTS, Relaxed);
    }
}

/// They do not work for the communicator: nothing will tell the end of its operations, and nobody shall believe that they
/// hang.
#[cold]
pub(super) fn give_up(segment: &Segment, slot: usize) {
    IS_UNFIT[slot & SLOT_MASK].store(true, Relaxed);
    communicators::at(segment, slot).completion.store(COMPLETION_NONE, Relaxed);
    switch::obey_anew(segment);
    switch::dropped(segment, DropReason::EventPoolFull, 1);
}

/// No event tells the end of these calls of a communicator.
#[cold]
pub(super) fn lose(segment: &Segment, slot: usize, calls: u64) {
    switch::dropped(segment, DropReason::EventPoolFull, calls);
    communicators::lose_events(segment, slot);
}
