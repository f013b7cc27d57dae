//! The sending end: header and payload in one call of the kernel.

use std::io::{ErrorKind, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockRef;

use crate::net::link::HEADER_BYTES;
use crate::transport::tcp::connect;
use crate::transport::{Description, Fault, Part, Progress, SendHalf};

/// The sending end.
#[derive(Debug)]
pub(crate) struct TcpSend {
    stream: TcpStream,
    peer: usize,
    /// Bytes of the current part that the kernel has, header included.
    written: usize,
    posted: u64,
}

impl TcpSend {
    /// Over a socket that has been tuned.
    pub(crate) fn new(stream: TcpStream, peer: usize) -> Self {
        Self { stream, peer, written: 0, posted: 0 }
    }
}

impl SendHalf for TcpSend {
    fn peer(&self) -> usize {
        self.peer
    }

    fn post(&mut self, part: Part<'_>) -> Result<Progress, Fault> {
        let head = part.header.to_bytes();
        let slices = [
            IoSlice::new(head.get(self.written..).unwrap_or(&[])),
            IoSlice::new(part.payload.get(self.written.saturating_sub(HEADER_BYTES)..).unwrap_or(&[])),
        ];
        loop {
            // Without MSG_NOSIGNAL, a dead peer would end the caller's process by SIGPIPE.
            match SockRef::from(&self.stream).send_vectored_with_flags(&slices, libc::MSG_NOSIGNAL) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::Idle),
                Err(_) => return Err(Fault::Closed),
            }
            break;
        }
        if self.written < HEADER_BYTES + part.payload.len() {
            return Ok(Progress::Moved);
        }
        self.written = 0;
        self.posted += 1;
        Ok(Progress::Done)
    }

    fn released(&mut self) -> Result<u64, Fault> {
        Ok(self.posted)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn describe(&self) -> Description {
        connect::describe(&self.stream)
    }
}
