//! The communicators of the process by handle: a handle is looked up, never followed, so a stale or foreign one is an
//! error and not a crash.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use crate::comm::{Comm, exit};
use crate::error::{Error, Result};
use crate::net::control::lock;

static COMMS: LazyLock<Mutex<HashMap<usize, Arc<Comm>>>> = LazyLock::new(Mutex::default);

/// Makes a communicator known; returns its handle.
pub(crate) fn insert(comm: Arc<Comm>) -> usize {
    exit::register();
    let handle = comm.identity.handle;
    lock(&COMMS).insert(handle, comm);
    handle
}

/// The communicator of a handle.
pub(crate) fn find(handle: usize) -> Result<Arc<Comm>> {
    lock(&COMMS).get(&handle).map(Arc::clone).ok_or_else(|| unknown(handle))
}

/// All communicators.
pub(crate) fn all() -> Vec<Arc<Comm>> {
    lock(&COMMS).values().map(Arc::clone).collect()
}

/// Forgets a communicator; its handle is of no more use.
pub(crate) fn remove(handle: usize) -> Result<Arc<Comm>> {
    lock(&COMMS).remove(&handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    Error::InvalidArgument(format!("{handle:#x} is no communicator of this process"))
}
