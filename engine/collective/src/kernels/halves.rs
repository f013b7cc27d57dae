//! Slices of `f32` to and from 16-bit floats in bytes, with the kernels of this processor.
//!
//! Rounding is to nearest, ties to even; a NaN stays a NaN and an infinity an infinity; what is too large for the type
//! becomes an infinity. Bytes are in the machine's order and of any alignment.

#![expect(unsafe_code, reason = "kernels work on raw memory")]

use crate::kernels::{Form, Reducer, Shape};
use crate::types::{DataType, RedOp};

/// A 16-bit float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    Bf16,
}

/// Bytes of one 16-bit float.
pub const HALF_BYTES: usize = 2;

impl Half {
    /// `into = from`, rounded; as many elements as both have.
    pub fn narrow(self, from: &[f32], into: &mut [u8]) {
        let count = from.len().min(into.len() / HALF_BYTES);
        let (source, into) = (from.as_ptr().cast(), into.as_mut_ptr());
        let shape = Shape { with: Form::Partial, data: Form::Element, into: Form::Element, finish: false };
        // SAFETY: `count` elements are within both slices, which do not overlap, one being exclusive.
        unsafe { self.reduce().kernel(shape).run(into, &[source], count) }
    }

    /// `into = from`, exactly; as many elements as both have.
    pub fn widen(self, from: &[u8], into: &mut [f32]) {
        let count = into.len().min(from.len() / HALF_BYTES);
        let (source, into) = (from.as_ptr(), into.as_mut_ptr().cast());
        let shape = Shape { with: Form::Element, data: Form::Element, into: Form::Partial, finish: false };
        // SAFETY: `count` elements are within both slices, which do not overlap, one being exclusive.
        unsafe { self.reduce().kernel(shape).run(into, &[source], count) }
    }

    /// `into = into + from` in `f32`; as many elements as both have.
    pub fn add(self, from: &[u8], into: &mut [f32]) {
        let count = into.len().min(from.len() / HALF_BYTES);
        let (source, into) = (from.as_ptr(), into.as_mut_ptr().cast::<u8>());
        let shape = Shape { with: Form::Partial, data: Form::Element, into: Form::Partial, finish: false };
        // SAFETY: `count` elements are within both slices; the target is exactly the first source, of the same form.
        unsafe { self.reduce().kernel(shape).run(into, &[into.cast_const(), source], count) }
    }

    fn reduce(self) -> Reducer {
        let data_type = match self {
            Self::F16 => DataType::F16,
            Self::Bf16 => DataType::Bf16,
        };
        Reducer::new(data_type, RedOp::Sum, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::float16::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

    #[test]
    fn slices_become_what_their_elements_become() {
        let values: Vec<f32> = (0..100_i16).map(|i| (f32::from(i) - 50.0) * 1.000_1).collect();
        type Scalar = (Half, fn(f32) -> u16, fn(u16) -> f32);
        let forms: [Scalar; 2] =
            [(Half::F16, f32_to_f16, f16_to_f32), (Half::Bf16, f32_to_bf16, bf16_to_f32)];
        for (half, narrow, widen) in forms {
            let want: Vec<u16> = values.iter().map(|value| narrow(*value)).collect();
            let mut bytes = vec![0; 2 * values.len() + 1];
            half.narrow(&values, &mut bytes[1..]);
            let got: Vec<u16> =
                bytes[1..].chunks(2).map(|two| u16::from_ne_bytes([two[0], two[1]])).collect();
            assert_eq!(got, want);
            let mut wide = vec![0.0; values.len()];
            half.widen(&bytes[1..], &mut wide);
            assert!(wide.iter().zip(&want).all(|(wide, want)| *wide == widen(*want)));
            let mut sum = values.clone();
            half.add(&bytes[1..], &mut sum);
            assert!(sum.iter().zip(values.iter().zip(&wide)).all(|(sum, (a, b))| *sum == a + b));
        }
    }

    #[test]
    fn the_shorter_side_says_how_many() {
        let mut bytes = [0xaa; 5];
        Half::F16.narrow(&[1.0; 9], &mut bytes);
        assert_eq!(bytes[4], 0xaa);
        let mut wide = [7.0; 3];
        Half::F16.widen(&bytes, &mut wide);
        assert_eq!(wide, [1.0, 1.0, 7.0]);
        Half::F16.add(&bytes[..2], &mut wide);
        assert_eq!(wide, [2.0, 1.0, 7.0]);
    }
}
