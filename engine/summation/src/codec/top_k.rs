//! Top-k: the k elements of the largest magnitude, as indices and values.
//!
//! Of equal magnitudes the lower index goes first, so the same gradient gives the same bytes. NaNs are larger than
//! infinities, and those larger than numbers. Source: Aji and Heafield, "Sparse communication for distributed gradient
//! descent", 2017; Stich, Cordonnier and Jaggi, "Sparsified SGD with memory", 2018 (convergence with feedback).
//!
//! After the header: k, then k indices in ascending order, 4 bytes each, then k values as `f32`. Above a fraction of 1/2
//! that is more than the gradient itself.
//!
//! A sample of the magnitudes says which elements may be among the k, a few more than k; one pass finds those. Among them
//! the k-th magnitude is found digit by digit: one pass counts each value of the leading bits, and two more refine the one
//! where the k-th falls. Where the sample was wrong, or k is not small, all elements are looked at so: the outcome is the same.

use std::cell::RefCell;

use super::form::{Header, check_bytes, check_indices};
use super::{Codec, CodecError, Fraction, HEADER_BYTES, Kind};
use rsccl_collective::kernels::gradients::{self, magnitude};

/// Bytes of k.
const COUNT_BYTES: usize = 4;
/// Bytes of an index, and of a value.
const WORD_BYTES: usize = 4;
/// Of each digit of a magnitude: how far above the lowest bit it is, and its bits. Together 31.
const DIGITS: [(u32, u32); 3] = [(20, 11), (10, 10), (0, 10)];
/// Values of the longest digit.
const BUCKETS: usize = 1 << 11;

/// Magnitudes in a sample: some forty are above the bar of one in a hundred elements, which places it well enough.
const SAMPLES: usize = 4096;
/// Bits of an infinite magnitude: those of numbers are lower.
const INFINITE: u32 = 0x7f80_0000;

thread_local! {
    /// Sums of a gradient and its residual, kept for its memory: of one part at most.
    static SUMS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// The codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopK {
    fraction: Fraction,
}

/// Which elements are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bar {
    /// All of a larger magnitude, in bits without the sign.
    magnitude: u32,
    /// And so many of this one.
    equal: usize,
}

impl TopK {
    /// Keeps a fraction of the elements.
    #[must_use]
    pub fn new(fraction: Fraction) -> Self {
        Self { fraction }
    }

    /// Bytes of so many values.
    pub(crate) fn bytes_of(values: usize) -> usize {
        HEADER_BYTES + COUNT_BYTES + 2 * WORD_BYTES * values
    }

    /// Appends the sum of encoded gradients, from left to right, divided where that is wanted, as the union of what they have;
    /// filled up to `n_values`, which is not less, with zeros at the first elements that none has.
    ///
    /// # Errors
    /// The index of one that is none, and what is wrong with it.
    pub(crate) fn unite(
        gradients: &[Vec<u8>],
        divisor: Option<f32>,
        elements: usize,
        n_values: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), (usize, CodecError)> {
        let mut union = Vec::new();
        for (index, gradient) in gradients.iter().enumerate() {
            let parts = Self::parts(gradient, elements).map_err(|error| (index, error))?;
            union = if index == 0 { parts.collect() } else { merged(&union, parts) };
            if union.len() > n_values {
                return Err((index, CodecError::TooManyValues { values: union.len(), elements: n_values }));
            }
        }
        if let Some(divisor) = divisor {
            union.iter_mut().for_each(|(_, sum)| *sum /= divisor);
        }
        let header = Header { kind: Kind::TopK, elements };
        header.write(Self::bytes_of(n_values), into).map_err(|error| (0, error))?;
        let filled = filled(&union, n_values);
        write(filled.into_iter(), n_values, into);
        Ok(())
    }

    /// Indices and values, checked; however many there are.
    fn parts(encoded: &[u8], elements: usize) -> Result<impl Iterator<Item = (usize, f32)>, CodecError> {
        let payload = Header { kind: Kind::TopK, elements }.strip(encoded)?;
        let Some((count, words)) = payload.split_first_chunk::<COUNT_BYTES>() else {
            return Err(CodecError::Truncated { expected: Self::bytes_of(0), found: encoded.len() });
        };
        let values = u32::from_le_bytes(*count) as usize;
        if values > elements {
            return Err(CodecError::TooManyValues { values, elements });
        }
        check_bytes(Self::bytes_of(values), encoded.len())?;
        let (indices, values) = words.as_chunks::<WORD_BYTES>().0.split_at(values);
        let indices = indices.iter().map(|word| u32::from_le_bytes(*word) as usize);
        check_indices(indices.clone(), elements)?;
        Ok(indices.zip(values.iter().map(|word| f32::from_le_bytes(*word))))
    }
}

