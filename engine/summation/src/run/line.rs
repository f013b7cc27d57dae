//! Both directions between a worker and a service of two processes: what goes out and comes in, and how it is counted.

use std::collections::VecDeque;
use std::ops::Range;

use rustix::event::{PollFd, PollFlags};

use super::agree::Agreement;
use super::wire::{Message, Wire, strange};
use rsccl_collective::comm::links::Links;
use rsccl_collective::error::Error;
use rsccl_collective::net::link::Header;
use rsccl_collective::transport::{Fault, Part, Progress, RecvHalf, SendHalf, Sink};

/// Bytes of a list of declarations in one message: few enough to be copied by every transport.
const LIST_BYTES: usize = 16 * 1024;
/// Bytes of a list of declarations at most: those of some ten million tensors.
const MAX_LIST_BYTES: u64 = 1 << 30;

/// What went wrong, and with which rank.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) peer: usize,
    pub(super) fault: Fault,
}

impl Trouble {
    /// Not the connection's own.
    pub(super) fn of(peer: usize, error: Error) -> Self {
        Self { peer, fault: Fault::Broken(error) }
    }
}

/// A result that a connection's trouble can spoil.
pub(super) type Outcome<T> = Result<T, Trouble>;

/// A connection each way.
#[derive(Debug)]
pub(super) struct Line {
    /// The rank at the other end.
    pub(super) peer: usize,
    /// An index among the receiving ends.
    recv: usize,
    /// An index among the sending ends.
    send: usize,
    /// Messages that go before the next frame.
    notes: VecDeque<(Header, Vec<u8>)>,
    /// Whether a frame has begun that is not through.
    in_frame: bool,
    /// Whether nothing more goes out in this look.
    is_blocked: bool,
    /// Parts that went out.
    posted: u64,
    /// What has come of the other's declarations.
    list: Vec<u8>,
}

/// Stores a payload.
struct Store<'a>(&'a mut [u8]);

impl Line {
    /// Over these ends.
    pub(super) fn new(peer: usize, recv: usize, send: usize) -> Self {
        let (notes, list) = (VecDeque::new(), Vec::new());
        Self { peer, recv, send, notes, in_frame: false, is_blocked: false, posted: 0, list }
    }

    /// Which has carried so many parts already.
    pub(super) fn after(mut self, parts: u64) -> Self {
        self.posted = parts;
        self
    }

