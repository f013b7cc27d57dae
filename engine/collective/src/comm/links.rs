//! A communicator's data connections: a connector by channel, peer and direction, each with what it has
//! carried.

use crate::transport::{RecvHalf, SendHalf};

/// The channel of `ncclSend` and `ncclRecv`, whose order is that of each pair of ranks and not the collectives': the first after
/// theirs ([`MAX_CHANNELS`](crate::channels::MAX_CHANNELS)).
pub const P2P_CHANNEL: u32 = 64;

/// One end of a connection, of one channel and one way: what NCCL calls a connector.
#[derive(Debug)]
pub struct Connector<H: ?Sized> {
    /// The channel.
    pub(crate) channel: u32,
    /// The rank at the other end.
    pub(crate) peer: usize,
    /// The end itself; of a receiving one, none until the sender has called.
    pub half: Option<Box<H>>,
    /// Parts that went through whole.
    pub parts: u64,
    /// Their payloads.
    pub(crate) payload_bytes: u64,
}

/// The connectors of one direction. They stay where they are, so that an index names one for good.
#[derive(Debug)]
pub struct Connectors<H: ?Sized>(Vec<Connector<H>>);

/// All connections.
#[derive(Debug, Default)]
pub struct Links {
    /// To other ranks.
    pub sends: Connectors<dyn SendHalf>,
    /// From other ranks.
    pub recvs: Connectors<dyn RecvHalf>,
}

/// What one connection has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The channel.
    pub channel: u32,
    /// The rank at the other end.
    pub peer: usize,
    /// Whether data leave this rank.
    pub is_send: bool,
    /// Payloads, without headers.
    pub payload_bytes: u64,
    /// Parts, each with one header.
    pub(crate) parts: u64,
}

impl<H: ?Sized> Default for Connectors<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H: ?Sized> Connectors<H> {
    /// The index of an end, which may not be connected yet.
    pub fn index(&mut self, channel: u32, peer: usize) -> usize {
        let found = self.0.iter().position(|end| (end.channel, end.peer) == (channel, peer));
        found.unwrap_or_else(|| {
            self.0.push(Connector { channel, peer, half: None, parts: 0, payload_bytes: 0 });
            self.0.len() - 1
        })
    }

    /// The end at an index.
    pub fn get(&self, index: usize) -> Option<&Connector<H>> {
        self.0.get(index)
    }

    /// The end at an index.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut Connector<H>> {
        self.0.get_mut(index)
    }

    /// Connects an end.
    pub fn connect(&mut self, channel: u32, peer: usize, half: Box<H>) {
        let index = self.index(channel, peer);
        if let Some(end) = self.0.get_mut(index) {
            end.half = Some(half);
        }
    }

    /// All ends, in the order of their first use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connector<H>> {
        self.0.iter()
    }

    fn traffic(&self, is_send: bool) -> impl Iterator<Item = Traffic> {
        self.0.iter().map(move |end| Traffic {
            channel: end.channel,
            peer: end.peer,
            is_send,
            payload_bytes: end.payload_bytes,
            parts: end.parts,
        })
    }
}

impl Links {
    /// Lets connections go on that do nothing by themselves; whether all that was posted on them is on its way. One that has
    /// failed has nothing on its way, and says so to who uses it next.
    pub fn go_on(&mut self) -> bool {
        let asked =
            |end: &&mut Connector<dyn SendHalf>| end.half.as_ref().is_some_and(|half| half.must_be_asked());
        self.sends.0.iter_mut().filter(asked).fold(true, |is_settled, end| {
            let released = end.half.as_mut().map(|half| half.released());
            let is_waiting = matches!(released, Some(Ok(parts)) if parts < end.parts);
            is_settled && !is_waiting
        })
    }

    /// Whether one of the connections wakes nobody.
    pub fn must_be_asked(&self) -> bool {
        let recvs = self.recvs.iter().filter_map(|end| end.half.as_ref());
        let sends = self.sends.iter().filter_map(|end| end.half.as_ref());
        recvs.into_iter().any(|half| half.must_be_asked())
            || sends.into_iter().any(|half| half.must_be_asked())
    }

    /// What each connection has carried.
    pub fn traffic(&self) -> Vec<Traffic> {
        self.sends.traffic(true).chain(self.recvs.traffic(false)).collect()
    }
}

impl<H: ?Sized> Connector<H> {
    /// Channel, peer, and parts that went through.
    pub(crate) fn place(&self) -> (u32, usize, u64) {
        (self.channel, self.peer, self.parts)
    }

    /// A part went through.
    pub fn count(&mut self, payload_bytes: usize) {
        self.parts += 1;
        self.payload_bytes += payload_bytes as u64;
    }
}
