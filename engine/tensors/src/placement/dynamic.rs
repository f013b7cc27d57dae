//! Dynamic allocation: the sender writes where its tensor lies and what it is like into a block of fixed size, which ends in
//! a flag; the receiver polls that, allocates, and reads. Then the sender's memory is free, whatever becomes of the tensor:
//! the receiver tells it so by a word of its own, or by what it sends next.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::{Address, Part};
use crate::placement::flag::Flag;
use crate::placement::metadata::{METADATA_BYTES, Metadata};
use crate::placement::r#static::write_slot;
use crate::placement::{Ending, FLAG_BYTES, flag_offset};
use crate::tensor::Shape;

/// Bytes of a block of metadata.
pub const BLOCK_BYTES: u64 = METADATA_BYTES;

/// The sending end of a dynamic edge.
#[derive(Debug)]
pub struct Sender {
    edge: String,
    block: Part,
    remote: Address,
    ending: Ending,
    sequence: u32,
    released: u32,
}

/// The receiving end of a dynamic edge.
#[derive(Debug)]
pub struct Receiver {
    edge: String,
    block: Part,
    limit_bytes: u64,
    state: State,
    /// The last transfer that was told of, and the last one that was read.
    sequence: u32,
    fetched: u32,
}

/// How far a transfer is.
#[derive(Debug)]
enum State {
    /// None was told of.
    Awaited,
    /// It is told of, but has no memory yet.
    Told(Metadata),
    /// It is being read.
    Fetched { shape: Shape, into: Part, work: u64 },
    /// It is there.
    Here { shape: Shape, into: Part },
}

impl Sender {
    /// An end whose block has room for [`slot_bytes`](crate::placement::slot_bytes) of [`BLOCK_BYTES`].
    pub fn new(edge: String, block: Part, remote: Address, ending: Ending) -> Self {
        Self { edge, block, remote, ending, sequence: 0, released: 0 }
    }

    /// The receiver has released transfers up to this one.
    pub fn hear(&mut self, released: u32) {
        self.released = released;
    }

    /// Whether the receiver has read the last tensor, so that its memory is free.
    pub fn may_send(&self) -> bool {
        self.released == self.sequence
    }

    /// What it is to write before [`Sender::may_send`].
    pub fn too_early(&self, peer: &str) -> Error {
        Error::TooEarly {
            edge: self.edge.clone(),
            peer: peer.to_owned(),
            sequence: self.sequence.wrapping_add(1),
            released: self.released.wrapping_add(1),
        }
    }

    /// Tells the receiver of a tensor, whose memory stays as it is until [`Sender::may_send`].
    ///
    /// # Errors
    /// [`Error::TooEarly`] while the receiver may still read the last one; or the device's.
    pub fn send(&mut self, device: &mut dyn Device, shape: &Shape, from: &Part, tells: u32) -> Result<u64> {
        let sequence = self.sequence.wrapping_add(1);
        if !self.may_send() {
            return Err(self.too_early(device.peer()));
        }
        if from.size_bytes() < shape.size_bytes() {
            return Err(Error::Usage(format!(
                "edge {}: {shape} is more than {} bytes",
                self.edge,
                from.size_bytes()
            )));
        }
        let metadata = Metadata { sequence, shape: shape.clone(), from: from.address() };
        self.block.place(&metadata.to_bytes())?;
        let flag = Flag { sequence, released: tells }.to_word();
        let number = write_slot(device, &self.block, BLOCK_BYTES, self.remote, self.ending, flag)?;
        self.sequence = sequence;
        Ok(number)
    }
}

impl Receiver {
    /// An end whose block has room for [`slot_bytes`](crate::placement::slot_bytes) of [`BLOCK_BYTES`], and which takes
    /// tensors of `limit_bytes` at most.
    pub fn new(edge: String, block: Part, limit_bytes: u64) -> Self {
        Self { edge, block, limit_bytes, state: State::Awaited, sequence: 0, fetched: 0 }
    }