impl Codec for TopK {
    fn kind(&self) -> Kind {
        Kind::TopK
    }

    fn encoded_bytes(&self, elements: usize) -> usize {
        Self::bytes_of(self.fraction.of(elements))
    }

    fn encode(&self, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), CodecError> {
        let header = Header { kind: Kind::TopK, elements: gradient.len() };
        let n_values = self.fraction.of(gradient.len());
        header.write(Self::bytes_of(n_values), into)?;
        let kept = largest(gradient, n_values);
        write(
            kept.iter().map(|index| (*index, gradient.get(*index).copied().unwrap_or(0.0))),
            n_values,
            into,
        );
        Ok(())
    }

    fn encode_fed(
        &self,
        gradient: &[f32],
        residual: &mut Vec<f32>,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let header = Header { kind: Kind::TopK, elements: gradient.len() };
        let n_values = self.fraction.of(gradient.len());
        header.write(Self::bytes_of(n_values), into)?;
        SUMS.with_borrow_mut(|sums| {
            sums.resize(gradient.len(), 0.0);
            let most = gradients::add_up(gradient, residual, sums);
            let kept = largest(sums, n_values);
            write(
                kept.iter().map(|index| (*index, sums.get(*index).copied().unwrap_or(0.0))),
                n_values,
                into,
            );
            if most < INFINITE {
                // What is sent is left out no more; all else is.
                for index in kept {
                    sums.get_mut(index).into_iter().for_each(|sum| *sum = 0.0);
                }
                std::mem::swap(sums, residual);
            }
        });
        Ok(())
    }

    fn decode(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        let parts = Self::parts(encoded, into.len())?;
        into.fill(0.0);
        for (index, value) in parts {
            if let Some(element) = into.get_mut(index) {
                *element = value;
            }
        }
        Ok(())
    }

    fn add(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        for (index, value) in Self::parts(encoded, into.len())? {
            if let Some(element) = into.get_mut(index) {
                *element += value;
            }
        }
        Ok(())
    }
}

impl Bar {
    /// Whether the next element is kept, asked in the order of indices.
    fn keeps(&mut self, value: f32) -> bool {
        let magnitude = magnitude(value);
        let equal = magnitude == self.magnitude && self.equal > 0;
        self.equal -= usize::from(equal);
        equal || magnitude > self.magnitude
    }
}

/// The places of so many elements of the largest magnitudes, ascending.
fn largest(gradient: &[f32], n_values: usize) -> Vec<usize> {
    let mut found = Vec::new();
    if let Some(least) = sampled_bar(gradient, n_values) {
        gradients::find_large(gradient, least, &mut found);
    }
    let place = |index: &usize| gradient.get(*index).copied().unwrap_or(0.0);
    if found.len() >= n_values {
        let mut bar = bar(found.iter().map(place), n_values);
        found.retain(|index| bar.keeps(place(index)));
        return found;
    }
    let mut bar = bar(gradient.iter().copied(), n_values);
    (0..gradient.len()).filter(|index| bar.keeps(place(index))).collect()
}

/// A magnitude that more than so many elements have, in all likelihood, and not many more; none where a sample says nothing.
fn sampled_bar(gradient: &[f32], n_values: usize) -> Option<u32> {
    // Odd, so that it goes through rows of even lengths.
    let step = (gradient.len() / SAMPLES) | 1;
    let mut sample: Vec<u32> = gradient.iter().step_by(step).map(|value| magnitude(*value)).collect();
    let expected = n_values.saturating_mul(sample.len()) / gradient.len().max(1);
    // Four times the spread of the count in a sample.
    let rank = expected + 4 * expected.isqrt() + 8;
    let is_small = gradient.len() > 2 * SAMPLES && rank < sample.len() / 4;
    is_small.then(|| *sample.select_nth_unstable_by(rank, |a, b| b.cmp(a)).1)
}

