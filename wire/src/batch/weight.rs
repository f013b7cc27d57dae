//! How much memory a batch takes once it is decoded, told from its bytes as they come, before anything is allocated for
//! it. A message of two bytes on the wire may be a thousand in memory, so the length of a batch says little.
//!
//! What is told is an upper bound: a list counts as if it had just grown, a text that comes twice counts twice. It follows
//! the same bytes in the same order as the decoder; where that would stop because the bytes are no batch, this stops too.

use super::BatchError;

include!(concat!(env!("OUT_DIR"), "/weights.rs"));

/// Weighs one batch; takes it in pieces.
#[derive(Debug)]
pub struct Scales {
    /// The messages that the next byte lies in, outermost first.
    open: [Frame; DEPTH_MAX],
    depth: usize,
    at: u64,
    weight: u64,
    most: u64,
    state: State,
}

/// A message that has begun.
#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    message: u16,
    /// First byte behind it.
    end: u64,
    /// Field that came last: the elements of a list follow one another.
    last: u32,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug)]
enum State {
    Key {
        value: u64,
        shift: u32,
    },
    /// A number.
    Number {
        field: u32,
        shift: u32,
    },
    Length {
        field: u32,
        value: u64,
        shift: u32,
    },
    /// Bytes up to here say nothing more.
    Skip {
        end: u64,
    },
}

/// What a field takes of memory.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A text or bytes.
    Text,
    /// A list of texts.
    Texts,
    /// A list of numbers.
    Numbers,
    /// A message inside its parent: its index.
    One(u16),
    /// A list of messages: the index, and bytes of one.
    Many(u16, u64),
}

