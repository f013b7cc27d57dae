//! Groups: calls between `ncclGroupStart` and the outermost `ncclGroupEnd` become one submission; a call outside is a
//! group of its own.
//!
//! Per communicator a group is one launch, on the stream of its first call there. Streams of its other calls wait for
//! that launch, and it waits for them, as in NCCL. Launches of one group on one stream run together, so that one thread
//! may drive several communicators; in the faithful mode only ranks of one communicator do, and communicators run one
//! after the other, in the order of their hashes (`ncclGroupCommJoin` in NCCL's `src/include/group.h`).

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::collective::operation::Operation;
use crate::comm::Comm;
use crate::error::{Error, Progress, Result};
use crate::lock::lock;
use crate::profiler::emit::{Call, GroupEvents, OperationEvents, PlanEvents};
use crate::run::drive::{self, Launch};
use crate::run::inits::{self, Init, Inits};
use crate::run::stream::{Moment, Stream};

/// A call that waits for its group's end.
pub(crate) struct Pending {
    /// On which communicator.
    pub(crate) comm: Arc<Comm>,
    /// On which stream.
    pub(crate) stream: Arc<Stream>,
    /// What.
    pub(crate) operation: Operation,
    /// As the profiler is told.
    pub(crate) call: Call,
}

/// What the calls of a thread's group ask for.
#[derive(Default)]
pub(crate) struct Group {
    depth: usize,
    pending: Vec<Pending>,
    inits: Inits,
    events: Option<GroupEvents>,
    error: Option<Error>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Submissions are whole and in one order on all streams, or two threads' groups could wait for each other.
static SUBMITTING: Mutex<()> = Mutex::new(());

/// `ncclGroupStart`
pub(crate) fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Ends one level of the thread's group; all that is in it, if that was the outermost one.
pub(crate) fn take() -> Result<Option<Group>> {
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Err(Error::InvalidUsage("ncclGroupEnd without ncclGroupStart".to_owned()));
        }
        group.depth -= 1;
        Ok((group.depth == 0).then(|| std::mem::take(group)))
    })
}

/// `ncclGroupEnd`; submits at the outermost one.
pub(crate) fn end() -> Result<Progress> {
    let Some(group) = take()? else { return Ok(Progress::Done) };
    let events = group.events.unwrap_or_default();
    events.ending();
    let result = match group.error {
        Some(error) => Err(group.inits.refuse(error)),
        None => run_all(group.inits, group.pending),
    };
    events.stop();
    result
}

fn run_all(inits: Inits, pending: Vec<Pending>) -> Result<Progress> {
    let progress = if inits.background.is_empty() { Progress::Done } else { Progress::Started };
    inits.run().and_then(|()| submit(pending)).map(|()| progress)
}

impl Group {
    /// As its end would: inits are begun, and calls are checked. They are not done; the last collective's time is estimated, in
    /// microseconds.
    pub(crate) fn simulate(self) -> Result<(Progress, Option<f32>)> {
        let events = self.events.unwrap_or_default();
        events.ending();
        let result = match self.error {
            Some(error) => Err(self.inits.refuse(error)),
            None => run_all(self.inits, Vec::new()),
        };
        events.stop();
        let mut estimate = None;
        for Pending { comm, operation, .. } in &self.pending {
            comm.check()?;
            estimate = comm.estimate_us(operation).or(estimate);
        }
        result.map(|progress| (progress, estimate))
    }
}

