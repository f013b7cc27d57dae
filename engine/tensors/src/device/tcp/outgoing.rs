//! Messages on their way out: serialised, a buffer at a time.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

use crate::device::tcp::frame::{HEADER_BYTES, Header};
use crate::memory::Part;

/// Bytes of the buffer that messages are serialised into: what stays in a core's cache.
const BUFFER_BYTES: usize = 128 << 10;

/// What follows a header.
#[derive(Debug)]
pub(super) enum Payload {
    None,
    Part(Part),
    Bytes(Vec<u8>),
}

/// A queue of messages, and the buffer that they leave through.
#[derive(Debug)]
pub(super) struct Outgoing {
    queue: VecDeque<(Header, Payload)>,
    /// Bytes of the first message, with its header, that are in the buffer or gone.
    begun: usize,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are gone.
    gone: usize,
    /// Up to which number writes have been copied out of their memory.
    pub(super) copied: u64,
    /// Bytes of tensors that were copied.
    pub(super) copied_bytes: u64,
}

impl Outgoing {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            begun: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            gone: 0,
            copied: 0,
            copied_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, header: Header, payload: Payload) {
        self.queue.push_back((header, payload));
    }

    /// Whether all is gone.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.gone == self.buffer.len()
    }

    /// Sends as much as the socket takes; how many bytes that is.
    pub(super) fn flush(&mut self, mut stream: &TcpStream) -> std::io::Result<usize> {
        let mut bytes = 0;
        while !self.is_empty() {
            if self.gone == self.buffer.len() {
                self.refill();
            }
            match stream.write(self.buffer.get(self.gone..).unwrap_or_default()) {
                Ok(sent) => {
                    self.gone += sent;
                    bytes += sent;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(bytes),
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Copies what comes next into the buffer.
    fn refill(&mut self) {
        self.buffer.clear();
        self.gone = 0;
        while let Some((header, payload)) = self.queue.front() {
            let room = BUFFER_BYTES - self.buffer.len();
            if self.begun < HEADER_BYTES {
                // Headers are not divided.
                if room < HEADER_BYTES {
                    return;
                }
                self.buffer.extend_from_slice(&header.to_bytes());
                self.begun = HEADER_BYTES;
                continue;
            }
            let bytes = match payload {
                Payload::None => &[],
                Payload::Part(part) => part.bytes(),
                Payload::Bytes(bytes) => bytes.as_slice(),
            };
            let rest = bytes.get(self.begun - HEADER_BYTES..).unwrap_or_default();
            let piece = rest.get(..rest.len().min(room)).unwrap_or_default();
            self.buffer.extend_from_slice(piece);
            self.begun += piece.len();
            self.copied_bytes += piece.len() as u64;
            if piece.len() < rest.len() {
                return;
            }
            if let Header::Write { number, .. } = header {
                self.copied = *number;
            }
            self.queue.pop_front();
            self.begun = 0;
        }
    }
}
