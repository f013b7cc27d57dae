//! Calls are followed by events: which, and when. [`CudaEvents`] is what the layer of calls knows of it.

use std::sync::atomic::Ordering::Relaxed;

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{COMPLETION_EVENTS, DropReason, MAX_COMMUNICATORS};

use crate::calls::follower::{End, Follower};
use crate::cuda_events::fit::{is_by_events, lose};
use crate::cuda_events::{abort, driver, ending, fit, poll, poller, stream_events, times};
use crate::segment::closers::Closer;
use crate::segment::local::{Local, Sum};
use crate::segment::{communicators, switch};

/// Follows calls by CUDA events, if there is a driver.
pub(crate) struct CudaEvents;

impl Follower for CudaEvents {
    /// The stream is asked once per call, or once per group as long as its calls stay on one stream and the profiler, if it was
    /// to tell, is still asked to.
    #[inline(never)]
    fn closer(segment: &Segment, local: &Local, slot: usize, stream: u64, is_untold: bool) -> Closer {
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

    fn is_captured(stream: u64) -> bool {
        driver::is_ready() && driver::is_capturing(stream) == Some(true)
    }

    #[inline(always)]
    fn is_timed() -> bool {
        times::is_wanted()
    }

    #[inline(never)]
    fn begin(segment: &Segment, stream_events: usize, ticket: u64, called_ticks: u64, group: u64) -> bool {
        times::open(segment, stream_events::place(stream_events), ticket, called_ticks, group)
    }

    #[inline(never)]
    fn follow(segment: &Segment, stream_events: usize, sum: &Sum, is_enqueued: bool) {
        let generation = communicators::at(segment, sum.slot).generation.load(Relaxed);
        if is_enqueued {
            times::close(segment, stream_events::place(stream_events));
        } else {
            times::abandon(stream_events);
        }
        if !stream_events::add(stream_events, generation, sum, is_enqueued) {
            lose_unless_aborted(segment, sum.slot, sum.calls);
        }
        stream_events::leave(stream_events, sum.slot);
        if !is_enqueued {
            stream_events::defer();
        }
    }

    fn let_go(stream_events: usize, slot: usize) {
        times::abandon(stream_events);
        stream_events::leave(stream_events, slot);
    }

    fn add(segment: &Segment, stream_events: usize, sum: &Sum) {
        let generation = communicators::at(segment, sum.slot).generation.load(Relaxed);
        if !stream_events::add_to_group(stream_events, generation, sum) {
            lose_unless_aborted(segment, sum.slot, sum.calls);
        }
    }

    fn launch(segment: &Segment, group: u64) {
        if times::is_used() {
            for (events, _) in stream_events::of_group(group) {
                times::launch(segment, stream_events::place(events), group);
            }
        }
    }

    fn end_group(segment: &Segment, group: u64, end: End) {
        for (events, has_waiting) in stream_events::of_group(group) {
            match end {
                End::Enqueued => times::close(segment, stream_events::place(events)),
                End::Enqueueing | End::Never => times::abandon(events),
            }
            let slot = stream_events::at(events).slot();
            match end {
                _ if !has_waiting => {}
                End::Enqueued if stream_events::confirm(events) => {}
                End::Enqueued => switch::dropped(segment, DropReason::EventPoolFull, 1),
                End::Enqueueing => stream_events::defer(),
                End::Never => {
                    // Counted as issued before that was known.
                    let calls = stream_events::drop_waiting(events);
                    if let Some(slot) = slot.filter(|_| calls > 0) {
                        lose(segment, slot, calls);
                    }
                }
            }
            if let Some(slot) = slot {
                stream_events::leave(events, slot);
            }
        }
    }
}

/// What an abort leaves without an event is given up with all else that is in flight.
#[cold]
fn lose_unless_aborted(segment: &Segment, slot: usize, calls: u64) {
    if !abort::has_come(slot) {
        lose(segment, slot, calls);
    }
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
    let by = |events| {
        if communicator.completion.load(Relaxed) != COMPLETION_EVENTS {
            communicator.completion.store(COMPLETION_EVENTS, Relaxed);
        }
        Closer::Events(events)
    };
    if let Some(events) = stream_events::find(local, slot, generation, stream) {
        return by(events);
    }
    match stream_events::open(local, slot, generation, stream, communicator.device.load(Relaxed)) {
        Ok(events) if poll::start() => by(events),
        Err(stream_events::Refusal::TableFull) => {
            lose(segment, slot, 1);
            Closer::Profiler
        }
        Ok(_) | Err(stream_events::Refusal::Driver) => {
            fit::give_up(segment, slot);
            Closer::Profiler
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
    fit::forget(slot);
}

/// In a forked child: events and thread are the parent's.
pub(crate) fn forget() {
    driver::forget();
    stream_events::forget();
    poller::forget();
    ending::forget();
    (0..MAX_COMMUNICATORS).for_each(abort::forget);
    (0..MAX_COMMUNICATORS).for_each(fit::forget);
}
