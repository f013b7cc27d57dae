//! A communicator that is being made: its handle before it exists, and how to call its init off.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::fork::Owner;
use crate::lock::lock;
use crate::net::control::Dependent;

/// An init that is under way. Its address is the `ncclComm_t`, so it lives as long as the handle is known.
#[derive(Debug, Default)]
pub struct Pending {
    bootstrap: Mutex<Line>,
    called_off: Condvar,
    /// By which process.
    owner: Owner,
}

/// The connection that init waits on.
#[derive(Debug, Default)]
struct Line {
    stream: Option<TcpStream>,
    called_off: bool,
}

impl Dependent for Pending {
    /// Ends init, at once where it waits for its peers.
    fn call_off(&self) {
        let mut line = lock(&self.bootstrap);
        line.called_off = true;
        self.called_off.notify_all();
        if let Some(stream) = line.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Pending {
    /// A new handle.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Whether this process began it, and not one that it was forked from, whose threads and connections are not its own.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.owner.is_this()
    }

    /// The handle.
    pub(crate) fn handle(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Init waits on this connection from now on.
    pub(crate) fn waits_on(&self, stream: TcpStream) -> Result<()> {
        let mut line = lock(&self.bootstrap);
        if line.called_off {
            return Err(Error::InvalidUsage("the communicator was aborted while it was made".to_owned()));
        }
        line.stream = Some(stream);
        Ok(())
    }

    /// For an init that can only be aborted.
    pub(crate) fn wait_until_called_off(&self) {
        let line = lock(&self.bootstrap);
        let waits = |line: &mut Line| !line.called_off;
        drop(self.called_off.wait_while(line, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Init is over, well or not.
    pub(crate) fn done(&self) {
        lock(&self.bootstrap).stream = None;
    }
}
