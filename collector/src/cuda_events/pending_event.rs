//! One event and what it confirms. It is filled by a caller and read by the polling thread, never both at once:
//! its state says whose it is, and carries a version, so that an event which was moved between the question and the
//! answer confirms nothing.

use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, MAX_PRIMITIVES, MAX_RECORDS, OPERATION_COMPLETED, OPERATION_ISSUED, Record,
    START_KNOWN,
};

use crate::segment::local::Sum;
use crate::segment::{closers, communicators, records, ticks};

/// Holds nothing.
const FREE: u64 = 0;
/// A caller is changing it.
const FILLING: u64 = 1;
/// Holds calls that no event follows yet.
const WAITING: u64 = 2;
/// Its event is recorded behind its calls.
const RECORDED: u64 = 3;
/// Holds calls that no event follows, for it was refused: their stream may be gone by now, and only the next call that is
/// made on it shows that it is not.
const LEFT: u64 = 5;
/// Its calls are being counted as completed.
const CREDITING: u64 = 4;
const KIND_MASK: u64 = 7;
/// Times that an abort looks whether the polling thread is done counting, which calls nobody: at most some 50 us.
const MAX_SPINS: u32 = 2_000;
/// The version counts in the bits above the kind.
const VERSION_ONE: u64 = 8;

/// What the calls of one primitive come to.
struct Share {
    calls: AtomicU64,
    bytes: AtomicU64,
    issued_ticks: AtomicU64,
}

#[expect(clippy::declare_interior_mutable_const, reason = "the initial value of each element")]
const NO_SHARE: Share =
    Share { calls: AtomicU64::new(0), bytes: AtomicU64::new(0), issued_ticks: AtomicU64::new(0) };

/// What a pending event was before it was taken.
pub(super) enum Taken {
    Free,
    Waiting,
    Left,
    Recorded,
}

/// An event and what it confirms.
pub(super) struct PendingEvent {
    state: AtomicU64,
    /// `CUevent`; 0 while it has none.
    pub(super) handle: AtomicU64,
    /// The look of the polling thread during which it got its first call.
    look: AtomicU32,
    /// Which of the events recorded on its stream this is.
    pub(super) position: AtomicU32,
    /// Its records have tickets from here ...
    first_ticket: AtomicU64,
    /// ... to before here. Where several threads call, others' lie between them: those called after its last one.
    end_ticket: AtomicU64,
    /// Ticks of the call that came last.
    last_ticks: AtomicU64,
    shares: [Share; MAX_PRIMITIVES],
}

