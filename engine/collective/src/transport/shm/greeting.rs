//! What ranks of a host say to each other first.

use crate::net::secret::{SECRET_BYTES, Secret, is_secret};
use crate::transport::shm::direct::Nonce;

/// Bytes of a greeting.
pub(super) const GREETING_BYTES: usize = 8 + SECRET_BYTES + 8 + 8 + size_of::<Nonce>();
const MAGIC: [u8; 8] = *b"rsccl\0m\x01";

/// A greeting: who calls, and a number in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) rank: usize,
    pub(super) nonce_address: u64,
    pub(super) nonce: Nonce,
}

impl Greeting {
    /// As it is sent.
    pub(super) fn to_bytes(self, secret: &Secret) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(secret);
        bytes[24..32].copy_from_slice(&(self.rank as u64).to_le_bytes());
        bytes[32..40].copy_from_slice(&self.nonce_address.to_le_bytes());
        bytes[40..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Back from the bytes; nothing if they are a stranger's.
    pub(super) fn from_bytes(bytes: &[u8; GREETING_BYTES], secret: &Secret) -> Option<Self> {
        let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if bytes[..8] != MAGIC || !is_secret(&bytes[8..24], secret) {
            return None;
        }
        let rank = usize::try_from(long(24)?).ok()?;
        Some(Self { rank, nonce_address: long(32)?, nonce: *bytes[40..].first_chunk()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_opens() {
        let greeting = Greeting { rank: 7, nonce_address: 0x7000_0000_1234, nonce: [9; 16] };
        let bytes = greeting.to_bytes(&[1; 16]);
        assert_eq!(Greeting::from_bytes(&bytes, &[1; 16]), Some(greeting));
        assert_eq!(Greeting::from_bytes(&bytes, &[2; 16]), None);
    }
}
