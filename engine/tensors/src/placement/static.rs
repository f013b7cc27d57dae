//! Static placement: the receiver's tensor is allocated once, in registered memory, and its address is the sender's from
//! set-up on. A transfer is one write of the payload that ends in a flag; on devices that do not promise to place that last,
//! a small second write or an immediate. No copy, no receive call, no message.
//!
//! The next write is held back by the data flow: the sender writes again only once it has heard, on an edge that comes back
//! or by a word of the receiver's, that the receiver has released the last transfer.

use crate::device::{Device, FlagForm};
use crate::error::{Error, Result};
use crate::memory::{Address, Part};
use crate::placement::flag::Flag;
use crate::placement::{Ending, FLAG_BYTES, flag_offset};

/// The sending end of a static edge.
#[derive(Debug)]
pub struct Sender {
    edge: String,
    /// Payload and flag in this end's registered memory; none where all is sent from elsewhere.
    slot: Option<Part>,
    payload_bytes: u64,
    /// Payload, and behind it the flag, in the receiver's.
    remote: Address,
    ending: Ending,
    /// The last transfer, and the last one that the receiver has released.
    sequence: u32,
    released: u32,
}

/// The receiving end of a static edge.
#[derive(Debug)]
pub struct Receiver {
    edge: String,
    slot: Part,
    payload_bytes: u64,
    /// The last transfer that was seen, and the last one that was released.
    sequence: u32,
    released: u32,
}

impl Sender {
    /// An end whose slot has room for [`slot_bytes`](crate::placement::slot_bytes) of the payload.
    pub fn new(
        edge: String,
        slot: Option<Part>,
        payload_bytes: u64,
        remote: Address,
        ending: Ending,
    ) -> Self {
        Self { edge, slot, payload_bytes, remote, ending, sequence: 0, released: 0 }
    }

    /// The receiver has released transfers up to this one.
    pub fn hear(&mut self, released: u32) {
        self.released = released;
    }

    /// Whether the receiver is known to be done with the last transfer.
    pub fn may_send(&self) -> bool {
        self.released == self.sequence
    }

    /// Writes what is in the slot, or in `from`, which is then to be registered memory of as many bytes. `tells` is what the
    /// flag says of this end's own releases. The number after which the memory is free again ([`Device::sent`]).
    ///
    /// # Errors
    /// [`Error::TooEarly`] while the receiver may still use the last transfer; or the device's.
    pub fn send(&mut self, device: &mut dyn Device, from: Option<&Part>, tells: u32) -> Result<u64> {
        let sequence = self.sequence.wrapping_add(1);
        if !self.may_send() {
            let released = self.released.wrapping_add(1);
            return Err(Error::TooEarly {
                edge: self.edge.clone(),
                peer: device.peer().to_owned(),
                sequence,
                released,
            });
        }
        let flag = Flag { sequence, released: tells }.to_word();
        let number = match from {
            Some(part) if part.size_bytes() < self.payload_bytes => {
                let (edge, bytes) = (&self.edge, part.size_bytes());
                let carried = self.payload_bytes;
                return Err(Error::Usage(format!("edge {edge} carries {carried} bytes, and not {bytes}")));
            }
            Some(part) if part.size_bytes() > self.payload_bytes => {
                let bytes = part.size_bytes();
                return Err(Error::TooLarge {
                    edge: self.edge.clone(),
                    bytes,
                    limit_bytes: self.payload_bytes,
                });
            }
            // Elsewhere no flag lies behind the payload.
            Some(part) => write_from(device, part, self.payload_bytes, self.remote, self.ending, flag)?,
            None => {
                let none =
                    || Error::Usage(format!("edge {} has no memory here: send from elsewhere", self.edge));
                let slot = self.slot.as_ref().ok_or_else(none)?;
                write_slot(device, slot, self.payload_bytes, self.remote, self.ending, flag)?
            }
        };
        self.sequence = sequence;
        Ok(number)
    }
}