/// Adds a call to the thread's group. Collectives without effect, or of one rank, are not told to a profiler, as in NCCL
/// (`taskAppend` in `src/enqueue.cc`); a send or receive is always told in the faithful mode, though it carries nothing.
pub(crate) fn add(mut pending: Pending) -> Result<()> {
    if GROUP.with_borrow(|group| group.depth == 0) && !pending.comm.is_profiled() {
        pending.comm.check()?;
        return if pending.call.count == 0 { Ok(()) } else { submit_one(pending) };
    }
    start();
    GROUP.with_borrow_mut(|group| {
        let is_told = pending.comm.is_silent() && pending.operation.primitive.peer().is_some();
        let profiler = pending.comm.profiler().filter(|_| pending.comm.n_ranks > 1 || is_told);
        if pending.call.count == 0 && !(is_told && profiler.is_some()) {
            return;
        }
        if let Some(profiler) = profiler {
            let depth = group.depth;
            let (ranks, faithful) = ((pending.comm.rank, pending.comm.n_ranks), pending.comm.faithful());
            let events = group.events.get_or_insert_with(|| GroupEvents::start(&profiler, depth));
            pending.operation.events =
                OperationEvents::call(&profiler, ranks, &pending.call, events, faithful);
        }
        group.pending.push(pending);
    });
    end().map(drop)
}

/// Refuses what would end a communicator on which calls of the thread's group wait for its end. NCCL destroys it before it
/// begins them (`groupLaunch` in `src/group.cc`).
pub(crate) fn refuse_with_calls(handle: usize, what: &str) -> Result<()> {
    let waits = |pending: &Pending| pending.comm.identity.handle == handle;
    if !GROUP.with_borrow(|group| group.pending.iter().any(waits)) {
        return Ok(());
    }
    Err(Error::InvalidUsage(format!(
        "{what} in a group that has calls on the communicator: call it after ncclGroupEnd"
    )))
}

/// Defers an init to the end of the thread's group, or runs it now outside of one.
pub(crate) fn init(init: Init) -> Result<()> {
    GROUP
        .with_borrow_mut(|group| {
            if group.depth == 0 {
                return Err(init);
            }
            group.inits.blocking.push(init);
            Ok(())
        })
        .or_else(|init| init(Ok(())))
}

/// The same for an init that runs in the background; it deals with its own outcome.
pub(crate) fn init_in_background(init: Init) -> Result<Progress> {
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(init);
        }
        group.inits.background.push(init);
        None
    });
    now.map_or(Ok(()), inits::start).map(|()| Progress::Started)
}

/// A failed call fails its group. Returns the error itself.
pub(crate) fn poison(error: Error) -> Error {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.error.get_or_insert(error.clone());
        }
    });
    error
}

/// How long a call's own thread waits for its peers: as long as other ranks of a crowded core need for their turns, and not so
/// long that a caller would notice it of a call that should return at once.
const PATIENCE: Duration = Duration::from_micros(200);

struct Batch {
    stream: Arc<Stream>,
    /// Of the only communicator, in the faithful mode.
    comm_hash: Option<u64>,
    launches: Vec<Launch>,
    /// Streams that the launches' other calls are on.
    joined: Vec<Arc<Stream>>,
}

fn submit(mut pending: Vec<Pending>) -> Result<()> {
    for pending in &pending {
        pending.comm.check()?;
    }
    match pending.len() {
        0 => Ok(()),
        1 => pending.pop().map_or(Ok(()), submit_one),
        _ => {
            let mut streams: Vec<_> = pending.iter().map(|pending| Arc::clone(&pending.stream)).collect();
            streams.dedup_by(|one, other| Arc::ptr_eq(one, other));
            let submitting = lock(&SUBMITTING);
            batches(pending).into_iter().try_for_each(enqueue)?;
            drop(submitting);
            streams.iter().for_each(|stream| stream.wait_for_room());
            Ok(())
        }
    }
}

