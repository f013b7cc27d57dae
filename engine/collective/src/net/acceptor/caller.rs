//! One who has called and not said yet who it is.
//!
//! Ranks begin with a [`Hello`](crate::net::hello::Hello), or, to a root, with its secret and a [`Join`](crate::net::hello::Join)
//! in a frame. Not a byte more is read, since data follow.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::clock::Deadline;
use crate::net::hello::{HELLO_BYTES, MAGIC, PROTOCOL};
use crate::net::secret::{SECRET_BYTES, Secret};

/// A peer says who it is with its first packet; only strangers take longer.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Whom a caller calls may be about to begin. Who is turned out after this calls again.
const UNKNOWN_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a join at most; an honest one has some 50.
const MAX_JOIN_BYTES: usize = 512;
/// Where the secret of a hello is.
const HELLO_SECRET: usize = MAGIC.len() + 1;
/// Where the text of a join is: after the secret and its length.
const JOIN_TEXT: usize = SECRET_BYTES + 4;

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) stream: TcpStream,
    bytes: Vec<u8>,
    deadline: Deadline,
    is_whole: bool,
}

/// What a caller has said by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// Not all yet.
    Part,
    /// A hello, of another protocol perhaps.
    Hello,
    /// That it joins a root.
    Join,
    /// Nothing that a rank says, or nothing any more.
    Nonsense,
}

/// What must come next of an opening that starts with these bytes.
enum Next {
    Bytes(usize),
    End(Said),
}

impl Caller {
    /// Over a non-blocking stream.
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, bytes: Vec::new(), deadline: Deadline::after(HELLO_WAIT), is_whole: false }
    }

    /// What to poll for: who has said all has only its end to tell.
    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.stream, if self.is_whole { PollFlags::RDHUP } else { PollFlags::IN })
    }

    /// Until when it is waited for.
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Reads what has come.
    pub(super) fn hear(&mut self) -> Said {
        loop {
            let missing = match next(&self.bytes) {
                Next::End(said) => {
                    if !self.is_whole {
                        (self.is_whole, self.deadline) = (true, Deadline::after(UNKNOWN_WAIT));
                    }
                    return said;
                }
                Next::Bytes(missing) => missing.min(MAX_JOIN_BYTES),
            };
            let mut bytes = [0; MAX_JOIN_BYTES];
            match self.stream.read(&mut bytes[..missing]) {
                Ok(0) => return Said::Nonsense,
                Ok(count) => self.bytes.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Said::Part,
                Err(_) => return Said::Nonsense,
            }
        }
    }

    /// The secret that it has shown.
    pub(super) fn secret(&self) -> Option<Secret> {
        let start = if self.bytes.starts_with(&MAGIC) { HELLO_SECRET } else { 0 };
        self.bytes.get(start..)?.first_chunk().copied()
    }

    /// The protocol of its hello.
    pub(super) fn protocol(&self) -> u8 {
        self.bytes.get(MAGIC.len()).copied().unwrap_or(0)
    }

    /// A hello of this protocol.
    pub(super) fn hello(&self) -> Option<&[u8; HELLO_BYTES]> {
        self.bytes.first_chunk()
    }

    /// The text of its join.
    pub(super) fn join(&self) -> &[u8] {
        self.bytes.get(JOIN_TEXT..).unwrap_or_default()
    }
}

fn next(bytes: &[u8]) -> Next {
    let up_to = |end: usize, said| match end.checked_sub(bytes.len()) {
        None | Some(0) => Next::End(said),
        Some(missing) => Next::Bytes(missing),
    };
    if bytes.len() < HELLO_SECRET {
        return Next::Bytes(HELLO_SECRET - bytes.len());
    }
    if bytes.starts_with(&MAGIC) {
        let is_own = bytes.get(MAGIC.len()) == Some(&PROTOCOL);
        return up_to(if is_own { HELLO_BYTES } else { HELLO_SECRET + SECRET_BYTES }, Said::Hello);
    }
    match bytes.get(SECRET_BYTES..).and_then(<[u8]>::first_chunk) {
        None => Next::Bytes(JOIN_TEXT - bytes.len()),
        Some(len) => match u32::from_le_bytes(*len) as usize {
            len if len <= MAX_JOIN_BYTES => up_to(JOIN_TEXT + len, Said::Join),
            _ => Next::End(Said::Nonsense),
        },
    }
}
