//! One bit: the sign of each element, and one scale, the mean magnitude.
//!
//! Decoded, x is ±Σ|x|/n. Of all scales this one is nearest to x in the sum of squares. Sources: Seide, Fu, Droppo, Li
//! and Yu, "1-bit stochastic gradient descent", 2014 (signs and an error that is fed back); Karimireddy, Rebjock, Stich
//! and Jaggi, "Error feedback fixes SignSGD", 2019, EF-signSGD (this scale, and why it converges only with feedback).
//!
//! After the header: the scale as `f32`, then eight signs in each byte, the first in the lowest bit, set for negative
//! ones; the bits beyond the last element are clear. A zero has a sign too, and decodes to the scale with it. A NaN
//! anywhere makes the scale NaN, an infinity infinite.

use super::form::{Header, check_bytes};
use super::{Codec, CodecError, HEADER_BYTES, Kind};
use rsccl_collective::kernels::gradients;

/// Bytes of the scale.
const SCALE_BYTES: usize = 4;
/// The codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneBit;

impl OneBit {
    /// Scale and signs, checked.
    fn parts(encoded: &[u8], elements: usize) -> Result<(u32, &[u8]), CodecError> {
        let payload = Header { kind: Kind::OneBit, elements }.strip(encoded)?;
        let expected = OneBit.encoded_bytes(elements);
        check_bytes(expected, encoded.len())?;
        let Some((scale, signs)) = payload.split_first_chunk::<SCALE_BYTES>() else {
            return Err(CodecError::Truncated { expected, found: encoded.len() });
        };
        let scale_bits = u32::from_le_bytes(*scale);
        if f32::from_bits(scale_bits).is_sign_negative() {
            return Err(CodecError::NegativeScale { scale_bits });
        }
        let used = elements % 8;
        match signs.last() {
            Some(&last) if used > 0 && last >> used > 0 => Err(CodecError::SignsBeyond { last }),
            _ => Ok((scale_bits, signs)),
        }
    }
}

impl OneBit {
    /// Appends all but the signs; where those go.
    fn begin(elements: usize, scale: f32, into: &mut Vec<u8>) -> Result<&mut [u8], CodecError> {
        let header = Header { kind: Kind::OneBit, elements };
        header.write(OneBit.encoded_bytes(elements), into)?;
        into.extend_from_slice(&scale.to_le_bytes());
        let start = into.len();
        into.resize(start + elements.div_ceil(8), 0);
        Ok(into.get_mut(start..).unwrap_or_default())
    }
}

impl Codec for OneBit {
    fn kind(&self) -> Kind {
        Kind::OneBit
    }

    fn encoded_bytes(&self, elements: usize) -> usize {
        HEADER_BYTES + SCALE_BYTES + elements.div_ceil(8)
    }

    fn encode(&self, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), CodecError> {
        let scale = mean(gradients::magnitudes(gradient), gradient.len());
        gradients::signs(gradient, Self::begin(gradient.len(), scale, into)?);
        Ok(())
    }

    fn encode_fed(
        &self,
        gradient: &[f32],
        residual: &mut Vec<f32>,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let scale = mean(gradients::magnitudes_of_sums(gradient, residual), gradient.len());
        let signs = Self::begin(gradient.len(), scale, into)?;
        if scale.is_finite() {
            // What is left out of x has its sign or less than its magnitude, so it is finite too.
            gradients::signs_of_sums(gradient, residual, scale, signs);
        } else {
            let mut unused = residual.clone();
            gradients::signs_of_sums(gradient, &mut unused, scale, signs);
        }
        Ok(())
    }

    fn decode(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        let (scale_bits, signs) = Self::parts(encoded, into.len())?;
        gradients::scale_signs(signs, f32::from_bits(scale_bits), into);
        Ok(())
    }

    fn add(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        let (scale_bits, signs) = Self::parts(encoded, into.len())?;
        gradients::add_signs(signs, f32::from_bits(scale_bits), into);
        Ok(())
    }
}

/// Rounded once; 0 of nothing, and the positive NaN if there is a NaN.
fn mean(sum: f64, elements: usize) -> f32 {
    let mean = sum / elements.max(1) as f64;
    if mean.is_nan() {
        return f32::NAN;
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose, and a mean is in range")]
    let rounded = mean as f32;
    rounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::{encoded, round_trip};

    #[test]
    fn decoded_elements_are_the_mean_magnitude_with_their_signs() {
        assert_eq!(round_trip(&OneBit, &[3.0, -1.0, 0.0, -0.0, 6.0]), [2.0, -2.0, 2.0, -2.0, 2.0]);
        let (a, b) = (0.1_f32, -0.1_f32);
        let same = [a, b, b, a, a, a, b, a, b, b, b, a, a, b, a, a, a];
        assert_eq!(round_trip(&OneBit, &same), same);
        assert_eq!(round_trip(&OneBit, &[f32::MAX, -f32::MAX]), [f32::MAX, -f32::MAX]);
    }

    #[test]
    fn a_nan_or_an_infinity_spreads_over_the_part() {
        assert!(round_trip(&OneBit, &[1.0, f32::NAN, 1.0]).iter().all(|value| value.is_nan()));
        assert!(round_trip(&OneBit, &[f32::INFINITY, -f32::NAN]).iter().all(|value| value.is_nan()));
        assert_eq!(round_trip(&OneBit, &[1.0, f32::NEG_INFINITY]), [f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn a_part_that_no_encoder_made_is_refused() {
        let good = encoded(&OneBit, &[1.0, -1.0, 1.0]);
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            OneBit.decode(&bad, &mut [0.0; 3]).unwrap_err()
        };
        assert_eq!(with(12, 0b1010), CodecError::SignsBeyond { last: 0b1010 });
        assert_eq!(with(11, 0xbf), CodecError::NegativeScale { scale_bits: 0xbf80_0000 });
    }
}
