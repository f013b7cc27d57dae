//! The short id of a communicator, the same on every daemon.

use std::fmt;
use std::str::FromStr;

use crate::Digest;

/// Twelve hexadecimal digits of a stable hash over (job, comm_hash, n_ranks), and which of those that share all three.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommunicatorId([u8; 12]);

impl CommunicatorId {
    /// The id of the communicator that has this identity; the first of them.
    #[must_use]
    pub fn new(job: &str, comm_hash: u64, n_ranks: u32) -> Self {
        Self::nth(job, comm_hash, n_ranks, 0)
    }

    /// The id of the communicator before which `sequence` others of this identity were made.
    #[must_use]
    pub fn nth(job: &str, comm_hash: u64, n_ranks: u32, sequence: u32) -> Self {
        let hash = Digest::of("communicator").text(job).number(comm_hash).number(u64::from(n_ranks));
        Self(digits(hash.number(u64::from(sequence)).finish()))
    }

    /// The id that releases up to 0.1 gave it.
    pub fn older(job: &str, comm_hash: u64, n_ranks: u32, sequence: u32) -> Self {
        let hash = Digest::older().text(job).number(comm_hash).number(u64::from(n_ranks));
        let hash = if sequence == 0 { hash } else { hash.number(u64::from(sequence)) }.finish();
        Self(digits(hash))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for CommunicatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for CommunicatorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a text is not a [`CommunicatorId`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a communicator id: twelve lower-case hexadecimal digits")]
pub struct CommunicatorIdError;

impl FromStr for CommunicatorId {
    type Err = CommunicatorIdError;

    fn from_str(text: &str) -> Result<Self, CommunicatorIdError> {
        parse(text).map(Self).ok_or(CommunicatorIdError)
    }
}

/// Twelve hexadecimal digits of a hash.
pub(crate) fn digits(hash: u64) -> [u8; 12] {
    let mut digits = [b'0'; 12];
    for (place, digit) in digits.iter_mut().enumerate() {
        let nibble = (hash >> (60 - 4 * place)) & 0xf;
        *digit = HEX[usize::try_from(nibble).unwrap_or(0)];
    }
    digits
}

/// Twelve lower-case hexadecimal digits. `None`: another text.
pub(crate) fn parse(text: &str) -> Option<[u8; 12]> {
    let digits: [u8; 12] = text.as_bytes().try_into().ok()?;
    digits.iter().all(|digit| HEX.contains(digit)).then_some(digits)
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_stable_and_parses_back() {
        let id = CommunicatorId::new("train", 0x1234, 8);
        assert_eq!(id, CommunicatorId::new("train", 0x1234, 8));
        assert_eq!(id.as_str().parse(), Ok(id));
        for other in [("trian", 0x1234, 8), ("train", 0x1235, 8), ("train", 0x1234, 4)] {
            assert_ne!(id, CommunicatorId::new(other.0, other.1, other.2));
        }
    }

    #[test]
    fn ids_stay_what_they_are() {
        // Links, notes and databases hold them.
        assert_eq!(CommunicatorId::new("train", 0x1234, 8).as_str(), "582de52fc95e");
        assert_eq!(CommunicatorId::nth("train", 0x1234, 8, 1).as_str(), "dcbce1fd4af0");
        assert_eq!(CommunicatorId::older("train", 0xabc, 4, 0).as_str(), "4331bb70d92d");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0123456789a", "0123456789abc", "0123456789AB", "0123456789ag", "äääääääääää"]
        {
            assert_eq!(text.parse::<CommunicatorId>(), Err(CommunicatorIdError), "{text}");
        }
    }
}
