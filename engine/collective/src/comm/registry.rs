//! The communicators of the process by handle: a handle is looked up, never followed, so a stale or foreign one is an
//! error and not a crash.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use crate::comm::pending::Pending;
use crate::comm::{Comm, exit};
use crate::error::{Error, IN_PROGRESS, Result, SUCCESS};
use crate::lock::lock;
use crate::net::control::{Dependent, Failure};
use crate::recent::{Place, Version};

static COMMS: LazyLock<Mutex<HashMap<usize, Slot>>> = LazyLock::new(Mutex::default);
static VERSION: Version = Version::new();

thread_local! {
    static LAST: Place<Comm> = const { RefCell::new(None) };
}

/// At the end of the process.
fn take_leave() {
    all().iter().for_each(|comm| comm.farewell());
}

/// The table, to be changed.
fn changing() -> MutexGuard<'static, HashMap<usize, Slot>> {
    let comms = lock(&COMMS);
    VERSION.change();
    comms
}

/// What a handle stands for.
#[derive(Debug)]
enum Slot {
    /// A communicator that does not exist yet.
    Pending(Arc<Pending>),
    /// One whose init has failed: it can be asked why, and given back. The init keeps the handle from being reused.
    Failed { error: Error, _pending: Arc<Pending> },
    /// A communicator.
    Ready {
        comm: Arc<Comm>,
        /// Splits, shrinks and finalizes of it that run in the background.
        busy: usize,
        /// Whether `ncclCommFinalize` was called.
        finalized: bool,
    },
}

/// A call on a communicator that runs in the background, until dropped.
#[derive(Debug)]
pub(crate) struct Busy(usize);

/// Makes a communicator known; returns its handle.
pub fn insert(comm: Arc<Comm>) -> usize {
    exit::register(take_leave);
    let handle = comm.identity.handle;
    changing().insert(handle, Slot::Ready { comm, busy: 0, finalized: false });
    handle
}

/// Makes a handle known whose communicator is being made.
pub(crate) fn reserve(pending: Arc<Pending>) -> usize {
    exit::register(take_leave);
    let handle = pending.handle();
    changing().insert(handle, Slot::Pending(pending));
    handle
}

/// The outcome of an init. A communicator whose handle was given back meanwhile is aborted.
pub(crate) fn settle(pending: &Arc<Pending>, outcome: Result<Arc<Comm>>) {
    let mut comms = changing();
    let Some(slot) = comms.get_mut(&pending.handle()) else {
        drop(comms);
        if let Ok(comm) = outcome {
            comm.abort();
        }
        return;
    };
    *slot = match outcome {
        Ok(comm) => Slot::Ready { comm, busy: 0, finalized: false },
        Err(error) => Slot::Failed { error, _pending: Arc::clone(pending) },
    };
}

/// The communicator of a handle, for work on it.
pub(crate) fn find(handle: usize) -> Result<Arc<Comm>> {
    let comm = VERSION.find(&LAST, handle, || look_up(handle))?;
    if comm.is_of_this_process() {
        return Ok(comm);
    }
    Err(Error::InvalidUsage(format!(
        "this process was forked from a member of the group: comm {handle:#x} is its parent's; make one of its own"
    )))
}

fn look_up(handle: usize) -> Result<Arc<Comm>> {
    match lock(&COMMS).get(&handle) {
        Some(Slot::Ready { busy, .. }) if *busy > 0 => Err(in_progress(handle)),
        Some(Slot::Ready { finalized: true, .. }) => {
            Err(Error::InvalidUsage(format!("comm {handle:#x} has been finalized: destroy it")))
        }
        slot => ready(slot, handle),
    }
}

/// The communicator of a handle, to be asked about itself.
pub(crate) fn look(handle: usize) -> Result<Arc<Comm>> {
    ready(lock(&COMMS).get(&handle), handle)
}

fn ready(slot: Option<&Slot>, handle: usize) -> Result<Arc<Comm>> {
    match slot {
        Some(Slot::Ready { comm, .. }) => Ok(Arc::clone(comm)),
        Some(Slot::Pending(_)) => Err(in_progress(handle)),
        Some(Slot::Failed { error, .. }) => Err(error.clone()),
        None => Err(unknown(handle)),
    }
}

