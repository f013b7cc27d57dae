//! The receiving end.

use std::os::fd::BorrowedFd;

use super::pipe::Shared;
use crate::error::Error;
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::{Description, Fault, Progress, RecvHalf, Sink};

/// Receives.
#[derive(Debug)]
pub(crate) struct Receiver {
    pipe: Shared,
    header: Vec<u8>,
    /// Bytes of the payload that the sink has, and those of an element that is not whole yet.
    done: usize,
    rest: Vec<u8>,
}

impl Receiver {
    pub(super) fn new(pipe: Shared) -> Self {
        Self { pipe, header: Vec::new(), done: 0, rest: Vec::new() }
    }

    /// Once it is whole.
    fn header(&self) -> Result<Option<Header>, Fault> {
        let strange = || Fault::Broken(Error::Internal("a simulated header has no magic".to_owned()));
        let whole = <&[u8; HEADER_BYTES]>::try_from(self.header.as_slice()).ok();
        whole.map(|header| Header::from_bytes(header).ok_or_else(strange)).transpose()
    }

    fn take_payload(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        if let Some(space) = sink.space(self.done) {
            space[..bytes.len()].copy_from_slice(bytes);
            sink.filled(self.done, bytes.len());
            self.done += bytes.len();
            return;
        }
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() / sink.grain() * sink.grain();
        if whole > 0 {
            let taken: Vec<u8> = self.rest.drain(..whole).collect();
            sink.take(self.done, &taken);
            self.done += whole;
        }
    }
}

impl RecvHalf for Receiver {
    fn front(&mut self) -> Result<Option<Header>, Fault> {
        let missing = HEADER_BYTES - self.header.len();
        if missing > 0 {
            self.header.extend(self.pipe.get(missing).ok_or(Fault::Closed)?);
        }
        self.header()
    }

    fn pull(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Progress, Fault> {
        let len = expected.len as usize;
        let missing = HEADER_BYTES - self.header.len();
        let max = if missing > 0 { missing } else { len - self.done - self.rest.len() };
        let bytes = self.pipe.get(max).ok_or(Fault::Closed)?;
        if missing == 0 {
            self.take_payload(&bytes, sink);
        } else {
            self.header.extend_from_slice(&bytes);
        }
        if let Some(header) = self.header()? {
            if header != *expected {
                return Err(Fault::Mismatch(header));
            }
            if self.done == len {
                self.header.clear();
                self.done = 0;
                return Ok(Progress::Done);
            }
        }
        Ok(if bytes.is_empty() { Progress::Idle } else { Progress::Moved })
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.pipe.filled())
    }

    fn describe(&self) -> Description {
        Description::Sim
    }
}
