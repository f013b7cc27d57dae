//! What the collector makes of the profiler's events: one place for all versions of the interface.

use std::cell::Cell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ABORTED, COMMUNICATOR_DESTROYED, COMPLETION_PROFILER, Communicator, DropReason,
    MADE_BY_UNSEEN, MAX_PRIMITIVES, OPERATION_CAPTURED,
};

use crate::calls::{complete, ending};
use crate::profiler::contexts::Announcement;
use crate::profiler::event::{Api, Event, ProxyOp};
use crate::profiler::seen::Described;
use crate::profiler::{adopt, asked, contexts, event, lost, replay, seen, steps};
use crate::segment::handle::{Handle, Operation};
use crate::segment::names::{Name, name_of};
use crate::segment::{communicators, links, local, records, switch};

/// Who speaks, and below what.
#[derive(Clone, Copy)]
pub(crate) struct Speaker {
    /// Version of the interface.
    pub(crate) version: u32,
    /// The context's number.
    pub(crate) context: usize,
    /// Handle of the parent event, as it came.
    pub(crate) parent: u64,
    /// Rank that the descriptor names.
    pub(crate) rank: i32,
    /// This process's id.
    pub(crate) pid: i32,
}

/// First version that tells of the calls of the API, whose events are then the parents of tasks.
const FIRST_WITH_CALLS: u32 = 5;
/// First version that tells how many channels a task has.
const FIRST_WITH_CHANNEL_COUNTS: u32 = 4;

thread_local! {
    /// A group of this thread's is open and has captured calls: what the library plans now is being captured.
    static IN_CAPTURE: Cell<bool> = const { Cell::new(false) };
    /// Ticket plus one of the record that this thread last made a template of.
    static LAST_TEMPLATE: Cell<u64> = const { Cell::new(0) };
}

/// An event has begun.
#[inline(always)]
pub(crate) fn start(segment: &Segment, speaker: Speaker, event: &Event) -> Option<Handle> {
    match event {
        Event::CollApi(api) | Event::P2pApi(api) => start_api(segment, speaker, api),
        Event::Coll(coll) => {
            let name = Task { func: coll.func, count: coll.count, datatype: coll.datatype, peer: coll.root };
            start_task(segment, speaker, &name, coll.n_channels, (coll.comm_hash, coll.name))
        }
        Event::P2p(p2p) => {
            let name = Task { func: p2p.func, count: p2p.count, datatype: p2p.datatype, peer: p2p.peer };
            start_task(segment, speaker, &name, p2p.n_channels, (p2p.comm_hash, p2p.name))
        }
        Event::KernelCh(channel) => start_channel(segment, speaker, *channel),
        Event::ProxyOp(proxy) => start_proxy(segment, speaker, *proxy),
        Event::ProxyStep => start_step(segment, speaker),
        Event::GroupApi => Some(Handle::Group),
        // Its end is only told by CUDA events: the record that its call made stays in flight until one.
        Event::CeColl | Event::Other => None,
        Event::Unknown => {
            switch::dropped(segment, DropReason::UnknownEvent, 1);
            None
        }
    }
}

/// On the caller's thread. Inside our wrapper the record is the one being forwarded; else there is none yet.
#[inline(always)]
fn start_api(segment: &Segment, speaker: Speaker, api: &Api) -> Option<Handle> {
    let slot = contexts::slot(segment, speaker.context);
    let Some(ticket) = local::with(|local| local.current.get()).checked_sub(1) else {
        return start_unseen_api(segment, slot, speaker.parent, api);
    };
    let record = records::record(segment, ticket);
    if record.ticket.load(Acquire) != ticket + 1 {
        // It has lost its place while its call was under way, which has been counted.
        return None;
    }
    let (slot_of_call, primitive) = records::subject(record);
    if slot != Some(slot_of_call) && !adopt::confirm(segment, speaker.context, slot_of_call) {
        // Neither the event's communicator nor the call's will hear of this operation.
        lost::of_slot(segment, slot_of_call);
        lost::event(segment, speaker.context);
        return None;
    }
    if api.is_captured {
        begin_capture(speaker.parent);
        // The parts of one all-to-all are one template.
        if LAST_TEMPLATE.replace(ticket + 1) == ticket + 1 {
            return None;
        }
        let state = records::state_of(record, ticket);
        if let Some(state) = state.filter(|state| records::is_in_flight(*state)) {
            records::change(record, state, OPERATION_CAPTURED);
        }
        return Some(replay::template(segment, slot_of_call, primitive, records::bytes(record)));
    }
    Some(Handle::Api(Operation::new(ticket, slot_of_call, primitive)))
}

