//! The table of lanes. A lane belongs to one communicator and one stream, and is used by one thread at a time, because the
//! library requires calls on a communicator to be serialised. Its events are made once, in the stream's context, and
//! stay with it for good, also when the lane gets another owner: an event that is never destroyed can be asked at any time.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use ringscope_wire::segment::Segment;

use crate::cuda_events::driver::Answer;
use crate::cuda_events::pending_event::Mark;
use crate::cuda_events::{abort, driver, pending_event, poller};
use crate::segment::local::{Local, Sum};

/// (communicator, stream) pairs at once. A communicator mostly has one stream.
const MAX_LANES: usize = 512;
/// Places looked at for a lane, from the one that its hash names.
const MAX_PROBES: usize = 16;
/// Events of a lane: the one that moves, and some on the way so that progress is seen while it moves.
const MARKS: usize = 4;
/// [`Lane::context_id`] of a lane whose events are not to be used any more: no context's.
const GONE: u64 = u64::MAX;
/// Fewer than two could both be in the hands of the polling thread when a caller needs one.
const MIN_EVENTS: usize = 2;
/// [`Lane::owner`] while the lane changes hands.
const CHANGING: u32 = u32::MAX;

struct Lane {
    /// Communicator slot plus one; 0 if nobody has it.
    owner: AtomicU32,
    generation: AtomicU32,
    stream: AtomicU64,
    /// `CUcontext` of the events, 0 before they are made.
    context: AtomicU64,
    /// [`driver::context_id`] of it then: its events are gone with it, and must not be named to the driver any more.
    context_id: AtomicU64,
    /// The mark that was begun last.
    newest: AtomicUsize,
    /// Events recorded so far; it wraps.
    n_recorded: AtomicU32,
    marks: [Mark; MARKS],
}

static LANES: [Lane; MAX_LANES] = [const { Lane::new() }; MAX_LANES];
/// Lanes that have been used, one bit each, so that a look passes over the rest.
static USED: [AtomicU64; MAX_LANES / 64] = [const { AtomicU64::new(0) }; MAX_LANES / 64];
/// Where the polling thread goes on.
static NEXT_ASKED: AtomicUsize = AtomicUsize::new(0);
/// Some mark may be waiting for the library's progress: nearly always false.
static MAY_WAIT: AtomicBool = AtomicBool::new(false);

/// What a mark was before it was taken.
enum Taken {
    Free,
    Waiting,
    Recorded,
}

/// Why there is no lane.
pub(super) enum Refusal {
    /// All lanes near the place are busy.
    TableFull,
    /// The driver gives no events for this stream.
    Driver,
}

