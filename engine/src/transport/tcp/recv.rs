//! The receiving end: straight into the target where data are stored, through a staging buffer where they are reduced.

use std::io::{ErrorKind, IoSliceMut, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use crate::error::Error;
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::tcp::connect;
use crate::transport::{Description, Fault, Progress, RecvHalf, Sink};

/// Data on their way into a reduction stay in the second-level cache, whose smallest today has 256 KiB.
const STAGING_BYTES: usize = 128 * 1024;

/// The receiving end.
#[derive(Debug)]
pub(crate) struct TcpRecv {
    stream: TcpStream,
    peer: usize,
    head: [u8; HEADER_BYTES],
    /// Bytes of the current part that have come, header included.
    read: usize,
    /// Bytes at the staging buffer's start that have come and are not a whole element yet.
    left_over: usize,
    staging: Vec<u8>,
}

impl TcpRecv {
    /// Over a socket that has been tuned.
    pub(crate) fn new(stream: TcpStream, peer: usize) -> Self {
        Self { stream, peer, head: [0; HEADER_BYTES], read: 0, left_over: 0, staging: Vec::new() }
    }

    /// Reads once into what is left of the header and the memory after it; how much, nothing if none has come.
    fn read_some(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Option<usize>, Fault> {
        let payload = self.read.saturating_sub(HEADER_BYTES);
        let head = self.head.get_mut(self.read..).unwrap_or(&mut []);
        let target = match sink.space(payload) {
            Some(target) => target,
            None => {
                let rest = expected.len as usize - payload + self.left_over;
                self.staging.resize(self.staging.len().max(STAGING_BYTES.min(rest)), 0);
                let end = self.staging.len().min(rest);
                self.staging.get_mut(self.left_over..end).unwrap_or(&mut [])
            }
        };
        loop {
            let mut slices = [IoSliceMut::new(head), IoSliceMut::new(target)];
            match self.stream.read_vectored(&mut slices) {
                Ok(0) => return Err(Fault::Closed),
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(Fault::Closed),
            }
        }
    }

    /// Hands over payload bytes `start..end`, of which what was not stored in place lies in the staging buffer.
    fn hand_over(&mut self, start: usize, end: usize, sink: &mut dyn Sink) {
        if sink.space(start).is_some() {
            sink.filled(start, end - start);
            return;
        }
        let (first, held) = (start - self.left_over, self.left_over + end - start);
        let whole = held - held % sink.grain();
        sink.take(first, self.staging.get(..whole).unwrap_or(&[]));
        self.staging.copy_within(whole..held, 0);
        self.left_over = held - whole;
    }

    fn check(&self, expected: &Header) -> Result<(), Fault> {
        match Header::from_bytes(&self.head) {
            Some(header) if header == *expected => Ok(()),
            Some(header) => Err(Fault::Mismatch(header)),
            None => {
                let text = format!("rank {} sent no valid header", self.peer);
                Err(Fault::Broken(Error::Internal(text)))
            }
        }
    }
}

impl RecvHalf for TcpRecv {
    fn peer(&self) -> usize {
        self.peer
    }

    fn pull(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Progress, Fault> {
        let Some(count) = self.read_some(expected, sink)? else { return Ok(Progress::Idle) };
        let before = self.read;
        self.read += count;
        if before < HEADER_BYTES && self.read >= HEADER_BYTES {
            self.check(expected)?;
        }
        if self.read > HEADER_BYTES {
            self.hand_over(before.saturating_sub(HEADER_BYTES), self.read - HEADER_BYTES, sink);
        }
        if self.read < HEADER_BYTES + expected.len as usize {
            return Ok(Progress::Moved);
        }
        self.read = 0;
        Ok(Progress::Done)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn describe(&self) -> Description {
        connect::describe(&self.stream)
    }
}
