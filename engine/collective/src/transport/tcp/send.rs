//! The sending end: header and payload in one call of the kernel, or in one for each socket.

use std::io::{ErrorKind, IoSlice};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::SockRef;

use crate::net::link::HEADER_BYTES;
use crate::transport::tcp::connect::{self, UNSENT_BYTES};
use crate::transport::tcp::stripes;
use crate::transport::{Description, Fault, Part, Progress, SendHalf};

/// The sending end.
#[derive(Debug)]
pub(crate) struct TcpSend {
    sockets: Vec<Socket>,
    posted: u64,
    /// The first socket that has not all of the current part.
    waits_for: usize,
}

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    /// Bytes of the current part that the kernel has, those of the header included.
    written: usize,
}

impl TcpSend {
    /// Over sockets that have been tuned, in the order of their stripes.
    pub(crate) fn new(streams: Vec<TcpStream>) -> Self {
        let sockets = streams.into_iter().map(|stream| Socket { stream, written: 0 }).collect();
        Self { sockets, posted: 0, waits_for: 0 }
    }
}

impl Socket {
    /// Writes once of what is left of `head` and `payload`; whether anything was taken.
    fn write(&mut self, head: &[u8], payload: &[u8]) -> Result<bool, Fault> {
        let slices = [
            IoSlice::new(head.get(self.written..).unwrap_or(&[])),
            IoSlice::new(payload.get(self.written.saturating_sub(head.len())..).unwrap_or(&[])),
        ];
        loop {
            // Without MSG_NOSIGNAL, a dead peer would end the caller's process by SIGPIPE.
            match SockRef::from(&self.stream).send_vectored_with_flags(&slices, libc::MSG_NOSIGNAL) {
                Ok(count) => {
                    self.written += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(Fault::Closed),
            }
        }
    }
}

impl SendHalf for TcpSend {
    fn post(&mut self, part: Part<'_>) -> Result<Progress, Fault> {
        let head: [u8; HEADER_BYTES] = part.header.to_bytes();
        let len = part.payload.len();
        let n = stripes::count(len, self.sockets.len());
        let (mut moved, mut open) = (false, None);
        for (index, socket) in self.sockets.iter_mut().take(n).enumerate() {
            let head: &[u8] = if index == 0 { &head } else { &[] };
            let payload = part.payload.get(stripes::stripe(len, n, index)).unwrap_or(&[]);
            let whole = head.len() + payload.len();
            if socket.written < whole {
                moved |= socket.write(head, payload)?;
            }
            if socket.written < whole {
                open = open.or(Some(index));
            }
        }
        self.waits_for = open.unwrap_or(0);
        if open.is_some() {
            return Ok(if moved { Progress::Moved } else { Progress::Idle });
        }
        self.sockets.iter_mut().for_each(|socket| socket.written = 0);
        self.posted += 1;
        Ok(Progress::Done)
    }

    fn released(&mut self) -> Result<u64, Fault> {
        Ok(self.posted)
    }

    fn bound_unsent(&mut self, bytes: u32) {
        // A kernel that refuses keeps the bound that it has.
        for socket in &self.sockets {
            let _ = SockRef::from(&socket.stream).set_tcp_notsent_lowat(bytes.min(UNSENT_BYTES));
        }
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.get(self.waits_for).map(|socket| socket.stream.as_fd())
    }

    fn describe(&self) -> Description {
        connect::describe(self.sockets.iter().map(|socket| &socket.stream))
    }
}
