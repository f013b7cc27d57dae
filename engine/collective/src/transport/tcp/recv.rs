//! The receiving end: straight into the target where data are stored, through a staging buffer where they are reduced.

use std::io::{ErrorKind, IoSliceMut, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use crate::error::Error;
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::tcp::{connect, stripes};
use crate::transport::{Description, Fault, Progress, RecvHalf, Sink};

/// Data on their way into a reduction stay in the second-level cache, whose smallest today has 256 KiB.
const STAGING_BYTES: usize = 128 * 1024;

/// The receiving end.
#[derive(Debug)]
pub(crate) struct TcpRecv {
    sockets: Vec<Socket>,
    peer: usize,
    head: [u8; HEADER_BYTES],
    /// Bytes of the header that have come.
    head_read: usize,
    /// The first socket from which not all of the current part has come.
    waits_for: usize,
}

#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    /// Bytes of the current part's stripe that have come.
    read: usize,
    /// Bytes at the staging buffer's start that have come and are not a whole element yet.
    left_over: usize,
    staging: Vec<u8>,
}

impl TcpRecv {
    /// Over sockets that have been tuned, in the order of their stripes.
    pub(crate) fn new(streams: Vec<TcpStream>, peer: usize) -> Self {
        let socket = |stream| Socket { stream, read: 0, left_over: 0, staging: Vec::new() };
        let sockets = streams.into_iter().map(socket).collect();
        Self { sockets, peer, head: [0; HEADER_BYTES], head_read: 0, waits_for: 0 }
    }

    /// Reads once from the socket `index`, whose bytes of the part are `stripe`; whether anything has come.
    fn read(&mut self, index: usize, stripe: &Range<usize>, sink: &mut dyn Sink) -> Result<bool, Fault> {
        let Some(socket) = self.sockets.get_mut(index) else { return Ok(false) };
        let first = if index == 0 { self.head_read } else { HEADER_BYTES };
        let head = self.head.get_mut(first..).unwrap_or(&mut []);
        let rest = head.len();
        let Some(count) = socket.read(head, stripe, sink)? else { return Ok(false) };
        if index == 0 {
            self.head_read += count.min(rest);
        }
        if count > rest {
            socket.hand_over(stripe, count - rest, sink);
        }
        Ok(true)
    }

    fn header(&self) -> Result<Header, Fault> {
        Header::from_bytes(&self.head).ok_or_else(|| {
            let text = format!("rank {} sent no valid header", self.peer);
            Fault::Broken(Error::Internal(text))
        })
    }

    fn check(&self, expected: &Header) -> Result<(), Fault> {
        let header = self.header()?;
        if header == *expected { Ok(()) } else { Err(Fault::Mismatch(header)) }
    }

    fn is_whole(&self, index: usize, stripe: &Range<usize>) -> bool {
        let come = self.sockets.get(index).is_some_and(|socket| socket.read == stripe.len());
        come && self.head_read == HEADER_BYTES
    }
}

impl Socket {
    /// Reads once into what is left of the header and the memory after it; how much, nothing if none has come.
    fn read(
        &mut self,
        head: &mut [u8],
        stripe: &Range<usize>,
        sink: &mut dyn Sink,
    ) -> Result<Option<usize>, Fault> {
        let rest = stripe.len() - self.read;
        let target = match sink.space(stripe.start + self.read) {
            Some(target) => target.get_mut(..rest).unwrap_or(&mut []),
            None => {
                let held = self.left_over + rest;
                self.staging.resize(self.staging.len().max(STAGING_BYTES.min(held)), 0);
                let end = self.staging.len().min(held);
                self.staging.get_mut(self.left_over..end).unwrap_or(&mut [])
            }
        };
        read(&mut self.stream, &mut [IoSliceMut::new(head), IoSliceMut::new(target)])
    }

    /// Hands over the next `count` bytes of the stripe, of which what was not stored in place lies in the staging
    /// buffer.
    fn hand_over(&mut self, stripe: &Range<usize>, count: usize, sink: &mut dyn Sink) {
        let start = stripe.start + self.read;
        self.read += count;
        if sink.space(start).is_some() {
            sink.filled(start, count);
            return;
        }
        let held = self.left_over + count;
        let whole = held - held % sink.grain();
        sink.take(start - self.left_over, self.staging.get(..whole).unwrap_or(&[]));
        self.staging.copy_within(whole..held, 0);
        self.left_over = held - whole;
    }
}

/// Reads once; how much, nothing if none has come.
fn read(stream: &mut TcpStream, slices: &mut [IoSliceMut<'_>]) -> Result<Option<usize>, Fault> {
    loop {
        match stream.read_vectored(slices) {
            Ok(0) => return Err(Fault::Closed),
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(_) => return Err(Fault::Closed),
        }
    }
}

impl RecvHalf for TcpRecv {
    fn front(&mut self) -> Result<Option<Header>, Fault> {
        let head = self.head.get_mut(self.head_read..).unwrap_or(&mut []);
        if let Some(socket) = self.sockets.first_mut().filter(|_| !head.is_empty()) {
            self.head_read += read(&mut socket.stream, &mut [IoSliceMut::new(head)])?.unwrap_or(0);
        }
        if self.head_read < HEADER_BYTES { Ok(None) } else { self.header().map(Some) }
    }

    fn pull(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Progress, Fault> {
        let len = expected.len as usize;
        let n = stripes::count(len, self.sockets.len());
        let (mut moved, mut open) = (false, None);
        if self.head_read == HEADER_BYTES {
            self.check(expected)?;
        }
        for index in 0..n {
            let stripe = stripes::stripe(len, n, index);
            let headless = self.head_read < HEADER_BYTES;
            if !self.is_whole(index, &stripe) {
                moved |= self.read(index, &stripe, sink)?;
            }
            if headless && self.head_read == HEADER_BYTES {
                self.check(expected)?;
            }
            if !self.is_whole(index, &stripe) {
                open = open.or(Some(index));
            }
            // What the other sockets bring belongs to a part that nobody has announced yet.
            if self.head_read < HEADER_BYTES {
                break;
            }
        }
        self.waits_for = open.unwrap_or(0);
        if open.is_some() {
            return Ok(if moved { Progress::Moved } else { Progress::Idle });
        }
        self.head_read = 0;
        self.sockets.iter_mut().for_each(|socket| socket.read = 0);
        Ok(Progress::Done)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.sockets.get(self.waits_for).map(|socket| socket.stream.as_fd())
    }

    fn describe(&self) -> Description {
        connect::describe(self.sockets.iter().map(|socket| &socket.stream))
    }
}
