//! Messages on their way in: from the socket into a buffer, and from there, piece by piece, to their place.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use crate::device::tcp::frame::{HEADER_BYTES, Header};

/// Bytes of the buffer that the socket is read into: what stays in a core's cache.
const BUFFER_BYTES: usize = 128 << 10;

/// Something that has come.
pub(super) enum Came<'a> {
    /// A message begins.
    Header(Header),
    /// Bytes of the message that has begun, at this offset; whether they are its last.
    Piece { offset: u64, bytes: &'a [u8], is_last: bool },
    /// Not a message.
    Nonsense,
}

/// The socket's bytes as messages.
#[derive(Debug)]
pub(super) struct Incoming {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes of the message that has begun: its payload's, and how many of them have come.
    payload_bytes: u64,
    came_bytes: u64,
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES].into(), start: 0, end: 0, payload_bytes: 0, came_bytes: 0 }
    }

    /// Reads what the socket has; how many bytes that were. The end of the connection is an error.
    pub(super) fn fill(&mut self, mut stream: &TcpStream) -> std::io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match stream.read(self.buffer.get_mut(self.end..).unwrap_or_default()) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                self.end += got;
                Ok(got)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The next message or piece in the buffer.
    pub(super) fn next(&mut self) -> Option<Came<'_>> {
        let ready = self.buffer.get(self.start..self.end).unwrap_or_default();
        let missing = self.payload_bytes - self.came_bytes;
        if missing == 0 {
            let header = Header::from_bytes(ready.first_chunk()?);
            self.start += HEADER_BYTES;
            self.came_bytes = 0;
            self.payload_bytes = header.map_or(0, Header::payload_bytes);
            return Some(header.map_or(Came::Nonsense, Came::Header));
        }
        let len = usize::try_from(missing).unwrap_or(usize::MAX).min(ready.len());
        let bytes = ready.get(..len).filter(|bytes| !bytes.is_empty())?;
        let offset = self.came_bytes;
        self.start += len;
        self.came_bytes += len as u64;
        Some(Came::Piece { offset, bytes, is_last: self.came_bytes == self.payload_bytes })
    }
}
