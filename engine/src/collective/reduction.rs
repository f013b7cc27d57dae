//! Element arithmetic: `accumulator = accumulator op other`, and the division of an average.
//!
//! 16-bit floats are widened to `f32` for each step. Integers wrap. An average divides once, after the last
//! contribution; integer averages truncate. Buffers are bytes, since a received part has no alignment of its own.

use crate::collective::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::types::{DataType, RedOp};

/// How an operation's elements are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// Element type.
    pub(crate) data_type: DataType,
    /// Operator.
    pub(crate) op: RedOp,
    /// Ranks, for an average.
    pub(crate) n_ranks: usize,
}

impl Reduction {
    /// `accumulator = accumulator op other`; with `last`, an average is divided.
    pub(crate) fn apply(self, accumulator: &mut [u8], other: &[u8], last: bool) {
        let divisor = if last && self.op == RedOp::Avg { self.n_ranks } else { 1 };
        match self.data_type {
            DataType::I8 => i8::run(self.op, divisor, accumulator, other),
            DataType::U8 => u8::run(self.op, divisor, accumulator, other),
            DataType::I32 => i32::run(self.op, divisor, accumulator, other),
            DataType::U32 => u32::run(self.op, divisor, accumulator, other),
            DataType::I64 => i64::run(self.op, divisor, accumulator, other),
            DataType::U64 => u64::run(self.op, divisor, accumulator, other),
            DataType::F32 => f32::run(self.op, divisor, accumulator, other),
            DataType::F64 => f64::run(self.op, divisor, accumulator, other),
            DataType::F16 => half::<f16>(self.op, divisor, accumulator, other),
            DataType::Bf16 => half::<bf16>(self.op, divisor, accumulator, other),
        }
    }
}

trait Element {
    fn run(op: RedOp, divisor: usize, accumulator: &mut [u8], other: &[u8]);
}

macro_rules! fold {
    ($type:ty, $accumulator:expr, $other:expr, $combine:expr) => {
        for (left, right) in $accumulator.as_chunks_mut().0.iter_mut().zip($other.as_chunks().0) {
            *left = $combine(<$type>::from_ne_bytes(*left), <$type>::from_ne_bytes(*right)).to_ne_bytes();
        }
    };
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn run(op: RedOp, divisor: usize, accumulator: &mut [u8], other: &[u8]) {
                match op {
                    RedOp::Sum => fold!($type, accumulator, other, <$type>::wrapping_add),
                    RedOp::Prod => fold!($type, accumulator, other, <$type>::wrapping_mul),
                    RedOp::Min => fold!($type, accumulator, other, <$type>::min),
                    RedOp::Max => fold!($type, accumulator, other, <$type>::max),
                    RedOp::Avg if divisor == 1 => fold!($type, accumulator, other, <$type>::wrapping_add),
                    RedOp::Avg => {
                        fold!($type, accumulator, other, |a: $type, b: $type| divided!($type, a.wrapping_add(b), divisor));
                    }
                }
            }
        }
    )*};
}

// Through i128, so that a divisor beyond the type's range (more than 127 ranks of int8) still divides.
macro_rules! divided {
    ($type:ty, $sum:expr, $divisor:expr) => {
        <$type>::try_from(i128::from($sum) / $divisor as i128).unwrap_or_default()
    };
}

macro_rules! float {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn run(op: RedOp, divisor: usize, accumulator: &mut [u8], other: &[u8]) {
                match op {
                    RedOp::Sum => fold!($type, accumulator, other, |a: $type, b: $type| a + b),
                    RedOp::Prod => fold!($type, accumulator, other, |a: $type, b: $type| a * b),
                    RedOp::Min => fold!($type, accumulator, other, <$type>::min),
                    RedOp::Max => fold!($type, accumulator, other, <$type>::max),
                    RedOp::Avg => fold!($type, accumulator, other, |a: $type, b: $type| (a + b) / divisor as $type),
                }
            }
        }
    )*};
}

integer!(i8, u8, i32, u32, i64, u64);
float!(f32, f64);

trait Half {
    fn widen(bits: u16) -> f32;
    fn narrow(value: f32) -> u16;
}

#[expect(non_camel_case_types, reason = "named like the primitive types beside it")]
struct f16;
#[expect(non_camel_case_types, reason = "named like the primitive types beside it")]
struct bf16;

impl Half for f16 {
    #[inline]
    fn widen(bits: u16) -> f32 {
        f16_to_f32(bits)
    }

    #[inline]
    fn narrow(value: f32) -> u16 {
        f32_to_f16(value)
    }
}

impl Half for bf16 {
    #[inline]
    fn widen(bits: u16) -> f32 {
        bf16_to_f32(bits)
    }

    #[inline]
    fn narrow(value: f32) -> u16 {
        f32_to_bf16(value)
    }
}

fn half<T: Half>(op: RedOp, divisor: usize, accumulator: &mut [u8], other: &[u8]) {
    match op {
        RedOp::Sum => fold_half::<T>(accumulator, other, |a, b| a + b),
        RedOp::Prod => fold_half::<T>(accumulator, other, |a, b| a * b),
        RedOp::Min => fold_half::<T>(accumulator, other, f32::min),
        RedOp::Max => fold_half::<T>(accumulator, other, f32::max),
        RedOp::Avg => fold_half::<T>(accumulator, other, |a, b| (a + b) / divisor as f32),
    }
}

fn fold_half<T: Half>(accumulator: &mut [u8], other: &[u8], combine: impl Fn(f32, f32) -> f32) {
    let combine = |a: u16, b: u16| T::narrow(combine(T::widen(a), T::widen(b)));
    fold!(u16, accumulator, other, combine);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn i32s(op: RedOp, last: bool, left: i32, right: i32) -> i32 {
        let mut bytes = left.to_ne_bytes();
        Reduction { data_type: DataType::I32, op, n_ranks: 4 }.apply(&mut bytes, &right.to_ne_bytes(), last);
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn integer_operators() {
        assert_eq!(i32s(RedOp::Sum, true, 6, 7), 13);
        assert_eq!(i32s(RedOp::Prod, true, 6, 7), 42);
        assert_eq!(i32s(RedOp::Min, true, 6, 7), 6);
        assert_eq!(i32s(RedOp::Max, true, 6, 7), 7);
        assert_eq!(i32s(RedOp::Avg, false, 6, 7), 13);
        assert_eq!(i32s(RedOp::Avg, true, 6, 7), 3);
        assert_eq!(i32s(RedOp::Sum, true, i32::MAX, 1), i32::MIN);
    }

    #[test]
    fn an_average_of_f16_does_not_overflow_in_its_last_sum() {
        let max = f32_to_f16(65504.0);
        let mut bytes = max.to_ne_bytes();
        Reduction { data_type: DataType::F16, op: RedOp::Avg, n_ranks: 2 }.apply(
            &mut bytes,
            &max.to_ne_bytes(),
            true,
        );
        assert_eq!(u16::from_ne_bytes(bytes), max);
    }
}
