//! Completion without the profiler: a CUDA event behind the operations of a stream, and what a captured call is.
//!
//! Who closes an operation is settled when it is called and never changes, so that none is counted twice: the profiler
//! ([`crate::calls::complete`]), the events of its stream, or nobody, because it is a template in a CUDA graph.
//!
//! * [`stream_events`]: the few events of one (communicator, stream); stream order makes an event confirm every call that was made
//!   there before it was recorded
//! * [`pending_event`]: one such event with what it will confirm, handed between the caller and the thread that asks
//! * [`poll`], [`poller`] and [`ask`]: the thread that asks, and what; nobody else ever does, because the driver may hold whoever asks
//! * [`abort`] and [`ending`]: what still counts of a communicator that is aborted, or destroyed
//!
//! Which calls get an event: each call outside a group, each outermost group end once per stream. None can be left out,
//! because the last call of a burst must be confirmed, only its own thread may touch the stream (which may be gone a
//! moment later), and nobody knows that it is the last. What is sampled is the *number of events*: a call that comes
//! before the polling thread has looked again moves the stream's newest event behind itself instead of taking another. So a
//! stream needs four, progress is seen at each look, and an idle stream ends with an event behind its last call.
//!
//! A call is never followed by an event while its stream captures, nor while the library is still enqueueing it on a
//! thread of its own (`ncclInProgress`): then the event comes when `ncclCommGetAsyncError` says that it is done, or
//! with the stream's next call.
//!
//! Replays of a graph are not seen here. `cudaGraphLaunch` cannot be relied on to pass an interposer: the runtime is often
//! linked statically or reached through `cuGetProcAddress`. Where the profiler reports the runs they are counted there.

pub(crate) mod abort;
mod ask;
pub(crate) mod driver;
mod ending;
mod pending_event;
mod poll;
mod poller;
mod stream_events;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMPLETION_EVENTS, COMPLETION_NONE, DropReason, MAX_COMMUNICATORS, SOURCE_PLUGIN,
};

use crate::segment::closers::Closer;
use crate::segment::local::{Local, Sum};
use crate::segment::{communicators, segment, switch};

/// Communicators for which events have turned out not to work.
static IS_UNFIT: [AtomicBool; MAX_COMMUNICATORS] = [const { AtomicBool::new(false) }; MAX_COMMUNICATORS];
const SLOT_MASK: usize = MAX_COMMUNICATORS - 1;

/// Whether the end of the communicator's operations is told by CUDA events now: a driver is there, events work on the
/// communicator's device, and the profiler is not asked for channels.
pub(crate) fn by_events(slot: usize) -> bool {
    driver::is_ready() && segment().is_some_and(|segment| is_by_events(segment, slot))
}

fn is_by_events(segment: &Segment, slot: usize) -> bool {
    let has_profiler = communicators::at(segment, slot).sources.load(Relaxed) & SOURCE_PLUGIN != 0;
    let is_told = has_profiler && switch::asks_for_channels();
    !is_told && !IS_UNFIT[slot & SLOT_MASK].load(Relaxed)
}

