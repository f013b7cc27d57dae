//! The table of stream events: those of one communicator on one stream. They are used by one thread at a time, because the
//! library requires calls on a communicator to be serialised. Its events are made once, in the stream's context, and
//! stay with it for good, also when they get another owner: an event that is never destroyed can be asked at any time.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use crate::cuda_events::owner::Owner;
use crate::cuda_events::pending_event::{PendingEvent, Taken};
use crate::cuda_events::times::{self, MAX_STREAMS, Place};
use crate::cuda_events::{driver, poller};
use crate::segment::local::{Local, Sum};
use crate::segment::uncancelled;

/// Places looked at for a stream's events, from the one that its hash names.
const MAX_PROBES: usize = 16;
/// Events of a stream: the one that moves, and some on the way so that progress is seen while it moves.
const N_EVENTS: usize = 4;
/// [`StreamEvents::context_id`] of those that are not to be used any more: no context's.
pub(super) const GONE: u64 = u64::MAX;
/// Looks in which the oldest event of a stream was found pending before that seems to hang: some 80 ms.
const STUCK_LOOKS: u32 = 20;
/// Fewer than two could both be in the hands of the polling thread when a caller needs one.
const MIN_EVENTS: usize = 2;
/// Bit of [`GROUP`]: calls of the group wait on the stream for its end.
const WAITS: u64 = 1 << 63;

/// The events of one communicator on one stream.
pub(super) struct StreamEvents {
    owner: Owner,
    pub(super) generation: AtomicU32,
    stream: AtomicU64,
    /// `CUcontext` of the events, 0 before they are made.
    pub(super) context: AtomicU64,
    /// [`driver::context_id`] of it then: its events are gone with it, and must not be named to the driver any more.
    pub(super) context_id: AtomicU64,
    /// The one that was begun last.
    newest: AtomicUsize,
    /// Events recorded so far; it wraps.
    n_recorded: AtomicU32,
    /// Looks since the oldest has been found pending and no other has answered.
    pub(super) n_stuck: AtomicU32,
    pub(super) pending: [PendingEvent; N_EVENTS],
}

static ALL: [StreamEvents; MAX_STREAMS] = [const { StreamEvents::new() }; MAX_STREAMS];
/// Places that have been used, one bit each, so that a look passes over the rest.
static USED: [AtomicU64; MAX_STREAMS / 64] = [const { AtomicU64::new(0) }; MAX_STREAMS / 64];
/// Number of the group that held each last, which is never used again once it has ended; 0 where a call did.
static GROUP: [AtomicU64; MAX_STREAMS] = [const { AtomicU64::new(0) }; MAX_STREAMS];
/// Some may be waiting for the library's progress: nearly always false.
static MAY_WAIT: AtomicBool = AtomicBool::new(false);

/// Why there are no events for a stream.
pub(super) enum Refusal {
    /// All near the place are busy.
    TableFull,
    /// The driver gives no events for this stream.
    Driver,
}

impl StreamEvents {
    const fn new() -> Self {
        Self {
            owner: Owner::new(),
            generation: AtomicU32::new(0),
            stream: AtomicU64::new(0),
            context: AtomicU64::new(0),
            context_id: AtomicU64::new(0),
            newest: AtomicUsize::new(0),
            n_recorded: AtomicU32::new(0),
            n_stuck: AtomicU32::new(0),
            pending: [const { PendingEvent::new() }; N_EVENTS],
        }
    }

    fn is_of(&self, slot: usize, generation: u32, stream: u64) -> bool {
        self.belongs_to(slot, generation) && self.stream.load(Relaxed) == stream
    }

    fn belongs_to(&self, slot: usize, generation: u32) -> bool {
        self.slot() == Some(slot) && self.generation.load(Relaxed) == generation
    }

    /// The communicator that has it.
    pub(super) fn slot(&self) -> Option<usize> {
        self.owner.slot()
    }

