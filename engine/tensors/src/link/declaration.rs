//! What an end says of an edge before the link is set up.

use std::fmt;

use crate::tensor::Shape;

/// Which way an edge goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the peer.
    Send,
    /// From it.
    Receive,
}

/// How an edge carries its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Always this shape, always to the same place.
    Static(Shape),
    /// Any shape of so many bytes at most.
    Dynamic {
        /// The most that a tensor may have.
        limit_bytes: u64,
    },
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "sends",
            Self::Receive => "receives",
        })
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(shape) => shape.fmt(f),
            Self::Dynamic { limit_bytes } => write!(f, "tensors of any shape and up to {limit_bytes} bytes"),
        }
    }
}

/// What tells a sender that the receiver is done with a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A word that the receiver writes back when it releases the tensor.
    Release,
    /// The data flow: what comes back on this edge depends on the tensor, so by then the receiver has released it. Nothing
    /// is written for it. Edges that are held by one edge transfer as often as each other.
    By(String),
}

/// An edge as one end sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Its name, the same at both ends.
    pub name: String,
    /// Which way it goes.
    pub direction: Direction,
    /// How it carries its tensors, the same at both ends.
    pub placement: Placement,
    /// What holds the next transfer back; only the sender's counts.
    pub hold: Hold,
    /// Whether a static sender has memory here. Without, it sends from elsewhere ([`crate::link::Link::send_from`]).
    pub has_slot: bool,
}

impl Declaration {
    /// A tensor of a shape that is known, to be sent.
    pub fn static_sender(name: impl Into<String>, shape: Shape, hold: Hold) -> Self {
        Self::of(name, Direction::Send, Placement::Static(shape), hold)
    }

    /// A tensor of a shape that is known, to be received.
    pub fn static_receiver(name: impl Into<String>, shape: Shape) -> Self {
        Self::of(name, Direction::Receive, Placement::Static(shape), Hold::Release)
    }

    /// A tensor whose shape changes, to be sent.
    pub fn dynamic_sender(name: impl Into<String>, limit_bytes: u64, hold: Hold) -> Self {
        Self::of(name, Direction::Send, Placement::Dynamic { limit_bytes }, hold)
    }

    /// A tensor whose shape changes, to be received.
    pub fn dynamic_receiver(name: impl Into<String>, limit_bytes: u64) -> Self {
        Self::of(name, Direction::Receive, Placement::Dynamic { limit_bytes }, Hold::Release)
    }

    fn of(name: impl Into<String>, direction: Direction, placement: Placement, hold: Hold) -> Self {
        Self { name: name.into(), direction, placement, hold, has_slot: true }
    }
}