/// With other values added; both ascend. What is not in the sum is 0 there.
fn merged(sum: &[(usize, f32)], others: impl Iterator<Item = (usize, f32)>) -> Vec<(usize, f32)> {
    let mut merged = Vec::with_capacity(2 * sum.len());
    let mut rest = sum;
    for (index, value) in others {
        let (before, behind) = rest.split_at(rest.partition_point(|(place, _)| *place < index));
        merged.extend_from_slice(before);
        rest = behind;
        match rest.split_first() {
            Some(((place, own), behind)) if *place == index => {
                merged.push((index, own + value));
                rest = behind;
            }
            _ => merged.push((index, 0.0 + value)),
        }
    }
    merged.extend_from_slice(rest);
    merged
}

/// So many values, those that lack being zeros at the first elements that have none.
fn filled(union: &[(usize, f32)], n_values: usize) -> Vec<(usize, f32)> {
    let (mut filled, mut index) = (Vec::with_capacity(n_values), 0);
    let mut lacking = n_values.saturating_sub(union.len());
    for (place, value) in union {
        let zeros = lacking.min(place - index);
        filled.extend((index..index + zeros).map(|index| (index, 0.0)));
        filled.push((*place, *value));
        (lacking, index) = (lacking - zeros, place + 1);
    }
    filled.extend((index..index + lacking).map(|index| (index, 0.0)));
    filled
}

/// Appends k, the indices and the values.
fn write(kept: impl Iterator<Item = (usize, f32)>, n_values: usize, into: &mut Vec<u8>) {
    into.extend_from_slice(&narrow(n_values).to_le_bytes());
    let words = into.len();
    into.resize(words + 2 * WORD_BYTES * n_values, 0);
    let (words, _) = into.get_mut(words..).unwrap_or_default().as_chunks_mut::<WORD_BYTES>();
    let (indices, values) = words.split_at_mut(n_values);
    for ((place, value_place), (index, value)) in indices.iter_mut().zip(values).zip(kept) {
        *place = narrow(index).to_le_bytes();
        *value_place = value.to_le_bytes();
    }
}

/// The bar that so many elements pass, of which there are as many.
fn bar(gradient: impl Iterator<Item = f32> + Clone, n_values: usize) -> Bar {
    let (mut prefix, mut wanted) = (0, n_values);
    for (shift, bits) in DIGITS {
        let mut counts = [0_usize; BUCKETS];
        let mask = (1_u32 << bits) - 1;
        for magnitude in gradient.clone().map(magnitude) {
            // The prefix is all of the digits before this one.
            if magnitude >> (shift + bits) == prefix {
                counts[((magnitude >> shift) & mask) as usize] += 1;
            }
        }
        let mut digit = mask;
        while digit > 0 && counts[digit as usize] < wanted {
            wanted -= counts[digit as usize];
            digit -= 1;
        }
        prefix = (prefix << bits) | digit;
    }
    Bar { magnitude: prefix, equal: wanted }
}

