//! When the device begins and ends operations, at the level `events`: a CUDA event with a time before what is called on a stream
//! outside a group, and one behind it; of a group one before and one behind what it puts on each stream. Callers record them here, and
//! [`tell`](crate::cuda_events::tell) reads them. A stream has so many and no more, made at its first call at that level. Whatever the driver
//! refuses ends all of it until the level is set anew; completion goes on.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{DropReason, Record, START_KNOWN};

use crate::cuda_events::device_clock::DeviceClock;
use crate::cuda_events::{driver, pending_event};
use crate::segment::{segment, switch, ticks, uncancelled};

/// Of a stream, at once. A launch queue holds about a thousand kernels, of which at most one in ten is a collective.
pub(super) const N_SPANS: usize = 128;

/// Holds nothing.
const FREE: u64 = 0;
/// A call or a group of the caller's is under way.
const OPEN: u64 = 1;
/// Its events are recorded.
const RECORDED: u64 = 2;
/// The polling thread tells what they said.
const TELLING: u64 = 3;
const KIND_MASK: u64 = 3;
/// The version counts in the bits above the kind, so that what was given up and begun anew is not taken for what was asked.
const VERSION_ONE: u64 = 4;

/// (communicator, stream) pairs at once. A communicator mostly has one stream.
pub(super) const MAX_STREAMS: usize = 512;

/// Where events are recorded.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Of the stream events, and of the times beside them.
    pub(super) index: usize,
    pub(super) stream: u64,
    pub(super) context: u64,
    pub(super) context_id: u64,
    /// Whether a communicator has them: an abort takes them away.
    pub(super) is_owned: bool,
}

/// What lies between two events on a stream.
pub(super) struct Span {
    state: AtomicU64,
    /// `CUevent`s.
    pub(super) before: AtomicU64,
    pub(super) after: AtomicU64,
    /// Its records have tickets from here ...
    first_ticket: AtomicU64,
    /// ... to before here.
    end_ticket: AtomicU64,
    /// Ticks of the first call.
    called_ticks: AtomicU64,
    /// Ticks before the first event was recorded, and before the second was.
    pub(super) launched_ticks: AtomicU64,
    pub(super) left_ticks: AtomicU64,
}

/// Those of one (communicator, stream), beside its stream events.
pub(super) struct Times {
    /// Position of the span that is open, or will be next. Positions wrap.
    head: AtomicU32,
    /// Position of the oldest that has not been told.
    pub(super) tail: AtomicU32,
    /// The group of the open one, 0 without.
    group: AtomicU64,
    /// [`Place::context_id`] of the events here. 0: there are none, or not all.
    pub(super) context_id: AtomicU64,
    /// The same of those that there are, which may be some of them. 0: none.
    made_in: AtomicU64,
    /// The event that times are counted from, or the one that will be swapped for the first that completes.
    pub(super) anchor: AtomicU64,
    /// [`DeviceClock`]; both 0 without.
    earliest: AtomicI64,
    latest: AtomicI64,
    /// Position after the one whose start was told last.
    pub(super) begun: AtomicU32,
    /// Ticks at which the oldest was last found not to be over; 0: it never was.
    pub(super) not_yet_ticks: AtomicU64,
    spans: [Span; N_SPANS],
}

static ALL: [Times; MAX_STREAMS] = [const { Times::new() }; MAX_STREAMS];
/// The level asks for times.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// The driver has failed since.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
/// There were some. Until then [`ALL`] is left alone, and takes no memory.
static IS_USED: AtomicBool = AtomicBool::new(false);

impl Span {
    const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            before: AtomicU64::new(0),
            after: AtomicU64::new(0),
            first_ticket: AtomicU64::new(0),
            end_ticket: AtomicU64::new(0),
            called_ticks: AtomicU64::new(0),
            launched_ticks: AtomicU64::new(0),
            left_ticks: AtomicU64::new(0),
        }
    }

    fn kind(&self) -> u64 {
        self.state.load(Acquire) & KIND_MASK
    }

    fn change(&self, from: u64, to: u64) -> bool {
        let state = self.state.load(Acquire);
        let changed = (state & !KIND_MASK).wrapping_add(VERSION_ONE) | to;
        state & KIND_MASK == from && self.state.compare_exchange(state, changed, AcqRel, Relaxed).is_ok()
    }

    /// The state to name in [`Span::take`], if its events can be asked.
    pub(super) fn recorded(&self) -> Option<u64> {
        let state = self.state.load(Acquire);
        (state & KIND_MASK == RECORDED).then_some(state)
    }

    /// Whether it holds nothing: it was given up.
    pub(super) fn is_free(&self) -> bool {
        self.kind() == FREE
    }

    /// Takes it after its events have answered, if it is still the same.
    pub(super) fn take(&self, state: u64) -> bool {
        self.state.compare_exchange(state, state & !KIND_MASK | TELLING, AcqRel, Relaxed).is_ok()
    }

    /// It has been told.
    pub(super) fn leave(&self) {
        self.change(TELLING, FREE);
    }

    fn open(&self, ticket: u64, called_ticks: u64) {
        self.first_ticket.store(ticket, Relaxed);
        self.end_ticket.store(ticket + 1, Relaxed);
        for ticks in [&self.called_ticks, &self.launched_ticks] {
            ticks.store(called_ticks, Relaxed);
        }
    }

    /// Its records that are still there. Where several threads call, others' tickets lie between them.
    pub(super) fn records(&self, segment: &Segment, index: usize, each: impl Fn(&Record)) {
        let (first, end) = (self.first_ticket.load(Relaxed), self.end_ticket.load(Relaxed));
        let called = self.called_ticks.load(Relaxed);
        let left = self.left_ticks.load(Relaxed);
        pending_event::owned_records(segment, index, first..end, |_, record| {
            if (called..=left).contains(&record.issued_ticks.load(Relaxed)) {
                each(record);
            }
        });
    }
}

