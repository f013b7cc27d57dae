//! The sending end.

use std::os::fd::BorrowedFd;

use super::pipe::Shared;
use crate::net::link::HEADER_BYTES;
use crate::transport::{Description, Fault, Part, Progress, SendHalf};

/// Sends.
#[derive(Debug)]
pub(crate) struct Sender {
    pipe: Shared,
    /// Bytes of the current part that are in the pipe, its header among them.
    done: usize,
    released: u64,
}

impl Sender {
    pub(super) fn new(pipe: Shared) -> Self {
        Self { pipe, done: 0, released: 0 }
    }
}

impl SendHalf for Sender {
    fn post(&mut self, part: Part<'_>) -> Result<Progress, Fault> {
        let header = part.header.to_bytes();
        let left = header.get(self.done..).unwrap_or(&part.payload[self.done.saturating_sub(HEADER_BYTES)..]);
        let left = if left.is_empty() { part.payload } else { left };
        let n = self.pipe.put(left).ok_or(Fault::Closed)?;
        self.done += n;
        if self.done < HEADER_BYTES + part.payload.len() {
            return Ok(if n == 0 { Progress::Idle } else { Progress::Moved });
        }
        self.done = 0;
        self.released += 1;
        Ok(Progress::Done)
    }

    fn released(&mut self) -> Result<u64, Fault> {
        Ok(self.released)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.pipe.room())
    }

    fn describe(&self) -> Description {
        Description::Sim
    }
}