/// Whether events can tell completion in this process: there is a driver, and no communicator on which they failed.
pub(crate) fn can_use_events(segment: &Segment) -> bool {
    driver::find(segment);
    driver::is_ready() && !IS_UNFIT.iter().any(|is_unfit| is_unfit.load(Relaxed))
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

/// Who will close a call on the stream, of which the profiler, where it is asked, may tell nothing (`is_untold`). Without a
/// driver that is one load.
#[inline(always)]
pub(crate) fn closer(segment: &Segment, local: &Local, slot: usize, stream: u64, is_untold: bool) -> Closer {
    if driver::is_ready() {
        closer_on_stream(segment, local, slot, stream, is_untold)
    } else {
        Closer::Profiler
    }
}

/// Whether calls on the stream are captured into a graph, as far as there is a driver to ask.
pub(crate) fn is_captured(stream: u64) -> bool {
    driver::is_ready() && driver::is_capturing(stream) == Some(true)
}

/// The stream is asked once per call, or once per group as long as its calls stay on one stream and the profiler, if it was
/// to tell, is still asked to.
#[inline(never)]
fn closer_on_stream(segment: &Segment, local: &Local, slot: usize, stream: u64, is_untold: bool) -> Closer {
    let in_group = local.group_depth.get() > 0;
    if in_group
        && !is_untold
        && let Some((known_slot, known_stream, closer)) = local.group_closer.get()
        && (known_slot, known_stream) == (slot, stream)
        && (closer != Closer::Profiler || !is_by_events(segment, slot))
    {
        return closer;
    }
    let closer = match driver::is_capturing(stream) {
        Some(true) => Closer::Nobody,
        Some(false) if is_by_events(segment, slot) => events_of(segment, local, slot, stream),
        Some(false) if is_untold => extra_events_of(segment, local, slot, stream),
        _ => Closer::Profiler,
    };
    if in_group && !is_untold {
        local.group_closer.set(Some((slot, stream, closer)));
    }
    closer
}

/// Events for what the profiler does not tell, on a communicator of which it tells all else.
fn extra_events_of(segment: &Segment, local: &Local, slot: usize, stream: u64) -> Closer {
    let communicator = communicators::at(segment, slot);
    let generation = communicator.generation.load(Relaxed);
    let events = stream_events::find(local, slot, generation, stream).or_else(|| {
        let device = communicator.device.load(Relaxed);
        stream_events::open(local, slot, generation, stream, device).ok().filter(|_| poll::start())
    });
    events.map_or(Closer::Profiler, Closer::Events)
}

fn events_of(segment: &Segment, local: &Local, slot: usize, stream: u64) -> Closer {
    let communicator = communicators::at(segment, slot);
    let generation = communicator.generation.load(Relaxed);
    if let Some(events) = stream_events::find(local, slot, generation, stream) {
        if communicator.completion.load(Relaxed) != COMPLETION_EVENTS {
            communicator.completion.store(COMPLETION_EVENTS, Relaxed);
        }
        return Closer::Events(events);
    }
    match stream_events::open(local, slot, generation, stream, communicator.device.load(Relaxed)) {
        Ok(events) if poll::start() => Closer::Events(events),
        Err(stream_events::Refusal::TableFull) => {
            lose(segment, slot, 1);
            Closer::Profiler
        }
        Ok(_) | Err(stream_events::Refusal::Driver) => {
            // Nothing will tell the end of its operations, and nobody shall believe that they hang.
            IS_UNFIT[slot & SLOT_MASK].store(true, Relaxed);
            communicator.completion.store(COMPLETION_NONE, Relaxed);
            switch::ask_again(segment);
            switch::dropped(segment, DropReason::EventPoolFull, 1);
            Closer::Profiler
        }
    }
}

/// No event tells the end of these calls of a communicator.
#[cold]
fn lose(segment: &Segment, slot: usize, calls: u64) {
    switch::dropped(segment, DropReason::EventPoolFull, calls);
    communicators::lose_events(segment, slot);
}

/// The library took one call outside a group. An event follows it if the library has enqueued it.
#[inline(never)]
pub(crate) fn follow(segment: &Segment, events: usize, sum: &Sum, is_enqueued: bool) {
    let generation = communicators::at(segment, sum.slot).generation.load(Relaxed);
    if !stream_events::add(events, generation, sum, is_enqueued) {
        lose(segment, sum.slot, sum.calls);
    }
    if !is_enqueued {
        stream_events::defer();
    }
}

/// The library took these calls of a group, all of one stream: they wait for the event at its end ([`end_group`]).
pub(crate) fn add(segment: &Segment, local: &Local, events: usize, sum: &Sum) {
    let generation = communicators::at(segment, sum.slot).generation.load(Relaxed);
    if stream_events::add(events, generation, sum, false) {
        local.note_stream_events(events);
    } else {
        lose(segment, sum.slot, sum.calls);
    }
}

/// The outermost group has ended and its records are settled: an event goes behind each stream that it used, unless the
/// library is still enqueueing.
pub(crate) fn end_group(segment: &Segment, local: &Local, is_enqueued: bool) {
    for events in local.take_stream_events() {
        if !is_enqueued {
            stream_events::defer();
        } else if !stream_events::confirm(events) {
            switch::dropped(segment, DropReason::EventPoolFull, 1);
        }
    }
}

/// The library said something of a communicator. If it `is_done` with what was in progress, events go behind that.
pub(crate) fn progressed(segment: &Segment, slot: usize, is_done: impl Fn() -> bool) {
    if driver::is_ready() {
        let n_left = stream_events::confirm_waiting(slot, is_done);
        if n_left > 0 {
            lose(segment, slot, n_left);
        }
    }
}

/// The communicator has been destroyed; false if nothing of it is left to ask for, and the caller marks its end.
pub(crate) fn end_later(slot: usize) -> bool {
    driver::is_ready() && ending::leave(slot)
}

/// The slot gets another communicator: what the last one left unconfirmed is never counted.
pub(crate) fn clear_slot(slot: usize) {
    stream_events::drop_of(slot);
    abort::forget(slot);
}

/// In a forked child: events and thread are the parent's.
pub(crate) fn forget() {
    driver::forget();
    stream_events::forget();
    poller::forget();
    ending::forget();
    (0..MAX_COMMUNICATORS).for_each(abort::forget);
}
