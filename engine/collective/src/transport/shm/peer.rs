//! Another rank of this host: its arena, its bell, how its memory can be read, and the memory it has shown.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::net::wake::{self, Wake};
use crate::net::watch::Neighbour;
use crate::transport::Fault;
use crate::transport::shm::arena::{Arena, Reads};
use crate::transport::shm::doorbell::Ringer;
use crate::transport::shm::lender::Lender;
use crate::transport::shm::map::{self, Mapping};
use crate::transport::shm::region::{self, Region};
use crate::transport::shm::unix;

/// Regions that a peer is shown at most: each is a mapping there. Further ones go by other ways.
const MAX_SHOWN: usize = 256;
/// Bytes of a message that shows a region or takes it back: number, kind, length.
const MESSAGE_BYTES: usize = 16;
/// Between two looks whether a peer is done: its end wakes the sleeper.
const END_WAIT: Duration = Duration::from_secs(3600);
const SHOW: u32 = 1;
const FORGET: u32 = 2;

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
    socket: Option<OwnedFd>,
    shown: Mutex<BTreeSet<u32>>,
    mapped: Mutex<BTreeMap<u32, Result<Arc<Mapping>>>>,
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
    pub(crate) socket: Option<OwnedFd>,
}

impl Neighbour for Peer {
    fn rank(&self) -> usize {
        self.rank
    }

    fn wake_at_end(&self, wake: &Wake) {
        self.lender.iter().for_each(|lender| lender.wake_at_end(wake));
    }

    fn end_fd(&self) -> Option<PollFd<'_>> {
        self.socket.as_ref().map(|socket| PollFd::new(socket, PollFlags::RDHUP))
    }

    fn has_ended(&self) -> bool {
        let Some(end) = self.end_fd() else {
            return self.lender.as_ref().is_some_and(|lender| lender.has_ended());
        };
        let mut fds = [end];
        wake::sleep(&mut fds, Duration::ZERO).is_ok() && !fds[0].revents().is_empty()
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
            socket: parts.socket,
            shown: Mutex::default(),
            mapped: Mutex::default(),
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
        if self.is_own_process() {
            return true;
        }
        let mut shown = lock(&self.shown);
        if shown.contains(&region.id()) {
            return true;
        }
        self.forget(&mut shown);
        let done = shown.len() < MAX_SHOWN && self.tell(SHOW, region.id(), region.len(), Some(region));
        if done {
            shown.insert(region.id());
        }
        done
    }

    /// The mapping of region `id` of the peer, which has shown it before it spoke of it.
    pub(crate) fn mapping(&self, id: u32) -> std::result::Result<Arc<Mapping>, Fault> {
        let Some(socket) = &self.socket else {
            return region::mapping(id).ok_or_else(|| self.broken("has lost its memory"));
        };
        let mut mapped = lock(&self.mapped);
        while !mapped.contains_key(&id) {
            let mut bytes = [0; MESSAGE_BYTES];
            let got = unix::recv(socket, &mut bytes).map_err(|error| self.lost(error))?;
            let (len, fds) = got.ok_or_else(|| self.broken("speaks of memory that it has not shown"))?;
            self.hear(&mut mapped, &bytes[..len], fds).map_err(Fault::Broken)?;
        }
        let found = mapped.get(&id).cloned();
        found.ok_or_else(|| self.broken("has lost its memory"))?.map_err(Fault::Broken)
    }

    /// Ends this rank's side of the connection.
    pub(crate) fn hang_up(&self) {
        // A peer that is dead has ended it before.
        let _ = self.socket.as_ref().map(|socket| rustix::net::shutdown(socket, Shutdown::Write));
    }

    /// Waits until a peer of another process has ended its side, or its process is dead.
    pub(crate) fn wait_for_end(&self) {
        let Some(socket) = &self.socket else { return };
        // What it shows meanwhile is of no use any more.
        loop {
            match unix::recv(socket, &mut [0; MESSAGE_BYTES]) {
                Ok(Some(_)) | Err(Errno::MFILE) => {}
                Ok(None) => {
                    let mut fds = [PollFd::new(socket, PollFlags::IN)];
                    if wake::sleep(&mut fds, END_WAIT).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn lost(&self, error: Errno) -> Fault {
        if error != Errno::MFILE {
            return Fault::Closed;
        }
        Fault::Broken(Error::system(format_args!("taking memory of rank {}", self.rank), &error.into()))
    }

    /// A fault of the peer's.
    pub(crate) fn broken(&self, what: &str) -> Fault {
        Fault::Broken(Error::Internal(format!("rank {} {what}", self.rank)))
    }

    fn hear(
        &self,
        mapped: &mut BTreeMap<u32, Result<Arc<Mapping>>>,
        bytes: &[u8],
        fds: Vec<OwnedFd>,
    ) -> Result<()> {
        let malformed = || Error::Internal(format!("rank {} shows memory in a wrong way", self.rank));
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word));
        let long = |at: usize| bytes.get(at..)?.first_chunk().map(|long| u64::from_le_bytes(*long));
        let (kind, id, len) = (word(0), word(4).ok_or_else(malformed)?, long(8));
        if kind == Some(FORGET) {
            mapped.remove(&id);
            return Ok(());
        }
        let len = len.and_then(|len| usize::try_from(len).ok()).ok_or_else(malformed)?;
        let fd = fds.into_iter().next().filter(|fd| map::is_safe(fd, len)).ok_or_else(malformed)?;
        // Without address space for it, that is remembered, and the memory is read another way.
        mapped.insert(id, Mapping::new(fd, 0, len, "a peer's memory").map(Arc::new));
        Ok(())
    }

    /// Takes back what has been freed. Where there is no room for the message, the next time.
    fn forget(&self, shown: &mut BTreeSet<u32>) {
        shown.retain(|id| region::exists(*id) || !self.tell(FORGET, *id, 0, None));
    }

    fn tell(&self, kind: u32, id: u32, len: usize, region: Option<&Region>) -> bool {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&id.to_le_bytes());
        bytes[8..].copy_from_slice(&(len as u64).to_le_bytes());
        let fds: Vec<_> = region.map(Region::fd).into_iter().collect();
        self.socket.as_ref().is_some_and(|socket| unix::send(socket, &bytes, &fds).unwrap_or(false))
    }
}
