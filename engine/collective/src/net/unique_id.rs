//! The 128 bytes of an `ncclUniqueId`: where the root listens, and a secret that keeps strangers out.
//!
//! Layout: 7 bytes magic, 1 byte protocol, 16 bytes secret, 1 byte length, the root's address as text, zeros.

use std::net::SocketAddr;

use crate::error::{Error, Result};
use crate::net::hello::{PROTOCOL, other_protocol};
use crate::net::secret::{SECRET_BYTES, Secret};

/// `NCCL_UNIQUE_ID_BYTES`.
pub const UNIQUE_ID_BYTES: usize = 128;
const MAGIC: [u8; 7] = *b"rsccl\0\0";
const SECRET_START: usize = MAGIC.len() + 1;
const ADDRESS_START: usize = SECRET_START + SECRET_BYTES + 1;

/// What ranks that are to be one communicator are given first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UniqueId {
    /// Where the root listens.
    pub(crate) root: SocketAddr,
    /// The secret.
    pub(crate) secret: Secret,
}

impl UniqueId {
    /// As the caller carries it about.
    pub fn to_bytes(self) -> [u8; UNIQUE_ID_BYTES] {
        let mut bytes = [0; UNIQUE_ID_BYTES];
        let address = self.root.to_string();
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        bytes[MAGIC.len()] = PROTOCOL;
        bytes[SECRET_START..ADDRESS_START - 1].copy_from_slice(&self.secret);
        // An IPv6 address with scope and port is below 70 characters.
        bytes[ADDRESS_START - 1] = u8::try_from(address.len()).unwrap_or(0);
        bytes[ADDRESS_START..ADDRESS_START + address.len()].copy_from_slice(address.as_bytes());
        bytes
    }

    /// Back from the bytes.
    pub(crate) fn from_bytes(bytes: &[u8; UNIQUE_ID_BYTES]) -> Result<Self> {
        let foreign = || Error::InvalidArgument("the unique id was not made by this library".to_owned());
        if !bytes.starts_with(&MAGIC) {
            return Err(foreign());
        }
        if bytes[MAGIC.len()] != PROTOCOL {
            let who = "the library that made the unique id";
            return Err(Error::InvalidUsage(other_protocol(who, bytes[MAGIC.len()])));
        }
        let secret = bytes[SECRET_START..ADDRESS_START - 1].try_into().map_err(|_| foreign())?;
        let end = ADDRESS_START + usize::from(bytes[ADDRESS_START - 1]);
        let address = bytes.get(ADDRESS_START..end).and_then(|text| std::str::from_utf8(text).ok());
        let root = address.and_then(|text| text.parse().ok()).ok_or_else(foreign)?;
        Ok(Self { root, secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::secret::new_secret;

    #[test]
    fn ids_survive_the_bytes() {
        for root in ["127.0.2.1:4711", "[fe80::1%12]:65535"] {
            let id = UniqueId { root: root.parse().unwrap(), secret: new_secret().unwrap() };
            assert_eq!(UniqueId::from_bytes(&id.to_bytes()).unwrap(), id);
        }
    }

    #[test]
    fn foreign_ids_are_refused() {
        assert!(UniqueId::from_bytes(&[0; UNIQUE_ID_BYTES]).is_err());
        let mut cut = UniqueId { root: "127.0.0.1:1".parse().unwrap(), secret: [7; 16] }.to_bytes();
        cut[24] = 255;
        assert!(UniqueId::from_bytes(&cut).is_err());
    }
}
