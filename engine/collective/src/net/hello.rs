//! The first bytes on every connection between two ranks: who calls, and what for.

use crate::net::secret::{SECRET_BYTES, Secret, is_secret};

/// Bytes of a hello: magic, protocol, secret, kind, strand, rank.
pub(crate) const HELLO_BYTES: usize = 8 + SECRET_BYTES + 12;
/// What is said over the connections of a job: every change of it counts one up.
pub const PROTOCOL: u8 = 5;
const MAGIC: [u8; 7] = *b"rsccl\0h";

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

/// Who calls and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// What for.
    pub(crate) purpose: Purpose,
    /// The caller's rank.
    pub(crate) rank: usize,
}

/// Why a caller is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No caller of this library's, or without the secret: of no interest.
    Stranger,
    /// A rank of the job, which speaks another protocol.
    Protocol(u8),
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
        bytes[32..36].copy_from_slice(&u32::try_from(self.rank).unwrap_or(u32::MAX).to_le_bytes());
        bytes
    }

    /// Back from the bytes.
    pub(crate) fn from_bytes(bytes: &[u8; HELLO_BYTES], secret: &Secret) -> Result<Self, Refusal> {
        if bytes[..7] != MAGIC || !is_secret(&bytes[8..24], secret) {
            return Err(Refusal::Stranger);
        }
        if bytes[7] != PROTOCOL {
            return Err(Refusal::Protocol(bytes[7]));
        }
        Self::parse(bytes).ok_or(Refusal::Stranger)
    }

    fn parse(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let purpose = match word(24)? {
            0 => Purpose::Data(Strand::from_bytes(*bytes.get(28..)?.first_chunk()?)?),
            2 => Purpose::Control,
            _ => return None,
        };
        Some(Self { purpose, rank: word(32)? as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_opens() {
        let hello = Hello { purpose: Purpose::Data(Strand { channel: 7, index: 1, n: 2 }), rank: 3 };
        let bytes = hello.to_bytes(&[1; 16]);
        assert_eq!(Hello::from_bytes(&bytes, &[1; 16]), Ok(hello));
        assert_eq!(Hello::from_bytes(&bytes, &[2; 16]), Err(Refusal::Stranger));
        let mut old = bytes;
        old[7] = 1;
        assert_eq!(Hello::from_bytes(&old, &[1; 16]), Err(Refusal::Protocol(1)));
        assert_eq!(Hello::from_bytes(&old, &[2; 16]), Err(Refusal::Stranger));
    }

    #[test]
    fn a_strand_beyond_its_connection_is_a_strangers() {
        let hello = Hello { purpose: Purpose::Data(Strand { channel: 7, index: 2, n: 2 }), rank: 3 };
        assert_eq!(Hello::from_bytes(&hello.to_bytes(&[1; 16]), &[1; 16]), Err(Refusal::Stranger));
    }
}
