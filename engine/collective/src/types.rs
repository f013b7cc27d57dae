//! NCCL's data types and reduction operators, as checked values.

use std::ffi::c_int;

use crate::error::{Error, Result};

/// An element type (`ncclDataType_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataType {
    /// `ncclInt8`
    I8,
    /// `ncclUint8`
    U8,
    /// `ncclInt32`
    I32,
    /// `ncclUint32`
    U32,
    /// `ncclInt64`
    I64,
    /// `ncclUint64`
    U64,
    /// `ncclFloat16`
    F16,
    /// `ncclFloat32`
    F32,
    /// `ncclFloat64`
    F64,
    /// `ncclBfloat16`
    Bf16,
    /// `ncclFloat8e4m3`
    F8e4m3,
    /// `ncclFloat8e5m2`
    F8e5m2,
}

/// A reduction operator (`ncclRedOp_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedOp {
    /// `ncclSum`
    Sum,
    /// `ncclProd`
    Prod,
    /// `ncclMax`
    Max,
    /// `ncclMin`
    Min,
    /// `ncclAvg`: the sum, divided once by the number of ranks.
    Avg,
}

impl DataType {
    /// Every type, in the order of its C value.
    pub const ALL: [Self; 12] = [
        Self::I8,
        Self::U8,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F8e4m3,
        Self::F8e5m2,
    ];

    /// From the C value.
    pub fn from_c(value: c_int) -> Result<Self> {
        usize::try_from(value)
            .ok()
            .and_then(|index| Self::ALL.get(index).copied())
            .ok_or_else(|| Error::InvalidArgument(format!("{value} is not an ncclDataType_t")))
    }

    /// Bytes of one element.
    pub fn size_bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::F8e4m3 | Self::F8e5m2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Its short name: `f32`, `bf16`, `f8e4m3`.
    pub fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
        }
    }

    /// Whether it has a fraction.
    #[cfg(test)]
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F8e4m3 | Self::F8e5m2 | Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The name that NCCL hands to profiler plugins (`ncclDatatypeToString`): `ncclUint8` has none there.
    pub(crate) fn profiler_name(self) -> &'static std::ffi::CStr {
        match self {
            Self::I8 => c"ncclInt8",
            Self::U8 => c"Unknown",
            Self::I32 => c"ncclInt32",
            Self::U32 => c"ncclUint32",
            Self::I64 => c"ncclInt64",
            Self::U64 => c"ncclUint64",
            Self::F16 => c"ncclFloat16",
            Self::F32 => c"ncclFloat32",
            Self::F64 => c"ncclFloat64",
            Self::Bf16 => c"ncclBfloat16",
            Self::F8e4m3 => c"ncclFloat8e4m3",
            Self::F8e5m2 => c"ncclFloat8e5m2",
        }
    }
}

impl RedOp {
    /// From the C value; operators made by `ncclRedOpCreatePreMulSum` are not built yet.
    pub(crate) fn from_c(value: c_int) -> Result<Self> {
        Ok(match value {
            0 => Self::Sum,
            1 => Self::Prod,
            2 => Self::Max,
            3 => Self::Min,
            4 => Self::Avg,
            _ => return Err(Error::InvalidArgument(format!("{value} is not a built-in ncclRedOp_t"))),
        })
    }
}
