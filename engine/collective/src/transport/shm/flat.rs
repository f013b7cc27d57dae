//! The shortest way for a small collective of one host: every rank shows its block to all, and reads everybody's.
//!
//! Steps: write the own block into the own arena, then its round with release; read the others' blocks as their rounds
//! come. Each rank reads n−1 blocks, so n·(n−1) blocks move, in one step.
//!
//! An exchange of several rounds may show a block in pieces, such as contributions and what has been reduced of the round
//! before, and others read of it what they need.
//!
//! A rank may show round r+1 before it has read round r, once it has seen all of that. So three slots are enough: a rank
//! that begins round r has seen every other rank's round r−1, so all have left round r−3, whose slot it now overwrites.
//! This holds only because every member takes part in every round.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::net::link::{HEADER_BYTES, Header};
use crate::transport::shm::layout::{BLOCK_BYTES, BLOCK_STRIDE_BYTES, N_BLOCKS};
use crate::transport::shm::map::{LINE_BYTES, Mapping};
use crate::transport::shm::peer::Peer;
use crate::transport::{Fault, Progress};

const HEADER: usize = 8;
/// Blocks for which the next round's lines are fetched ahead: one of 1 KiB takes 0.56 µs instead of 0.70 µs between two
/// cores of a Sapphire Rapids; below it costs more than it brings, above the lines would not stay.
const CLAIMED_BYTES: std::ops::RangeInclusive<usize> = 256..=4096;
/// Blocks that fit into the header's line travel there: one line instead of two.
const INLINE: usize = HEADER + HEADER_BYTES;
const INLINE_BYTES: usize = LINE_BYTES - INLINE;
const NOTE_LEN: u32 = 24;
const _: () = assert!(NOTE_LEN as usize == NOTE_BYTES);

/// What a member may say in a round's header line instead of showing a block.
pub(crate) type Note = [u8; NOTE_BYTES];
/// Bytes of a note.
pub(crate) const NOTE_BYTES: usize = INLINE_BYTES;
/// Header bytes that are the same for all members: all but the length, which is a note's or 0.
const COMMON_BYTES: usize = HEADER_BYTES - 4;

/// One member's slots.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The head of its arena.
    pub(crate) head: Arc<Mapping>,
    /// Of the others.
    pub(crate) peer: Option<Arc<Peer>>,
}

/// All members' slots. Members are the host's ranks of the communicator, ascending.
#[derive(Debug)]
pub(crate) struct Flat {
    seats: Vec<Seat>,
    /// Where the slots are in an arena's head.
    start: usize,
    own: usize,
    round: u64,
    arrived: usize,
    len: usize,
    /// Round and bytes of the last blocks that have all arrived.
    complete: (u64, usize),
}

impl Flat {
    /// Over the slots at `start` of each head; `own` is this rank's seat.
    pub(crate) fn new(seats: Vec<Seat>, own: usize, start: usize) -> Self {
        let arrived = seats.len();
        Self { seats, start, own, round: 0, arrived, len: 0, complete: (0, 0) }
    }

    /// Members.
    pub(crate) fn n_members(&self) -> usize {
        self.seats.len()
    }