impl PendingEvent {
    pub(super) const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            handle: AtomicU64::new(0),
            look: AtomicU32::new(0),
            position: AtomicU32::new(0),
            first_ticket: AtomicU64::new(0),
            end_ticket: AtomicU64::new(0),
            last_ticks: AtomicU64::new(0),
            shares: [const { NO_SHARE }; MAX_PRIMITIVES],
        }
    }

    fn kind(&self) -> u64 {
        self.state.load(Acquire) & KIND_MASK
    }

    fn take(&self, from: u64, to: u64) -> bool {
        let state = self.state.load(Acquire);
        let taken = (state & !KIND_MASK).wrapping_add(VERSION_ONE) | to;
        state & KIND_MASK == from && self.state.compare_exchange(state, taken, SeqCst, Relaxed).is_ok()
    }

    /// Gives one that is ours to the next.
    fn hand_on(&self, kind: u64) {
        let state = self.state.load(Relaxed);
        self.state.swap((state & !KIND_MASK).wrapping_add(VERSION_ONE) | kind, SeqCst);
    }

    pub(super) fn is_free(&self) -> bool {
        self.state.load(SeqCst) & KIND_MASK == FREE
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.kind() == WAITING
    }

    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self.kind(), RECORDED | CREDITING)
    }

    /// Takes it to record its event behind calls that the library has just enqueued.
    pub(super) fn take_waiting(&self) -> bool {
        self.take(WAITING, FILLING)
    }

    /// Takes it to add to what is without an event, for a call on the stream.
    pub(super) fn take_without_event(&self) -> Option<Taken> {
        if self.take(WAITING, FILLING) {
            return Some(Taken::Waiting);
        }
        self.take(LEFT, FILLING).then_some(Taken::Left)
    }

    /// Ours no more, and as it was.
    pub(super) fn give_back(&self, taken: Taken) {
        match taken {
            Taken::Free => self.leave_free(),
            Taken::Waiting => self.leave_waiting(),
            Taken::Left => self.leave_left(),
            Taken::Recorded => self.leave_recorded(),
        }
    }

    /// Takes it to move its event further on. Not `if_old`: only if it was begun during this look.
    pub(super) fn take_recorded(&self, look: u32, if_old: bool) -> bool {
        (if_old || self.look.load(Relaxed) == look) && self.take(RECORDED, FILLING)
    }

    /// Takes it empty.
    pub(super) fn take_free(&self, look: u32) -> bool {
        if self.handle.load(Relaxed) == 0 || !self.take(FREE, FILLING) {
            return false;
        }
        self.look.store(look, Relaxed);
        self.first_ticket.store(u64::MAX, Relaxed);
        self.end_ticket.store(0, Relaxed);
        self.last_ticks.store(0, Relaxed);
        true
    }

    /// Adds calls to one that is ours.
    pub(super) fn add(&self, sum: &Sum) {
        let share = &self.shares[sum.primitive & (MAX_PRIMITIVES - 1)];
        add(&share.calls, sum.calls);
        add(&share.bytes, sum.bytes);
        add(&share.issued_ticks, sum.issued_ticks);
        self.first_ticket.store(self.first_ticket.load(Relaxed).min(sum.first_ticket), Relaxed);
        self.end_ticket.store(self.end_ticket.load(Relaxed).max(sum.end_ticket), Relaxed);
        self.last_ticks.store(self.last_ticks.load(Relaxed).max(sum.last_ticks), Relaxed);
    }

    /// Ours no more: its calls wait for an event.
    pub(super) fn leave_waiting(&self) {
        self.hand_on(WAITING);
    }

    /// Ours no more: its calls have no event, and wait for the next call on their stream.
    pub(super) fn leave_left(&self) {
        self.hand_on(LEFT);
    }

    /// Ours no more: its event is behind its calls.
    pub(super) fn leave_recorded(&self) {
        self.hand_on(RECORDED);
    }

    /// Ours no more, and empty.
    pub(super) fn leave_free(&self) {
        for share in &self.shares {
            if share.calls.swap(0, Relaxed) > 0 {
                share.bytes.store(0, Relaxed);
                share.issued_ticks.store(0, Relaxed);
            }
        }
        self.hand_on(FREE);
    }

    /// The state to name in [`PendingEvent::take_answered`], if its event can be asked.
    pub(super) fn recorded(&self) -> Option<u64> {
        let state = self.state.load(SeqCst);
        (state & KIND_MASK == RECORDED).then_some(state)
    }

    /// Takes it after its event has answered, if it has not been moved since.
    pub(super) fn take_answered(&self, state: u64) -> bool {
        self.state.compare_exchange(state, state & !KIND_MASK | CREDITING, AcqRel, Relaxed).is_ok()
    }

    /// Empties it whatever it holds, unless a caller is filling it: that one may sit in the driver for as long as a kernel
    /// hangs, and finds that its stream's events have no owner afterwards. What is just being counted is counted to its end, which takes some
    /// microseconds, within limits.
    pub(super) fn give_up(&self) -> bool {
        for _ in 0..MAX_SPINS {
            match self.kind() {
                FREE => return true,
                kind @ (WAITING | LEFT | RECORDED) if self.take(kind, CREDITING) => {
                    self.leave_free();
                    return true;
                }
                FILLING => return false,
                _ => std::hint::spin_loop(),
            }
        }
        false
    }

    /// Calls that it holds.
    pub(super) fn n_calls(&self) -> u64 {
        self.shares.iter().map(|share| share.calls.load(Relaxed)).sum()
    }

    /// Counts what it holds as completed now. It must be ours.
    pub(super) fn credit(&self, segment: &Segment, stream_events: usize, slot: usize, generation: u32) {
        let communicator = communicators::at(segment, slot);
        if communicator.generation.load(Relaxed) != generation
            || communicator.state.load(Acquire) == COMMUNICATOR_ABORTED
        {
            return;
        }
        let now = ticks::now();
        self.close_records(segment, stream_events, (slot, generation), now);
        for (share, counters) in self.shares.iter().zip(&communicator.counters) {
            let calls = share.calls.load(Relaxed);
            if calls > 0 {
                // The sum of (now - issued) over the calls. It is small, so wrapping on the way does no harm.
                let busy = calls.wrapping_mul(now).wrapping_sub(share.issued_ticks.load(Relaxed));
                counters.busy_ticks.fetch_add(busy.cast_signed().max(0).cast_unsigned(), Relaxed);
                counters.completed_bytes.fetch_add(share.bytes.load(Relaxed), Relaxed);
                counters.completed_calls.fetch_add(calls, Relaxed);
            }
        }
    }

    /// Says in the records that their operations have completed, as far as they have not been overwritten. The counters do
    /// not depend on them.
    fn close_records(
        &self,
        segment: &Segment,
        stream_events: usize,
        (slot, generation): (usize, u32),
        now: u64,
    ) {
        let (first, end) = (self.first_ticket.load(Relaxed), self.end_ticket.load(Relaxed));
        let last_ticks = self.last_ticks.load(Relaxed);
        owned_records(segment, stream_events, first..end, |ticket, record| {
            let issued = records::state(generation, ticket, OPERATION_ISSUED);
            let is_confirmed =
                records::subject(record).0 == slot && record.issued_ticks.load(Relaxed) <= last_ticks;
            if is_confirmed && record.state.load(Relaxed) == issued {
                // Where the device has told when it ended, that stands.
                if record.completed_ticks.load(Relaxed) == 0 {
                    record.completed_ticks.store(now, Relaxed);
                }
                // It was to be timed, and nobody will tell its times any more.
                if record.started.load(Relaxed) == 0 && record.what.load(Relaxed) & START_KNOWN != 0 {
                    record.what.fetch_and(!START_KNOWN, Relaxed);
                }
                records::change(record, issued, OPERATION_COMPLETED);
            }
        });
    }

    /// In a forked child.
    pub(super) fn forget(&self) {
        self.leave_free();
        self.handle.store(0, Relaxed);
    }
}

