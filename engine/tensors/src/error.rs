//! What can go wrong, one variant per decision that a caller can take.

use std::io;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error; its text says what was wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// The system's words.
        source: io::Error,
    },
    /// A call or an argument that can never be right.
    #[error("{0}")]
    Usage(String),
    /// The two ends do not fit each other.
    #[error("edge {edge} does not fit {peer}: {why}")]
    Mismatch {
        /// The edge's name.
        edge: String,
        /// The other end.
        peer: String,
        /// What it is on this end and on the other one.
        why: String,
    },
    /// A write before the data flow allows it: it could tear what the receiver still reads.
    #[error(
        "edge {edge}: transfer {sequence} before {peer} is known to be done with transfer {released}: receive what \
         depends on it first, or have the receiver release it"
    )]
    TooEarly {
        /// The edge's name.
        edge: String,
        /// The receiver.
        peer: String,
        /// The transfer that was asked for.
        sequence: u32,
        /// The last one that the receiver has not been heard to be done with.
        released: u32,
    },
    /// A write to memory that the last transfer still leaves: it could tear what is on its way.
    #[error(
        "edge {edge}: the last transfer still leaves this memory for {peer}: wait until the next may be sent"
    )]
    Leaving {
        /// The edge's name.
        edge: String,
        /// The receiver.
        peer: String,
    },
    /// A flag says that transfers were written over each other.
    #[error(
        "edge {edge}: {peer} wrote transfer {found} where {expected} is awaited: it did not wait until the tensor was \
         released"
    )]
    Overtaken {
        /// The edge's name.
        edge: String,
        /// The sender.
        peer: String,
        /// The transfer that is awaited.
        expected: u32,
        /// The one that the flag tells of.
        found: u32,
    },
    /// Memory that is not, or no longer, registered.
    #[error(
        "{peer} has no registered memory {key} (any more): a stale address, or not one of this connection's"
    )]
    StaleKey {
        /// Whose memory was meant.
        peer: String,
        /// The key that was used.
        key: u64,
    },
    /// Bytes outside of registered memory.
    #[error("{bytes} bytes at {offset} lie outside of memory {key} of {peer}, which has {size_bytes}")]
    OutOfBounds {
        /// Whose memory was meant.
        peer: String,
        /// Its key.
        key: u64,
        /// Where the bytes begin.
        offset: u64,
        /// How many they are.
        bytes: u64,
        /// Bytes of the memory.
        size_bytes: u64,
    },
    /// A tensor larger than what its edge may carry.
    #[error(
        "edge {edge}: a tensor of {bytes} bytes, where {limit_bytes} bytes are the limit: raise it at set-up"
    )]
    TooLarge {
        /// The edge's name.
        edge: String,
        /// Bytes of the tensor.
        bytes: u64,
        /// The edge's limit.
        limit_bytes: u64,
    },
    /// An arena has no room left.
    #[error(
        "{arena} has no {wanted_bytes} bytes in one piece: {used_bytes} of {size_bytes} are in use, the largest free \
         piece has {largest_bytes}: make the arena larger, or release tensors earlier"
    )]
    Exhausted {
        /// Which arena.
        arena: String,
        /// What was asked for.
        wanted_bytes: u64,
        /// Bytes in use.
        used_bytes: u64,
        /// Bytes of the arena.
        size_bytes: u64,
        /// The largest piece that is free.
        largest_bytes: u64,
    },
    /// The machine has no memory for it.
    #[error("cannot reserve {bytes} bytes of memory for {what}: {why}")]
    NoMemory {
        /// What the memory is for.
        what: String,
        /// How much.
        bytes: u64,
        /// Why not.
        why: String,
    },
    /// What a peer sent makes no sense.
    #[error("{peer} sent {what}")]
    Malformed {
        /// The peer.
        peer: String,
        /// What is wrong with it.
        what: String,
    },
    /// The peer is gone.
    #[error("{peer} is gone ({why}) while {waiting_for}")]
    PeerLost {
        /// The peer.
        peer: String,
        /// What was waited for or done.
        waiting_for: String,
        /// How that was noticed.
        why: String,
    },
    /// Nothing happened until the deadline.
    #[error("no progress for {seconds} s: {waiting_for}")]
    NoProgress {
        /// How long was waited.
        seconds: f64,
        /// Edge, peer and what of it is waited for.
        waiting_for: String,
    },
    /// No peer came to an address until the deadline.
    #[error("{what} at {address} for {seconds} s{why}")]
    Nobody {
        /// Who did not do what.
        what: String,
        /// Where.
        address: String,
        /// How long was waited.
        seconds: f64,
        /// What is known of why not, or nothing.
        why: String,
    },
    /// The device failed, in its own words.
    #[error("{peer}: {what}")]
    Device {
        /// The peer.
        peer: String,
        /// The device's words.
        what: String,
    },
    /// A node's computation failed.
    #[error("node {node}: {what}")]
    Node {
        /// The node's name.
        node: String,
        /// What is wrong.
        what: String,
    },
}

impl Error {
    /// What the operating system refused.
    pub fn system(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }

    /// The same error, told of an edge or node: what was being done when the peer went away.
    #[must_use]
    pub fn during(self, doing: impl FnOnce() -> String) -> Self {
        match self {
            Self::PeerLost { peer, why, .. } => Self::PeerLost { peer, why, waiting_for: doing() },
            other => other,
        }
    }
}