impl Scales {
    /// Scales for one batch that may take `most` bytes of memory in all, and no more than any real one takes of its length.
    #[must_use]
    pub fn new(most: u64) -> Self {
        let mut open = [Frame::default(); DEPTH_MAX];
        open[0] = Frame { message: BATCH, end: u64::MAX, last: 0 };
        Self { open, depth: 1, at: 0, weight: size_of::<super::Batch>() as u64, most, state: KEY }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// [`BatchError::TooHeavy`] as soon as the bytes so far are; [`BatchError::Malformed`] if they begin no batch.
    pub fn put(&mut self, piece: &[u8]) -> Result<(), BatchError> {
        let mut rest = piece;
        while let Some((byte, behind)) = rest.split_first() {
            if let State::Skip { end } = self.state {
                let n = usize::try_from(end - self.at).unwrap_or(usize::MAX).min(rest.len());
                rest = &rest[n..];
                self.at += n as u64;
                if self.at == end {
                    self.next()?;
                }
                continue;
            }
            rest = behind;
            self.at += 1;
            self.byte(*byte)?;
        }
        Ok(())
    }

    /// Bytes of memory that what came so far takes at most.
    #[must_use]
    pub const fn weight(&self) -> u64 {
        self.weight
    }

    fn byte(&mut self, byte: u8) -> Result<(), BatchError> {
        let (bits, more) = (u64::from(byte & 0x7f), byte & 0x80 != 0);
        match self.state {
            State::Key { value, shift } => {
                let value = value | bits.checked_shl(shift).unwrap_or(0);
                match (more, shift < 63) {
                    (true, true) => self.state = State::Key { value, shift: shift + 7 },
                    (true, false) => return Err(malformed("a key that does not end")),
                    (false, _) => self.key(value)?,
                }
            }
            State::Number { field, shift } => match (more, shift < 63) {
                (true, true) => self.state = State::Number { field, shift: shift + 7 },
                (true, false) => return Err(malformed("a number that does not end")),
                (false, _) => {
                    if matches!(self.kind(field), Some(Kind::Numbers)) {
                        self.element(field, NUMBER_BYTES)?;
                    }
                    self.next()?;
                }
            },
            State::Length { field, value, shift } => {
                let value = value | bits.checked_shl(shift).unwrap_or(0);
                match (more, shift < 63) {
                    (true, true) => self.state = State::Length { field, value, shift: shift + 7 },
                    (true, false) => return Err(malformed("a length that does not end")),
                    (false, _) => self.content(field, value)?,
                }
            }
            State::Skip { .. } => {}
        }
        Ok(())
    }

    fn key(&mut self, key: u64) -> Result<(), BatchError> {
        let field = u32::try_from(key >> 3).map_err(|_| malformed("a key that is too large"))?;
        if field == 0 {
            return Err(malformed("a field without a number"));
        }
        match key & 7 {
            0 => self.state = State::Number { field, shift: 0 },
            2 => self.state = State::Length { field, value: 0, shift: 0 },
            fixed @ (1 | 5) => {
                if matches!(self.kind(field), Some(Kind::Numbers)) {
                    self.element(field, NUMBER_BYTES)?;
                }
                self.skip(if fixed == 1 { 8 } else { 4 })?;
            }
            _ => return Err(malformed("a group, which no batch has")),
        }
        Ok(())
    }

    /// What has a length: a text, a list of numbers, a message.
    fn content(&mut self, field: u32, length: u64) -> Result<(), BatchError> {
        let inner = match self.kind(field) {
            None => None,
            Some(Kind::Text) => {
                self.add(length.saturating_add(ALLOCATION_BYTES))?;
                None
            }
            Some(Kind::Texts) => {
                self.element(field, size_of::<String>() as u64)?;
                self.add(length.saturating_add(ALLOCATION_BYTES))?;
                None
            }
            Some(Kind::Numbers) => {
                // One byte each at least; a list that grows has twice the room.
                self.add(length.saturating_mul(2 * NUMBER_BYTES).saturating_add(ALLOCATION_BYTES))?;
                None
            }
            Some(Kind::One(message)) => Some(message),
            Some(Kind::Many(message, bytes)) => {
                self.element(field, bytes)?;
                Some(message)
            }
        };
        let Some(message) = inner else {
            return self.skip(length);
        };
        let end = self.end_of(length)?;
        let frame = self.open.get_mut(self.depth).ok_or_else(|| malformed("messages too deep"))?;
        *frame = Frame { message, end, last: 0 };
        self.depth += 1;
        self.next()
    }

    fn kind(&self, field: u32) -> Option<Kind> {
        let fields = MESSAGES[usize::from(self.open[self.depth - 1].message)];
        fields.iter().find(|(number, _)| *number == field).map(|(_, kind)| *kind)
    }

    /// Counts one more element of a list: a list has room for four at least, and for twice as many when it has grown.
    fn element(&mut self, field: u32, bytes: u64) -> Result<(), BatchError> {
        let frame = &mut self.open[self.depth - 1];
        let is_first = std::mem::replace(&mut frame.last, field) != field;
        self.add(bytes * if is_first { 4 } else { 2 })
    }

    fn add(&mut self, bytes: u64) -> Result<(), BatchError> {
        self.weight = self.weight.saturating_add(bytes);
        let most_bytes = self.most.min(LIGHT_BYTES.saturating_add(self.at.saturating_mul(RATIO_MAX)));
        if self.weight > most_bytes {
            return Err(BatchError::TooHeavy { at: self.at, most_bytes });
        }
        Ok(())
    }

    fn end_of(&self, length: u64) -> Result<u64, BatchError> {
        let end = self.at.checked_add(length);
        let end = end.filter(|end| *end <= self.open[self.depth - 1].end);
        end.ok_or_else(|| malformed("something longer than the message that it is in"))
    }

    fn skip(&mut self, length: u64) -> Result<(), BatchError> {
        let end = self.end_of(length)?;
        self.state = State::Skip { end };
        if length == 0 { self.next() } else { Ok(()) }
    }

    /// Goes on behind something that is whole.
    fn next(&mut self) -> Result<(), BatchError> {
        self.state = KEY;
        while self.at >= self.open[self.depth - 1].end {
            if self.at > self.open[self.depth - 1].end {
                return Err(malformed("something longer than the message that it is in"));
            }
            self.depth -= 1;
        }
        Ok(())
    }
}

fn malformed(what: &str) -> BatchError {
    BatchError::Malformed(what.to_owned())
}

const KEY: State = State::Key { value: 0, shift: 0 };
/// A batch may take so much whatever its length.
const LIGHT_BYTES: u64 = 8 << 20;
/// Bytes of memory for each of a longer one, at most: processes of which there is nothing to say but that they live take
/// some 25, counted as it is here; empty ones, which nobody sends, 1000.
const RATIO_MAX: u64 = 64;
/// Messages within one another: a batch has six at most.
const DEPTH_MAX: usize = 16;
/// Largest number of a list.
const NUMBER_BYTES: u64 = 8;
/// What the allocator takes for itself, and rounds up to.
const ALLOCATION_BYTES: u64 = 32;
/// Of one name and number in a map, with its share of the node.
const ENTRY_BYTES: u64 = 128;

#[cfg(test)]
mod tests;