impl Times {
    const fn new() -> Self {
        Self {
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            group: AtomicU64::new(0),
            context_id: AtomicU64::new(0),
            made_in: AtomicU64::new(0),
            anchor: AtomicU64::new(0),
            earliest: AtomicI64::new(0),
            latest: AtomicI64::new(0),
            begun: AtomicU32::new(0),
            not_yet_ticks: AtomicU64::new(0),
            spans: [const { Span::new() }; N_SPANS],
        }
    }

    pub(super) fn span(&self, position: u32) -> &Span {
        &self.spans[position as usize % N_SPANS]
    }

    /// The one that a call or a group has begun.
    fn opened(&self) -> Option<&Span> {
        let span = self.span(self.head.load(Relaxed));
        (span.kind() == OPEN).then_some(span)
    }

    /// The oldest that was begun and has not been told. On the polling thread.
    pub(super) fn oldest(&self) -> Option<u32> {
        let tail = self.tail.load(Relaxed);
        (tail != self.head.load(Acquire)).then_some(tail)
    }

    pub(super) fn clock(&self) -> Option<DeviceClock> {
        let clock = DeviceClock { earliest: self.earliest.load(Relaxed), latest: self.latest.load(Relaxed) };
        (clock.latest != 0).then_some(clock)
    }

    pub(super) fn set_clock(&self, clock: DeviceClock) {
        self.earliest.store(clock.earliest, Relaxed);
        self.latest.store(clock.latest, Relaxed);
    }

    /// Makes its events, anew if they are of another context. False if the driver does not give all of them; those that it gave are not
    /// asked for again.
    #[cold]
    fn make(&self, place: Place) -> bool {
        self.set_clock(DeviceClock { earliest: 0, latest: 0 });
        let handles = || self.spans.iter().flat_map(|span| [&span.before, &span.after]).chain([&self.anchor]);
        if self.made_in.swap(place.context_id, Relaxed) != place.context_id {
            handles().for_each(|handle| handle.store(0, Relaxed));
        }
        let made = uncancelled(|| driver::create_events(place.context, driver::WITH_TIME, handles()));
        self.context_id.store(if made { place.context_id } else { 0 }, Release);
        made
    }
}

/// Those beside the stream events with this index.
pub(super) fn at(index: usize) -> &'static Times {
    &ALL[index & (MAX_STREAMS - 1)]
}

/// The level asks for times, or no longer.
pub(crate) fn want(wanted: bool) {
    HAS_FAILED.store(false, Relaxed);
    IS_WANTED.store(wanted, Release);
}

/// Whether calls get times.
#[inline(always)]
pub(super) fn is_wanted() -> bool {
    IS_WANTED.load(Relaxed) && !HAS_FAILED.load(Relaxed) && driver::can_time()
}

/// Whether any did.
#[inline(always)]
pub(super) fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// The driver refused: no more times are asked for.
#[cold]
pub(super) fn fail(segment: &Segment) {
    if !HAS_FAILED.swap(true, SeqCst) {
        switch::dropped(segment, DropReason::DeviceTimesFailed, 1);
    }
    segment.live.device_error_ticks.store(0, SeqCst);
}

/// By how much times may lie beside the truth; of none that will be told nothing is said.
pub(super) fn tell_error(segment: &Segment, ticks: u64) {
    segment.live.device_error_ticks.store(ticks, SeqCst);
    if HAS_FAILED.load(SeqCst) {
        segment.live.device_error_ticks.store(0, SeqCst);
    }
}