/// Writes a slot's payload and flag in the form that the device needs.
pub(super) fn write_slot(
    device: &mut dyn Device,
    slot: &Part,
    payload_bytes: u64,
    to: Address,
    ending: Ending,
    flag: u64,
) -> Result<u64> {
    let offset = flag_offset(payload_bytes);
    if ending.form == FlagForm::Behind {
        return write_behind(device, &slot.part(0, payload_bytes)?, to, offset, flag);
    }
    slot.part(offset, FLAG_BYTES)?.set_word(flag)?;
    let whole = slot.part(0, offset + FLAG_BYTES)?;
    match ending.form {
        FlagForm::Immediate => device.write_immediate(&whole, to, ending.number),
        FlagForm::Tail | FlagForm::Behind => device.write(&whole, to),
    }
}

/// Writes a payload that has no flag behind it, and the flag.
fn write_from(
    device: &mut dyn Device,
    payload: &Part,
    payload_bytes: u64,
    to: Address,
    ending: Ending,
    flag: u64,
) -> Result<u64> {
    let offset = flag_offset(payload_bytes);
    if ending.form != FlagForm::Immediate {
        return write_behind(device, payload, to, offset, flag);
    }
    // The flag may be there first: it is believed once the immediate has come.
    device.write_flag(flag, Address { key: to.key, offset: to.offset + offset })?;
    device.write_immediate(payload, to, ending.number)
}

fn write_behind(device: &mut dyn Device, payload: &Part, to: Address, offset: u64, flag: u64) -> Result<u64> {
    if payload.size_bytes() > 0 {
        device.write(payload, to)?;
    }
    device.write_flag(flag, Address { key: to.key, offset: to.offset + offset })
}

impl Receiver {
    /// An end whose slot has room for [`slot_bytes`](crate::placement::slot_bytes) of the payload.
    pub fn new(edge: String, slot: Part, payload_bytes: u64) -> Self {
        Self { edge, slot, payload_bytes, sequence: 0, released: 0 }
    }

    /// Whether a transfer is there that was not released.
    pub fn is_here(&self) -> bool {
        self.sequence != self.released
    }

    /// The transfer that is there or, if none is, awaited.
    pub fn sequence(&self) -> u32 {
        if self.is_here() { self.sequence } else { self.sequence.wrapping_add(1) }
    }

    /// The last transfer that was released.
    pub fn released(&self) -> u32 {
        self.released
    }

    /// Looks at the flag; what it says of the sender's releases once the awaited transfer is there.
    ///
    /// # Errors
    /// [`Error::Overtaken`] where the sender did not wait.
    pub fn poll(&mut self, peer: &str) -> Result<Option<u32>> {
        if self.is_here() {
            return Ok(None);
        }
        let flag = Flag::from_word(self.slot.part(flag_offset(self.payload_bytes), FLAG_BYTES)?.word()?);
        let expected = self.sequence.wrapping_add(1);
        if flag.sequence == self.sequence {
            return Ok(None);
        }
        if flag.sequence != expected {
            let (edge, peer, found) = (self.edge.clone(), peer.to_owned(), flag.sequence);
            return Err(Error::Overtaken { edge, peer, expected, found });
        }
        self.sequence = expected;
        Ok(Some(flag.released))
    }

    /// The tensor that is there.
    ///
    /// # Errors
    /// None is there.
    pub fn payload(&self) -> Result<Part> {
        if !self.is_here() {
            return Err(Error::Usage(format!("edge {}: no tensor is there: poll first", self.edge)));
        }
        self.slot.part(0, self.payload_bytes)
    }

    /// Gives the tensor up: the sender may write the next one as soon as it hears of this.
    ///
    /// # Errors
    /// None is there, or the sender has written already.
    pub fn release(&mut self, peer: &str) -> Result<u32> {
        self.payload()?;
        let flag = Flag::from_word(self.slot.part(flag_offset(self.payload_bytes), FLAG_BYTES)?.word()?);
        if flag.sequence != self.sequence {
            let (edge, peer) = (self.edge.clone(), peer.to_owned());
            return Err(Error::Overtaken { edge, peer, expected: self.sequence, found: flag.sequence });
        }
        self.released = self.sequence;
        Ok(self.released)
    }
}
