//! 8-bit floats to and from `f32`, without branches.
//!
//! Formats: OCP 8-bit Floating Point Specification 1.0. E4M3 ("fn") has bias 7, no infinity and one NaN (0x7f); E5M2 has
//! bias 15 and is the upper half of an f16. Narrowing rounds to nearest, ties to even, and saturates: what is beyond the
//! largest finite value, infinities too, becomes that value; a NaN stays one. So do `__nv_fp8_e4m3(float)` and
//! `__nv_fp8_e5m2(float)` (CUDA's `cuda_fp8.hpp`: `__NV_SATFINITE`), with which NCCL stores each result
//! (`src/device/reduce_kernel.h`, `SPECIALIZE_REDUCE`). NCCL adds in `half`; a sum of two in `f32` is rounded to the same bits.

use crate::kernels::float16::f16_to_f32;

/// The layout of a format, as constants over the bits of an `f32`.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Bits of an `f32` mantissa that are rounded away.
    pub(super) shift: u32,
    /// The difference of the exponent biases, in the exponent's place.
    pub(super) rebias: u32,
    /// The largest finite value.
    pub(super) max: u32,
    /// The smallest normal value.
    pub(super) min_normal: u32,
    /// A power of two whose unit in the last place is the smallest subnormal: adding it rounds a subnormal.
    pub(super) magic: u32,
}

pub(super) const E4M3: Layout = Layout {
    shift: 20,
    rebias: (127 - 7) << 23,
    max: 448_f32.to_bits(),
    min_normal: 0x3c80_0000,
    magic: 16_384_f32.to_bits(),
};

pub(super) const E5M2: Layout = Layout {
    shift: 21,
    rebias: (127 - 15) << 23,
    max: 57_344_f32.to_bits(),
    min_normal: 0x3880_0000,
    magic: 128_f32.to_bits(),
};

/// E4M3 bits to `f32`.
#[inline]
pub fn e4m3_to_f32(bits: u8) -> f32 {
    let (sign, magnitude) = (u16::from(bits & 0x80) << 8, u16::from(bits & 0x7f));
    // In the place of an f16's exponent the bias is 8 too small, for subnormals as well.
    let half = if magnitude == 0x7f { 0x7e00 } else { magnitude << 7 };
    f16_to_f32(half | sign) * 256.0
}

/// E5M2 bits to `f32`.
#[inline]
pub fn e5m2_to_f32(bits: u8) -> f32 {
    f16_to_f32(u16::from(bits) << 8)
}

/// `f32` to E4M3 bits.
#[inline]
pub fn f32_to_e4m3(value: f32) -> u8 {
    narrow(E4M3, value)
}

/// `f32` to E5M2 bits.
#[inline]
pub fn f32_to_e5m2(value: f32) -> u8 {
    narrow(E5M2, value)
}

#[inline]
fn narrow(layout: Layout, value: f32) -> u8 {
    let bits = value.to_bits();
    let sign = (bits >> 24) & 0x80;
    let magnitude = bits & 0x7fff_ffff;
    let clamped = magnitude.min(layout.max);
    let subnormal =
        (f32::from_bits(clamped) + f32::from_bits(layout.magic)).to_bits().wrapping_sub(layout.magic);
    let half = (1 << (layout.shift - 1)) - 1 + ((clamped >> layout.shift) & 1);
    let normal = (clamped + half).wrapping_sub(layout.rebias) >> layout.shift;
    let finite = if clamped < layout.min_normal { subnormal } else { normal };
    let rounded = if magnitude > 0x7f80_0000 { 0x7f } else { finite };
    ((rounded | sign) & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    type Widen = fn(u8) -> f32;
    type Narrow = fn(f32) -> u8;
    const FORMATS: [(Widen, Narrow, u8); 2] =
        [(e4m3_to_f32, f32_to_e4m3, 0x7e), (e5m2_to_f32, f32_to_e5m2, 0x7b)];

    #[test]
    fn known_values() {
        let e4m3 = [(0x00, 0.0), (0x01, 2_f32.powi(-9)), (0x08, 2_f32.powi(-6)), (0x38, 1.0), (0x7e, 448.0)];
        let e5m2 =
            [(0x00, 0.0), (0x01, 2_f32.powi(-16)), (0x04, 2_f32.powi(-14)), (0x3c, 1.0), (0x7b, 57344.0)];
        for (bits, value) in e4m3 {
            assert_eq!((e4m3_to_f32(bits), e4m3_to_f32(bits | 0x80)), (value, -value));
        }
        for (bits, value) in e5m2 {
            assert_eq!((e5m2_to_f32(bits), e5m2_to_f32(bits | 0x80)), (value, -value));
        }
        assert!(e4m3_to_f32(0x7f).is_nan() && e4m3_to_f32(0xff).is_nan());
        assert!(e5m2_to_f32(0x7c).is_infinite() && e5m2_to_f32(0x7d).is_nan());
    }

    #[test]
    fn beyond_the_largest_is_the_largest_and_a_nan_stays() {
        for (widen, narrow, max) in FORMATS {
            let largest = widen(max);
            for value in [largest, largest * 1.1, largest * 4.0, f32::MAX, f32::INFINITY] {
                assert_eq!((narrow(value), narrow(-value)), (max, max | 0x80), "{value}");
            }
            assert!(widen(narrow(f32::NAN)).is_nan());
        }
    }

    #[test]
    fn every_finite_value_and_every_midpoint_rounds_to_nearest_even() {
        for (widen, narrow, max) in FORMATS {
            for bits in 0..max {
                let (low, high) = (widen(bits), widen(bits + 1));
                assert_eq!((narrow(low), narrow(-low)), (bits, bits | 0x80));
                let middle = f32::midpoint(low, high);
                let even = bits + (bits & 1);
                let around = [(middle.next_down(), bits), (middle, even), (middle.next_up(), bits + 1)];
                for (value, want) in around {
                    assert_eq!((narrow(value), narrow(-value)), (want, want | 0x80), "{value}");
                }
            }
            assert_eq!(narrow(widen(max)), max);
        }
    }
}
