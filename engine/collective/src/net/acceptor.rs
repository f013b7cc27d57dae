//! Takes connections on a listener and reads their hellos, all at once and without blocking, so that a stranger who
//! connects and says nothing holds up nobody.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::clock::Deadline;
use crate::error::{Error, Result};
use crate::net::hello::{HELLO_BYTES, Hello, Refusal, other_protocol};
use crate::net::secret::Secret;

/// A peer says hello with its first packet; only strangers take longer.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// Strangers without a hello at most, beside the ranks; the oldest gives way.
const MAX_STRANGERS: usize = 256;

/// A listener and the connections that have not said hello yet.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    secret: Secret,
    pending: Vec<Pending>,
    /// Connections without a hello at most.
    max_pending: usize,
    /// The protocol of a rank that speaks another one.
    other_protocol: Option<u8>,
    /// Why no connection can be taken.
    refusal: Option<Error>,
}

#[derive(Debug)]
struct Pending {
    stream: TcpStream,
    bytes: [u8; HELLO_BYTES],
    filled: usize,
    deadline: Deadline,
}

impl Acceptor {
    /// Over `listener`, for callers that know `secret`, of whom there are about `n_ranks`.
    pub(crate) fn new(listener: TcpListener, secret: Secret, n_ranks: usize) -> Result<Self> {
        listener
            .set_nonblocking(true)
            .map_err(|error| Error::system("setting a listener non-blocking", &error))?;
        let max_pending = n_ranks + MAX_STRANGERS;
        Ok(Self { listener, secret, pending: Vec::new(), max_pending, other_protocol: None, refusal: None })
    }

    /// What to poll for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let pending = self.pending.iter().map(|pending| PollFd::new(&pending.stream, PollFlags::IN));
        std::iter::once(PollFd::new(&self.listener, PollFlags::IN)).chain(pending)
    }

    /// Takes what has come. The streams returned are non-blocking.
    pub(crate) fn step(&mut self) -> Vec<(Hello, TcpStream)> {
        let mut greeted = Vec::new();
        while let Some(stream) = self.accept() {
            if self.pending.len() >= self.max_pending {
                self.listen(&mut greeted);
            }
            if self.pending.len() >= self.max_pending {
                self.pending.remove(0);
            }
            let deadline = Deadline::after(HELLO_WAIT);
            self.pending.push(Pending { stream, bytes: [0; HELLO_BYTES], filled: 0, deadline });
        }
        self.listen(&mut greeted);
        greeted
    }

    /// Reads the hellos that have come.
    fn listen(&mut self, greeted: &mut Vec<(Hello, TcpStream)>) {
        let mut waiting = Vec::new();
        for mut pending in self.pending.drain(..) {
            match pending.read() {
                Greeting::Whole => {
                    // Who is not let in is dropped, and so closed.
                    match Hello::from_bytes(&pending.bytes, &self.secret) {
                        Ok(hello) => greeted.push((hello, pending.stream)),
                        Err(Refusal::Protocol(theirs)) => self.other_protocol = Some(theirs),
                        Err(Refusal::Stranger) => {}
                    }
                }
                Greeting::Partial if !pending.deadline.passed() => waiting.push(pending),
                Greeting::Partial | Greeting::Closed => {}
            }
        }
        self.pending = waiting;
    }

    /// An error if a rank has called that speaks another protocol, or this process can open no more files.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |theirs| Err(Error::InvalidUsage(other_protocol("a rank of this communicator", theirs)));
        self.other_protocol.map_or(Ok(()), wrong)?;
        self.refusal.clone().map_or(Ok(()), Err)
    }

    /// Those that have not said hello.
    #[cfg(test)]
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The next caller, if there is one. Who has hung up already is passed over.
    fn accept(&mut self) -> Option<TcpStream> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => return Some(stream),
                Ok(_) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => {
                    self.refusal.get_or_insert_with(|| Error::system("taking a rank's connection", &error));
                    return None;
                }
            }
        }
    }
}

enum Greeting {
    Whole,
    Partial,
    Closed,
}

impl Pending {
    fn read(&mut self) -> Greeting {
        while self.filled < HELLO_BYTES {
            match self.stream.read(&mut self.bytes[self.filled..]) {
                Ok(0) => return Greeting::Closed,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Greeting::Partial,
                Err(_) => return Greeting::Closed,
            }
        }
        Greeting::Whole
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::net::hello::{Purpose, Strand};

    #[test]
    fn strangers_are_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(listener, [3; 16], 2).unwrap();
        let silent = TcpStream::connect(address).unwrap();
        let mut wrong = TcpStream::connect(address).unwrap();
        wrong.write_all(&[0; HELLO_BYTES]).unwrap();
        let hello = Hello { purpose: Purpose::Data(Strand { channel: 1, index: 0, n: 1 }), rank: 1 };
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(&hello.to_bytes(&[3; 16])).unwrap();
        let greeted = acceptor.step();
        assert_eq!(greeted.iter().map(|(hello, _)| *hello).collect::<Vec<_>>(), [hello]);
        assert_eq!(acceptor.pending(), 1);
        drop(silent);
    }

    #[test]
    fn a_rank_of_another_protocol_is_an_error_and_no_stranger() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(listener, [3; 16], 2).unwrap();
        let mut bytes = Hello { purpose: Purpose::Control, rank: 1 }.to_bytes(&[3; 16]);
        bytes[7] = 1;
        TcpStream::connect(address).unwrap().write_all(&bytes).unwrap();
        assert!(acceptor.step().is_empty());
        let text = acceptor.check().unwrap_err().to_string();
        assert!(text.contains("speaks protocol 1, this is 5"), "{text}");
    }

    #[test]
    fn many_silent_strangers_give_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut acceptor = Acceptor::new(listener, [3; 16], 2).unwrap();
        let mut strangers = Vec::new();
        for _ in 0..MAX_STRANGERS + 50 {
            strangers.push(TcpStream::connect(address).unwrap());
            assert!(acceptor.step().is_empty() && acceptor.pending() <= 2 + MAX_STRANGERS);
        }
        let mut peer = TcpStream::connect(address).unwrap();
        peer.write_all(&Hello { purpose: Purpose::Control, rank: 1 }.to_bytes(&[3; 16])).unwrap();
        assert_eq!(acceptor.step().len(), 1);
    }

    #[test]
    fn more_ranks_than_strangers_are_let_in_at_once() {
        let listener = crate::net::nic::listen(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
        let address = listener.local_addr().unwrap();
        let n_ranks = u32::try_from(MAX_STRANGERS).unwrap() + 20;
        let mut acceptor = Acceptor::new(listener, [3; 16], 2).unwrap();
        let call = |rank: u32| {
            let mut peer = TcpStream::connect(address).unwrap();
            let hello = Hello { purpose: Purpose::Control, rank: rank as usize };
            peer.write_all(&hello.to_bytes(&[3; 16])).unwrap();
            peer
        };
        let _peers: Vec<TcpStream> = (0..n_ranks).map(call).collect();
        let mut ranks: Vec<usize> = acceptor.step().into_iter().map(|(hello, _)| hello.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, (0..n_ranks as usize).collect::<Vec<_>>());
    }
}