/// The `ncclResult_t` for `ncclCommGetAsyncError`.
pub(crate) fn state(handle: usize) -> Result<c_int> {
    let comm = match lock(&COMMS).get(&handle) {
        Some(Slot::Pending(_)) => return Ok(IN_PROGRESS),
        Some(Slot::Failed { error, .. }) => return Ok(error.code()),
        Some(Slot::Ready { busy, .. }) if *busy > 0 => return Ok(IN_PROGRESS),
        Some(Slot::Ready { comm, .. }) => Arc::clone(comm),
        None => return Err(unknown(handle)),
    };
    if comm.is_revoked() {
        return Ok(if comm.turns.is_idle() { SUCCESS } else { IN_PROGRESS });
    }
    Ok(comm.check().err().map_or(SUCCESS, |error| error.code()))
}

/// The text of a handle's first error.
pub(crate) fn last_error(handle: usize) -> Option<String> {
    let comm = match lock(&COMMS).get(&handle)? {
        Slot::Pending(_) => return None,
        Slot::Failed { error, .. } => return Some(error.to_string()),
        Slot::Ready { comm, .. } => Arc::clone(comm),
    };
    comm.last_error()
}

/// Marks a communicator as finalized; only once.
pub(crate) fn finalize(handle: usize) -> Result<Arc<Comm>> {
    let comm = find(handle)?;
    if comm.is_revoked() {
        return Err(Error::InvalidUsage(
            "ncclCommFinalize after ncclCommRevoke: destroy it instead".to_owned(),
        ));
    }
    if let Some(Slot::Ready { finalized, .. }) = changing().get_mut(&handle) {
        *finalized = true;
    }
    Ok(comm)
}

/// A call that runs in the background begins.
pub(crate) fn busy(handle: usize) -> Busy {
    if let Some(Slot::Ready { busy, .. }) = changing().get_mut(&handle) {
        *busy += 1;
    }
    Busy(handle)
}

impl Busy {
    /// How the call has ended: on a communicator that does not block, NCCL tells it to who asks (`groupCleanup` in `src/group.cc`).
    pub(crate) fn tell<T>(&self, outcome: &Result<T>) {
        if let Ok(comm) = look(self.0)
            && comm.is_silent()
            && !comm.is_blocking()
        {
            let failure = |error: &Error| Failure::new(error.code(), error.to_string());
            comm.health.set_outcome(outcome.as_ref().err().map(failure));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(Slot::Ready { busy, .. }) = changing().get_mut(&self.0) {
            *busy = busy.saturating_sub(1);
        }
    }
}

/// All communicators.
pub(crate) fn all() -> Vec<Arc<Comm>> {
    let ready = |slot: &Slot| match slot {
        Slot::Ready { comm, .. } => Some(Arc::clone(comm)),
        _ => None,
    };
    lock(&COMMS).values().filter_map(ready).collect()
}

/// Forgets a handle; returns its communicator. One that is being made is called off. In a forked child nothing ends: threads,
/// connections and shared memory are still its parent's.
pub fn remove(handle: usize) -> Result<Option<Arc<Comm>>> {
    let slot = changing().remove(&handle);
    match slot.ok_or_else(|| unknown(handle))? {
        Slot::Ready { comm, .. } if comm.is_of_this_process() => Ok(Some(comm)),
        Slot::Ready { comm, .. } => {
            std::mem::forget(comm);
            Ok(None)
        }
        Slot::Failed { .. } => Ok(None),
        Slot::Pending(pending) => {
            if pending.is_of_this_process() {
                pending.call_off();
            }
            Ok(None)
        }
    }
}

fn unknown(handle: usize) -> Error {
    Error::InvalidArgument(format!("{handle:#x} is no communicator of this process"))
}

fn in_progress(handle: usize) -> Error {
    Error::InvalidArgument(format!(
        "comm {handle:#x} is not ready: wait until ncclCommGetAsyncError no longer gives ncclInProgress"
    ))
}