    /// The recorded pending event whose event comes first on the stream, and its state.
    pub(super) fn oldest_recorded(&self) -> Option<(&PendingEvent, u64)> {
        let latest = self.n_recorded.load(Relaxed);
        let recorded =
            self.pending.iter().filter_map(|pending| pending.recorded().map(|state| (pending, state)));
        // Signed: one may have been recorded just now.
        recorded.max_by_key(|(pending, _)| latest.wrapping_sub(pending.position.load(Relaxed)).cast_signed())
    }

    fn newest(&self) -> &PendingEvent {
        &self.pending[self.newest.load(Relaxed) & (N_EVENTS - 1)]
    }

    /// A pending event to add to, and what it was. Where all were recorded, and then all have answered, the second look has one.
    fn take(&self) -> Option<(&PendingEvent, Taken)> {
        self.take_once().or_else(|| self.take_once())
    }

    /// The newest while it waits or was begun during this look, else a free one; else one that is recorded, whose calls are
    /// then confirmed with the new ones.
    fn take_once(&self) -> Option<(&PendingEvent, Taken)> {
        let look = poller::look();
        let newest = self.newest();
        if let Some(taken) = newest.take_without_event() {
            return Some((newest, taken));
        }
        if newest.take_recorded(look, false) {
            return Some((newest, Taken::Recorded));
        }
        if let Some(index) = (0..N_EVENTS).find(|index| self.pending[*index].take_free(look)) {
            self.newest.store(index, Relaxed);
            return Some((&self.pending[index], Taken::Free));
        }
        let recorded =
            std::iter::once(newest).chain(&self.pending).find(|pending| pending.take_recorded(look, true));
        recorded.map(|pending| (pending, Taken::Recorded))
    }

    /// Records the event of one that is ours; it is left to the next call on the stream if the driver refuses.
    fn record(&self, pending: &PendingEvent) -> bool {
        let (event, stream) = (pending.handle.load(Relaxed), self.stream.load(Relaxed));
        if driver::record(event, stream, self.context.load(Relaxed)) {
            let position = self.n_recorded.load(Relaxed).wrapping_add(1);
            self.n_recorded.store(position, Relaxed);
            pending.position.store(position, Relaxed);
            pending.leave_recorded();
            poller::wake();
            return true;
        }
        pending.leave_left();
        false
    }
}

/// The events of a communicator's stream, if it has some. They are held for the thread's call or its group ([`leave`]).
#[inline(always)]
pub(super) fn find(local: &Local, slot: usize, generation: u32, stream: u64) -> Option<usize> {
    let is_it = |index: usize| ALL[index].is_of(slot, generation, stream) && hold(index, local, slot);
    let cached = local.last_stream_events.get() & (MAX_STREAMS - 1);
    if is_it(cached) {
        return Some(cached);
    }
    let found = probes(slot, stream).find(|index| is_it(*index))?;
    local.last_stream_events.set(found);
    Some(found)
}

/// False if they have been taken from the slot meanwhile.
#[inline(always)]
fn hold(index: usize, local: &Local, slot: usize) -> bool {
    if !ALL[index].owner.hold(slot) {
        return false;
    }
    let group = local.group.get();
    if GROUP[index].load(Relaxed) & !WAITS != group {
        GROUP[index].store(group, Relaxed);
    }
    true
}

/// The slot's call or group is over that held them.
#[inline(always)]
pub(super) fn leave(index: usize, slot: usize) {
    at(index).owner.leave(slot);
}

/// Those that an open group holds, and whether calls of the group wait there.
pub(super) fn of_group(group: u64) -> impl Iterator<Item = (usize, bool)> {
    used()
        .map(|index| (index, GROUP[index].load(Relaxed)))
        .filter_map(move |(index, known)| (known & !WAITS == group).then_some((index, known & WAITS != 0)))
}