impl Lane {
    const fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            stream: AtomicU64::new(0),
            context: AtomicU64::new(0),
            context_id: AtomicU64::new(0),
            newest: AtomicUsize::new(0),
            n_recorded: AtomicU32::new(0),
            marks: [const { Mark::new() }; MARKS],
        }
    }

    fn is_of(&self, slot: usize, generation: u32, stream: u64) -> bool {
        self.belongs_to(slot, generation) && self.stream.load(Relaxed) == stream
    }

    fn belongs_to(&self, slot: usize, generation: u32) -> bool {
        self.owner.load(SeqCst) as usize == slot + 1 && self.generation.load(Relaxed) == generation
    }

    /// The communicator that has it.
    fn slot(&self) -> Option<usize> {
        match self.owner.load(SeqCst) {
            0 | CHANGING => None,
            owner => Some(owner as usize - 1),
        }
    }

    /// The recorded mark whose event comes first on the stream, and its state.
    fn oldest_recorded(&self) -> Option<(&Mark, u64)> {
        let latest = self.n_recorded.load(Relaxed);
        let recorded = self.marks.iter().filter_map(|mark| mark.recorded().map(|state| (mark, state)));
        // Signed: one may have been recorded just now.
        recorded.max_by_key(|(mark, _)| latest.wrapping_sub(mark.position.load(Relaxed)).cast_signed())
    }

    fn newest(&self) -> &Mark {
        &self.marks[self.newest.load(Relaxed) & (MARKS - 1)]
    }

    /// A mark to add to, and what it was: the newest while it waits or was begun during this look, else a free one; else
    /// one that is recorded, whose calls are then confirmed with the new ones.
    fn take(&self) -> Option<(&Mark, Taken)> {
        let look = poller::look();
        let newest = self.newest();
        if newest.take_waiting() {
            return Some((newest, Taken::Waiting));
        }
        if newest.take_recorded(look, false) {
            return Some((newest, Taken::Recorded));
        }
        if let Some(index) = (0..MARKS).find(|index| self.marks[*index].take_free(look)) {
            self.newest.store(index, Relaxed);
            return Some((&self.marks[index], Taken::Free));
        }
        let recorded = std::iter::once(newest).chain(&self.marks).find(|mark| mark.take_recorded(look, true));
        recorded.map(|mark| (mark, Taken::Recorded))
    }

    /// Records the event of a mark that is ours; it waits if the driver refuses.
    fn record(&self, mark: &Mark) -> bool {
        let (event, stream) = (mark.event.load(Relaxed), self.stream.load(Relaxed));
        if driver::record(event, stream, self.context.load(Relaxed)) {
            let position = self.n_recorded.load(Relaxed).wrapping_add(1);
            self.n_recorded.store(position, Relaxed);
            mark.position.store(position, Relaxed);
            mark.leave_recorded();
            poller::wake();
            return true;
        }
        mark.leave_waiting();
        false
    }
}

/// The lane of a communicator's stream, if it has one.
#[inline(always)]
pub(super) fn find(local: &Local, slot: usize, generation: u32, stream: u64) -> Option<usize> {
    let cached = local.last_lane.get() & (MAX_LANES - 1);
    if LANES[cached].is_of(slot, generation, stream) {
        return Some(cached);
    }
    let found = probes(slot, stream).find(|index| LANES[*index].is_of(slot, generation, stream))?;
    local.last_lane.set(found);
    Some(found)
}

