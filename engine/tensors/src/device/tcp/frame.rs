//! The header of every message.

use crate::memory::Address;

/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 40;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// `bytes` bytes for the receiver's memory follow.
    Write { number: u64, to: Address, bytes: u64 },
    /// One word for it.
    Flag { to: Address, value: u64 },
    /// Asks for `bytes` bytes of it.
    Read { work: u64, from: Address, bytes: u64 },
    /// Those bytes follow.
    Answer { work: u64, bytes: u64 },
    /// A write, flag or read was refused: its place is not there.
    Refused { at: Address, bytes: u64, size_bytes: u64 },
    /// A control message of `bytes` bytes follows.
    Control { bytes: u64 },
}

impl Header {
    /// As it travels: five words, little-endian.
    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let words = match self {
            Self::Write { number, to, bytes } => [1, number, to.key, to.offset, bytes],
            Self::Flag { to, value } => [2, value, to.key, to.offset, 0],
            Self::Read { work, from, bytes } => [3, work, from.key, from.offset, bytes],
            Self::Answer { work, bytes } => [4, work, 0, 0, bytes],
            Self::Refused { at, bytes, size_bytes } => [5, size_bytes, at.key, at.offset, bytes],
            Self::Control { bytes } => [6, 0, 0, 0, bytes],
        };
        let mut out = [0; HEADER_BYTES];
        for (place, word) in out.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// What travelled; nothing if it makes no sense.
    pub(super) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [kind, number, key, offset, bytes] = words;
        let at = Address { key, offset };
        Some(match kind {
            1 => Self::Write { number, to: at, bytes },
            2 => Self::Flag { to: at, value: number },
            3 => Self::Read { work: number, from: at, bytes },
            4 => Self::Answer { work: number, bytes },
            5 => Self::Refused { at, bytes, size_bytes: number },
            6 => Self::Control { bytes },
            _ => return None,
        })
    }

    /// Bytes that follow it.
    pub(super) fn payload_bytes(self) -> u64 {
        match self {
            Self::Write { bytes, .. } | Self::Answer { bytes, .. } | Self::Control { bytes } => bytes,
            Self::Flag { .. } | Self::Read { .. } | Self::Refused { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_travel() {
        let at = Address { key: 3, offset: u64::MAX };
        for header in [
            Header::Write { number: 1, to: at, bytes: 5 },
            Header::Flag { to: at, value: 7 },
            Header::Read { work: 2, from: at, bytes: 6 },
            Header::Answer { work: 2, bytes: 6 },
            Header::Refused { at, bytes: 9, size_bytes: 4 },
            Header::Control { bytes: 8 },
        ] {
            assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header));
        }
        assert_eq!(Header::from_bytes(&[0; HEADER_BYTES]), None);
    }
}
