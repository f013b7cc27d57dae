//! The calls that have come for one rank of one communicator.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::Acceptor;
use crate::error::{Error, Result};
use crate::lock::lock;
use crate::net::hello::{Hello, other_protocol};
use crate::net::secret::Secret;
use crate::net::wake::Wake;

/// A rank's place among the callees: as long as it lives, the rank can be called.
#[derive(Debug)]
pub(crate) struct Inbox {
    acceptor: Arc<Acceptor>,
    secret: Secret,
    shared: Arc<Shared>,
}

/// What the thread that takes calls fills.
#[derive(Debug)]
pub(super) struct Shared {
    wake: Wake,
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    come: Vec<(Hello, TcpStream)>,
    /// The protocol of a rank that speaks another one.
    other_protocol: Option<u8>,
    /// Why no connection could be taken.
    refusal: Option<Error>,
}

impl Inbox {
    pub(super) fn new(acceptor: Arc<Acceptor>, secret: Secret, wake: Wake) -> Self {
        Self { acceptor, secret, shared: Arc::new(Shared { wake, calls: Mutex::default() }) }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// What is set when a call comes.
    pub(crate) fn wake(&self) -> &Wake {
        &self.shared.wake
    }

    /// Takes what has come. The streams are non-blocking.
    pub(crate) fn take(&self) -> Vec<(Hello, TcpStream)> {
        std::mem::take(&mut lock(&self.shared.calls).come)
    }

    /// An error if a rank has called that speaks another protocol, or this process can open no more files.
    pub(crate) fn check(&self) -> Result<()> {
        let calls = lock(&self.shared.calls);
        let wrong = |theirs| Err(Error::InvalidUsage(other_protocol("a rank of this communicator", theirs)));
        calls.other_protocol.map_or(Ok(()), wrong)?;
        calls.refusal.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        lock(&self.acceptor.callees).end_inbox(&self.secret, &self.shared);
    }
}

impl Shared {
    pub(super) fn add(&self, hello: Hello, stream: TcpStream) {
        lock(&self.calls).come.push((hello, stream));
        self.wake.set();
    }

    pub(super) fn note_other_protocol(&self, theirs: u8) {
        lock(&self.calls).other_protocol = Some(theirs);
        self.wake.set();
    }

    pub(super) fn refuse(&self, error: &Error) {
        lock(&self.calls).refusal.get_or_insert_with(|| error.clone());
        self.wake.set();
    }
}
