//! The receiving end: it tells the other end where there is room, and hears by a number when that is full.

use nccl_net::MAX_REQUESTS;
use verbs::{Buffer, Kind, Remote, Signal};

use crate::failure::{Failure, Result};
use crate::flush::Flush;
use crate::link::Link;
use crate::memory::Registered;
use crate::rendezvous::{ROOM_BYTES, ROOM_STRIDE};
use crate::requests::Requests;

/// How many tell of room before one says that it is done: what is in flight leaves the queue with it.
const ROOMS_PER_SIGNAL: u64 = 8;
/// The number of what tells of room; flushes have theirs from `OF_FLUSH` on, and receives their places, below.
const OF_ROOM: u64 = u64::MAX;
const OF_FLUSH: u64 = 1 << 32;

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) link: Link,
    /// Where what is told lies, for devices that cannot carry it in the request.
    told: Option<Buffer>,
    next: u64,
    requests: Requests,
    flush: Option<Flush>,
    flushes: Requests,
    next_flush: u64,
}

impl Receiver {
    /// Over a connection.
    pub(crate) fn new(link: Link) -> Result<Self> {
        let inline_bytes = link.pairs.first().map_or(0, |pair| pair.room().inline_bytes);
        let needs_memory = (inline_bytes as usize) < ROOM_BYTES;
        let told = needs_memory.then(|| link.device.buffer(MAX_REQUESTS * ROOM_STRIDE)).transpose()?;
        let (requests, flushes) = (Requests::default(), Requests::default());
        // Where GPUs are reached, flushes will come: not in the path of the first of them.
        let has_gpu = link.device.memory_kinds != nccl_net::PTR_HOST;
        let flush = has_gpu.then(|| Flush::new(&link.device, link.queue())).transpose()?;
        Ok(Self { link, told, next: 0, requests, flush, flushes, next_flush: 0 })
    }

    /// Begins to receive at most so many bytes to an address in registered memory: the request's place, or none while too many are
    /// in flight.
    pub(crate) fn receive(
        &mut self,
        address: u64,
        room: usize,
        memory: &Registered,
    ) -> Result<Option<usize>> {
        self.link.check()?;
        let place = usize::try_from(self.next % MAX_REQUESTS as u64).unwrap_or(0);
        if !self.requests.is_free(place) {
            return Ok(None);
        }
        let offset =
            address.checked_sub(memory.region.address()).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.ok_or_else(|| Failure::internal("a receive to memory that is not registered"))?;
        let target = memory.region.local(offset, room).map(|_| memory.region.remote(offset))?;
        let taken = self.link.taken(self.next);
        self.requests.begin(place, taken.len(), 0);
        self.link.counts.requests += 1;
        if let Err(failure) = self.tell(place, target, room, taken) {
            self.requests.take_back(place);
            return Err(self.link.refused(failure));
        }
        self.next += 1;
        Ok(Some(place))
    }

    fn tell(
        &mut self,
        place: usize,
        target: Remote,
        room: usize,
        taken: std::ops::Range<usize>,
    ) -> Result<()> {
        for pair in taken {
            if let Some(pair) = self.link.pairs.get_mut(pair) {
                pair.receive(place as u64)?;
            }
        }
        let mut bytes = [0; ROOM_BYTES];
        bytes[..8].copy_from_slice(&target.address.to_le_bytes());
        bytes[8..16].copy_from_slice(&(room as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&target.key.to_le_bytes());
        bytes[24..].copy_from_slice(&(self.next + 1).to_le_bytes());
        let offset = place * ROOM_STRIDE;
        let rooms = self.link.peer.room;
        let to = Remote { address: rooms.address + offset as u64, ..rooms };
        let signal = if self.next.is_multiple_of(ROOMS_PER_SIGNAL) {
            Signal::With(OF_ROOM)
        } else {
            Signal::Silent(OF_ROOM)
        };
        let Some(pair) = self.link.pairs.first_mut() else { return Ok(()) };
        match &self.told {
            None => pair.write_inline(&bytes, to, None, signal)?,
            Some(told) => {
                for (word, value) in bytes.chunks_exact(8).enumerate() {
                    let value = value.try_into().map_or(0, u64::from_ne_bytes);
                    if let Some(number) = told.number(offset + 8 * word) {
                        number.store(value, std::sync::atomic::Ordering::Release);
                    }
                }
                pair.write(told.region().local(offset, ROOM_BYTES)?, to, None, signal)?;
            }
        }
        self.link.counts.work_requests += 1;
        Ok(())
    }

    /// Begins to make sure that what was received is seen by who does not look through this processor: a read of a byte of it comes
    /// behind all writes that came before.
    pub(crate) fn flush(&mut self, address: u64, memory: &Registered) -> Result<usize> {
        self.link.check()?;
        let place = usize::try_from(self.next_flush % MAX_REQUESTS as u64).unwrap_or(0);
        if !self.flushes.is_free(place) {
            // No request would mean that there was nothing to flush.
            return Err(Failure::internal("more flushes at once than requests"));
        }
        let offset =
            address.checked_sub(memory.region.address()).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.ok_or_else(|| Failure::internal("a flush of memory that is not registered"))?;
        if self.flush.is_none() {
            self.flush = Some(Flush::new(&self.link.device, self.link.queue())?);
        }
        let flush = self.flush.as_mut().ok_or_else(|| Failure::internal("no queue pair for flushes"))?;
        flush.read(memory.region.remote(offset), OF_FLUSH + place as u64)?;
        self.flushes.begin(place, 1, 0);
        self.next_flush += 1;
        Ok(place)
    }

    fn poll(&mut self) -> Result<()> {
        let Self { link, requests, flushes, .. } = self;
        let failed = link.poll(requests.any(), |counts, completion| {
            let bytes = completion.immediate.map(u64::from);
            match completion.id {
                OF_ROOM => {}
                id @ OF_FLUSH.. => {
                    flushes.done(usize::try_from(id - OF_FLUSH).unwrap_or(usize::MAX), None);
                }
                id if completion.kind == Kind::Receive => {
                    if let Some(bytes) = requests.done(usize::try_from(id).unwrap_or(usize::MAX), bytes) {
                        Link::note_done(counts, bytes);
                    }
                }
                _ => {}
            }
        })?;
        let Some(failed) = failed else { return Ok(()) };
        let what = match failed.id {
            OF_ROOM => "telling of room to",
            OF_FLUSH.. => "a flush of what came from",
            _ => "a receive from",
        };
        Err(self.link.broke(&failed, what))
    }

    /// Goes on with a receive; its bytes if it is done.
    pub(crate) fn test(&mut self, place: usize) -> Result<Option<u64>> {
        let polled = self.poll();
        // What has come has come, though the other end may be gone by now.
        let taken =
            self.requests.take(place).map_err(|()| Failure::internal("a request that is not in flight"))?;
        if taken.is_some() { Ok(taken) } else { polled.map(|()| None) }
    }

    /// Goes on with a flush; 0 if it is done.
    pub(crate) fn test_flush(&mut self, place: usize) -> Result<Option<u64>> {
        let polled = self.poll();
        let taken =
            self.flushes.take(place).map_err(|()| Failure::internal("a flush that is not in flight"))?;
        if taken.is_some() { Ok(taken) } else { polled.map(|()| None) }
    }
}
