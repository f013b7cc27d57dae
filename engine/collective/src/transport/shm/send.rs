//! The sending end: copies a part into slots, or tells the receiver where to read it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::transport::shm::Tuning;
use crate::transport::shm::peer::Peer;
use crate::transport::shm::region;
use crate::transport::shm::ring::{Direct, Producer};
use crate::transport::{Description, Fault, Part, Progress, SendHalf};

/// To one peer on one channel.
#[derive(Debug)]
pub(crate) struct Sender {
    peer: Arc<Peer>,
    ring: Producer,
    tuning: Tuning,
    /// Bytes of the part being copied that are in slots.
    offset: usize,
    /// Of each part not released: how many messages must have been taken.
    pending: VecDeque<u64>,
    released: u64,
}

impl Sender {
    /// Over a new ring.
    pub(crate) fn new(peer: Arc<Peer>, ring: Producer, tuning: Tuning) -> Self {
        Self { peer, ring, tuning, offset: 0, pending: VecDeque::new(), released: 0 }
    }

    /// Where the receiver can read `payload` itself; none if copying is better or the only way.
    fn direct(&self, payload: &[u8]) -> Option<Direct> {
        let (len, peer) = (payload.len(), &self.peer);
        let address = || payload.as_ptr().expose_provenance() as u64;
        if peer.is_own_process() {
            return (len >= self.tuning.own_bytes).then(|| Direct { address: address(), region: None });
        }
        if len >= self.tuning.map_bytes
            && let Some((region, offset)) = region::find(payload)
            && peer.show(&region)
        {
            return Some(Direct { address: address(), region: Some((region.id(), offset as u64)) });
        }
        let readable = len >= self.tuning.read_bytes && peer.reads_us();
        readable.then(|| Direct { address: address(), region: None })
    }

    fn copy(&mut self, part: Part<'_>) -> Progress {
        let mut moved = false;
        while self.ring.has_credit() {
            self.offset += self.ring.push_copy(&part.header, &part.payload[self.offset..]);
            self.peer.ringer.ring();
            moved = true;
            if self.offset == part.payload.len() {
                self.offset = 0;
                self.pending.push_back(0);
                return Progress::Done;
            }
        }
        if moved { Progress::Moved } else { Progress::Idle }
    }
}

impl SendHalf for Sender {
    fn post(&mut self, part: Part<'_>) -> Result<Progress, Fault> {
        if !self.ring.has_credit() {
            return Ok(Progress::Idle);
        }
        let direct = if self.offset == 0 { self.direct(part.payload) } else { None };
        let Some(direct) = direct else { return Ok(self.copy(part)) };
        self.ring.push_direct(&part.header, direct);
        self.pending.push_back(self.ring.pushed());
        self.peer.ringer.ring();
        Ok(Progress::Done)
    }

    fn released(&mut self) -> Result<u64, Fault> {
        if self.pending.front().is_some_and(|needed| *needed > 0) {
            self.ring.taken();
        }
        let taken = self.ring.known_taken();
        while self.pending.front().is_some_and(|needed| *needed <= taken) {
            self.pending.pop_front();
            self.released += 1;
        }
        Ok(self.released)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn describe(&self) -> Description {
        Description::Shm { direct: self.tuning.is_direct(&self.peer, self.peer.reads_us()) }
    }
}
