//! A rank's arena: one memfd that the rank writes and its host's other ranks read.
//!
//! Layout: the doorbell's line; the flags by which the owner tells each member whether it can read that member's memory;
//! the directory, which says where the ring to a member on a channel starts; the flat slots; then rings, each made when
//! it is opened. Only what is used exists.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::lock::lock;
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::shm::layout::{CALL, LEFT, Layout, READS};
use crate::transport::shm::map::{self, Mapping, PAGE_BYTES};
use crate::transport::shm::ring::RING_BYTES;

const HAS_LEFT: u32 = 1;
const HAS_GIVEN_UP: u32 = 2;

/// What a reader has found out about the owner of some memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Nothing yet.
    Unknown,
    /// It can read that process's memory.
    Yes,
    /// The system does not let it.
    No,
}

/// An arena, the own one or a peer's.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Of a peer's, only where there is no address space for all of it.
    fd: Option<Arc<OwnedFd>>,
    layout: Layout,
    /// Of a peer's, all that it may become.
    head: Arc<Mapping>,
    /// Bytes in use; only the owner's counts.
    end: Mutex<usize>,
    /// Bytes that exist from the start.
    reserved: usize,
}

impl Arena {
    /// This rank's, with memory for the first `n_rings` rings.
    pub(crate) fn new(layout: Layout, n_rings: usize) -> Result<Self> {
        let fd = map::memfd("rsccl-arena")?;
        let reserved = layout.head_bytes() + n_rings * RING_BYTES;
        map::reserve(&fd, 0, reserved, "a communicator's arena")?;
        Ok(Self { reserved, ..Self::with_fd(fd, layout)? })
    }

    /// A peer's, from the descriptor that it sent, which is closed once all of the arena is mapped.
    pub(crate) fn of_peer(fd: OwnedFd, layout: Layout) -> Result<Self> {
        if !map::is_safe(&fd, layout.head_bytes()) {
            return Err(Error::Internal("a peer's arena is too small or not sealed".to_owned()));
        }
        let Ok(head) = Mapping::with_room(&fd, layout.most_bytes(), "a peer's arena") else {
            return Self::with_fd(fd, layout);
        };
        Ok(Self::new_on(None, Arc::new(head), layout))
    }

    /// The same as ranks of this very process see it.
    pub(crate) fn to_neighbours(&self) -> Self {
        Self::new_on(self.fd.clone(), Arc::clone(&self.head), self.layout)
    }

    fn with_fd(fd: OwnedFd, layout: Layout) -> Result<Self> {
        let head = Mapping::new(&fd, 0, layout.head_bytes(), "an arena's head")?;
        Ok(Self::new_on(Some(Arc::new(fd)), Arc::new(head), layout))
    }

    fn new_on(fd: Option<Arc<OwnedFd>>, head: Arc<Mapping>, layout: Layout) -> Self {
        Self { fd, layout, head, end: Mutex::new(layout.head_bytes()), reserved: 0 }
    }

