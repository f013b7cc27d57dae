//! How bytes get from one rank to another: one small trait for each direction, one folder for each transport, with the
//! same files in each.
//!
//! A connection carries parts of one channel, in order, from one rank to one other. Nothing here blocks: whoever drives
//! a connection calls again, spins or sleeps. A part is a header and its payload, as a rule a slice of a plan; both ends
//! cut transfers alike, so the receiver knows which header must come, and a different one means that the ranks called
//! different things.

pub(crate) mod carrier;
pub(crate) mod plugin;
pub mod shm;
#[cfg(test)]
pub(crate) mod sim;
pub(crate) mod tcp;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::error::Error;
use crate::net::link::Header;

/// A part to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// What it says about itself; `header.len` is the payload's length.
    pub header: Header,
    /// Stays where it is, unchanged, until it is released.
    pub payload: &'a [u8],
}

/// How far a part got in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing moved: wait for the other end.
    Idle,
    /// Something moved; call again with the same part.
    Moved,
    /// The part is through: on the sending side the transport has all it needs, and the next one may be posted.
    Done,
}

/// A connection's trouble.
#[derive(Debug)]
pub enum Fault {
    /// The other end is gone.
    Closed,
    /// Another part came than the expected one.
    Mismatch(Header),
    /// The transport or the system is broken.
    Broken(Error),
}

/// Where received data goes. A transport hands over what it has as it has it: bytes of its own memory, or of the
/// sender's; or it asks for the memory to read into.
pub trait Sink {
    /// Takes the payload's bytes from `offset` on. Every byte is taken exactly once, in order within each run
    /// of bytes that travels by itself; what is taken begins and ends at an element's end (see [`Sink::grain`]).
    fn take(&mut self, offset: usize, bytes: &[u8]);
    /// The memory of the payload's bytes from `offset` on, where they are to be stored unchanged; none where they are
    /// to be reduced. What was written there must be told by [`Sink::filled`].
    fn space(&mut self, offset: usize) -> Option<&mut [u8]>;
    /// `len` bytes of [`Sink::space`] from `offset` on have been written.
    fn filled(&mut self, offset: usize, len: usize);
    /// Bytes of one element as it arrives: what [`Sink::take`] gets are multiples of it.
    fn grain(&self) -> usize;
}

/// The sending end of a connection.
pub trait SendHalf: Send + std::fmt::Debug {
    /// Moves what can be moved of `part` now. Called with the same part until it is [`Progress::Done`].
    fn post(&mut self, part: Part<'_>) -> Result<Progress, Fault>;
    /// How many parts, of all that were ever posted, are released: their memory may be written again. Where the
    /// transport copies, those that are done.
    fn released(&mut self) -> Result<u64, Fault>;
    /// Lets the kernel take no more than about so many bytes before they are on their way: what it has nothing more urgent
    /// can overtake. A transport without such a buffer ignores it.
    fn bound_unsent(&mut self, _bytes: u32) {}
    /// A descriptor that becomes writable when [`SendHalf::post`] can move again; none if the transport rings the
    /// communicator's doorbell instead.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Whether nothing wakes a sleeper when [`SendHalf::post`] can move again: it must be asked again and again.
    fn must_be_asked(&self) -> bool {
        false
    }
    /// For the connection log and the log lines.
    fn describe(&self) -> Description;
}

/// The receiving end of a connection.
pub trait RecvHalf: Send + std::fmt::Debug {
    /// What the part that comes next, or is being received, says of itself; nothing while that has not come. For who
    /// does not know what comes: the header is then what [`RecvHalf::pull`] expects.
    fn front(&mut self) -> Result<Option<Header>, Fault>;
    /// Moves what has come of the part that `expected` describes into `sink`. Called with the same header and sink
    /// until it is [`Progress::Done`].
    fn pull(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Progress, Fault>;
    /// A descriptor that becomes readable when [`RecvHalf::pull`] can move again; none if the transport rings the
    /// communicator's doorbell instead.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;
    /// Whether nothing wakes a sleeper when [`RecvHalf::pull`] can move again: it must be asked again and again.
    fn must_be_asked(&self) -> bool {
        false
    }
    /// For the connection log and the log lines.
    fn describe(&self) -> Description;
}

/// The addresses of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketEnds {
    /// This end.
    pub(crate) local: SocketAddr,
    /// The other end.
    pub(crate) remote: SocketAddr,
}

/// What a connection is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// Sockets, in the order of their stripes.
    Tcp {
        /// The addresses of each.
        sockets: Vec<SocketEnds>,
    },
    /// Shared memory of one host.
    Shm {
        /// Whether the receiver reads the sender's buffers itself.
        direct: bool,
    },
    /// A network plugin's.
    Plugin {
        /// As the network calls itself.
        network: String,
        /// The device here.
        device: String,
    },
    /// Simulated.
    #[cfg(test)]
    Sim,
}