fn probes(slot: usize, stream: u64) -> impl Iterator<Item = usize> {
    // Fibonacci hashing: handles are aligned addresses, their low bits say nothing.
    let hash = (stream ^ (slot as u64) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let from = (hash >> 40) as usize;
    (from..from + MAX_PROBES).map(|index| index % MAX_LANES)
}

/// Makes a lane for a communicator's stream: from one that nobody has, else from one that has nothing to confirm. Not
/// on the record path: the first call on a stream.
#[cold]
pub(super) fn open(
    local: &Local,
    slot: usize,
    generation: u32,
    stream: u64,
    device: i32,
) -> Result<usize, Refusal> {
    let context = driver::context_of(stream, device).ok_or(Refusal::Driver)?;
    let index = probes(slot, stream)
        .find(|index| seize(&LANES[*index], context, |owner| owner == 0))
        .or_else(|| {
            probes(slot, stream).find(|index| seize(&LANES[*index], context, |owner| owner != CHANGING))
        })
        .ok_or(Refusal::TableFull)?;
    let lane = &LANES[index];
    if !make_events(lane, context) {
        lane.owner.store(0, SeqCst);
        return Err(Refusal::Driver);
    }
    lane.generation.store(generation, Relaxed);
    lane.stream.store(stream, Relaxed);
    USED[index / 64].fetch_or(1 << (index % 64), Relaxed);
    lane.owner.store(u32::try_from(slot + 1).unwrap_or_default(), SeqCst);
    local.last_lane.set(index);
    Ok(index)
}

/// Takes a lane from an owner that `may` lose it, if it has nothing to confirm and its events fit the context.
fn seize(lane: &Lane, context: u64, may: impl Fn(u32) -> bool) -> bool {
    let owner = lane.owner.load(Acquire);
    if !may(owner) || lane.owner.compare_exchange(owner, CHANGING, SeqCst, Relaxed).is_err() {
        return false;
    }
    let known = lane.context.load(Relaxed);
    let fits = known == 0 || known == context || lane.context_id.load(Relaxed) == GONE;
    // A caller that has the lane takes a mark, then looks at the owner; here it is the other way round.
    if fits && lane.marks.iter().all(Mark::is_free) {
        return true;
    }
    lane.owner.store(owner, SeqCst);
    false
}

fn make_events(lane: &Lane, context: u64) -> bool {
    let id = driver::context_id(context);
    if lane.context_id.swap(id, Relaxed) != id {
        // Those of a context that is gone have ended with it.
        lane.marks.iter().for_each(|mark| mark.event.store(0, Relaxed));
    }
    lane.context.store(context, Relaxed);
    for mark in &lane.marks {
        if mark.event.load(Relaxed) == 0 {
            mark.event.store(driver::create_event(context), Relaxed);
        }
    }
    lane.marks.iter().filter(|mark| mark.event.load(Relaxed) != 0).count() >= MIN_EVENTS
}

/// Adds calls to the lane, with an event behind them or to wait for [`confirm`]. False if they go unconfirmed for now: the
/// driver refuses. A communicator that was aborted meanwhile has lost the lane, and its calls are given up.
pub(super) fn add(lane: usize, generation: u32, sum: &Sum, is_enqueued: bool) -> bool {
    let lane = &LANES[lane & (MAX_LANES - 1)];
    if !lane.belongs_to(sum.slot, generation) {
        return true;
    }
    let Some((mark, taken)) = lane.take() else { return false };
    // Again: from here on nobody else can have the lane, though an abort can take it from this communicator.
    if !lane.belongs_to(sum.slot, generation) {
        match taken {
            Taken::Free => mark.leave_free(),
            Taken::Waiting => mark.leave_waiting(),
            Taken::Recorded => mark.leave_recorded(),
        }
        return true;
    }
    mark.add(sum);
    if is_enqueued {
        return lane.record(mark);
    }
    mark.leave_waiting();
    true
}

/// Records an event behind what waits on the lane. False if the driver refuses: it stays for the next call.
pub(super) fn confirm(lane: usize) -> bool {
    let lane = &LANES[lane & (MAX_LANES - 1)];
    let newest = lane.newest();
    !newest.take_waiting() || lane.record(newest)
}

/// What waits is to be confirmed by [`confirm_waiting`].
pub(super) fn defer() {
    MAY_WAIT.store(true, SeqCst);
}

/// Records events behind what waits on any lane of the communicator, if the library `is_done` with it. It is asked after
/// the marks have been taken: what was called later is not in them.
pub(super) fn confirm_waiting(slot: usize, is_done: impl Fn() -> bool) {
    if !MAY_WAIT.swap(false, SeqCst) {
        return;
    }
    for lane in used().map(|index| &LANES[index]) {
        let is_its = lane.owner.load(Acquire) as usize == slot + 1;
        for mark in lane.marks.iter().filter(|mark| is_its && mark.take_waiting()) {
            if is_done() && driver::is_capturing(lane.stream.load(Relaxed)) == Some(false) {
                lane.record(mark);
            } else {
                mark.leave_waiting();
            }
        }
    }
    if used().any(|index| LANES[index].marks.iter().any(Mark::is_waiting)) {
        defer();
    }
}

fn used() -> impl Iterator<Item = usize> {
    USED.iter().enumerate().flat_map(|(word, bits)| {
        let bits = bits.load(Relaxed);
        (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| word * 64 + bit)
    })
}

/// What a look found.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) still_pending: usize,
    pub(super) completed: usize,
}

