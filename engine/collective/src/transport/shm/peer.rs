//! Another rank of this host: its arena, its bell, how its memory can be read, and the memory it has shown.

use std::sync::Arc;

use rustix::event::PollFd;

use crate::net::wake::Wake;
use crate::net::watch::Neighbour;
use crate::transport::Fault;
use crate::transport::shm::arena::{Arena, Reads};
use crate::transport::shm::doorbell::Ringer;
use crate::transport::shm::ipc_socket::{self, IpcSocket};
use crate::transport::shm::lender::Lender;
use crate::transport::shm::map::Mapping;
use crate::transport::shm::region::{self, Region};

/// Another rank of this host.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its rank.
    pub(crate) rank: usize,
    /// Its index among the host's ranks.
    pub(crate) member: usize,
    /// Its arena.
    pub(crate) arena: Arena,
    /// Wakes it.
    pub(crate) ringer: Ringer,
    /// Its process; 0 if that cannot be seen from here.
    pub(crate) pid: i32,
    /// It lends its memory to this rank if it is a rank of this very process.
    pub(crate) lender: Option<Arc<Lender>>,
    /// Whether this process can read that one's memory.
    pub(crate) can_be_read: bool,
    /// This rank's index among the host's ranks.
    pub(crate) own_member: usize,
    /// To it; none to a rank of this very process.
    pub(crate) ipc: Option<Arc<IpcSocket>>,
}

/// What a peer is made from.
#[derive(Debug)]
pub(crate) struct Parts {
    /// Rank and index of the peer.
    pub(crate) place: (usize, usize),
    /// This rank's index.
    pub(crate) own_member: usize,
    /// The peer's.
    pub(crate) arena: Arena,
    /// The peer's.
    pub(crate) ringer: Ringer,
    /// The peer's process.
    pub(crate) pid: i32,
    /// Whether that can be read.
    pub(crate) can_be_read: bool,
    /// The peer, if it is a rank of this very process.
    pub(crate) lender: Option<Arc<Lender>>,
    /// To the peer, if it is a rank of another process.
    pub(crate) ipc: Option<Arc<IpcSocket>>,
}

impl Neighbour for Peer {
    fn rank(&self) -> usize {
        self.rank
    }

    fn wake_at_end(&self, wake: &Wake) {
        self.lender.iter().for_each(|lender| lender.wake_at_end(wake));
    }

    fn end_fd(&self) -> Option<PollFd<'_>> {
        self.ipc.as_ref().map(|ipc| ipc.end_fd())
    }

    fn has_ended(&self) -> bool {
        match &self.ipc {
            Some(ipc) => ipc.has_ended(),
            None => self.lender.as_ref().is_some_and(|lender| lender.has_ended()),
        }
    }

    fn has_left(&self) -> bool {
        self.arena.has_left()
    }
}

impl Peer {
    /// A peer that has been greeted.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            rank: parts.place.0,
            member: parts.place.1,
            ringer: parts.ringer,
            arena: parts.arena,
            pid: parts.pid,
            lender: parts.lender,
            can_be_read: parts.can_be_read,
            own_member: parts.own_member,
            ipc: parts.ipc,
        }
    }

    /// Whether it is a rank of this very process.
    pub(crate) fn is_own_process(&self) -> bool {
        self.lender.is_some()
    }

    /// Whether the peer has found that it can read this process's memory.
    pub(crate) fn reads_us(&self) -> bool {
        self.arena.reads(self.own_member) == Reads::Yes
    }
    /// Makes sure that the peer has been shown `region`; false if it cannot be now.
    pub(crate) fn show(&self, region: &Region) -> bool {
        self.ipc.as_ref().is_none_or(|ipc| ipc.show(region))
    }

    /// The mapping of region `id` of the peer, which has shown it before it spoke of it.
    pub(crate) fn mapping(&self, id: u32) -> Result<Arc<Mapping>, Fault> {
        match &self.ipc {
            Some(ipc) => ipc.mapping(id, self.rank),
            None => region::mapping(id).ok_or_else(|| self.broken("has lost its memory")),
        }
    }

    /// Tells a rank of another process that this one is done.
    pub(crate) fn hang_up(&self) {
        self.ipc.iter().for_each(|ipc| ipc.hang_up());
    }

    /// Waits until a rank of another process has said so, or its process is dead.
    pub(crate) fn wait_for_end(&self) {
        self.ipc.iter().for_each(|ipc| ipc.wait_for_end());
    }

    /// A fault of the peer's.
    pub(crate) fn broken(&self, what: &str) -> Fault {
        ipc_socket::broken(self.rank, what)
    }
}
