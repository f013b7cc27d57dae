//! What every part on a data connection says about itself.

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 32;
const MAGIC: u32 = 0x7273_6364;

/// What a message says about itself, so that two ranks that call different things get an error and not garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The primitive's code.
    pub function: u32,
    /// Which operation: counted per communicator for collectives, per pair for send and receive.
    pub sequence: u64,
    /// A hash of count, type, operator and root.
    pub signature: u64,
    /// Index of the part.
    pub part: u32,
    /// Payload bytes.
    pub len: u32,
}

impl Header {
    /// As it is sent.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.function.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.signature.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.part.to_le_bytes());
        bytes[28..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Back from the bytes; nothing without the magic.
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        if word(0)? != MAGIC {
            return None;
        }
        Some(Self {
            function: word(4)?,
            sequence: long(8)?,
            signature: long(16)?,
            part: word(24)?,
            len: word(28)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_bytes() {
        let header = Header { function: 4, sequence: 1 << 40, signature: 7, part: 3, len: 512 };
        assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header));
        assert_eq!(Header::from_bytes(&[0; HEADER_BYTES]), None);
    }
}
