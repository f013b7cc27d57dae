//! An edge of a link with what this end has of it.

use crate::link::declaration::Declaration;
use crate::memory::{Address, Part};
use crate::placement::flag::earlier;
use crate::placement::{dynamic, r#static};
use crate::tensor::Shape;

/// What an edge is on this end.
#[derive(Debug)]
pub(super) enum End {
    /// Declared, not set up.
    Declared,
    StaticSender(r#static::Sender),
    StaticReceiver(r#static::Receiver),
    DynamicSender(dynamic::Sender),
    DynamicReceiver(dynamic::Receiver),
}

/// An edge.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) declaration: Declaration,
    /// Slot or block in this end's registered memory.
    pub(super) slot: Option<Part>,
    /// Of a sender: the word that the receiver writes when it releases.
    pub(super) word: Option<Part>,
    /// Of a receiver: that word in the sender's memory; none where the data flow tells the sender.
    pub(super) tell_at: Option<Address>,
    /// Of a sender: the receivers here whose releases its flags tell of.
    pub(super) tells_of: Vec<usize>,
    /// Of a receiver: the senders here that its flags tell.
    pub(super) frees: Vec<usize>,
    /// Immediates that have come and were not looked at.
    pub(super) arrived: u64,
    /// Of a sender: after which write of the device its memory is free.
    pub(super) number: u64,
    /// Of a dynamic sender: the tensor that is made, or that the receiver may still read.
    pub(super) pending: Option<(Shape, Part)>,
    /// Of a receiver: the last transfer that the sender was told of by that word.
    pub(super) told: u32,
    pub(super) end: End,
}

impl Edge {
    pub(super) fn declared(declaration: Declaration) -> Self {
        Self {
            declaration,
            slot: None,
            word: None,
            tell_at: None,
            tells_of: Vec::new(),
            frees: Vec::new(),
            arrived: 0,
            number: 0,
            pending: None,
            told: 0,
            end: End::Declared,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Of a dynamic receiver: whether its tensor is told of but has no memory yet.
    pub(super) fn wants_memory(&self) -> bool {
        matches!(&self.end, End::DynamicReceiver(receiver) if receiver.wants().is_some())
    }

    /// Of a static receiver: whether its tensor is there and was not released. Of a dynamic one the sender is told when it was
    /// read.
    pub(super) fn is_kept(&self) -> bool {
        matches!(&self.end, End::StaticReceiver(receiver) if receiver.is_here())
    }

    /// The last transfer that a receiver has released.
    pub(super) fn released(&self) -> u32 {
        match &self.end {
            End::StaticReceiver(receiver) => receiver.released(),
            End::DynamicReceiver(receiver) => receiver.released(),
            _ => 0,
        }
    }

    /// Of a sender: what it heard of the receiver's releases.
    pub(super) fn hear(&mut self, released: u32) {
        match &mut self.end {
            End::StaticSender(sender) => sender.hear(released),
            End::DynamicSender(sender) => sender.hear(released),
            _ => {}
        }
    }

    /// Of a sender: whether the receiver is done with the last transfer.
    pub(super) fn may_send(&self) -> bool {
        match &self.end {
            End::StaticSender(sender) => sender.may_send(),
            End::DynamicSender(sender) => sender.may_send(),
            _ => false,
        }
    }
}

/// What a sender's flag tells: up to which transfer all those receivers have released.
pub(super) fn told(edges: &[Edge], receivers: &[usize]) -> u32 {
    let released = receivers.iter().filter_map(|receiver| edges.get(*receiver)).map(Edge::released);
    released.reduce(earlier).unwrap_or(0)
}
