//! What a tensor is to a transfer: a type, dimensions, and so many bytes.

use std::fmt;

use crate::error::{Error, Result};

/// Dimensions of a tensor at most: what the metadata of a tensor of unknown shape have room for.
pub const MAX_DIMS: usize = 8;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum DataType {
    /// Bytes.
    U8 = 1,
    /// IEEE half precision.
    F16 = 2,
    /// The upper half of a single.
    Bf16 = 3,
    /// IEEE single precision.
    F32 = 4,
    /// IEEE double precision.
    F64 = 5,
    /// Signed, 32 bits.
    I32 = 6,
    /// Signed, 64 bits.
    I64 = 7,
}

impl DataType {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::U8, Self::F16, Self::Bf16, Self::F32, Self::F64, Self::I32, Self::I64];

    /// The type of this number, as it travels and as `rtensor.h` has it.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|known| *known as u32 == number)
    }

    /// Bytes of an element.
    pub fn size_bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }
}

impl fmt::Display for DataType {
    /// As numpy names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "uint8",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::I32 => "int32",
            Self::I64 => "int64",
        })
    }
}

/// A type and dimensions, all known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    data_type: DataType,
    dims: Vec<u64>,
    size_bytes: u64,
}

impl Shape {
    /// # Errors
    /// More than [`MAX_DIMS`] dimensions, or more bytes than 64 bits count.
    pub fn new(data_type: DataType, dims: &[u64]) -> Result<Self> {
        let refused = |why: &str| Err(Error::Usage(format!("a tensor of dimensions {dims:?} {why}")));
        if dims.len() > MAX_DIMS {
            return refused("has too many of them: 8 are the limit");
        }
        let elements = dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        match elements.and_then(|elements| elements.checked_mul(data_type.size_bytes())) {
            Some(size_bytes) if size_bytes <= isize::MAX as u64 => {
                Ok(Self { data_type, dims: dims.to_vec(), size_bytes })
            }
            _ => refused("has more bytes than there are addresses"),
        }
    }

    /// The elements' type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Elements along each dimension.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Bytes of all elements.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.data_type, self.dims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_knows_its_bytes_and_refuses_what_has_too_many() {
        let bytes =
            |data_type, dims: &[u64]| Shape::new(data_type, dims).map(|shape| shape.size_bytes()).ok();
        assert_eq!(bytes(DataType::F32, &[3, 5]), Some(60));
        assert_eq!(bytes(DataType::F64, &[]), Some(8));
        assert_eq!(bytes(DataType::U8, &[0, 7]), Some(0));
        assert_eq!(bytes(DataType::U8, &[u64::MAX, 2]), None);
        assert_eq!(bytes(DataType::F64, &[1 << 61]), None);
        assert_eq!(bytes(DataType::U8, &[1; 9]), None);
    }

    #[test]
    fn types_have_numbers_that_travel() {
        for data_type in DataType::ALL {
            assert_eq!(DataType::from_number(data_type as u32), Some(data_type));
        }
        assert_eq!(DataType::from_number(0), None);
    }
}