/// A call is about to be forwarded, on a stream that does not capture. In a group, it joins what the group puts there. False if it gets
/// no times.
pub(super) fn open(segment: &Segment, place: Place, ticket: u64, called_ticks: u64, group: u64) -> bool {
    let times = at(place.index);
    IS_USED.store(true, Relaxed);
    if let Some(span) = times.opened()
        && group != 0
        && times.group.load(Relaxed) == group
    {
        span.end_ticket.store(ticket + 1, Relaxed);
        return true;
    }
    // The call of one that was left open has not come back.
    abandon(place.index);
    let is_known = times.context_id.load(Relaxed) == place.context_id;
    // Of another context, they are made anew once all of the old one are told.
    let is_fit = is_known
        || is_idle(place.index) && {
            let is_made = times.make(place);
            if !is_made {
                fail(segment);
                return false;
            }
            true
        };
    let head = times.head.load(Relaxed);
    let has_room = (head.wrapping_sub(times.tail.load(Acquire)) as usize) < N_SPANS;
    let span = times.span(head);
    if !is_fit || !has_room || !span.change(FREE, OPEN) {
        switch::dropped(segment, DropReason::DeviceTimesFull, 1);
        return false;
    }
    span.open(ticket, called_ticks);
    times.group.store(group, Relaxed);
    group != 0 || record(segment, place, &span.before) || {
        span.change(OPEN, FREE);
        false
    }
}

/// The outermost group of this number is about to be ended.
pub(super) fn launch(segment: &Segment, place: Place, group: u64) {
    let times = at(place.index);
    let Some(span) = times.opened().filter(|_| times.group.load(Relaxed) == group) else { return };
    span.launched_ticks.store(ticks::now(), Relaxed);
    let may_record = place.is_owned && driver::is_capturing(place.stream) == Some(false);
    if !may_record || !record(segment, place, &span.before) {
        abandon(place.index);
    }
}

/// The library has enqueued what was open.
pub(super) fn close(segment: &Segment, place: Place) {
    if !is_used() {
        return;
    }
    let times = at(place.index);
    let Some(span) = times.opened() else { return };
    span.left_ticks.store(ticks::now(), Relaxed);
    if !place.is_owned || HAS_FAILED.load(Relaxed) || !record(segment, place, &span.after) {
        return abandon(place.index);
    }
    span.change(OPEN, RECORDED);
    times.group.store(0, Relaxed);
    times.head.store(times.head.load(Relaxed).wrapping_add(1), Release);
}

/// What was open gets no times: its calls failed, or the library is still enqueueing them.
pub(super) fn abandon(index: usize) {
    if !is_used() {
        return;
    }
    let times = at(index);
    let Some(span) = times.opened() else { return };
    times.group.store(0, Relaxed);
    span.left_ticks.store(ticks::now(), Relaxed);
    if let Some(segment) = segment() {
        span.records(segment, index, |record| {
            record.what.fetch_and(!START_KNOWN, Relaxed);
        });
        switch::dropped(segment, DropReason::DeviceTimesUnbounded, 1);
    }
    span.change(OPEN, FREE);
}

fn record(segment: &Segment, place: Place, event: &AtomicU64) -> bool {
    let is_recorded = driver::record(event.load(Relaxed), place.stream, place.context);
    if !is_recorded {
        fail(segment);
    }
    is_recorded
}

/// Whether nothing of these is under way.
pub(super) fn is_idle(index: usize) -> bool {
    !is_used() || at(index).spans.iter().all(Span::is_free)
}

/// Their communicator has them no more: whatever is recorded will not be told. What a caller has open stays his.
pub(super) fn give_up(index: usize) {
    if is_used() {
        for span in &at(index).spans {
            span.change(RECORDED, FREE);
        }
    }
}

/// In a forked child: the events are the parent's.
pub(super) fn forget(index: usize) {
    if is_used() {
        let times = at(index);
        times.context_id.store(0, Relaxed);
        times.made_in.store(0, Relaxed);
        times.tail.store(times.head.load(Relaxed), Relaxed);
        times.spans.iter().for_each(|span| span.state.store(FREE, SeqCst));
    }
}

/// In a forked child, when all are forgotten.
pub(super) fn forget_use() {
    want(false);
    IS_USED.store(false, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_that_was_given_up_after_the_question_is_not_told() {
        let span = Span::new();
        assert!(span.change(FREE, OPEN) && span.recorded().is_none());
        assert!(span.change(OPEN, RECORDED));
        let asked = span.recorded().unwrap();
        assert!(span.change(RECORDED, FREE) && span.change(FREE, OPEN) && span.change(OPEN, RECORDED));
        assert!(!span.take(asked), "another one by now");
        let asked = span.recorded().unwrap();
        assert!(span.take(asked) && !span.change(RECORDED, FREE), "being told");
        span.leave();
        assert!(span.is_free());
    }
}
