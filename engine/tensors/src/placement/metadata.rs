//! What a sender tells of a tensor whose shape the receiver does not know: a block of fixed size, little-endian.

use crate::memory::Address;
use crate::tensor::{DataType, MAX_DIMS, Shape};

/// Bytes of the block, without its flag.
pub(super) const METADATA_BYTES: u64 = 128;

const WORDS: usize = 16;

/// Type, dimensions and place of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) sequence: u32,
    pub(super) shape: Shape,
    pub(super) from: Address,
}

impl Metadata {
    /// As it travels.
    pub(super) fn to_bytes(&self) -> [u8; WORDS * 8] {
        let mut words = [0; WORDS];
        let dims = self.shape.dims();
        let head = [
            u64::from(self.sequence),
            u64::from(self.shape.data_type() as u32),
            dims.len() as u64,
            self.from.key,
            self.from.offset,
            self.shape.size_bytes(),
        ];
        for (word, value) in words.iter_mut().zip(head.iter().chain(dims)) {
            *word = *value;
        }
        let mut bytes = [0; WORDS * 8];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What travelled; what is wrong with it, otherwise.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map_or(0, u64::from_le_bytes);
        }
        let [sequence, data_type, n_dims, key, offset, size_bytes, dims @ ..] = words;
        let n_dims = usize::try_from(n_dims).ok().filter(|n_dims| *n_dims <= MAX_DIMS);
        let dims = n_dims.and_then(|n_dims| dims.get(..n_dims)).ok_or("metadata of too many dimensions")?;
        let data_type = u32::try_from(data_type).ok().and_then(DataType::from_number);
        let data_type = data_type.ok_or("metadata of an unknown type")?;
        let shape = Shape::new(data_type, dims).map_err(|error| error.to_string())?;
        if shape.size_bytes() != size_bytes {
            return Err(format!("metadata of {size_bytes} bytes for {shape}"));
        }
        let sequence = u32::try_from(sequence).map_err(|_| "metadata of no transfer".to_owned())?;
        Ok(Self { sequence, shape, from: Address { key, offset } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_travel_and_nonsense_is_refused() {
        let shape = Shape::new(DataType::F32, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let metadata = Metadata { sequence: 9, shape, from: Address { key: 3, offset: 64 } };
        let bytes = metadata.to_bytes();
        assert_eq!(Metadata::from_bytes(&bytes), Ok(metadata));
        for (place, value) in [(8, 99), (16, 9), (40, 1), (55, 255), (4, 1)] {
            let mut broken = bytes;
            broken[place] = value;
            Metadata::from_bytes(&broken).unwrap_err();
        }
    }
}
