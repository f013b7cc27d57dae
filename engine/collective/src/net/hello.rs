//! The first bytes on every connection between two ranks, and between a rank and a root: who calls, and what for.

use serde::{Deserialize, Serialize};

use crate::net::secret::{SECRET_BYTES, Secret};

/// Bytes of a hello: magic, protocol, secret, kind, strand, the caller's rank, the called one's.
pub(crate) const HELLO_BYTES: usize = 8 + SECRET_BYTES + 16;
/// What is said over the connections of a job: every change of it counts one up.
pub const PROTOCOL: u8 = 6;
/// Ranks of a communicator at most: what a table of them takes fits into one message of the bootstrap.
pub(crate) const MAX_RANKS: usize = 60_000;
/// The start of every hello; no root's secret starts so, but by chance.
pub(crate) const MAGIC: [u8; 7] = *b"rsccl\0h";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Data, from the caller.
    Data(Strand),
    /// Control, to rank 0.
    Control,
}

/// One socket of a data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strand {
    /// The channel.
    pub(crate) channel: u16,
    /// Which of the connection's sockets.
    pub(crate) index: u8,
    /// How many it has.
    pub(crate) n: u8,
}

/// What a rank says first to a root, after the secret.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    /// Its rank.
    pub(crate) rank: usize,
    /// The number of ranks it was told.
    pub(crate) n_ranks: usize,
    /// What it speaks. The first form did not say.
    #[serde(default = "first_protocol")]
    pub(crate) protocol: u8,
}

/// What a rank that joins is answered: the root has taken it.
pub(crate) const WELCOME: u8 = 1;
/// What a rank that joins is answered: the root has ended, with all its ranks or without.
pub(crate) const HAS_ENDED: u8 = 2;

fn first_protocol() -> u8 {
    1
}

/// Who calls and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// What for.
    pub(crate) purpose: Purpose,
    /// The caller's rank.
    pub(crate) rank: usize,
    /// Whom it calls: a process may have several ranks of a communicator.
    pub(crate) to: usize,
}

/// What to do about ranks that speak another protocol.
pub(crate) fn other_protocol(who: &str, theirs: u8) -> String {
    format!("{who} speaks protocol {theirs}, this is {PROTOCOL}: all ranks need the same librsccl.so")
}

impl Strand {
    fn to_bytes(self) -> [u8; 4] {
        let [low, high] = self.channel.to_le_bytes();
        [low, high, self.index, self.n]
    }

    fn from_bytes([low, high, index, n]: [u8; 4]) -> Option<Self> {
        (index < n).then_some(Self { channel: u16::from_le_bytes([low, high]), index, n })
    }
}

impl Hello {
    /// As it is sent.
    pub(crate) fn to_bytes(self, secret: &Secret) -> [u8; HELLO_BYTES] {
        let (kind, strand) = match self.purpose {
            Purpose::Data(strand) => (0_u32, strand.to_bytes()),
            Purpose::Control => (2, [0; 4]),
        };
        let mut bytes = [0; HELLO_BYTES];
        bytes[..7].copy_from_slice(&MAGIC);
        bytes[7] = PROTOCOL;
        bytes[8..24].copy_from_slice(secret);
        bytes[24..28].copy_from_slice(&kind.to_le_bytes());
        bytes[28..32].copy_from_slice(&strand);
        for (place, rank) in [(32, self.rank), (36, self.to)] {
            let rank = u32::try_from(rank).unwrap_or(u32::MAX);
            bytes[place..place + 4].copy_from_slice(&rank.to_le_bytes());
        }
        bytes
    }

    /// Back from the bytes of a caller that has shown the secret.
    pub(crate) fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let purpose = match word(24)? {
            0 => Purpose::Data(Strand::from_bytes(*bytes.get(28..)?.first_chunk()?)?),
            2 => Purpose::Control,
            _ => return None,
        };
        Some(Self { purpose, rank: word(32)? as usize, to: word(36)? as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_survive_the_bytes() {
        for purpose in [Purpose::Control, Purpose::Data(Strand { channel: 7, index: 1, n: 2 })] {
            let hello = Hello { purpose, rank: 3, to: 9 };
            assert_eq!(Hello::from_bytes(&hello.to_bytes(&[1; 16])), Some(hello));
        }
    }

    #[test]
    fn a_strand_beyond_its_connection_is_a_strangers() {
        let hello = Hello { purpose: Purpose::Data(Strand { channel: 7, index: 2, n: 2 }), rank: 3, to: 0 };
        assert_eq!(Hello::from_bytes(&hello.to_bytes(&[1; 16])), None);
    }
}
