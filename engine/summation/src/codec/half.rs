//! Halves: every element as a 16-bit float, rounded to nearest, ties to even.
//!
//! `f16` has the finer steps and the shorter range: beyond 65 504 (65 520 with rounding) an element becomes infinite,
//! and below 2^-25 zero, so its users scale the loss. `bf16` has the range of `f32`.

use super::form::{Header, check_bytes};
use super::{Codec, CodecError, HEADER_BYTES, Kind};
use rsccl_collective::kernels::halves::{self, HALF_BYTES};

/// Elements that are summed at once: those of a few gradients fit into a first-level cache.
const PIECE: usize = 2048;

/// The codec of a 16-bit type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half(halves::Half);

impl Half {
    /// IEEE 754 binary16.
    pub const F16: Self = Self(halves::Half::F16);
    /// The upper half of an `f32`.
    pub const BF16: Self = Self(halves::Half::Bf16);

    fn halves<'a>(&self, encoded: &'a [u8], elements: usize) -> Result<&'a [u8], CodecError> {
        let halves = Header { kind: self.kind(), elements }.strip(encoded)?;
        check_bytes(self.encoded_bytes(elements), encoded.len())?;
        Ok(halves)
    }

    /// Appends the sum of encoded gradients in `f32`, from left to right, divided where that is wanted and rounded once. Piece
    /// by piece, so that the sums stay in a cache.
    ///
    /// # Errors
    /// The index of one that is none, and what is wrong with it.
    pub(crate) fn reduce(
        &self,
        gradients: &[Vec<u8>],
        divisor: Option<f32>,
        elements: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), (usize, CodecError)> {
        for (index, gradient) in gradients.iter().enumerate() {
            self.halves(gradient, elements).map_err(|error| (index, error))?;
        }
        let header = Header { kind: self.kind(), elements };
        header.write(self.encoded_bytes(elements), into).map_err(|error| (0, error))?;
        let start = into.len();
        into.resize(start + HALF_BYTES * elements, 0);
        let mut sums = [0.0; PIECE];
        for (piece, into) in
            into.get_mut(start..).unwrap_or_default().chunks_mut(HALF_BYTES * PIECE).enumerate()
        {
            let sums = &mut sums[..into.len() / HALF_BYTES];
            for (index, gradient) in gradients.iter().enumerate() {
                let first = HEADER_BYTES + piece * HALF_BYTES * PIECE;
                let halves = gradient.get(first..first + into.len()).unwrap_or_default();
                if index == 0 { self.0.widen(halves, sums) } else { self.0.add(halves, sums) }
            }
            if let Some(divisor) = divisor {
                sums.iter_mut().for_each(|sum| *sum /= divisor);
            }
            self.0.narrow(sums, into);
        }
        Ok(())
    }
}

impl Codec for Half {
    fn kind(&self) -> Kind {
        match self.0 {
            halves::Half::F16 => Kind::F16,
            halves::Half::Bf16 => Kind::Bf16,
        }
    }

    fn encoded_bytes(&self, elements: usize) -> usize {
        HEADER_BYTES + HALF_BYTES * elements
    }

    fn encode(&self, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), CodecError> {
        let header = Header { kind: self.kind(), elements: gradient.len() };
        header.write(self.encoded_bytes(gradient.len()), into)?;
        let start = into.len();
        into.resize(start + HALF_BYTES * gradient.len(), 0);
        if let Some(halves) = into.get_mut(start..) {
            self.0.narrow(gradient, halves);
        }
        Ok(())
    }

    fn encode_fed(
        &self,
        gradient: &[f32],
        residual: &mut Vec<f32>,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        super::encode_fed_plainly(self, gradient, residual, into)
    }

    fn decode(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        self.0.widen(self.halves(encoded, into.len())?, into);
        Ok(())
    }

    fn add(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        self.0.add(self.halves(encoded, into.len())?, into);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::tests::round_trip;

    const F16_MAX: f32 = 65_504.0;

    #[test]
    fn what_the_type_has_comes_back_exactly() {
        let values = [0.0, -0.0, 1.0, -1.5, 2.0_f32.powi(-14), 2.0_f32.powi(-24), F16_MAX, -F16_MAX];
        let got = round_trip(&Half::F16, &values);
        assert_eq!(got.map(f32::to_bits), values.map(f32::to_bits));
        let values = [0.0, -0.0, 1.0, -1.5, 2.0_f32.powi(127), -2.0_f32.powi(-126), 3.0e38];
        let exact = values.map(|value| f32::from_bits(value.to_bits() & 0xffff_0000));
        assert_eq!(round_trip(&Half::BF16, &exact).map(f32::to_bits), exact.map(f32::to_bits));
    }

    #[test]
    fn what_is_not_finite_stays_so_and_too_large_values_become_infinite() {
        let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN];
        for half in [Half::F16, Half::BF16] {
            let got = round_trip(&half, &values);
            assert!(got[0].is_nan() && got[3].is_nan());
            assert_eq!(got[1..3], values[1..3]);
        }
        assert_eq!(round_trip(&Half::F16, &[70_000.0, -65_520.0]), [f32::INFINITY, f32::NEG_INFINITY]);
        assert_eq!(round_trip(&Half::F16, &[2.0_f32.powi(-26)]), [0.0]);
    }

    proptest! {
        #[test]
        fn rounding_is_within_half_a_step(
            x in prop::num::f32::NORMAL,
            in_f16 in -F16_MAX..F16_MAX,
        ) {
            let [f16] = round_trip(&Half::F16, &[in_f16]);
            prop_assert!((f16 - in_f16).abs() <= (in_f16.abs() * 2.0_f32.powi(-11)).max(2.0_f32.powi(-25)));
            let [bf16] = round_trip(&Half::BF16, &[x]);
            let near = (bf16 - x).abs() <= x.abs() * 2.0_f32.powi(-8);
            prop_assert!(near || bf16.is_infinite() && x.abs() > f32::from_bits(0x7f7f_7fff));
        }
    }
}
