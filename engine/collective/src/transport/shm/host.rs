//! What a rank shares with the other ranks of its host, once they are connected.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::net::link::Header;
use crate::net::watch::Neighbour;
use crate::transport::shm::Tuning;
use crate::transport::shm::arena::Arena;
use crate::transport::shm::direct::Nonce;
use crate::transport::shm::doorbell::{Doorbell, Event, Ringer};
use crate::transport::shm::flat::{Flat, Seat};
use crate::transport::shm::ipc_socket::IpcSocket;
use crate::transport::shm::lender::Lender;
use crate::transport::shm::peer::Peer;
use crate::transport::shm::recv::Receiver;
use crate::transport::shm::ring::Producer;
use crate::transport::shm::send::Sender;

/// A rank's arena and its peers on the host. All of it is gone when this and what was opened from it are dropped, also
/// when the process is killed.
#[derive(Debug)]
pub struct Host {
    arena: Arena,
    bell: Doorbell,
    peers: Vec<Arc<Peer>>,
    own_member: usize,
    tuning: Tuning,
    lender: Arc<Lender>,
    /// Peers read it while they connect.
    _nonce: Box<Nonce>,
}

/// What a communicator that is made of another one shares with it.
#[derive(Debug)]
pub struct Kin {
    /// Of this rank's bells.
    pub(crate) event: Arc<Event>,
    /// By their ranks in the new communicator, those of other processes: the connections to them, and what wakes them.
    pub(crate) peers: HashMap<usize, (Arc<IpcSocket>, Ringer)>,
}

impl Host {
    /// For a communicator of the given ranks of this one.
    pub(crate) fn kin(&self, members: &[usize]) -> Kin {
        let peer = |(rank, member): (usize, &usize)| {
            let peer = self.peers.iter().find(|peer| peer.rank == *member)?;
            Some((rank, (Arc::clone(peer.ipc.as_ref()?), peer.ringer.clone())))
        };
        let peers = members.iter().enumerate().filter_map(peer).collect();
        Kin { event: self.bell.shared_event(), peers }
    }

    /// From what was connected; `peers` by rank.
    pub(crate) fn new(
        arena: Arena,
        bell: Doorbell,
        peers: Vec<Arc<Peer>>,
        own_member: usize,
        tuning: Tuning,
        (nonce, lender): (Box<Nonce>, Arc<Lender>),
    ) -> Self {
        Self { arena, bell, peers, own_member, tuning, lender, _nonce: nonce }
    }

    /// Whether `rank` shares memory with this one.
    pub fn reaches(&self, rank: usize) -> bool {
        self.peers.iter().any(|peer| peer.rank == rank)
    }

    /// Ranks that share memory, this one among them.
    pub(crate) fn n_members(&self) -> usize {
        self.peers.len() + 1
    }

    /// What this rank sleeps on.
    pub fn doorbell(&self) -> &Doorbell {
        &self.bell
    }

    /// Tells the other members which collective this rank is at.
    pub(crate) fn set_call(&self, call: &Header) {
        self.arena.set_call(call);
    }

    /// A rank that is at the same collective of the communicator by number, but calls another one.
    pub(crate) fn other_call(&self, own: &Header) -> Option<(usize, Header)> {
        let calls = self.peers.iter().filter_map(|peer| Some((peer.rank, peer.arena.call()?)));
        calls.into_iter().find(|(_, call)| call.sequence == own.sequence && call != own)
    }

    /// The sending end of `channel` to the rank `peer`; once per channel and peer.
    pub(crate) fn open_send(&self, channel: u32, peer: usize) -> Result<Sender> {
        let peer = self.peer(peer)?;
        let ring = Producer::new(self.arena.make_ring(peer.member, channel)?);
        Ok(Sender::new(peer, ring, self.tuning))
    }

    /// The receiving end of `channel` from the rank `peer`; once per channel and peer. Idle until the peer opens its
    /// end.
    pub(crate) fn open_recv(&self, channel: u32, peer: usize) -> Result<Receiver> {
        Ok(Receiver::new(self.peer(peer)?, channel, self.tuning))
    }

    /// The flat exchange of all members; one per communicator, as its rounds are counted.
    pub(crate) fn flat(&self) -> Flat {
        let seat =
            |peer: &Arc<Peer>| Seat { head: Arc::clone(peer.arena.head()), peer: Some(Arc::clone(peer)) };
        let mut seats: Vec<Seat> = self.peers.iter().map(seat).collect();
        seats.insert(self.own_member, Seat { head: Arc::clone(self.arena.head()), peer: None });
        Flat::new(seats, self.own_member, self.arena.layout().flat())
    }

    /// Lets no rank of this process read what this one has sent and they have not taken: its caller may free it now.
    pub(crate) fn take_back(&self) {
        self.lender.take_back();
    }

    /// Says to the others of the host that this rank is done: its end from now on is no death.
    pub(crate) fn leave(&self) {
        self.arena.set_left();
    }

    /// The other ranks of the host, whose ends can be seen.
    pub(crate) fn neighbours(&self) -> Vec<Arc<dyn Neighbour>> {
        self.peers.iter().map(|peer| Arc::clone(peer) as Arc<dyn Neighbour>).collect()
    }

    /// A rank of the host that has given up the communicator.
    pub(crate) fn given_up(&self) -> Option<usize> {
        self.peers.iter().find(|peer| peer.arena.has_given_up()).map(|peer| peer.rank)
    }

    /// The communicator ends here. If this rank has not said before that it leaves, the others see that it has given up.
    pub(crate) fn end(&self) {
        self.arena.end();
    }

    /// Tells the others that this rank is done with the communicator.
    pub(crate) fn hang_up(&self) {
        self.peers.iter().for_each(|peer| peer.hang_up());
        self.lender.end();
    }

    /// Waits until the other processes of the host are done with it too, or dead. Who stands still is waited for.
    pub(crate) fn wait_for_all(&self) {
        self.peers.iter().for_each(|peer| peer.wait_for_end());
    }

    fn peer(&self, rank: usize) -> Result<Arc<Peer>> {
        let found = self.peers.iter().find(|peer| peer.rank == rank);
        found.cloned().ok_or_else(|| Error::Internal(format!("rank {rank} shares no memory with this one")))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.arena.end();
        self.lender.end();
    }
}