/// The records of these tickets that are closed by the stream events. A record in flight keeps its place while newer tickets pass
/// it: each place is looked at once, and tells whose it is.
pub(super) fn owned_records(
    segment: &Segment,
    stream_events: usize,
    tickets: Range<u64>,
    each: impl Fn(u64, &Record),
) {
    for place in tickets.start..tickets.end.min(tickets.start.saturating_add(MAX_RECORDS as u64)) {
        if !closers::is_owned_by(place, stream_events) {
            continue;
        }
        let record = records::record(segment, place);
        let ticket = record.ticket.load(Acquire).wrapping_sub(1);
        if tickets.contains(&ticket) {
            each(ticket, record);
        }
    }
}

/// Adds to a number that has one writer at a time.
fn add(number: &AtomicU64, amount: u64) {
    number.store(number.load(Relaxed).wrapping_add(amount), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_was_moved_after_the_question_confirms_nothing() {
        let pending = PendingEvent::new();
        assert!(!pending.take_free(1), "without an event it is of no use");
        pending.handle.store(0xe, Relaxed);
        assert!(pending.take_free(1));
        assert_eq!(pending.recorded(), None, "being filled");
        pending.leave_recorded();
        let asked = pending.recorded().unwrap();
        assert!(!pending.take_recorded(2, false), "begun during an earlier look");
        assert!(pending.take_recorded(1, false));
        pending.leave_recorded();
        assert!(!pending.take_answered(asked));
        let asked = pending.recorded().unwrap();
        assert!(pending.take_answered(asked));
        assert!(!pending.give_up(), "being counted");
        pending.leave_free();
        assert!(pending.give_up() && pending.is_free());
    }
}