#[inline(never)]
fn start_unseen_api(segment: &Segment, slot: Option<usize>, parent: u64, api: &Api) -> Option<Handle> {
    if !switch::is_on(segment) {
        return None;
    }
    let primitive = event::primitive(api.func)?;
    let Some(slot) = slot else {
        // A call that went through the collector while that was off is counted by nobody; of an unknown communicator, by it.
        if !local::with(local::Local::is_inside) {
            switch::dropped(segment, DropReason::UnknownCommunicator, 1);
        }
        return None;
    };
    if local::with(|local| local.forming.get()) == 0 {
        communicators::succeed(segment, slot);
    }
    if !asked::is_unrecorded(segment, slot) {
        return None;
    }
    let datatype = event::datatype(api.datatype);
    let seen = Described { slot, primitive, count: api.count, datatype, peer: peer(primitive, api.root) };
    let operation = seen::add(segment, &seen, api.is_captured);
    if api.is_captured {
        begin_capture(parent);
        return Some(replay::template(segment, slot, primitive.index(), seen.bytes()));
    }
    Some(Handle::Api(operation))
}

/// The library says root 0 also of what has none.
fn peer(primitive: ringscope_wire::Primitive, root: i32) -> i32 {
    use ringscope_wire::Primitive::{Broadcast, Gather, Recv, Reduce, Scatter, Send};
    if matches!(primitive, Broadcast | Reduce | Gather | Scatter | Send | Recv) { root } else { -1 }
}

/// How a task's descriptor names its operation.
struct Task {
    func: event::Word,
    count: u64,
    datatype: event::Word,
    peer: i32,
}

#[inline(always)]
fn start_task(
    segment: &Segment,
    speaker: Speaker,
    task: &Task,
    n_channels: u8,
    named: (u64, event::Text),
) -> Option<Handle> {
    if speaker.version < FIRST_WITH_CALLS {
        return start_nameless_task(segment, speaker, task, n_channels, named);
    }
    match Handle::decode(speaker.parent) {
        Some(Handle::Api(operation)) => Some(follow(segment, operation, Some(n_channels), task.peer)),
        // A plan without proxy operations is reported once, when it is captured.
        Some(Handle::Template(_)) if is_calling() => None,
        Some(Handle::Template(entry)) => {
            let run = replay::run(segment, entry, n_channels);
            if run.is_none() {
                lost::event(segment, speaker.context);
            }
            run
        }
        None if speaker.parent == 0 => None,
        _ => {
            lost::event(segment, speaker.context);
            None
        }
    }
}

/// Some call was captured in a group: until then the end of a group need not look for it.
static HAS_CAPTURED: AtomicBool = AtomicBool::new(false);

/// A call below this parent is captured: as long as its group is open, tasks of templates are no runs.
fn begin_capture(parent: u64) {
    if Handle::decode(parent) == Some(Handle::Group) {
        HAS_CAPTURED.store(true, Relaxed);
        IN_CAPTURE.set(true);
    }
}

fn end_capture() {
    if HAS_CAPTURED.load(Relaxed) {
        IN_CAPTURE.set(false);
    }
}

fn is_calling() -> bool {
    IN_CAPTURE.get() || local::with(local::Local::is_inside)
}

#[inline(always)]
fn follow(segment: &Segment, operation: Operation, n_channels: Option<u8>, peer: i32) -> Handle {
    if !complete::expect_channels(segment, operation, n_channels) {
        return Handle::Late(operation);
    }
    let record = records::record(segment, operation.ticket);
    // The API event of a send or receive does not name the peer.
    if record.peer.load(Relaxed) < 0 && matches!(operation.primitive, SEND | RECV) {
        record.peer.store(peer, Relaxed);
    }
    Handle::Task(operation)
}