/// Asks the oldest event of each lane, and when it has answered the next, and counts what is confirmed: on one stream none is
/// complete before an older one. No more than `max_queries`; the next look goes on with the lane where this one ended. On
/// the polling thread alone.
pub(super) fn ask_oldest(segment: &Segment, max_queries: usize) -> Seen {
    let from = NEXT_ASKED.load(Relaxed);
    let mut seen = Seen::default();
    for index in used().filter(|index| *index >= from).chain(used().filter(|index| *index < from)) {
        let lane = &LANES[index];
        let n_marks = lane.marks.iter().filter(|mark| mark.recorded().is_some()).count();
        for _ in 0..n_marks {
            let Some((mark, state)) = lane.oldest_recorded() else { break };
            if seen.completed + seen.still_pending >= max_queries {
                NEXT_ASKED.store(index, Relaxed);
                return seen;
            }
            if !ask(segment, index, mark, state) {
                seen.still_pending += 1;
                break;
            }
            seen.completed += 1;
        }
    }
    NEXT_ASKED.store(0, Relaxed);
    seen
}

/// Asks one event; whether that settled what it stood for.
fn ask(segment: &Segment, index: usize, mark: &Mark, state: u64) -> bool {
    let lane = &LANES[index];
    let (event, context) = (mark.event.load(Relaxed), lane.context.load(Relaxed));
    let id = lane.context_id.load(Relaxed);
    let answer = poller::unless_ending(|| driver::query(event, context, id)).unwrap_or(Answer::NotYet);
    if answer == Answer::NotYet {
        return false;
    }
    if answer == Answer::Never {
        lose(segment, lane);
        return true;
    }
    let slot = lane.slot();
    if slot.is_some_and(|slot| !abort::counts_now(segment, slot)) || !mark.take_answered(state) {
        return false;
    }
    // The lane may have been taken from its communicator just now, but has no other one before this mark is free.
    if let Some(slot) = lane.slot() {
        mark.credit(segment, index, slot, lane.generation.load(Relaxed));
    }
    mark.leave_free();
    true
}

/// The context of the lane is gone or has failed: what it held stays in flight, and nobody can tell. The communicator's
/// next call gets another lane, if there is a context.
fn lose(segment: &Segment, lane: &Lane) {
    lane.context_id.store(GONE, Relaxed);
    let calls = lane.marks.iter().map(Mark::n_calls).sum();
    let slot = lane.slot();
    if let Some(slot) = slot.filter(|slot| take_away(lane, *slot)) {
        super::lose(segment, slot, calls);
    } else {
        // A mark that was being filled when the communicator lost the lane.
        for mark in &lane.marks {
            mark.give_up();
        }
    }
}

/// Whether any event is to be asked.
pub(super) fn any_recorded() -> bool {
    used().any(|index| LANES[index].marks.iter().any(|mark| mark.recorded().is_some()))
}

/// Whether an event of the slot's is still to answer, or is just being counted.
pub(super) fn has_recorded(slot: usize) -> bool {
    used().map(|index| &LANES[index]).any(|lane| {
        lane.owner.load(Acquire) as usize == slot + 1 && lane.marks.iter().any(Mark::is_unanswered)
    })
}

/// Takes the lanes of a slot from it, with all that they hold. A mark that a caller is just filling stays his: he finds
/// the lane gone, and until he has left it nobody else gets the lane.
pub(super) fn drop_of(slot: usize) {
    for lane in used().map(|index| &LANES[index]) {
        take_away(lane, slot);
    }
}

fn take_away(lane: &Lane, slot: usize) -> bool {
    let owner = lane.owner.load(Acquire);
    if owner as usize != slot + 1 || lane.owner.compare_exchange(owner, CHANGING, SeqCst, Relaxed).is_err() {
        return false;
    }
    for mark in &lane.marks {
        mark.give_up();
    }
    lane.owner.store(0, SeqCst);
    true
}

/// In a forked child: the events are the parent's, and so are the calls that they would confirm.
pub(super) fn forget() {
    for index in used() {
        let lane = &LANES[index];
        lane.owner.store(0, Relaxed);
        lane.context.store(0, Relaxed);
        lane.marks.iter().for_each(Mark::forget);
    }
    for word in &USED {
        word.store(0, Relaxed);
    }
    MAY_WAIT.store(false, Relaxed);
    pending_event::forget();
}