    /// Where things are in it.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// Of the own arena, to be sent to the peers.
    pub(crate) fn fd(&self) -> Result<BorrowedFd<'_>> {
        let fd = self.fd.as_deref().map(AsFd::as_fd);
        fd.ok_or_else(|| Error::Internal("a peer's arena has no descriptor".to_owned()))
    }

    /// Everything but the rings.
    pub(crate) fn head(&self) -> &Arc<Mapping> {
        &self.head
    }

    /// Makes the ring to `member` on `channel` and enters it in the directory.
    pub(crate) fn make_ring(&self, member: usize, channel: u32) -> Result<Mapping> {
        let entry = self.head.long(self.layout.entry(member, channel)?);
        let mut end = lock(&self.end);
        if entry.load(Ordering::Relaxed) != 0 {
            return Err(Error::Internal(format!("the ring on channel {channel} is open already")));
        }
        if *end + RING_BYTES > self.reserved {
            map::reserve(self.fd()?, *end, RING_BYTES, &format!("a ring on channel {channel}"))?;
        }
        let ring = Mapping::new(self.fd()?, *end, RING_BYTES, "a ring")?;
        entry.store(*end as u64, Ordering::Release);
        *end += RING_BYTES;
        Ok(ring)
    }

    /// The owner's ring to `member` on `channel`; none while it has not made it.
    pub(crate) fn find_ring(&self, member: usize, channel: u32) -> Result<Option<Mapping>> {
        let start = self.head.long(self.layout.entry(member, channel)?).load(Ordering::Acquire);
        let Ok(start @ 1..) = usize::try_from(start) else { return Ok(None) };
        let outside = || Error::Internal(format!("a peer's ring lies outside its arena, at {start}"));
        if !start.is_multiple_of(PAGE_BYTES) {
            return Err(outside());
        }
        let Some(fd) = &self.fd else {
            let last_page = |ring: &Mapping| ring.exists(RING_BYTES - PAGE_BYTES);
            return self.head.part(start, RING_BYTES).filter(last_page).map(Some).ok_or_else(outside);
        };
        if !start.checked_add(RING_BYTES).is_some_and(|end| map::is_safe(fd, end)) {
            return Err(outside());
        }
        Mapping::new(fd, start, RING_BYTES, "a ring").map(Some)
    }

    /// Says which collective the owner is at.
    pub(crate) fn set_call(&self, call: &Header) {
        let number = self.head.long(CALL);
        number.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        self.head.write(CALL + 8, &call.to_bytes());
        number.store(call.sequence + 1, Ordering::Release);
    }

    /// Which collective the owner is at, as far as it has said so.
    pub(crate) fn call(&self) -> Option<Header> {
        let number = self.head.long(CALL);
        let before = number.load(Ordering::Acquire);
        let call = self.head.read(CALL + 8, HEADER_BYTES).first_chunk().and_then(Header::from_bytes);
        fence(Ordering::Acquire);
        call.filter(|call| before == number.load(Ordering::Relaxed) && before == call.sequence + 1)
    }

    /// Says that the owner is done with the communicator: its end from now on is no death.
    pub(crate) fn set_left(&self) {
        self.head.word(LEFT).store(HAS_LEFT, Ordering::Release);
    }

    /// Whether the owner has said so.
    pub(crate) fn has_left(&self) -> bool {
        self.head.word(LEFT).load(Ordering::Acquire) == HAS_LEFT
    }

    /// The owner's communicator ends. If that was not said before, it has given up.
    pub(crate) fn end(&self) {
        let left = self.head.word(LEFT);
        let _ = left.compare_exchange(0, HAS_GIVEN_UP, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether the owner has given up, though its process and its connection may go on with another communicator.
    pub(crate) fn has_given_up(&self) -> bool {
        self.head.word(LEFT).load(Ordering::Acquire) == HAS_GIVEN_UP
    }

    /// Tells `member` whether the owner can read its memory.
    pub(crate) fn set_reads(&self, member: usize, reads: bool) {
        self.head.word(READS + member * 4).store(if reads { 1 } else { 2 }, Ordering::Release);
    }

    /// Whether the owner can read the memory of `member`.
    pub(crate) fn reads(&self, member: usize) -> Reads {
        match self.head.word(READS + member * 4).load(Ordering::Acquire) {
            0 => Reads::Unknown,
            1 => Reads::Yes,
            _ => Reads::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_found_once_they_are_made() {
        let layout = Layout::new(3);
        let own = Arena::new(layout, 1).unwrap();
        let peer = Arena::of_peer(own.fd().unwrap().try_clone_to_owned().unwrap(), layout).unwrap();
        assert!(peer.find_ring(2, 7).unwrap().is_none());
        let ring = own.make_ring(2, 7).unwrap();
        ring.write(100, b"here");
        assert_eq!(peer.find_ring(2, 7).unwrap().unwrap().read(100, 4), b"here");
        assert!(own.make_ring(2, 7).is_err());
        assert!(own.make_ring(3, 0).is_err() && own.make_ring(0, 128).is_err());
    }

    #[test]
    fn a_ring_that_does_not_exist_is_an_error() {
        let layout = Layout::new(3);
        let own = Arena::new(layout, 0).unwrap();
        let peer = Arena::of_peer(own.fd().unwrap().try_clone_to_owned().unwrap(), layout).unwrap();
        assert!(peer.fd.is_none());
        let entry = own.head.long(layout.entry(2, 7).unwrap());
        for start in [layout.head_bytes(), layout.most_bytes(), 5 << 12 | 7] {
            entry.store(start as u64, Ordering::Release);
            let text = peer.find_ring(2, 7).unwrap_err().to_string();
            assert!(text.contains(&format!("outside its arena, at {start}")), "{text}");
        }
    }

    #[test]
    fn the_owner_says_what_it_calls() {
        let own = Arena::new(Layout::new(2), 0).unwrap();
        assert_eq!(own.call(), None);
        for sequence in [0, 7] {
            let call = Header { function: 4, sequence, signature: 9, part: 0, len: 0 };
            own.set_call(&call);
            assert_eq!(own.call(), Some(call));
        }
    }

    #[test]
    fn the_owner_says_that_it_is_done() {
        let layout = Layout::new(2);
        let own = Arena::new(layout, 0).unwrap();
        own.set_call(&Header {
            function: 4,
            sequence: u64::MAX - 1,
            signature: u64::MAX,
            part: u32::MAX,
            len: u32::MAX,
        });
        let peer = Arena::of_peer(own.fd().unwrap().try_clone_to_owned().unwrap(), layout).unwrap();
        assert!(!peer.has_left());
        own.set_left();
        own.end();
        assert!(peer.has_left() && !peer.has_given_up());
    }

    #[test]
    fn who_ends_without_a_word_has_given_up() {
        let own = Arena::new(Layout::new(2), 0).unwrap();
        own.end();
        assert!(own.has_given_up() && !own.has_left());
    }

    #[test]
    fn an_arena_of_another_size_is_refused() {
        let own = Arena::new(Layout::new(2), 0).unwrap();
        assert!(Arena::of_peer(own.fd().unwrap().try_clone_to_owned().unwrap(), Layout::new(500)).is_err());
    }

    #[test]
    fn what_an_owner_can_read_is_told() {
        let own = Arena::new(Layout::new(2), 0).unwrap();
        assert_eq!(own.reads(1), Reads::Unknown);
        own.set_reads(1, true);
        own.set_reads(0, false);
        assert_eq!((own.reads(0), own.reads(1)), (Reads::No, Reads::Yes));
    }
}
