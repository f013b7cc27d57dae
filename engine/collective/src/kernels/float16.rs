//! 16-bit floats to and from `f32`, without branches, so that loops over them vectorise.
//!
//! Both narrowings round to nearest, ties to even. Source of the f16 forms: F. Giesen, "half to float done quic" (2012).

/// `f16` bits to `f32`.
#[inline]
pub fn f16_to_f32(half: u16) -> f32 {
    let half = u32::from(half);
    let magnitude = (half & 0x7fff) << 13;
    // 2^112 moves the exponent from bias 15 to bias 127, and makes subnormals normal.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled.to_bits() | special | ((half & 0x8000) << 16))
}

/// `f32` to `f16` bits.
#[inline]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let not_finite = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    // Below 2^-14 the result is subnormal: adding 0.5 aligns the mantissa, and the addition rounds it.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let half = if magnitude >= 0x4780_0000 { not_finite } else { finite };
    low_half(half | sign)
}

/// `bf16` bits to `f32`.
#[inline]
pub fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// `f32` to `bf16` bits.
#[inline]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet_nan = (bits >> 16) | 0x40;
    low_half(if bits & 0x7fff_ffff > 0x7f80_0000 { quiet_nan } else { rounded })
}

#[inline]
fn low_half(bits: u32) -> u16 {
    (bits & 0xffff) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    type Widen = fn(u16) -> f32;
    type Narrow = fn(f32) -> u16;

    #[test]
    fn every_f16_survives_the_way_through_f32() {
        for half in 0..=u16::MAX {
            let value = f16_to_f32(half);
            if value.is_nan() {
                assert!(f16_to_f32(f32_to_f16(value)).is_nan());
            } else {
                assert_eq!(f32_to_f16(value), half, "{value}");
            }
        }
    }

    #[test]
    fn f16_known_values() {
        let table = [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (6.0e-8, 0x0001),
            (0.1, 0x2e66),
        ];
        for (value, half) in table {
            assert_eq!(f32_to_f16(value), half, "{value}");
        }
    }

    #[test]
    fn f16_ties_go_to_even() {
        assert_eq!(f32_to_f16(1.0 + 1.0 / 2048.0), 0x3c00);
        assert_eq!(f32_to_f16(1.0 + 3.0 / 2048.0), 0x3c02);
    }

    #[test]
    fn every_midpoint_rounds_to_even_and_its_neighbours_to_nearest() {
        let formats: [(Widen, Narrow, u16); 2] =
            [(f16_to_f32, f32_to_f16, 0x7bff), (bf16_to_f32, f32_to_bf16, 0x7f7f)];
        for (widen, narrow, max) in formats {
            for bits in 0..max {
                let middle = f32::midpoint(widen(bits), widen(bits + 1));
                let around =
                    [(middle.next_down(), bits), (middle, bits + (bits & 1)), (middle.next_up(), bits + 1)];
                for (value, want) in around {
                    assert_eq!((narrow(value), narrow(-value)), (want, want | 0x8000), "{value}");
                }
            }
        }
    }

    #[test]
    fn every_bf16_survives_the_way_through_f32() {
        for half in 0..=u16::MAX {
            let value = bf16_to_f32(half);
            if value.is_nan() {
                assert!(bf16_to_f32(f32_to_bf16(value)).is_nan());
            } else {
                assert_eq!(f32_to_bf16(value), half);
            }
        }
    }
}