/// A single call. If it is small and nothing is before it, it runs here and now, as far as it gets; what is left is for
/// the stream's thread, so that a thread which drives several communicators never waits for its own next call.
fn submit_one(pending: Pending) -> Result<()> {
    let Pending { comm, stream, mut operation, call } = pending;
    let submitting = lock(&SUBMITTING);
    let mut plan = PlanEvents::default();
    comm.number(&mut operation, &call, &mut plan);
    plan.stop();
    let here = comm.runs_inline(operation.bytes()) && comm.turns.is_idle() && stream.try_begin();
    let ticket = comm.turns.issue();
    if !here {
        let launch = Launch { comm, ticket, operations: vec![operation] };
        let own = Arc::clone(&stream);
        enqueue(Batch { stream: own, comm_hash: None, launches: vec![launch], joined: Vec::new() })?;
        drop(submitting);
        stream.wait_for_room();
        return Ok(());
    }
    drop(submitting);
    let turn = comm.turns.take(ticket);
    if let Some(outcome) = drive::start(&comm, std::slice::from_ref(&operation), PATIENCE) {
        drop(turn);
        stream.finish(outcome);
        return Ok(());
    }
    turn.leave();
    let comm = Arc::clone(&comm);
    stream.hand_over(Box::new(move || {
        let _turn = comm.turns.go_on();
        drive::resume(&comm)
    }))
}

fn batches(pending: Vec<Pending>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut plans: Vec<(Arc<Comm>, PlanEvents)> = Vec::new();
    for Pending { comm, stream, mut operation, call } in pending {
        let of_comm = plans.iter().position(|(other, _)| Arc::ptr_eq(other, &comm));
        let plan = of_comm.unwrap_or_else(|| {
            plans.push((Arc::clone(&comm), PlanEvents::default()));
            plans.len() - 1
        });
        comm.number(&mut operation, &call, &mut plans[plan].1);
        let of_comm = |batch: &Batch| batch.launches.iter().any(|launch| Arc::ptr_eq(&launch.comm, &comm));
        let at = batches.iter().position(of_comm).unwrap_or_else(|| {
            let launch =
                Launch { comm: Arc::clone(&comm), ticket: comm.turns.issue(), operations: Vec::new() };
            add_launch(&mut batches, Arc::clone(&stream), launch)
        });
        let batch = &mut batches[at];
        let known = Arc::ptr_eq(&batch.stream, &stream)
            || batch.joined.iter().any(|other| Arc::ptr_eq(other, &stream));
        if !known {
            batch.joined.push(stream);
        }
        if let Some(launch) = batch.launches.iter_mut().find(|launch| Arc::ptr_eq(&launch.comm, &comm)) {
            launch.operations.push(operation);
        }
    }
    plans.into_iter().for_each(|(_, plan)| plan.stop());
    batches.sort_by_key(|batch| batch.comm_hash);
    batches
}

fn add_launch(batches: &mut Vec<Batch>, stream: Arc<Stream>, launch: Launch) -> usize {
    let comm_hash = launch.comm.is_silent().then_some(launch.comm.identity.comm_hash);
    let takes = |batch: &Batch| Arc::ptr_eq(&batch.stream, &stream) && batch.comm_hash == comm_hash;
    let at = batches.iter().position(takes).unwrap_or_else(|| {
        batches.push(Batch { stream, comm_hash, launches: Vec::new(), joined: Vec::new() });
        batches.len() - 1
    });
    batches[at].launches.push(launch);
    at
}

fn enqueue(batch: Batch) -> Result<()> {
    let finished = Arc::new(Moment::default());
    let mut arrivals = Vec::new();
    for stream in &batch.joined {
        let arrived = Arc::new(Moment::default());
        arrivals.push(Arc::clone(&arrived));
        let finished = Arc::clone(&finished);
        stream.enqueue(Box::new(move || {
            arrived.reach();
            finished.wait();
            Ok(())
        }))?;
    }
    let launches = batch.launches;
    if launches.iter().any(|launch| launch.comm.is_silent()) {
        batch.stream.leave_to_worker();
    }
    batch.stream.enqueue(Box::new(move || {
        arrivals.iter().for_each(|arrival| arrival.wait());
        let result = drive::run(&launches);
        finished.reach();
        result
    }))
}
