//! The receiving end: what comes is handed over from where it lies. Only what is due is asked for, so that nothing is in flight
//! when the connection closes: networks differ in what they make of that.

use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::error::Error;
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::plugin::connect::{Companion, Taking};
use crate::transport::plugin::network::Context;
use crate::transport::plugin::staging::{N_SLOTS, SLOT_BYTES, Staging};
use crate::transport::{Description, Fault, Progress, RecvHalf, Sink};

/// The receiving end.
#[derive(Debug)]
pub(crate) struct PluginRecv {
    companion: Companion,
    taking: Taking,
    staging: Option<Staging>,
    peer: usize,
    /// Messages that were asked for, and the first of them that was not taken.
    next: usize,
    oldest: usize,
    /// Bytes of the oldest message, if it has come.
    come: Option<usize>,
    /// The header of the part that is being received.
    header: Option<Header>,
    /// Bytes of its payload that were taken.
    taken: usize,
}

impl PluginRecv {
    /// Over a connection that `peer` has called for.
    pub(crate) fn new(sockets: Vec<TcpStream>, peer: usize, device: usize, context: Arc<Context>) -> Self {
        let companion = Companion::new(sockets, device, context);
        let taking = Taking::new(&companion);
        let (staging, come, header) = (None, None, None);
        Self { companion, taking, staging, peer, next: 0, oldest: 0, come, header, taken: 0 }
    }

    /// Whether the oldest message is there, of so many that are due.
    fn has_come(&mut self, n_due: usize) -> Result<bool, Fault> {
        if self.staging.is_none() {
            self.staging = self.taking.go_on(&mut self.companion)?;
        }
        let Some(staging) = &mut self.staging else { return Ok(false) };
        let companion = &mut self.companion;
        while self.next < self.oldest + n_due.min(N_SLOTS)
            && staging.receive(self.next).map_err(|error| companion.fault(error))?
        {
            self.next += 1;
        }
        if self.come.is_none() && self.oldest < self.next {
            self.come = staging.test(self.oldest).map_err(|error| companion.fault(error))?;
        }
        if self.come.is_none() {
            self.companion.look()?;
        }
        Ok(self.come.is_some())
    }

    fn wrong(&self, what: &str) -> Fault {
        Fault::Broken(Error::Internal(format!("rank {} sent {what}", self.peer)))
    }

    /// Hands over what the oldest message has of the payload.
    fn hand_over(&mut self, skip: usize, rest: usize, sink: &mut dyn Sink) -> Result<(), Fault> {
        let len = self.come.take().unwrap_or(0);
        let Some(staging) = &mut self.staging else { return Ok(()) };
        let message = staging.bytes(self.oldest).and_then(|bytes| bytes.get(skip..len)).unwrap_or(&[]);
        if message.len() > rest {
            return Err(self.wrong("more than it had announced"));
        }
        let (offset, len) = (self.taken, message.len());
        match sink.space(offset) {
            Some(space) => {
                space.get_mut(..len).unwrap_or(&mut []).copy_from_slice(message);
                sink.filled(offset, len);
            }
            None => sink.take(offset, message),
        }
        self.taken += len;
        self.oldest += 1;
        Ok(())
    }
}

/// Messages in which so many bytes travel.
fn n_messages(bytes: usize) -> usize {
    bytes.div_ceil(SLOT_BYTES).max(1)
}

impl PluginRecv {
    /// The header of the part that comes next, of which so many messages are due.
    fn header(&mut self, n_due: usize) -> Result<Option<Header>, Fault> {
        if self.header.is_some() {
            return Ok(self.header);
        }
        if !self.has_come(n_due)? {
            return Ok(None);
        }
        let bytes = self.staging.as_mut().and_then(|staging| staging.bytes(self.oldest));
        let has_head = self.come.is_some_and(|len| len >= HEADER_BYTES);
        let head = bytes.and_then(|bytes| bytes.first_chunk()).filter(|_| has_head);
        let header = head.and_then(Header::from_bytes).ok_or_else(|| self.wrong("no valid header"))?;
        Ok(Some(header))
    }
}

impl RecvHalf for PluginRecv {
    fn front(&mut self) -> Result<Option<Header>, Fault> {
        self.header(1)
    }

    fn pull(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Progress, Fault> {
        let mut moved = false;
        let len = expected.len as usize;
        loop {
            let is_first = self.header.is_none();
            let Some(header) = self.header(n_messages(HEADER_BYTES + len))? else { break };
            if header != *expected {
                return Err(Fault::Mismatch(header));
            }
            self.header = Some(header);
            if !is_first && !self.has_come(n_messages(len - self.taken))? {
                break;
            }
            self.hand_over(if is_first { HEADER_BYTES } else { 0 }, len - self.taken, sink)?;
            moved = true;
            if self.taken == len {
                (self.header, self.taken) = (None, 0);
                return Ok(Progress::Done);
            }
        }
        Ok(if moved { Progress::Moved } else { Progress::Idle })
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn must_be_asked(&self) -> bool {
        true
    }

    fn describe(&self) -> Description {
        self.companion.describe()
    }
}