    /// This rank's place among them.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// The other members.
    pub(crate) fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.seats.iter().filter_map(|seat| seat.peer.as_deref())
    }

    /// Another member; nothing for this rank.
    pub(crate) fn peer(&self, member: usize) -> Option<&Peer> {
        self.seats[member].peer.as_deref()
    }

    /// Begins the next round: shows `block`, which may be overwritten on return. The round before must be over.
    #[cfg(test)]
    pub(crate) fn start(&mut self, header: &Header, block: &[u8]) -> Result<()> {
        self.prepare(block.len())?;
        self.write(0, block);
        self.show(header);
        Ok(())
    }

    /// Prepares the next round's block of `len` bytes, to be filled by [`Flat::write`]. All blocks of the round before
    /// must have arrived, and all of the one before that been read.
    pub(crate) fn prepare(&mut self, len: usize) -> Result<()> {
        if self.arrived < self.seats.len() || len > BLOCK_BYTES {
            return Err(Error::Internal(format!(
                "a flat exchange of {len} bytes while {} of {} blocks have arrived",
                self.arrived,
                self.seats.len()
            )));
        }
        (self.round, self.arrived, self.len) = (self.round + 1, 0, len);
        Ok(())
    }

    /// Writes a piece of the block that is prepared.
    pub(crate) fn write(&self, offset: usize, piece: &[u8]) {
        debug_assert!(offset + piece.len() <= self.len, "{} bytes at {offset} of {}", piece.len(), self.len);
        self.seats[self.own].head.write(self.slot() + data(self.len) + offset, piece);
    }

    /// Shows the block that is prepared.
    pub(crate) fn show(&mut self, header: &Header) {
        let (slot, head) = (self.slot(), &self.seats[self.own].head);
        head.write(slot + HEADER, &header.to_bytes());
        head.long(slot).store(self.round, Ordering::Release);
        self.peers().for_each(|peer| peer.ringer.ring());
    }

    /// Begins the next round with a note instead of a block.
    pub(crate) fn show_note(&mut self, header: &Header, note: &Note) -> Result<()> {
        self.prepare(0)?;
        self.seats[self.own].head.write(self.slot() + INLINE, note);
        self.show(&Header { len: NOTE_LEN, ..*header });
        Ok(())
    }

    /// A member's note among the last blocks that have all arrived, if it has shown one.
    pub(crate) fn note(&self, member: usize) -> Option<Note> {
        let (head, slot) = (&self.seats[member].head, self.slot_of(self.complete.0));
        let header = head.read(slot + HEADER, HEADER_BYTES).first_chunk()?;
        let is_note = Header::from_bytes(header)?.len == NOTE_LEN;
        if is_note { head.read(slot + INLINE, NOTE_BYTES).first_chunk().copied() } else { None }
    }

    /// Looks for further blocks. [`Progress::Done`] when all have arrived: they can be read until the next but one
    /// is prepared. A member that exchanges something else is a mismatch.
    pub(crate) fn poll(&mut self, header: &Header) -> std::result::Result<Progress, Fault> {
        let (slot, before) = (self.slot(), self.arrived);
        while let Some(seat) = self.seats.get(self.arrived) {
            if seat.head.long(slot).load(Ordering::Acquire) != self.round {
                let moved = self.arrived > before;
                return Ok(if moved { Progress::Moved } else { Progress::Idle });
            }
            let theirs = seat.head.read(slot + HEADER, HEADER_BYTES);
            if theirs[..COMMON_BYTES] != header.to_bytes()[..COMMON_BYTES] {
                let theirs = theirs.first_chunk().and_then(Header::from_bytes);
                return Err(theirs.map_or_else(malformed, Fault::Mismatch));
            }
            self.arrived += 1;
        }
        if self.arrived > before && CLAIMED_BYTES.contains(&self.len) {
            // All have left the next slot: its lines can come back while these are read.
            self.seats[self.own].head.claim(self.slot_of(self.round + 1), LINE_BYTES + self.len);
        }
        self.complete = (self.round, self.len);
        Ok(Progress::Done)
    }

    /// Members, from the first on, whose blocks have arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived
    }

    /// A member's block, of the last that have all arrived.
    #[cfg(test)]
    pub(crate) fn block(&self, member: usize) -> &[u8] {
        self.piece(member, 0, self.complete.1)
    }

    /// A piece of it.
    pub(crate) fn piece(&self, member: usize, offset: usize, len: usize) -> &[u8] {
        let (round, whole) = self.complete;
        debug_assert!(offset + len <= whole, "{len} bytes at {offset} of {whole}");
        self.seats[member].head.read(self.slot_of(round) + data(whole) + offset, len)
    }

    fn slot(&self) -> usize {
        self.slot_of(self.round)
    }

    fn slot_of(&self, round: u64) -> usize {
        self.start + (round % N_BLOCKS) as usize * BLOCK_STRIDE_BYTES
    }
}

fn data(len: usize) -> usize {
    if len <= INLINE_BYTES { INLINE } else { LINE_BYTES }
}

fn malformed() -> Fault {
    Fault::Broken(Error::Internal("a flat slot has no header".to_owned()))
}