    /// What the kernel takes before it is on its way, at most.
    pub(super) fn bound_unsent(&self, links: &mut Links, bytes: u64) {
        let half = links.sends.get_mut(self.send).and_then(|end| end.half.as_mut());
        if let Some(half) = half {
            half.bound_unsent(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
    }

    /// A message without payload, which goes before the next frame.
    pub(super) fn note(&mut self, header: Header) {
        self.notes.push_back((header, Vec::new()));
    }

    /// The next look may try again.
    pub(super) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Whether a frame may be posted now, or go on.
    pub(super) fn is_open(&self) -> bool {
        !self.is_blocked && (self.in_frame || self.notes.is_empty())
    }

    /// Whether all notes are out.
    pub(super) fn is_quiet(&self) -> bool {
        self.notes.is_empty() && !self.in_frame
    }

    /// Parts that went out.
    pub(super) fn posted(&self) -> u64 {
        self.posted
    }

    /// How many parts of those that went out need their memory no more.
    pub(super) fn released(&self, links: &mut Links) -> Outcome<u64> {
        let half = links.sends.get_mut(self.send).and_then(|end| end.half.as_mut());
        half.map_or(Ok(0), |half| half.released()).map_err(|fault| self.trouble(fault))
    }

    /// Sends notes. Whether anything moved.
    pub(super) fn send_notes(&mut self, links: &mut Links) -> Outcome<bool> {
        let mut moved = false;
        while !self.in_frame && !self.is_blocked {
            let Some((header, payload)) = self.notes.pop_front() else { break };
            let progress = self.post(links, header, &payload)?;
            moved |= progress != Progress::Idle;
            if progress != Progress::Done {
                self.notes.push_front((header, payload));
            }
        }
        Ok(moved)
    }

    /// Sends a frame, or more of it.
    pub(super) fn send_frame(
        &mut self,
        links: &mut Links,
        header: Header,
        payload: &[u8],
    ) -> Outcome<Progress> {
        let progress = self.post(links, header, payload)?;
        self.in_frame = progress != Progress::Done;
        Ok(progress)
    }

    /// What comes next.
    pub(super) fn front(&self, links: &mut Links) -> Outcome<Option<Header>> {
        let half = links.recvs.get_mut(self.recv).and_then(|end| end.half.as_mut());
        half.map_or(Ok(None), |half| half.front()).map_err(|fault| self.trouble(fault))
    }

    /// Receives what comes next, or more of it.
    pub(super) fn receive(&self, links: &mut Links, front: &Header, into: &mut [u8]) -> Outcome<Progress> {
        let Some(end) = links.recvs.get_mut(self.recv) else { return Ok(Progress::Idle) };
        let Some(half) = end.half.as_mut() else { return Ok(Progress::Idle) };
        if into.len() != front.len as usize {
            return Err(self.broken(strange(front, self.peer)));
        }
        let progress = half.pull(front, &mut Store(into)).map_err(|fault| self.trouble(fault))?;
        if progress == Progress::Done {
            end.count(into.len());
        }
        Ok(progress)
    }

    /// Receives what belongs to the agreement about declarations.
    pub(super) fn agree(
        &mut self,
        links: &mut Links,
        front: &Header,
        wire: Wire,
        agreement: &mut Agreement,
    ) -> Outcome<Progress> {
        match wire.message(front, self.peer).map_err(|error| self.broken(error))? {
            Message::Digest { digest, n_workers, is_local } => {
                let progress = self.receive(links, front, &mut [])?;
                let list = agreement.compare(digest, (n_workers, is_local), self.peer);
                if let Some(list) = list.map_err(|error| self.broken(error))? {
                    self.send_list(wire, &list, agreement.is_local());
                }
                Ok(progress)
            }
            Message::List { bytes, offset, is_local } => {
                let Some(place) = place_in_list(bytes, offset, front.len) else {
                    return Err(self.broken(strange(front, self.peer)));
                };
                let mut list = std::mem::take(&mut self.list);
                list.resize(place.end, 0);
                let progress = self.receive(links, front, &mut list[place.start..])?;
                if progress == Progress::Done && list.len() as u64 >= bytes {
                    agreement.receive(&list, is_local, self.peer).map_err(|error| self.broken(error))?;
                    return Ok(progress);
                }
                self.list = list;
                Ok(progress)
            }
            _ => Err(self.broken(strange(front, self.peer))),
        }
    }

    /// What ends a sleep: that something comes, where that is wanted, or that something that waits can go out.
    pub(super) fn poll_fds<'a>(
        &'a self,
        links: &'a Links,
        receives: bool,
        sends: bool,
    ) -> impl Iterator<Item = PollFd<'a>> {
        let recv = links.recvs.get(self.recv).and_then(|end| end.half.as_deref()).filter(|_| receives);
        let send = links.sends.get(self.send).and_then(|end| end.half.as_deref());
        let send = send.filter(|_| sends || !self.is_quiet());
        let readable = recv.and_then(RecvHalf::wait_fd).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let writable =
            send.and_then(SendHalf::wait_fd).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT));
        readable.into_iter().chain(writable)
    }

    /// An error of what came over this line.
    pub(super) fn broken(&self, error: Error) -> Trouble {
        Trouble::of(self.peer, error)
    }

    fn trouble(&self, fault: Fault) -> Trouble {
        Trouble { peer: self.peer, fault }
    }

    fn post(&mut self, links: &mut Links, header: Header, payload: &[u8]) -> Outcome<Progress> {
        let Some(end) = links.sends.get_mut(self.send) else { return Ok(Progress::Idle) };
        let Some(half) = end.half.as_mut() else { return Ok(Progress::Idle) };
        let progress = half.post(Part { header, payload }).map_err(|fault| self.trouble(fault))?;
        if progress == Progress::Done {
            end.count(payload.len());
            self.posted += 1;
        } else {
            self.is_blocked = true;
        }
        Ok(progress)
    }

    /// Says what is declared.
    pub(super) fn send_list(&mut self, wire: Wire, list: &[u8], is_local: bool) {
        for (index, chunk) in list.chunks(LIST_BYTES).enumerate() {
            let (bytes, offset) = (list.len() as u64, (index * LIST_BYTES) as u64);
            let message = Message::List { bytes, offset, is_local };
            let len = u32::try_from(chunk.len()).unwrap_or(0);
            self.notes.push_back((wire.header(message, len), chunk.to_vec()));
        }
    }
}

/// Where a piece of a list lies that has so many bytes in all; nothing if the list would be too long, or the piece ends behind it.
fn place_in_list(bytes: u64, offset: u64, len: u32) -> Option<Range<usize>> {
    let end = offset.checked_add(u64::from(len)).filter(|end| *end <= bytes && bytes <= MAX_LIST_BYTES)?;
    Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

impl Sink for Store<'_> {
    fn take(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(into) = self.0.get_mut(offset..).and_then(|rest| rest.get_mut(..bytes.len())) {
            into.copy_from_slice(bytes);
        }
    }

    fn space(&mut self, offset: usize) -> Option<&mut [u8]> {
        self.0.get_mut(offset..)
    }

    fn filled(&mut self, _offset: usize, _len: usize) {}

    fn grain(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_no_more_bytes_than_it_said() {
        assert_eq!(place_in_list(100, 60, 40), Some(60..100));
        assert_eq!(place_in_list(0, 0, 0), Some(0..0));
        assert_eq!(place_in_list(100, 60, 41), None);
        assert_eq!(place_in_list(100, 101, 0), None);
        assert_eq!(place_in_list(1, 0, u32::MAX), None);
        assert_eq!(place_in_list(u64::MAX, u64::MAX, 1), None);
        assert_eq!(place_in_list(MAX_LIST_BYTES + 1, 0, 1), None);
        let last = u32::try_from(MAX_LIST_BYTES).unwrap();
        assert!(place_in_list(MAX_LIST_BYTES, 0, last).is_some());
    }
}