/// An index or count below that of the elements, which the header holds in as many bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the header is written first, and refuses longer gradients"
)]
fn narrow(index: usize) -> u32 {
    index as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::tests::{any_f32, encoded, round_trip};

    fn top(fraction: f64) -> TopK {
        TopK::new(Fraction::new(fraction).unwrap())
    }

    #[test]
    fn the_largest_magnitudes_stay_and_the_lower_index_wins_a_tie() {
        assert_eq!(round_trip(&top(0.5), &[1.0, -4.0, 2.0, 3.0]), [0.0, -4.0, 0.0, 3.0]);
        assert_eq!(round_trip(&top(0.5), &[2.0, -2.0, 2.0, -2.0]), [2.0, -2.0, 0.0, 0.0]);
        assert_eq!(round_trip(&top(0.5), &[2.0, -2.0, 2.0, -3.0]), [2.0, 0.0, 0.0, -3.0]);
        assert_eq!(round_trip(&top(0.01), &[0.0, 0.0, 1.0e-44]), [0.0, 0.0, 1.0e-44]);
    }

    #[test]
    fn nans_and_infinities_go_first() {
        let got = round_trip(&top(0.5), &[f32::MAX, f32::INFINITY, -f32::NAN, 1.0]);
        assert!(got[2].is_nan() && got[1].is_infinite() && got[0] == 0.0);
        assert!(round_trip(&top(0.01), &[f32::INFINITY, 1.0, f32::NAN])[2].is_nan());
    }

    #[test]
    fn a_part_that_no_encoder_made_is_refused() {
        let good = encoded(&top(0.5), &[1.0, 0.0, 2.0, 0.0]);
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            top(0.5).decode(&bad, &mut [0.0; 4]).unwrap_err()
        };
        assert_eq!(with(8, 5), CodecError::TooManyValues { values: 5, elements: 4 });
        assert_eq!(with(8, 3), CodecError::Truncated { expected: 36, found: 28 });
        assert_eq!(with(8, 1), CodecError::Trailing { expected: 20, found: 28 });
        assert_eq!(with(16, 4), CodecError::IndexOutOfRange { position: 1, index: 4, elements: 4 });
        assert_eq!(with(16, 0), CodecError::IndexOrder { position: 1, index: 0, before: 0 });
        assert_eq!(with(12, 3), CodecError::IndexOrder { position: 1, index: 2, before: 3 });
    }

    #[test]
    fn a_union_has_what_any_gradient_has_and_zeros() {
        let three =
            [[0.0, 5.0, 0.0, 0.0, -1.0, 0.0], [0.0, 2.0, 0.0, 0.0, 0.0, 9.0], [1.0, 0.0, 0.0, 8.0, 0.0, 0.0]];
        let gradients = three.map(|gradient| encoded(&top(0.34), &gradient)).to_vec();
        let united = |divisor, n_values| {
            let (mut bytes, mut decoded) = (Vec::new(), [f32::NAN; 6]);
            TopK::unite(&gradients, divisor, 6, n_values, &mut bytes).map(|()| {
                assert_eq!(bytes.len(), TopK::bytes_of(n_values));
                top(1.0).decode(&bytes, &mut decoded).unwrap();
                decoded
            })
        };
        assert_eq!(united(None, 5), Ok([1.0, 7.0, 0.0, 8.0, -1.0, 9.0]));
        assert_eq!(united(Some(2.0), 6), Ok([0.5, 3.5, 0.0, 4.0, -0.5, 4.5]));
        assert_eq!(united(None, 4), Err((2, CodecError::TooManyValues { values: 5, elements: 4 })));
        let mut garbage = gradients.clone();
        garbage[1].pop();
        assert_eq!(TopK::unite(&garbage, None, 6, 6, &mut Vec::new()).unwrap_err().0, 1);
    }

    #[test]
    fn a_sample_changes_nothing() {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        // Many that are alike; and some for which every sample is wrong, being all zeros or all that is not.
        let step = (20_001 / SAMPLES) | 1;
        let alike: Vec<f32> = (0..20_001).map(|_| (next() % 50) as f32 - 25.0).collect();
        let hidden: Vec<f32> =
            (0..20_001).map(|at| if at % step == 1 { next() as f32 } else { 0.0 }).collect();
        let shown: Vec<f32> =
            (0..20_001).map(|at| if at % step == 0 { next() as f32 } else { 0.5 }).collect();
        for gradient in [alike, hidden, shown] {
            for n_values in [0, 1, 200, 1000, 3000, 15_000, 20_001] {
                let mut order: Vec<usize> = (0..gradient.len()).collect();
                order.sort_by_key(|index| std::cmp::Reverse(magnitude(gradient[*index])));
                order.truncate(n_values);
                order.sort_unstable();
                assert_eq!(largest(&gradient, n_values), order, "{n_values}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_choice_is_that_of_a_stable_sort(
            gradient in prop::collection::vec(prop_oneof![any_f32(), (-3_i8..3).prop_map(f32::from)], 1..200),
            fraction in 0.001..=1.0,
        ) {
            let top = top(fraction);
            let mut order: Vec<usize> = (0..gradient.len()).collect();
            order.sort_by_key(|index| std::cmp::Reverse(magnitude(gradient[*index])));
            order.truncate(top.fraction.of(gradient.len()));
            order.sort_unstable();
            let want: Vec<(usize, u32)> = order.iter().map(|index| (*index, gradient[*index].to_bits())).collect();
            let bytes = encoded(&top, &gradient);
            let got: Vec<_> = TopK::parts(&bytes, gradient.len()).unwrap().map(|(at, x)| (at, x.to_bits())).collect();
            prop_assert_eq!(got, want);
        }
    }
}
