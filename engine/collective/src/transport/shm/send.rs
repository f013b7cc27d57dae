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
    /// Parts that were posted.
    posted: u64,
    /// Of each part that the receiver may still read in place: how many were posted before it, and how many messages must
    /// have been taken. Bounded by the ring's slots, whether or not anybody asks what is released.
    lent: VecDeque<(u64, u64)>,
}

impl Sender {
    /// Over a new ring.
    pub(crate) fn new(peer: Arc<Peer>, ring: Producer, tuning: Tuning) -> Self {
        Self { peer, ring, tuning, offset: 0, posted: 0, lent: VecDeque::new() }
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
                self.posted += 1;
                return Progress::Done;
            }
        }
        if moved { Progress::Moved } else { Progress::Idle }
    }

    /// Forgets what the receiver is known to have taken.
    fn forget_taken(&mut self) {
        let taken = self.ring.known_taken();
        while self.lent.front().is_some_and(|(_, needed)| *needed <= taken) {
            self.lent.pop_front();
        }
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
        // There was credit, so no more than the ring has slots are not known to be taken.
        self.forget_taken();
        self.lent.push_back((self.posted, self.ring.pushed()));
        self.posted += 1;
        self.peer.ringer.ring();
        Ok(Progress::Done)
    }

    fn released(&mut self) -> Result<u64, Fault> {
        if !self.lent.is_empty() {
            self.ring.taken();
            self.forget_taken();
        }
        Ok(self.lent.front().map_or(self.posted, |(before, _)| *before))
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn describe(&self) -> Description {
        Description::Shm { direct: self.tuning.is_direct(&self.peer, self.peer.reads_us()) }
    }
}

#[cfg(test)]
impl Sender {
    /// Parts that it remembers.
    pub(crate) fn remembered(&self) -> usize {
        self.lent.len()
    }
}
