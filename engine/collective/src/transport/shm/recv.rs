//! The receiving end: hands over what is in the slots, or reads it where the sender has it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::error::Error;
use crate::net::link::Header;
use crate::transport::shm::Tuning;
use crate::transport::shm::direct;
use crate::transport::shm::peer::Peer;
use crate::transport::shm::ring::{Carried, Consumer, Direct};
use crate::transport::{Description, Fault, Progress, RecvHalf, Sink};

/// Bytes that are read at once for a reduction: they are still in the second-level cache when they are reduced.
const STAGING_BYTES: usize = 128 * 1024;

/// From one peer on one channel.
#[derive(Debug)]
pub(crate) struct Receiver {
    peer: Arc<Peer>,
    channel: u32,
    tuning: Tuning,
    /// None until the sender has made it.
    ring: Option<Consumer>,
    /// Bytes of the expected part that are done.
    offset: usize,
    staging: Vec<u8>,
}

impl Receiver {
    /// Idle until the sender has opened its end.
    pub(crate) fn new(peer: Arc<Peer>, channel: u32, tuning: Tuning) -> Self {
        Self { peer, channel, tuning, ring: None, offset: 0, staging: Vec::new() }
    }

    fn ring(&mut self) -> Result<Option<&mut Consumer>, Fault> {
        if self.ring.is_none() {
            let found = self.peer.arena.find_ring(self.peer.own_member, self.channel);
            self.ring = found.map_err(Fault::Broken)?.map(Consumer::new);
        }
        Ok(self.ring.as_mut())
    }

    /// Hands over the message at the front, if there is one; how many bytes of the part are done then.
    fn step(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Option<usize>, Fault> {
        let Some(message) = self.ring.as_ref().and_then(Consumer::front) else { return Ok(None) };
        let message = message.map_err(|what| self.peer.broken(what))?;
        if message.header != *expected {
            return Err(Fault::Mismatch(message.header));
        }
        let len = expected.len as usize;
        match message.carried {
            Carried::Copied(copied) if copied <= len - self.offset => {
                sink.take(self.offset, message.data);
                Ok(Some(self.offset + copied))
            }
            Carried::Direct(direct) if self.offset == 0 => {
                read(&self.peer, direct, len, sink, &mut self.staging)?;
                Ok(Some(len))
            }
            _ => Err(self.peer.broken("sends more than it announced")),
        }
    }
}

/// Reads `len` bytes where the peer has them.
fn read(
    peer: &Peer,
    from: Direct,
    len: usize,
    sink: &mut dyn Sink,
    staging: &mut Vec<u8>,
) -> Result<(), Fault> {
    if let Some((id, offset)) = from.region {
        match peer.mapping(id) {
            Ok(map) => {
                let start = usize::try_from(offset).ok().filter(|start| map.holds(*start, len));
                let start = start.ok_or_else(|| peer.broken("speaks of memory outside what it has shown"))?;
                sink.take(0, map.read(start, len));
                return Ok(());
            }
            // Without address space for the mapping, reading remains.
            Err(Fault::Broken(Error::System(_))) if peer.can_be_read => {}
            Err(fault) => return Err(fault),
        }
    }
    if let Some(lender) = &peer.lender {
        let is_lent = lender.lend(from.address, len, |bytes| sink.take(0, bytes));
        return if is_lent { Ok(()) } else { Err(Fault::Closed) };
    }
    read_process(peer, from.address, len, sink, staging)
}

fn read_process(
    peer: &Peer,
    address: u64,
    len: usize,
    sink: &mut dyn Sink,
    staging: &mut Vec<u8>,
) -> Result<(), Fault> {
    let failed = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::ESRCH) => Fault::Closed,
        _ => Fault::Broken(Error::system(format_args!("reading {len} bytes of rank {}", peer.rank), &error)),
    };
    let mut done = 0;
    while done < len {
        let at = address.wrapping_add(done as u64);
        if let Some(space) = sink.space(done) {
            let count = space.len().min(len - done);
            direct::read_process(peer.pid, at, &mut space[..count]).map_err(failed)?;
            sink.filled(done, count);
            done += count;
        } else {
            staging.resize(STAGING_BYTES, 0);
            let count = STAGING_BYTES.min(len - done);
            direct::read_process(peer.pid, at, &mut staging[..count]).map_err(failed)?;
            sink.take(done, &staging[..count]);
            done += count;
        }
    }
    Ok(())
}

impl RecvHalf for Receiver {
    fn front(&mut self) -> Result<Option<Header>, Fault> {
        self.ring()?;
        let message = self.ring.as_ref().and_then(Consumer::front).transpose();
        message.map(|message| message.map(|message| message.header)).map_err(|what| self.peer.broken(what))
    }

    fn pull(&mut self, expected: &Header, sink: &mut dyn Sink) -> Result<Progress, Fault> {
        if self.ring()?.is_none() {
            return Ok(Progress::Idle);
        }
        let mut moved = false;
        while let Some(done) = self.step(expected, sink)? {
            if let Some(ring) = &mut self.ring {
                ring.pop();
            }
            self.peer.ringer.ring();
            moved = true;
            self.offset = done;
            if done == expected.len as usize {
                self.offset = 0;
                return Ok(Progress::Done);
            }
        }
        Ok(if moved { Progress::Moved } else { Progress::Idle })
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn describe(&self) -> Description {
        Description::Shm { direct: self.tuning.is_direct(&self.peer, self.peer.can_be_read) }
    }
}
