//! The sending end: it writes where the other end has told of room.

use std::sync::atomic::Ordering;

use nccl_net::MAX_REQUESTS;
use verbs::{Buffer, Remote, Signal};

use crate::config::settings;
use crate::failure::{Failure, Result};
use crate::link::{Link, monotonic_ns};
use crate::memory::Registered;
use crate::rendezvous::ROOM_STRIDE;
use crate::requests::Requests;

/// Stripes of a message over queue pairs begin at multiples of this: NCCL's protocols have flags in lines of 128 bytes.
const STRIPE_BYTES: usize = 128;

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender {
    // The link first: nobody writes into the rooms once its queue pairs are gone.
    pub(crate) link: Link,
    rooms: Buffer,
    next: u64,
    requests: Requests,
    /// Since when the next message waits for room.
    waits_since_ns: Option<u64>,
}

/// Room for one message, as the other end has told of it.
#[derive(Clone, Copy, Debug)]
struct Target {
    to: Remote,
    bytes: u64,
}

impl Sender {
    /// Over a connection; `rooms` is where the other end tells of room.
    pub(crate) fn new(link: Link, rooms: Buffer) -> Self {
        Self { link, rooms, next: 0, requests: Requests::default(), waits_since_ns: None }
    }

    /// Begins to send bytes from an address in registered memory: the request's place, or none while there is no room.
    pub(crate) fn send(&mut self, address: u64, len: usize, memory: &Registered) -> Result<Option<usize>> {
        self.link.check()?;
        let place = usize::try_from(self.next % MAX_REQUESTS as u64).unwrap_or(0);
        if !self.requests.is_free(place) {
            return Ok(None);
        }
        let Some(target) = self.room(place) else {
            self.wait()?;
            return Ok(None);
        };
        if len as u64 > target.bytes {
            let text = format!(
                "{}: a message of {len} bytes to {}, which has room for {}: the two ranks call different things",
                self.link.own(),
                self.link.peer.shown(),
                target.bytes
            );
            return Err(self.link.fail(Failure::usage(text)));
        }
        if let Some(since) = self.waits_since_ns.take() {
            self.link.counts.wait_ns += monotonic_ns().saturating_sub(since);
        }
        let taken = self.link.taken(self.next);
        self.requests.begin(place, taken.len(), len as u64);
        self.link.counts.requests += 1;
        if let Err(failure) = self.write(address, len, memory, target, place, taken) {
            self.requests.take_back(place);
            return Err(self.link.refused(failure));
        }
        self.next += 1;
        Ok(Some(place))
    }

    /// What the other end has written of the next room; none before it has.
    fn room(&self, place: usize) -> Option<Target> {
        let offset = place * ROOM_STRIDE;
        let number = |at: usize| self.rooms.number(offset + at);
        // Written last of one small write, in the same cache line.
        if number(24)?.load(Ordering::Acquire) != self.next + 1 {
            return None;
        }
        let [address, bytes, key] =
            [0, 8, 16].map(|at| number(at).map(|number| number.load(Ordering::Relaxed)));
        let key = u32::try_from(key? & u64::from(u32::MAX)).ok()?;
        Some(Target { to: Remote { address: address?, key }, bytes: bytes? })
    }

    /// There is no room: what is known of that.
    fn wait(&mut self) -> Result<()> {
        if self.waits_since_ns.is_none() {
            self.waits_since_ns = Some(monotonic_ns());
            self.link.counts.waits += 1;
        }
        self.poll(true)
    }

    fn write(
        &mut self,
        address: u64,
        len: usize,
        memory: &Registered,
        target: Target,
        place: usize,
        taken: std::ops::Range<usize>,
    ) -> Result<()> {
        let start = address.checked_sub(memory.region.address());
        let start = start.and_then(|start| usize::try_from(start).ok());
        let start = start.ok_or_else(|| Failure::internal("a send from memory that is not registered"))?;
        let number =
            u32::try_from(len).map_err(|_| Failure::internal(format!("a message of {len} bytes")))?;
        let stripe = len.div_ceil(taken.len()).next_multiple_of(STRIPE_BYTES);
        let is_reordered = self.link.is_adaptive && len > settings().ar_threshold;
        for (index, pair) in taken.enumerate() {
            let from = (index * stripe).min(len);
            let to = ((index + 1) * stripe).min(len);
            let local = memory.region.local(start + from, to - from)?;
            let remote = Remote { address: target.to.address + from as u64, ..target.to };
            let signal = Signal::With(place as u64);
            let Some(pair) = self.link.pairs.get_mut(pair) else { continue };
            if is_reordered {
                // The number then comes behind all of the data, whichever way their packets took.
                pair.write(local, remote, None, Signal::Silent(place as u64))?;
                pair.write(memory.region.local(start, 0)?, remote, Some(number), signal)?;
                self.link.counts.work_requests += 2;
            } else {
                pair.write(local, remote, Some(number), signal)?;
                self.link.counts.work_requests += 1;
            }
        }
        Ok(())
    }

    fn poll(&mut self, waits: bool) -> Result<()> {
        let Self { link, requests, .. } = self;
        let failed = link.poll(waits, |counts, completion| {
            let place = usize::try_from(completion.id).unwrap_or(usize::MAX);
            if let Some(bytes) = requests.done(place, None) {
                Link::note_done(counts, bytes);
            }
        })?;
        let Some(failed) = failed else { return Ok(()) };
        let bytes = usize::try_from(failed.id).map_or(0, |place| self.requests.bytes(place));
        Err(self.link.broke(&failed, &format!("a write of {bytes} bytes to")))
    }

    /// Goes on with a request; its bytes if it is done.
    pub(crate) fn test(&mut self, place: usize) -> Result<Option<u64>> {
        let polled = self.poll(self.requests.any());
        // What is done is done, though the other end may be gone by now.
        let taken =
            self.requests.take(place).map_err(|()| Failure::internal("a request that is not in flight"))?;
        if taken.is_some() { Ok(taken) } else { polled.map(|()| None) }
    }
}
