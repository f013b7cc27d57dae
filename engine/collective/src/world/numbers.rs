//! Elements of every type as numbers, exact in both directions where the type has the number.

use crate::kernels::float8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use crate::kernels::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::types::DataType;

/// The bits that decide about rounding: of the accumulator, and of the type where it is narrower.
#[derive(Clone, Copy, Debug)]
pub(super) struct Precision {
    /// Half the distance of 1 to the next accumulator.
    pub(super) unit: f64,
    /// Mantissa bits and smallest exponent of the type, if its results are rounded a last time.
    pub(super) narrow: Option<(i32, i32)>,
}

/// Of a type of floats.
pub(super) fn precision(data_type: DataType) -> Precision {
    let narrow = match data_type {
        DataType::F16 => Some((10, -14)),
        DataType::Bf16 => Some((7, -126)),
        DataType::F8e4m3 => Some((3, -6)),
        DataType::F8e5m2 => Some((2, -14)),
        _ => None,
    };
    let bits = if data_type == DataType::F64 { 53 } else { 24 };
    Precision { unit: (-f64::from(bits)).exp2(), narrow }
}

/// The largest finite number of a type of 16 or 8 bits whose sums leave its range; 3 for one with the range of its sums.
pub(super) fn largest(data_type: DataType) -> f64 {
    match data_type {
        DataType::F16 => 65_504.0,
        DataType::F8e4m3 => 448.0,
        DataType::F8e5m2 => 57_344.0,
        _ => 3.0,
    }
}

/// One element.
pub(super) fn float(data_type: DataType, bytes: &[u8]) -> f64 {
    let two = || u16::from_ne_bytes(bytes.try_into().unwrap());
    match data_type {
        DataType::F16 => f64::from(f16_to_f32(two())),
        DataType::Bf16 => f64::from(bf16_to_f32(two())),
        DataType::F8e4m3 => f64::from(e4m3_to_f32(bytes[0])),
        DataType::F8e5m2 => f64::from(e5m2_to_f32(bytes[0])),
        DataType::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        _ => f64::from_ne_bytes(bytes.try_into().unwrap()),
    }
}

/// One element; rounded to an accumulator first, then to the type.
pub(super) fn float_bytes(data_type: DataType, value: f64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
    let narrow = value as f32;
    match data_type {
        DataType::F16 => f32_to_f16(narrow).to_ne_bytes().to_vec(),
        DataType::Bf16 => f32_to_bf16(narrow).to_ne_bytes().to_vec(),
        DataType::F8e4m3 => vec![f32_to_e4m3(narrow)],
        DataType::F8e5m2 => vec![f32_to_e5m2(narrow)],
        DataType::F32 => narrow.to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    }
}

/// The nearest accumulator. A sum, product or quotient of two `f32` that was rounded to `f64` first has the same one:
/// 53 bits are at least twice 24 and two more (Figueroa, "When is double rounding innocuous?", 1995).
pub(super) fn accumulator(data_type: DataType, value: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
    let narrow = f64::from(value as f32);
    if data_type == DataType::F64 { value } else { narrow }
}

fn is_signed(data_type: DataType) -> bool {
    matches!(data_type, DataType::I8 | DataType::I32 | DataType::I64)
}

/// One element.
pub(super) fn integer(data_type: DataType, bytes: &[u8]) -> i128 {
    let negative = is_signed(data_type) && bytes.last().is_some_and(|byte| *byte >= 0x80);
    let mut wide = if negative { [0xff; 16] } else { [0; 16] };
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

/// One element: what is left of a number in its lower bytes.
pub(super) fn integer_bytes(data_type: DataType, value: i128) -> Vec<u8> {
    value.to_le_bytes()[..data_type.size_bytes()].to_vec()
}

/// A number that looks random and is the same for the same input (Steele, Lea and Flood, "splitmix", 2014).
pub(super) fn mix(input: u64) -> u64 {
    let mut mixed = input.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// From 0 to 1.
pub(super) fn uniform(input: u64) -> f64 {
    (mix(input) >> 11) as f64 * (-53_f64).exp2()
}

/// Normally distributed around 0 with deviation 1 (Box and Muller, 1958).
pub(super) fn normal(input: u64) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(input)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(!input)).cos()
}
