//! The connection to a rank of this host in another process: over it both show each other memory, and its end is the other's.
//!
//! A communicator that is made of another one has its connections too.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::net::wake;
use crate::transport::Fault;
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

/// A connection.
#[derive(Debug)]
pub(crate) struct IpcSocket {
    socket: OwnedFd,
    shown: Mutex<BTreeSet<u32>>,
    mapped: Mutex<BTreeMap<u32, Result<Arc<Mapping>>>>,
}

impl IpcSocket {
    /// Over a connected socket.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, shown: Mutex::default(), mapped: Mutex::default() }
    }

    /// Ready at the other's end.
    pub(crate) fn end_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.socket, PollFlags::RDHUP)
    }

    /// Whether that has come.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [self.end_fd()];
        wake::sleep(&mut fds, Duration::ZERO).is_ok() && !fds[0].revents().is_empty()
    }

    /// Makes sure that the peer has been shown `region`; false if it cannot be now.
    pub(crate) fn show(&self, region: &Region) -> bool {
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

    /// The mapping of region `id` of the peer `rank`, which has shown it before it spoke of it.
    pub(crate) fn mapping(&self, id: u32, rank: usize) -> std::result::Result<Arc<Mapping>, Fault> {
        let mut mapped = lock(&self.mapped);
        while !mapped.contains_key(&id) {
            let mut bytes = [0; MESSAGE_BYTES];
            let got = match unix::recv(&self.socket, &mut bytes) {
                // The message has come, and its descriptor has not.
                Err(Errno::MFILE) => {
                    mapped.insert(
                        u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
                        Err(no_room(rank)),
                    );
                    continue;
                }
                got => got.map_err(|_| Fault::Closed)?,
            };
            let (len, fds) = got.ok_or_else(|| broken(rank, "speaks of memory that it has not shown"))?;
            hear(&mut mapped, &bytes[..len], fds, rank).map_err(Fault::Broken)?;
        }
        let found = mapped.get(&id).cloned();
        found.ok_or_else(|| broken(rank, "has lost its memory"))?.map_err(Fault::Broken)
    }

    /// Ends this rank's side.
    pub(crate) fn hang_up(&self) {
        // A peer that is dead has ended it before.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
    }

    /// Waits until the peer has ended its side, or its process is dead.
    pub(crate) fn wait_for_end(&self) {
        // What it shows meanwhile is of no use any more.
        loop {
            match unix::recv(&self.socket, &mut [0; MESSAGE_BYTES]) {
                Ok(Some(_)) | Err(Errno::MFILE) => {}
                Ok(None) => {
                    let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
                    if wake::sleep(&mut fds, END_WAIT).is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
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
        unix::send(&self.socket, &bytes, &fds).unwrap_or(false)
    }
}

/// A fault of the peer `rank`'s.
pub(crate) fn broken(rank: usize, what: &str) -> Fault {
    Fault::Broken(Error::Internal(format!("rank {rank} {what}")))
}

fn no_room(rank: usize) -> Error {
    Error::system(format_args!("taking memory of rank {rank}"), &Errno::MFILE.into())
}

fn hear(
    mapped: &mut BTreeMap<u32, Result<Arc<Mapping>>>,
    bytes: &[u8],
    fds: Vec<OwnedFd>,
    rank: usize,
) -> Result<()> {
    let malformed = || Error::Internal(format!("rank {rank} shows memory in a wrong way"));
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
