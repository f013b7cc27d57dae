//! The first bytes on every connection between two ranks: who calls, and what for.

use crate::net::unique_id::{SECRET_BYTES, Secret};

/// Bytes of a hello: magic, secret, kind, channel, rank.
pub(crate) const HELLO_BYTES: usize = 8 + SECRET_BYTES + 12;
const MAGIC: [u8; 8] = *b"rsccl\0h\x01";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Data on this channel, from the caller.
    Data(u32),
    /// Control, to rank 0.
    Control,
}

/// Who calls and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// What for.
    pub(crate) purpose: Purpose,
    /// The caller's rank.
    pub(crate) rank: usize,
}

impl Hello {
    /// As it is sent.
    pub(crate) fn to_bytes(self, secret: &Secret) -> [u8; HELLO_BYTES] {
        let (kind, channel) = match self.purpose {
            Purpose::Data(channel) => (0_u32, channel),
            Purpose::Control => (2, 0),
        };
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(secret);
        bytes[24..28].copy_from_slice(&kind.to_le_bytes());
        bytes[28..32].copy_from_slice(&channel.to_le_bytes());
        bytes[32..36].copy_from_slice(&u32::try_from(self.rank).unwrap_or(u32::MAX).to_le_bytes());
        bytes
    }

    /// Back from the bytes; nothing if they are a stranger's.
    pub(crate) fn from_bytes(bytes: &[u8; HELLO_BYTES], secret: &Secret) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if bytes[..8] != MAGIC || bytes[8..24] != *secret {
            return None;
        }
        let purpose = match word(24)? {
            0 => Purpose::Data(word(28)?),
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
        let hello = Hello { purpose: Purpose::Data(7), rank: 3 };
        let bytes = hello.to_bytes(&[1; 16]);
        assert_eq!(Hello::from_bytes(&bytes, &[1; 16]), Some(hello));
        assert_eq!(Hello::from_bytes(&bytes, &[2; 16]), None);
    }
}