    /// Looks at the flag; what it says of the sender's releases once a tensor is told of.
    ///
    /// # Errors
    /// The sender did not wait, tells nonsense, or of a tensor that is too large.
    pub fn poll(&mut self, peer: &str) -> Result<Option<u32>> {
        if !matches!(self.state, State::Awaited) {
            return Ok(None);
        }
        let flag = Flag::from_word(self.block.part(flag_offset(BLOCK_BYTES), FLAG_BYTES)?.word()?);
        let expected = self.sequence.wrapping_add(1);
        if flag.sequence == self.sequence {
            return Ok(None);
        }
        let metadata = Metadata::from_bytes(self.block.bytes()).map_err(|what| Error::Malformed {
            peer: peer.to_owned(),
            what: format!("{what}, on edge {}", self.edge),
        })?;
        if flag.sequence != expected || metadata.sequence != expected {
            let (edge, peer) = (self.edge.clone(), peer.to_owned());
            return Err(Error::Overtaken { edge, peer, expected, found: metadata.sequence });
        }
        let bytes = metadata.shape.size_bytes();
        if bytes > self.limit_bytes {
            return Err(Error::TooLarge { edge: self.edge.clone(), bytes, limit_bytes: self.limit_bytes });
        }
        self.sequence = expected;
        self.state = State::Told(metadata);
        Ok(Some(flag.released))
    }

    /// The shape of a tensor that is told of but has no memory yet.
    pub fn wants(&self) -> Option<&Shape> {
        match &self.state {
            State::Told(metadata) => Some(&metadata.shape),
            _ => None,
        }
    }

    /// Reads the tensor that is told of into registered memory; `work` is the number that the device will tell.
    ///
    /// # Errors
    /// No tensor is told of, or the device's.
    pub fn fetch(&mut self, device: &mut dyn Device, into: Part, work: u64) -> Result<()> {
        let State::Told(metadata) = &self.state else {
            return Err(Error::Usage(format!("edge {}: no tensor is told of: poll first", self.edge)));
        };
        let shape = metadata.shape.clone();
        let into = into.part(0, shape.size_bytes())?;
        self.state = if shape.size_bytes() == 0 {
            self.fetched = self.sequence;
            State::Here { shape, into }
        } else {
            device.read(metadata.from, &into, work)?;
            State::Fetched { shape, into, work }
        };
        Ok(())
    }

    /// The read of this number is over.
    pub fn hear_read(&mut self, number: u64) {
        self.state = match std::mem::replace(&mut self.state, State::Awaited) {
            State::Fetched { shape, into, work } if work == number => {
                self.fetched = self.sequence;
                State::Here { shape, into }
            }
            other => other,
        };
    }

    /// Whether a tensor was told of that was not released.
    pub fn is_told(&self) -> bool {
        !matches!(self.state, State::Awaited)
    }

    /// Whether a tensor is there that was not released.
    pub fn is_here(&self) -> bool {
        matches!(self.state, State::Here { .. })
    }

    /// The transfer that is there or, if none is, awaited.
    pub fn sequence(&self) -> u32 {
        if matches!(self.state, State::Awaited) { self.sequence.wrapping_add(1) } else { self.sequence }
    }

    /// The last transfer that was read: the sender's memory of it is free.
    pub fn released(&self) -> u32 {
        self.fetched
    }

    /// The tensor that is there, and its shape.
    ///
    /// # Errors
    /// None is there.
    pub fn payload(&self) -> Result<(&Shape, &Part)> {
        match &self.state {
            State::Here { shape, into } => Ok((shape, into)),
            _ => Err(Error::Usage(format!("edge {}: no tensor is there: poll first", self.edge))),
        }
    }

    /// Gives the tensor up; its memory, which is free.
    ///
    /// # Errors
    /// None is there.
    pub fn release(&mut self) -> Result<Part> {
        self.payload()?;
        match std::mem::replace(&mut self.state, State::Awaited) {
            State::Here { into, .. } => Ok(into),
            _ => Err(Error::Usage(format!("edge {}: no tensor is there", self.edge))),
        }
    }
}