fn probes(slot: usize, stream: u64) -> impl Iterator<Item = usize> {
    // Fibonacci hashing: handles are aligned addresses, their low bits say nothing.
    let hash = (stream ^ (slot as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let from = (hash >> 40) as usize;
    (from..from + MAX_PROBES).map(|index| index % MAX_STREAMS)
}

/// Makes events for a communicator's stream: from some that nobody has, else from some that have nothing to confirm. Not
/// on the record path: the first call on a stream. The driver makes system calls there, and a cancellation waits.
#[cold]
pub(super) fn open(
    local: &Local,
    slot: usize,
    generation: u32,
    stream: u64,
    device: i32,
) -> Result<usize, Refusal> {
    uncancelled(|| open_one(local, slot, generation, stream, device))
}

fn open_one(local: &Local, slot: usize, generation: u32, stream: u64, device: i32) -> Result<usize, Refusal> {
    let context = driver::context_of(stream, device).ok_or(Refusal::Driver)?;
    let index = probes(slot, stream)
        .find(|index| seize(*index, context, true))
        .or_else(|| probes(slot, stream).find(|index| seize(*index, context, false)))
        .ok_or(Refusal::TableFull)?;
    let events = at(index);
    if !make_events(events, context) {
        events.owner.give_up();
        return Err(Refusal::Driver);
    }
    events.generation.store(generation, Relaxed);
    events.stream.store(stream, Relaxed);
    events.n_stuck.store(0, Relaxed);
    USED[index / 64].fetch_or(1 << (index % 64), Relaxed);
    GROUP[index].store(local.group.get(), Relaxed);
    events.owner.give_to(slot);
    local.last_stream_events.set(index);
    Ok(index)
}

/// Takes a stream's events, from nobody or from an owner that does not hold them, if they have nothing to confirm and fit the
/// context.
fn seize(index: usize, context: u64, from_nobody: bool) -> bool {
    let events = at(index);
    // A caller from whom an abort has taken them takes one, then looks at the owner; here it is the other way round.
    events.owner.seize(from_nobody, || {
        let known = events.context.load(Relaxed);
        let fits = known == 0 || known == context || events.context_id.load(Relaxed) == GONE;
        fits && events.pending.iter().all(PendingEvent::is_free) && times::is_idle(index)
    })
}

fn make_events(events: &StreamEvents, context: u64) -> bool {
    let Some(id) = driver::context_id(context) else { return false };
    if events.context_id.swap(id, Relaxed) != id {
        // Those of a context that is gone have ended with it.
        events.pending.iter().for_each(|pending| pending.handle.store(0, Relaxed));
    }
    events.context.store(context, Relaxed);
    let handles = events.pending.iter().map(|pending| &pending.handle);
    driver::create_events(context, driver::WITHOUT_TIME, handles);
    events.pending.iter().filter(|pending| pending.handle.load(Relaxed) != 0).count() >= MIN_EVENTS
}

/// Those with this index.
pub(super) fn at(index: usize) -> &'static StreamEvents {
    &ALL[index & (MAX_STREAMS - 1)]
}

/// Where events of those with this index are recorded.
pub(super) fn place(index: usize) -> Place {
    let events = at(index);
    Place {
        index,
        stream: events.stream.load(Relaxed),
        context: events.context.load(Relaxed),
        context_id: events.context_id.load(Relaxed),
        is_owned: events.slot().is_some(),
    }
}

/// Adds calls to the stream, with an event behind them or to wait for [`confirm`]. False if they go unconfirmed for now: the
/// driver refuses, or the events have been taken from the communicator: it was aborted, or the device was reset.
pub(super) fn add(events: usize, generation: u32, sum: &Sum, is_enqueued: bool) -> bool {
    let events = at(events);
    if !events.belongs_to(sum.slot, generation) {
        return false;
    }
    let Some((pending, taken)) = events.take() else { return false };
    // Again: from here on nobody else can have them, though an abort can take them from this communicator.
    if !events.belongs_to(sum.slot, generation) {
        pending.give_back(taken);
        return false;
    }
    pending.add(sum);
    if is_enqueued {
        return events.record(pending);
    }
    pending.leave_waiting();
    true
}

/// The same for calls of the open group that holds them: they wait for its end.
pub(super) fn add_to_group(events: usize, generation: u32, sum: &Sum) -> bool {
    let is_added = add(events, generation, sum, false);
    if is_added {
        GROUP[events & (MAX_STREAMS - 1)].fetch_or(WAITS, Relaxed);
    }
    is_added
}

/// Forgets what waits on the stream: how many calls.
#[cold]
pub(super) fn drop_waiting(events: usize) -> u64 {
    let newest = at(events).newest();
    if !newest.take_waiting() {
        return 0;
    }
    let calls = newest.n_calls();
    newest.leave_free();
    calls
}

/// Records an event behind what waits on the stream. False if the driver refuses: it stays for the next call.
pub(super) fn confirm(events: usize) -> bool {
    let events = at(events);
    let newest = events.newest();
    !newest.take_waiting() || events.record(newest)
}

/// What waits is to be confirmed by [`confirm_waiting`].
pub(super) fn defer() {
    MAY_WAIT.store(true, SeqCst);
}

/// Records events behind what waits on any stream of the communicator, if the library `is_done` with it. It is asked after
/// the pending events have been taken: what was called later is not in them. Not behind an operation that seems to hang,
/// where recording may wait for it: this is the thread that would abort it. Returns how many calls are left without one.
pub(super) fn confirm_waiting(slot: usize, is_done: impl Fn() -> bool) -> u64 {
    if !MAY_WAIT.swap(false, SeqCst) {
        return 0;
    }
    let mut n_left = 0;
    for events in used().map(at) {
        let is_its = events.slot() == Some(slot);
        for pending in events.pending.iter().filter(|pending| is_its && pending.take_waiting()) {
            let calls = pending.n_calls();
            if !is_done() {
                pending.leave_waiting();
            } else if events.n_stuck.load(Relaxed) >= STUCK_LOOKS {
                // Once the program knows that the library is done with it, the stream may be gone.
                pending.leave_left();
                n_left += calls;
            } else if driver::is_capturing(events.stream.load(Relaxed)) != Some(false) {
                pending.leave_waiting();
            } else if !events.record(pending) {
                n_left += calls;
            }
        }
    }
    if used().any(|index| at(index).pending.iter().any(PendingEvent::is_waiting)) {
        defer();
    }
    n_left
}

/// The indices of those that have been used.
pub(super) fn used() -> impl Iterator<Item = usize> {
    USED.iter().enumerate().flat_map(|(word, bits)| {
        let bits = bits.load(Relaxed);
        (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * 64 + bit)
    })
}

/// Whether any event is to be asked.
pub(super) fn any_recorded() -> bool {
    used().any(|index| ALL[index].pending.iter().any(|pending| pending.recorded().is_some()))
}

/// Whether an event of the slot's is still to answer, or is just being counted.
pub(super) fn has_recorded(slot: usize) -> bool {
    used()
        .map(at)
        .any(|events| events.slot() == Some(slot) && events.pending.iter().any(PendingEvent::is_unanswered))
}

/// Takes its events from a slot, with all that they hold. One that a caller is just filling stays his: he finds that they
/// are taken, and until he has left it nobody else gets them.
pub(super) fn drop_of(slot: usize) {
    for index in used() {
        take_away(index, slot);
    }
}

/// Takes these from the slot; false if it does not have them.
pub(super) fn take_away(index: usize, slot: usize) -> bool {
    let events = at(index);
    if !events.owner.take_away(slot) {
        return false;
    }
    times::give_up(index);
    for pending in &events.pending {
        pending.give_up();
    }
    events.owner.give_up();
    true
}

/// In a forked child: the events are the parent's, and so are the calls that they would confirm.
pub(super) fn forget() {
    for index in used() {
        let events = at(index);
        events.owner.give_up();
        GROUP[index].store(0, Relaxed);
        events.context.store(0, Relaxed);
        events.pending.iter().for_each(PendingEvent::forget);
        times::forget(index);
    }
    times::forget_use();
    for word in &USED {
        word.store(0, Relaxed);
    }
    MAY_WAIT.store(false, Relaxed);
}
