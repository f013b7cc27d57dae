//! The oracle: one lane, no instruction that any processor lacks. It also finishes the tails of the wider kernels.

#![expect(unsafe_code, reason = "loads and stores at any alignment")]

use crate::kernels::body::{Body, Job};
use crate::kernels::float8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use crate::kernels::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::kernels::isa::Isa;
use crate::kernels::vector::{Bf16, Codec, E4m3, E5m2, F16, F32, Number, StreamedF32, Vector};

/// What every processor runs.
pub(super) struct Scalar;

impl Isa for Scalar {
    type Lanes = f32;

    unsafe fn enter<B: Body<f32>>(job: &Job) {
        // SAFETY: the caller's promise is the body's.
        unsafe { B::run(job) }
    }
}

impl Vector for f32 {
    const LANES: usize = 1;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        value
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self * other
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        self / other
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        let picked = if other < self || self.is_nan() { other } else { self };
        // Equal values have equal bits, but for the zeros.
        if self == other { Self::from_bits(self.to_bits() | other.to_bits()) } else { picked }
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        let picked = if other > self || self.is_nan() { other } else { self };
        if self == other { Self::from_bits(self.to_bits() & other.to_bits()) } else { picked }
    }
}

macro_rules! codecs {
    ($($name:ident: $bits:ty, $widen:expr, $narrow:expr;)*) => {$(
        impl Codec<f32> for $name {
            const SIZE_BYTES: usize = size_of::<$bits>();

            #[inline(always)]
            unsafe fn load(from: *const u8) -> f32 {
                // SAFETY: the caller's element is readable.
                $widen(unsafe { from.cast::<$bits>().read_unaligned() })
            }

            #[inline(always)]
            unsafe fn store(into: *mut u8, value: f32) {
                // SAFETY: the caller's element is writable.
                unsafe { into.cast::<$bits>().write_unaligned($narrow(value)) }
            }
        }
    )*};
}

codecs! {
    F32: f32, std::convert::identity, std::convert::identity;
    StreamedF32: f32, std::convert::identity, std::convert::identity;
    F16: u16, f16_to_f32, f32_to_f16;
    Bf16: u16, bf16_to_f32, f32_to_bf16;
    E4m3: u8, e4m3_to_f32, f32_to_e4m3;
    E5m2: u8, e5m2_to_f32, f32_to_e5m2;
}

/// Bytes of a [`Number::Block`]: four registers of AVX-512.
const BLOCK_BYTES: usize = 256;

macro_rules! integers {
    ($($type:ty, $divided:expr;)*) => {$(
        impl Number for $type {
            type Block = [$type; BLOCK_BYTES / size_of::<$type>()];

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }

            #[inline(always)]
            fn divided(self, by: usize) -> Self {
                $divided(self, by)
            }
        }
    )*};
}

// A quotient of whole numbers is no nearer to the next one than the inverse of its dividend, and a float with more bits
// than the dividend tells them apart: truncated, it is exact. That vectorises, and a divisor beyond the type (more than
// 127 ranks of `i8`) still divides.
macro_rules! through {
    ($float:ty, $type:ty) => {
        |value: $type, by: usize| {
            let quotient = <$float>::from(value) / by.max(1) as $float;
            // SAFETY: it is finite, and not beyond the dividend.
            unsafe { quotient.to_int_unchecked::<$type>() }
        }
    };
}

integers! {
    i8, through!(f32, i8);
    u8, through!(f32, u8);
    i32, through!(f64, i32);
    u32, through!(f64, u32);
    i64, |value: i64, by: usize| value / by.max(1) as i64;
    u64, |value: u64, by: usize| value / by.max(1) as u64;
}

impl Number for f64 {
    type Block = [f64; BLOCK_BYTES / size_of::<f64>()];

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self * other
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        let picked = if other < self || self.is_nan() { other } else { self };
        if self == other { Self::from_bits(self.to_bits() | other.to_bits()) } else { picked }
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        let picked = if other > self || self.is_nan() { other } else { self };
        if self == other { Self::from_bits(self.to_bits() & other.to_bits()) } else { picked }
    }

    #[inline(always)]
    fn divided(self, by: usize) -> Self {
        self / by as f64
    }
}
