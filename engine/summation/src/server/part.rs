//! What a key stands for, and how the contributions to it are added up.
//!
//! The order of addition is fixed by the ranks of the contributors, whatever the order of arrival, so equal
//! contributions give equal bits. Floats of 16 and 8 bits are accumulated in `f32` and rounded once; an average is
//! divided before that rounding. Integers wrap, and their averages truncate.

use super::coded::Coded;
use super::fingerprint::Fingerprint;
use super::reduction::Reduction;
use rsccl_collective::kernels::{Form, Reducer, Shape};
use rsccl_collective::types::{DataType, RedOp};

/// A part of a tensor: what one key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Elements; none is allowed.
    pub count: usize,
    /// Of an element.
    pub data_type: DataType,
    /// How contributions are encoded, if they are; only `f32` is.
    pub codec: Option<Coded>,
}

impl Part {
    /// Bytes of the elements.
    #[must_use]
    pub fn size_bytes(self) -> usize {
        self.count.saturating_mul(self.data_type.size_bytes())
    }

    /// Whether all contributions have as many bytes, and all results; otherwise those are the most they have.
    #[must_use]
    pub fn has_one_length(self) -> bool {
        self.codec.is_none_or(|coded| coded.choice.has_one_length())
    }

    /// Bytes of one contribution.
    #[must_use]
    pub fn pushed_bytes(self) -> usize {
        self.codec.map_or(self.size_bytes(), |coded| coded.pushed_bytes(self.count))
    }

    /// Bytes of the result.
    #[must_use]
    pub fn answered_bytes(self) -> usize {
        self.codec.map_or(self.size_bytes(), |coded| coded.answered_bytes(self.count))
    }

    /// Whether the result goes back in the form of a codec.
    #[must_use]
    pub fn is_answered_coded(self) -> bool {
        self.codec.is_some_and(|coded| coded.answers(self.count))
    }

    /// Reduces contributions from left to right, averages over the divisor; the first one becomes the result, whose
    /// fingerprint is returned. All slices are of [`Self::size_bytes`].
    ///
    /// In place, so that memory is read twice and written once; piece by piece, so that the fingerprint finds the result in
    /// a cache.
    pub(super) fn reduce_left(self, how: (Reduction, usize), first: &mut [u8], others: &[&[u8]]) -> u64 {
        let reducer = self.reduce(how);
        let mut print = Fingerprint::default();
        let mut rest = others.to_vec();
        for piece in first.chunks_mut(PIECE_BYTES) {
            let (these, left) =
                rest.iter().map(|other| other.split_at(piece.len())).unzip::<_, _, Vec<_>, _>();
            rest = left;
            reducer.run_in_place(RESULT, piece, &these);
            print.eat(piece);
        }
        print.finish()
    }

    /// Bytes of what the first contributions come to, before the others are there.
    pub(super) fn prefix_bytes(self) -> usize {
        self.count.saturating_mul(self.sum().bytes(Form::Partial))
    }

    /// Reduces contributions from left to right, behind those that the prefix has already, if there is one, into the prefix.
    pub(super) fn reduce_prefix(self, is_new: bool, prefix: &mut [u8], contributions: &[&[u8]]) {
        let reducer = self.sum();
        if is_new {
            reducer.run_slices(PARTIAL, prefix, contributions);
        } else {
            reducer.run_in_place(Shape { with: Form::Partial, ..PARTIAL }, prefix, contributions);
        }
    }

    /// Reduces a prefix and the contributions behind it from left to right, averages over the divisor.
    pub(super) fn reduce_rest(self, how: (Reduction, usize), prefix: &[u8], rest: &[&[u8]], into: &mut [u8]) {
        let sources: Vec<&[u8]> = std::iter::once(prefix).chain(rest.iter().copied()).collect();
        self.reduce(how).run_slices(Shape { with: Form::Partial, ..RESULT }, into, &sources);
    }

    fn reduce(self, (reduction, n_ranks): (Reduction, usize)) -> Reducer {
        let op = match reduction {
            Reduction::Sum => RedOp::Sum,
            Reduction::Average => RedOp::Avg,
        };
        Reducer::new(self.data_type, op, n_ranks)
    }

    /// Adds deltas to what is kept with the accumulator's precision.
    pub(super) fn sum(self) -> Reducer {
        Reducer::new(self.data_type, RedOp::Sum, 1)
    }
}

/// From contributions to a result.
const RESULT: Shape = Shape { with: Form::Element, data: Form::Element, into: Form::Element, finish: true };
/// From contributions to accumulators.
const PARTIAL: Shape = Shape { with: Form::Element, data: Form::Element, into: Form::Partial, finish: false };
/// Bytes of a result that are reduced at once: whole elements, and blocks of a fingerprint. The pieces of the result and of
/// a few contributions fit into a first-level cache.
const PIECE_BYTES: usize = 8 << 10;
#[cfg(test)]
mod tests {
    use super::super::fingerprint::fingerprint;
    use super::*;
    use rsccl_collective::kernels::float16::{f16_to_f32, f32_to_f16};

    fn f16s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| f32_to_f16(*value).to_le_bytes()).collect()
    }

    fn reduced(part: Part, reduction: Reduction, contributions: &[Vec<u8>]) -> Vec<u8> {
        let others: Vec<&[u8]> = contributions[1..].iter().map(Vec::as_slice).collect();
        let mut into = contributions[0].clone();
        let print = part.reduce_left((reduction, contributions.len()), &mut into, &others);
        assert_eq!(print, fingerprint(&into));
        into
    }

    #[test]
    fn the_average_of_large_halves_does_not_overflow() {
        let part = Part { count: 3, data_type: DataType::F16, codec: None };
        let contribution = f16s(&[40_000.0, -40_000.0, 1.0]);
        let got = reduced(part, Reduction::Average, &vec![contribution.clone(); 4]);
        assert_eq!(got, contribution);
        let sum = reduced(part, Reduction::Sum, &vec![contribution; 4]);
        assert!(f16_to_f32(u16::from_le_bytes([sum[0], sum[1]])).is_infinite());
    }

    #[test]
    fn halves_are_rounded_once() {
        let part = Part { count: 1, data_type: DataType::F16, codec: None };
        let contributions: Vec<Vec<u8>> =
            [2048.0, 1.0, 1.0, 1.0, 1.0].iter().map(|value| f16s(&[*value])).collect();
        assert_eq!(reduced(part, Reduction::Sum, &contributions), f16s(&[2052.0]));
    }

    #[test]
    fn contributions_are_added_from_left_to_right() {
        let part = Part { count: 1, data_type: DataType::F32, codec: None };
        let values = [1.0_f32, 1e8, -1e8, 3.0, 0.5];
        let contributions: Vec<Vec<u8>> = values.iter().map(|value| value.to_le_bytes().to_vec()).collect();
        let [a, b, c, d, e] = values;
        let left = (((a + b) + c) + d) + e;
        let tree = ((a + b) + (c + d)) + e;
        assert!((left - tree).abs() > 0.1, "the values tell them apart");
        assert_eq!(reduced(part, Reduction::Sum, &contributions), left.to_le_bytes());
    }
}