const SEND: usize = ringscope_wire::Primitive::Send as usize;
const RECV: usize = ringscope_wire::Primitive::Recv as usize;

/// Before version 5 a task's parent is the plan. The call is the oldest that fits, if calls on this communicator pass
/// the collector; else the task is all that is seen of it.
fn start_nameless_task(
    segment: &Segment,
    speaker: Speaker,
    task: &Task,
    n_channels: u8,
    (comm_hash, name): (u64, event::Text),
) -> Option<Handle> {
    let primitive = event::primitive(task.func)?;
    let slot = contexts::sure_slot(segment, speaker.context)
        .or_else(|| find_by_task(segment, speaker, comm_hash, name_of(name.bytes())));
    let Some(slot) = slot else {
        switch::dropped(segment, DropReason::UnknownCommunicator, 1);
        return None;
    };
    let communicator = communicators::at(segment, slot);
    if comm_hash != 0 && communicator.comm_hash.load(Relaxed) != comm_hash {
        communicator.comm_hash.store(comm_hash, Relaxed);
    }
    let datatype = event::datatype(task.datatype);
    let peer = peer(primitive, task.peer);
    let seen = Described { slot, primitive, count: task.count, datatype, peer };
    let n_known = (speaker.version >= FIRST_WITH_CHANNEL_COUNTS).then_some(n_channels);
    if communicator.made_by.load(Relaxed) == MADE_BY_UNSEEN {
        if !switch::is_on(segment) {
            return None;
        }
        return Some(follow(segment, seen::add(segment, &seen, false), n_known, peer));
    }
    if let Some(operation) = seen::find(segment, &seen) {
        return Some(follow(segment, operation, n_known, peer));
    }
    let captured =
        communicator.counters[primitive.index() & (MAX_PRIMITIVES - 1)].captured_calls.load(Relaxed);
    if captured > 0 {
        let n_channels = n_known.unwrap_or_default();
        return if is_calling() {
            None
        } else {
            replay::run_of(segment, slot, primitive.index(), seen.bytes(), n_channels)
        };
    }
    if !switch::is_on(segment) {
        // Its call has not been recorded either.
        return None;
    }
    switch::dropped(segment, DropReason::UnmatchedEvent, 1);
    lost::of_slot(segment, slot);
    None
}

#[inline(always)]
fn start_channel(segment: &Segment, speaker: Speaker, channel: u8) -> Option<Handle> {
    match Handle::decode(speaker.parent) {
        Some(Handle::Task(operation)) => {
            let is_counted = speaker.version >= FIRST_WITH_CHANNEL_COUNTS;
            Some(complete::channel_begun(segment, operation, channel, is_counted))
        }
        Some(Handle::Run(entry)) => Some(replay::channel_begun(entry, channel)),
        Some(Handle::Late(_)) => None,
        None if speaker.parent == 0 => None,
        _ => {
            lost::event(segment, speaker.context);
            None
        }
    }
}

/// Only sends count, and only of this process: through a proxy in another one (PXN) the parent is that one's handle.
fn start_proxy(segment: &Segment, speaker: Speaker, proxy: ProxyOp) -> Option<Handle> {
    if proxy.is_send != 1 || proxy.pid != speaker.pid {
        return None;
    }
    let operation = match Handle::decode(speaker.parent) {
        Some(Handle::Task(operation) | Handle::Late(operation)) => operation,
        Some(Handle::Run(entry)) => {
            let (slot, primitive) = replay::subject_of(entry)?;
            Operation::new(0, slot, primitive)
        }
        None if speaker.parent == 0 => return None,
        _ => {
            switch::dropped(segment, DropReason::UnmatchedEvent, 1);
            return None;
        }
    };
    let link = links::find_or_insert(segment, operation, u32::try_from(proxy.peer).ok()?)?;
    // Before version 4 only the operation as a whole is told its bytes.
    Some(if speaker.version < FIRST_WITH_CHANNEL_COUNTS {
        steps::start(segment, link)
    } else {
        Handle::Link(link)
    })
}

