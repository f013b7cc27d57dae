//! An all-reduce whose buffers all ranks can read in place: nothing is copied into slots, and rounds only say how far
//! everybody is.
//!
//! With n ranks and S the bytes of the buffer:
//!
//! | form | rounds | a rank reads of others | reduced |
//! |---|---|---|---|
//! | whole: everybody reduces everything into the own result | 2: here it lies, read | (n−1)·S | n·S |
//! | shared: each reduces its share, and takes the other shares from where they were reduced | 3: here it lies, reduced, read | 2(n−1)/n·S | S |
//!
//! In the second form a rank writes to its own share of the result alone before everybody has reduced, and that part of
//! its contribution nobody else reads: so it works in place as well.

use std::ops::Range;
use std::sync::Arc;

use crate::error::Error;
use crate::memory::Region;
use crate::run::flat::cut::Cut;
use crate::transport::Fault;
use crate::transport::shm::flat::{Flat, NOTE_BYTES, Note};
use crate::transport::shm::map::Mapping;
use crate::transport::shm::region;

/// From this size on, reading in place saves more than the rounds that it costs.
pub(crate) fn from_bytes(n_ranks: usize) -> usize {
    if n_ranks == 2 { 8 * 1024 } else { 64 * 1024 }
}

/// Up to this size, two ranks reduce everything: the contributions and the result stay in a second-level cache, and one
/// round less counts.
const WHOLE_BYTES: usize = 512 * 1024;

/// Where a rank's buffers lie in what it has shown to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    send: Spot,
    recv: Spot,
}

/// A region of `ncclMemAlloc` and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    region: u32,
    offset: u64,
}

impl Offer {
    /// Of these buffers; nothing if they are not both in memory that all other members can read.
    pub(crate) fn new(flat: &Flat, send: Region, recv: Region, bytes: usize) -> Option<Self> {
        let spot = |buffer: Region| {
            let (region, offset) = region::find(buffer.read(0..bytes).ok()?)?;
            let offset = u64::try_from(offset).ok()?;
            flat.peers().all(|peer| peer.show(&region)).then(|| Spot { region: region.id(), offset })
        };
        Some(Self { send: spot(send)?, recv: spot(recv)? })
    }

    /// As it is shown.
    pub(crate) fn to_note(self) -> Note {
        let mut note = [0; NOTE_BYTES];
        note[..4].copy_from_slice(&self.send.region.to_le_bytes());
        note[4..8].copy_from_slice(&self.recv.region.to_le_bytes());
        note[8..16].copy_from_slice(&self.send.offset.to_le_bytes());
        note[16..].copy_from_slice(&self.recv.offset.to_le_bytes());
        note
    }

    fn from_note(note: &Note) -> Option<Self> {
        let region = |at: usize| Some(u32::from_le_bytes(*note.get(at..)?.first_chunk()?));
        let offset = |at: usize| Some(u64::from_le_bytes(*note.get(at..)?.first_chunk()?));
        let spot = |region, offset| Spot { region, offset };
        Some(Self { send: spot(region(0)?, offset(8)?), recv: spot(region(4)?, offset(16)?) })
    }

    fn is_in_place(&self) -> bool {
        self.send == self.recv
    }
}

/// All ranks' buffers, to be read.
#[derive(Debug)]
pub(crate) struct Placed {
    /// By member; the own one stays empty.
    members: Vec<Option<Buffers>>,
    /// Whether each rank reduces everything.
    pub(crate) is_whole: bool,
}

#[derive(Debug)]
struct Buffers {
    send: Place,
    recv: Place,
}

#[derive(Debug)]
struct Place {
    map: Arc<Mapping>,
    start: usize,
    len: usize,
}

impl Placed {
    /// What all members have offered in this round, each for buffers of `bytes`; nothing if one has not.
    pub(crate) fn meet(flat: &Flat, bytes: usize) -> Result<Option<Self>, Fault> {
        let n = flat.n_members();
        if (0..n).any(|member| flat.note(member).is_none()) {
            return Ok(None);
        }
        let mut in_place = false;
        let mut members = Vec::with_capacity(n);
        for member in 0..n {
            let offer = flat.note(member).and_then(|note| Offer::from_note(&note)).ok_or_else(malformed)?;
            in_place |= offer.is_in_place();
            members.push(if member == flat.own() {
                None
            } else {
                Some(Buffers::find(flat, member, offer, bytes)?)
            });
        }
        Ok(Some(Self { members, is_whole: n == 2 && bytes <= WHOLE_BYTES && !in_place }))
    }

    /// What moves.
    pub(crate) fn cut(&self, bytes: usize) -> Cut {
        Cut::in_place(bytes, self.members.len(), self.is_whole)
    }

    /// A piece of a member's contribution; the own one is empty.
    pub(crate) fn contribution(&self, member: usize, range: &Range<usize>) -> &[u8] {
        self.members[member].as_ref().map_or(&[], |buffers| buffers.send.piece(range))
    }

    /// A piece of what it has reduced.
    pub(crate) fn result(&self, member: usize, range: &Range<usize>) -> &[u8] {
        self.members[member].as_ref().map_or(&[], |buffers| buffers.recv.piece(range))
    }
}

impl Buffers {
    fn find(flat: &Flat, member: usize, offer: Offer, bytes: usize) -> Result<Self, Fault> {
        let place = |spot: Spot| {
            let peer = flat.peer(member).ok_or_else(malformed)?;
            let map = peer.mapping(spot.region)?;
            let start = usize::try_from(spot.offset).ok().filter(|start| map.holds(*start, bytes));
            let start = start.ok_or_else(|| peer.broken("speaks of memory outside what it has shown"))?;
            Ok::<Place, Fault>(Place { map, start, len: bytes })
        };
        Ok(Self { send: place(offer.send)?, recv: place(offer.recv)? })
    }
}

impl Place {
    fn piece(&self, range: &Range<usize>) -> &[u8] {
        debug_assert!(range.end <= self.len, "{range:?} of {}", self.len);
        self.map.read(self.start + range.start, range.len())
    }
}

fn malformed() -> Fault {
    Fault::Broken(Error::Internal("an offer of memory is malformed".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_survive_the_note() {
        let spot = |region, offset| Spot { region, offset };
        let offer = Offer { send: spot(7, 1 << 40), recv: spot(u32::MAX, 3) };
        assert_eq!(Offer::from_note(&offer.to_note()), Some(offer));
        assert!(!offer.is_in_place() && Offer { send: offer.recv, ..offer }.is_in_place());
    }
}
