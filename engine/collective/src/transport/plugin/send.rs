//! The sending end: header and payload follow each other in messages of a slot each.

use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::net::link::HEADER_BYTES;
use crate::transport::plugin::connect::{Calling, Companion};
use crate::transport::plugin::network::Context;
use crate::transport::plugin::staging::{N_SLOTS, SLOT_BYTES, Staging};
use crate::transport::{Description, Fault, Part, Progress, SendHalf};

/// The sending end.
#[derive(Debug)]
pub(crate) struct PluginSend {
    companion: Companion,
    calling: Calling,
    staging: Option<Staging>,
    /// Bytes of the current part, header included, that have been sent.
    sent: usize,
    /// Bytes of a message that lies in its slot and could not be sent yet.
    staged: Option<usize>,
    /// Messages that were sent, and the first of them that is not done.
    next: usize,
    oldest: usize,
    /// Of each message in flight, how many parts were posted with it.
    ends: [u64; N_SLOTS],
    posted: u64,
    released: u64,
}

impl PluginSend {
    /// Over the sockets of a connection that this end has called on.
    pub(crate) fn new(sockets: Vec<TcpStream>, device: usize, context: Arc<Context>) -> Self {
        Self {
            companion: Companion::new(sockets, device, context),
            calling: Calling::new(),
            staging: None,
            sent: 0,
            staged: None,
            next: 0,
            oldest: 0,
            ends: [0; N_SLOTS],
            posted: 0,
            released: 0,
        }
    }

    /// Sends as much of the part as there are slots for; whether all of it is on its way.
    fn send(&mut self, part: &Part<'_>, moved: &mut bool) -> Result<bool, Fault> {
        let Some(staging) = &mut self.staging else { return Ok(false) };
        let head = part.header.to_bytes();
        let whole = HEADER_BYTES + part.payload.len();
        while self.sent < whole && self.next < self.oldest + N_SLOTS {
            let len = match self.staged {
                Some(len) => len,
                None => stage(staging, self.next, &head, part.payload, self.sent),
            };
            if !staging.send(self.next, len).map_err(|error| self.companion.fault(error))? {
                self.staged = Some(len);
                return Ok(false);
            }
            self.staged = None;
            self.sent += len;
            self.ends[self.next % N_SLOTS] = self.posted + u64::from(self.sent == whole);
            self.next += 1;
            *moved = true;
        }
        Ok(self.sent == whole)
    }

    /// Notes which messages are done; whether any is.
    fn reap(&mut self) -> Result<bool, Fault> {
        let Some(staging) = &mut self.staging else { return Ok(false) };
        let before = self.oldest;
        while self.oldest < self.next
            && staging.test(self.oldest).map_err(|error| self.companion.fault(error))?.is_some()
        {
            self.released = self.ends[self.oldest % N_SLOTS];
            self.oldest += 1;
        }
        Ok(self.oldest > before)
    }
}

/// Puts the next message of a part into its slot; how many bytes it has.
fn stage(
    staging: &mut Staging,
    slot: usize,
    head: &[u8; HEADER_BYTES],
    payload: &[u8],
    sent: usize,
) -> usize {
    let Some(bytes) = staging.bytes(slot) else { return 0 };
    let head = head.get(sent..).unwrap_or(&[]);
    let payload = payload.get(sent.saturating_sub(HEADER_BYTES)..).unwrap_or(&[]);
    let (start, rest) = bytes.split_at_mut(head.len());
    start.copy_from_slice(head);
    let len = payload.len().min(rest.len());
    rest[..len].copy_from_slice(&payload[..len]);
    head.len() + len
}

impl SendHalf for PluginSend {
    fn post(&mut self, part: Part<'_>) -> Result<Progress, Fault> {
        let mut moved = false;
        if self.staging.is_none() {
            self.staging = self.calling.go_on(&mut self.companion)?;
            moved = self.staging.is_some();
        }
        moved |= self.reap()?;
        if self.send(&part, &mut moved)? {
            self.sent = 0;
            self.posted += 1;
            return Ok(Progress::Done);
        }
        if moved {
            return Ok(Progress::Moved);
        }
        self.companion.look()?;
        Ok(Progress::Idle)
    }

    fn released(&mut self) -> Result<u64, Fault> {
        if !self.reap()? {
            self.companion.look()?;
        }
        Ok(self.released)
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

const _: () = assert!(SLOT_BYTES > HEADER_BYTES);