fn start_step(segment: &Segment, speaker: Speaker) -> Option<Handle> {
    match Handle::decode(speaker.parent) {
        Some(Handle::Link(index)) => Some(steps::start(segment, index)),
        _ => None,
    }
}

/// An event has ended. The end of a call or of a task says nothing of completion.
#[inline(always)]
pub(crate) fn stop(segment: &Segment, number: u64) {
    match Handle::decode(number) {
        Some(Handle::Channel(operation, channel)) => complete::channel_done(segment, operation, channel),
        Some(Handle::RunChannel(entry, _)) => replay::channel_done(segment, entry),
        Some(Handle::Step(entry)) => steps::stop(segment, entry),
        Some(Handle::Group) => end_capture(),
        Some(
            Handle::Api(_)
            | Handle::Task(_)
            | Handle::Late(_)
            | Handle::Link(_)
            | Handle::LooseStep(_)
            | Handle::Template(_)
            | Handle::Run(_),
        ) => {}
        Some(Handle::Pair(_)) | None => {
            if number != 0 {
                switch::dropped(segment, DropReason::EventOutOfOrder, 1);
            }
        }
    }
}

/// The bytes of a step, or of an operation so far, are with the network.
pub(crate) fn sent(segment: &Segment, number: u64, bytes: u64, is_so_far: bool) {
    match Handle::decode(number) {
        Some(Handle::Step(entry)) if is_so_far => steps::sent_so_far(segment, entry, bytes),
        Some(Handle::Step(entry)) => steps::sent(segment, entry, bytes),
        Some(Handle::LooseStep(link)) if !is_so_far => links::count(segment, link, bytes, 0),
        _ => {}
    }
}

/// The slot of a context that is not known for sure: on the caller's thread it is one of the call's, or of the group's.
#[cold]
fn find_by_task(segment: &Segment, speaker: Speaker, comm_hash: u64, name: Name) -> Option<usize> {
    let told = Announcement { comm_hash, n_nodes: 0, n_ranks: 0, rank: speaker.rank, name };
    local::with(|local| {
        let current = local.current.get().checked_sub(1).map(|ticket| records::record(segment, ticket));
        match current.map(|record| records::subject(record).0) {
            Some(slot) => adopt::find_by_task(segment, speaker.context, &told, &mut std::iter::once(slot)),
            None => adopt::find_by_task(segment, speaker.context, &told, &mut local.group_slots()),
        }
    })
}

/// The library has done with a communicator. One that the profiler alone has told of ends here: what it had to tell of it and
/// did not, it never will.
pub(crate) fn finalize(segment: &Segment, context: usize) {
    let slot = contexts::slot(segment, context);
    if !contexts::close(context) {
        return switch::dropped(segment, DropReason::EventOutOfOrder, 1);
    }
    let Some(slot) = slot else { return };
    let communicator = communicators::at(segment, slot);
    let is_unseen = communicator.made_by.load(Relaxed) == MADE_BY_UNSEEN;
    if is_unseen || communicators::is_without_pointer(segment, slot) {
        let is_told = communicator.completion.load(Relaxed) == COMPLETION_PROFILER;
        let never_stopped = if is_told { in_flight(communicator) } else { 0 };
        let state = if never_stopped > 0 { COMMUNICATOR_ABORTED } else { COMMUNICATOR_DESTROYED };
        ending::end(segment, slot, state);
        if never_stopped > 0 {
            switch::dropped(segment, DropReason::EventOutOfOrder, never_stopped);
        }
    }
    asked::ended(segment, slot);
}

/// Calls that were issued and are not over.
fn in_flight(communicator: &Communicator) -> u64 {
    let calls = |counter: &AtomicU64| counter.load(Acquire);
    let counters = communicator.counters.iter();
    counters.map(|one| calls(&one.issued_calls).saturating_sub(calls(&one.completed_calls))).sum()
}
