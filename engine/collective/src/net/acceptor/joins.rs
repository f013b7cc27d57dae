//! The ranks that join a root.

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError};
use std::time::Duration;

use crate::net::hello::{Join, WELCOME};

/// A rank that has joined a root, or why no more can be taken.
pub(crate) type Joined = Result<(Join, TcpStream), String>;

/// What the thread that takes calls has for a root. A rank is welcome when the root takes it from here: whom it never takes finds
/// its connection closed instead, and calls again.
#[derive(Debug)]
pub(crate) struct Joins(Receiver<Joined>);

impl Joins {
    pub(super) fn new(joined: Receiver<Joined>) -> Self {
        Self(joined)
    }

    /// The next one; waits for it without limit.
    pub(crate) fn recv(&self) -> Result<Joined, RecvError> {
        self.0.recv().map(welcome)
    }

    /// The next one, if it comes in time.
    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<Joined, RecvTimeoutError> {
        self.0.recv_timeout(timeout).map(welcome)
    }

    /// All that come.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Joined> + '_ {
        self.0.iter().map(welcome)
    }
}

/// Who has gone meanwhile is not told, and counts as one that has joined and gone.
fn welcome(joined: Joined) -> Joined {
    joined.inspect(|(_, stream)| drop((&*stream).write_all(&[WELCOME])))
}
