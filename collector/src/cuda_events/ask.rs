//! The questions of one look: which events are asked, and what becomes of their answers. On the polling thread alone.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};

use ringscope_wire::segment::Segment;

use crate::cuda_events::driver::Answer;
use crate::cuda_events::pending_event::PendingEvent;
use crate::cuda_events::{abort, driver, fit, poller, stream_events, tell};

/// Where the next look goes on.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What a look found.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) still_pending: usize,
    pub(super) completed: usize,
    /// Operations whose times were told.
    pub(super) timed: usize,
}

/// Asks the oldest event of each stream, and when it has answered the next, and counts what is confirmed: on one stream none is
/// complete before an older one. No more than `max_queries`; the next look goes on with the stream where this one ended.
pub(super) fn oldest(segment: &Segment, max_queries: usize) -> Seen {
    let from = NEXT.load(Relaxed);
    let mut seen = Seen::default();
    for index in stream_events::used()
        .filter(|index| *index >= from)
        .chain(stream_events::used().filter(|index| *index < from))
    {
        let events = stream_events::at(index);
        let n_recorded = events.pending.iter().filter(|pending| pending.recorded().is_some()).count();
        for _ in 0..n_recorded {
            let Some((pending, state)) = events.oldest_recorded() else { break };
            if seen.completed + seen.still_pending >= max_queries {
                NEXT.store(index, Relaxed);
                return seen;
            }
            if !ask(segment, index, pending, state, &mut seen.timed) {
                seen.still_pending += 1;
                events.n_stuck.fetch_add(1, Relaxed);
                break;
            }
            seen.completed += 1;
        }
    }
    NEXT.store(0, Relaxed);
    seen
}

/// Asks one event; whether that settled what it stood for.
fn ask(segment: &Segment, index: usize, pending: &PendingEvent, state: u64, timed: &mut usize) -> bool {
    let events = stream_events::at(index);
    let (event, context) = (pending.handle.load(Relaxed), events.context.load(Relaxed));
    let id = events.context_id.load(Relaxed);
    let answer = poller::unless_ending(|| driver::query(event, context, id)).unwrap_or(Answer::NotYet);
    if answer != Answer::Never {
        *timed += tell::all(segment, index);
    }
    if answer == Answer::NotYet {
        return false;
    }
    // Before anybody sees what is confirmed, and relies on it.
    events.n_stuck.store(0, Release);
    if answer == Answer::Never {
        lose(segment, index);
        return true;
    }
    let slot = events.slot();
    if slot.is_some_and(|slot| !abort::counts_now(segment, slot)) || !pending.take_answered(state) {
        return false;
    }
    // They may have been taken from their communicator just now, but get no other one before this one is free.
    if let Some(slot) = events.slot() {
        pending.credit(segment, index, slot, events.generation.load(Relaxed));
    }
    pending.leave_free();
    true
}

/// The context is gone or has failed: what the events held stays in flight, and nobody can tell. The communicator's
/// next call gets others, if there is a context.
fn lose(segment: &Segment, index: usize) {
    let events = stream_events::at(index);
    events.context_id.store(stream_events::GONE, Relaxed);
    let calls = events.pending.iter().map(PendingEvent::n_calls).sum();
    let slot = events.slot();
    if let Some(slot) = slot.filter(|slot| stream_events::take_away(index, *slot)) {
        fit::lose(segment, slot, calls);
    } else {
        // One was being filled when the communicator lost them.
        for pending in &events.pending {
            pending.give_up();
        }
    }
}
