//! Tensors and their parts.

use super::queue::Waiting;
use super::stage::{Route, Stage};

/// A part of a tensor, as it is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number among all parts of all tensors, the same on all workers.
    pub key: u32,
    /// The server that owns it.
    pub server: usize,
    /// Bytes of its elements, at least 1.
    pub bytes: u64,
    /// Whether it is compressed before it is pushed.
    pub compress: bool,
}

/// A submitted tensor: numbers in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(pub u64);

/// A tensor that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its number.
    pub tensor: TensorId,
    /// Its name.
    pub name: String,
}

#[derive(Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) parts_left: usize,
}

/// A part on its way.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) part: Part,
    pub(super) tensor: TensorId,
    pub(super) priority: u32,
    /// Its number in order of submission.
    pub(super) sequence: u64,
    pub(super) route: Route,
    pub(super) stage: Stage,
    pub(super) begun: bool,
    /// When it came to the stage; when it began there.
    pub(super) enqueued_ns: u64,
    pub(super) begun_ns: u64,
    pub(super) submitted_ns: u64,
    /// Bytes on the wire, there and back.
    pub(super) push_bytes: u64,
    pub(super) pull_bytes: u64,
    /// Of the push: given to the driver, and reported as sent.
    pub(super) given_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) pulled_bytes: u64,
}

impl Entry {
    /// As it waits in the queue of its stage.
    pub(super) fn waiting(&self) -> Waiting {
        let bytes = if self.stage <= Stage::Push { self.push_bytes } else { self.pull_bytes };
        Waiting { priority: self.priority, key: self.part.key, sequence: self.sequence, bytes }
    }

    /// Whether its bytes go out.
    pub(super) fn is_sending(&self) -> bool {
        self.stage == Stage::Push && self.begun
    }

    /// Whether its server has some of it and not answered all.
    pub(super) fn is_in_flight(&self) -> bool {
        self.is_sending() || matches!(self.stage, Stage::Sum | Stage::Pull)
    }
}
