//! Rows: those in which anything is set, as indices and values; nothing is lost. For gradients of tables of which a step
//! touches few rows.
//!
//! A row is so many elements, from the part's first one on; the last row may be shorter. Of one all of whose bits are zero
//! nothing is sent, and it is zeros again behind the codec. A row whose elements are negative zeros is sent: what is decoded
//! has the bits of what was encoded. Whoever must tell rows that were touched from others, though their values may be zero,
//! gives each an element that says so.
//!
//! After the header: the elements of a row and the count of rows, 4 bytes each, then as many indices in ascending order, 4
//! bytes each, then the rows' elements as `f32`. Where that would be no shorter, all rows are sent, without indices: so a part
//! never takes more than 16 bytes beside its elements. How long it is depends on what is in it.

use std::num::NonZeroU32;

use super::form::{Header, check_bytes, check_indices};
use super::{Codec, CodecError, HEADER_BYTES, Kind};

/// Bytes before indices and elements.
const FIRST_BYTES: usize = HEADER_BYTES + 2 * WORD_BYTES;
/// Bytes of an index, and of an element.
const WORD_BYTES: usize = 4;

type Word = [u8; WORD_BYTES];

/// The codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Elements of a row.
    width: NonZeroU32,
}

/// The rows of an encoded gradient.
#[derive(Clone, Copy, Debug)]
struct Found<'a> {
    /// None: all rows.
    indices: Option<&'a [Word]>,
    elements: &'a [Word],
    width: usize,
}

impl Rows {
    /// Of so many elements each.
    #[must_use]
    pub fn new(width: NonZeroU32) -> Self {
        Self { width }
    }

    /// Appends the sum of encoded gradients, from left to right, divided where that is wanted, as the union of their rows. Its
    /// bits are those of the sum of the decoded ones: a row that is not there is added as zeros.
    ///
    /// # Errors
    /// The index of one that is none, and what is wrong with it.
    pub(crate) fn unite(
        self,
        gradients: &[Vec<u8>],
        divisor: Option<f32>,
        elements: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), (usize, CodecError)> {
        let mut all = Vec::with_capacity(gradients.len());
        for (index, gradient) in gradients.iter().enumerate() {
            all.push(self.found(gradient, elements).map_err(|error| (index, error))?);
        }
        let n_rows = self.n_rows(elements);
        let union = union(&all, n_rows);
        let mut sums = vec![0.0; self.n_elements(&union, elements)];
        for (index, found) in all.iter().enumerate() {
            add_up(found, index == 0, &union, &mut sums);
        }
        if let Some(divisor) = divisor {
            sums.iter_mut().for_each(|sum| *sum /= divisor);
        }
        let rows = union.iter().copied().zip(sums.chunks(self.width()));
        if self.bytes_of(&union, elements) < self.encoded_bytes(elements) {
            return self.write(rows, union.len(), sums.len(), elements, into).map_err(|error| (0, error));
        }
        let mut whole = vec![0.0; elements];
        for (row, sums) in rows {
            let first = row * self.width();
            whole
                .get_mut(first..first + sums.len())
                .into_iter()
                .for_each(|place| place.copy_from_slice(sums));
        }
        self.write_whole(&whole, into).map_err(|error| (0, error))
    }

    fn width(self) -> usize {
        self.width.get() as usize
    }

    fn n_rows(self, elements: usize) -> usize {
        elements.div_ceil(self.width())
    }

    /// Elements of these rows, which ascend.
    fn n_elements(self, rows: &[usize], elements: usize) -> usize {
        let lacking = rows.last().map_or(0, |last| ((last + 1) * self.width()).saturating_sub(elements));
        rows.len() * self.width() - lacking
    }

    /// Bytes of these rows with their indices.
    fn bytes_of(self, rows: &[usize], elements: usize) -> usize {
        FIRST_BYTES + WORD_BYTES * (rows.len() + self.n_elements(rows, elements))
    }

    /// Appends what comes before indices and elements.
    fn begin(
        self,
        elements: usize,
        n_rows: usize,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        Header { kind: Kind::Rows, elements }.write(bytes, into)?;
        into.extend_from_slice(&self.width.get().to_le_bytes());
        into.extend_from_slice(&narrow(n_rows).to_le_bytes());
        Ok(())
    }

    /// Appends rows with their indices.
    fn write<'a>(
        self,
        rows: impl Iterator<Item = (usize, &'a [f32])> + Clone,
        n_rows: usize,
        n_elements: usize,
        elements: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        self.begin(elements, n_rows, FIRST_BYTES + WORD_BYTES * (n_rows + n_elements), into)?;
        for (row, _) in rows.clone() {
            into.extend_from_slice(&narrow(row).to_le_bytes());
        }
        rows.for_each(|(_, row)| append(row, into));
        Ok(())
    }

    /// Appends all rows.
    fn write_whole(self, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), CodecError> {
        let (elements, bytes) = (gradient.len(), self.encoded_bytes(gradient.len()));
        self.begin(elements, self.n_rows(elements), bytes, into)?;
        append(gradient, into);
        Ok(())
    }

    /// The rows that are there, checked.
    fn found(self, encoded: &[u8], elements: usize) -> Result<Found<'_>, CodecError> {
        let payload = Header { kind: Kind::Rows, elements }.strip(encoded)?;
        let (words, _) = payload.as_chunks::<WORD_BYTES>();
        let [width, n_found, rest @ ..] = words else {
            return Err(CodecError::Truncated { expected: FIRST_BYTES, found: encoded.len() });
        };
        let (width, n_found) = (u32::from_le_bytes(*width), u32::from_le_bytes(*n_found) as usize);
        if width != self.width.get() {
            return Err(CodecError::OtherRows { expected: self.width.get(), found: width });
        }
        let (n_rows, width) = (self.n_rows(elements), self.width());
        if n_found > n_rows {
            return Err(CodecError::TooManyRows { found: n_found, most: n_rows });
        }
        if n_found == n_rows {
            check_bytes(self.encoded_bytes(elements), encoded.len())?;
            return Ok(Found { indices: None, elements: rest, width });
        }
        let Some((indices, values)) = rest.split_at_checked(n_found) else {
            let expected = FIRST_BYTES + WORD_BYTES * n_found;
            return Err(CodecError::Truncated { expected, found: encoded.len() });
        };
        let rows: Vec<usize> = indices.iter().map(|word| u32::from_le_bytes(*word) as usize).collect();
        check_indices(rows.iter().copied(), n_rows)?;
        check_bytes(self.bytes_of(&rows, elements), encoded.len())?;
        Ok(Found { indices: Some(indices), elements: values, width })
    }
}

impl Codec for Rows {
    fn kind(&self) -> Kind {
        Kind::Rows
    }

    /// At most.
    fn encoded_bytes(&self, elements: usize) -> usize {
        FIRST_BYTES + WORD_BYTES * elements
    }

    fn encode(&self, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), CodecError> {
        let is_set = |row: &[f32]| row.iter().fold(0, |bits, element| bits | element.to_bits()) != 0;
        let set = gradient.chunks(self.width()).enumerate().filter(|(_, row)| is_set(row));
        let set: Vec<(usize, &[f32])> = set.collect();
        let n_elements = set.iter().map(|(_, row)| row.len()).sum::<usize>();
        if set.len() + n_elements < gradient.len() {
            return self.write(set.iter().copied(), set.len(), n_elements, gradient.len(), into);
        }
        self.write_whole(gradient, into)
    }

    /// Nothing is left out.
    fn encode_fed(
        &self,
        gradient: &[f32],
        residual: &mut Vec<f32>,
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        super::encode_fed_plainly(self, gradient, residual, into)
    }

    fn decode(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        let found = self.found(encoded, into.len())?;
        into.fill(0.0);
        for (row, words) in found.rows() {
            let place = into.get_mut(row * self.width()..).unwrap_or_default();
            place.iter_mut().zip(words).for_each(|(element, word)| *element = f32::from_le_bytes(*word));
        }
        Ok(())
    }

    fn add(&self, encoded: &[u8], into: &mut [f32]) -> Result<(), CodecError> {
        let found = self.found(encoded, into.len())?;
        for (row, words) in found.rows() {
            let place = into.get_mut(row * self.width()..).unwrap_or_default();
            place.iter_mut().zip(words).for_each(|(element, word)| *element += f32::from_le_bytes(*word));
        }
        Ok(())
    }
}

impl<'a> Found<'a> {
    /// Each with its index.
    fn rows(self) -> impl Iterator<Item = (usize, &'a [Word])> {
        let index = move |at: usize| match self.indices {
            Some(indices) => indices.get(at).map_or(0, |word| u32::from_le_bytes(*word) as usize),
            None => at,
        };
        self.elements.chunks(self.width).enumerate().map(move |(at, row)| (index(at), row))
    }
}

/// The rows that any of them has, ascending.
fn union(all: &[Found<'_>], n_rows: usize) -> Vec<usize> {
    if all.iter().any(|found| found.indices.is_none()) {
        return (0..n_rows).collect();
    }
    let mut union: Vec<usize> = all.iter().flat_map(|found| found.rows().map(|(row, _)| row)).collect();
    union.sort_unstable();
    union.dedup();
    union
}

/// Adds a gradient's rows, among them all of the union, to its sums, or begins with it. Adding zeros makes 0 of -0.
fn add_up(found: &Found<'_>, is_first: bool, union: &[usize], sums: &mut [f32]) {
    let mut rows = found.rows().peekable();
    for (row, sums) in union.iter().zip(sums.chunks_mut(found.width)) {
        match rows.next_if(|(index, _)| index == row) {
            Some((_, words)) if is_first => {
                sums.iter_mut().zip(words).for_each(|(sum, word)| *sum = f32::from_le_bytes(*word));
            }
            Some((_, words)) => {
                sums.iter_mut().zip(words).for_each(|(sum, word)| *sum += f32::from_le_bytes(*word));
            }
            None if is_first => {}
            None => sums.iter_mut().for_each(|sum| *sum += 0.0),
        }
    }
}

fn append(elements: &[f32], into: &mut Vec<u8>) {
    let start = into.len();
    into.resize(start + WORD_BYTES * elements.len(), 0);
    let (words, _) = into.get_mut(start..).unwrap_or_default().as_chunks_mut::<WORD_BYTES>();
    words.iter_mut().zip(elements).for_each(|(word, element)| *word = element.to_le_bytes());
}

/// An index or count of rows, of which there are no more than elements, which the header holds in as many bits.
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
    use crate::codec::tests::{any_f32, bits, encoded};

    fn rows(width: u32) -> Rows {
        Rows::new(NonZeroU32::new(width).unwrap())
    }

    fn decoded(codec: Rows, bytes: &[u8], elements: usize) -> Vec<f32> {
        let mut into = vec![f32::NAN; elements];
        codec.decode(bytes, &mut into).unwrap();
        into
    }

    #[test]
    fn only_rows_that_have_anything_are_sent() {
        let gradient = [0.0, 0.0, 1.0, 0.0, 0.0, -0.0, 0.0, 0.0, 5.0];
        let bytes = encoded(&rows(2), &gradient);
        assert_eq!(bytes.len(), FIRST_BYTES + 3 * 4 + 5 * 4, "rows 1 and 2, and the short last one");
        assert_eq!(bits(&decoded(rows(2), &bytes, 9)), bits(&gradient));
        assert_eq!(encoded(&rows(2), &[0.0; 9]).len(), FIRST_BYTES);
        assert_eq!(encoded(&rows(2), &[1.0; 9]).len(), FIRST_BYTES + 9 * 4, "all, without indices");
        let most = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0];
        assert_eq!(encoded(&rows(1), &most).len(), FIRST_BYTES + 6 * 4, "all are no longer");
    }

    #[test]
    fn a_part_that_no_encoder_made_is_refused() {
        let good = encoded(&rows(2), &[1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            rows(2).decode(&bad, &mut [0.0; 8]).unwrap_err()
        };
        assert_eq!(with(8, 3), CodecError::OtherRows { expected: 2, found: 3 });
        assert_eq!(with(12, 5), CodecError::TooManyRows { found: 5, most: 4 });
        assert_eq!(with(12, 1), CodecError::Trailing { expected: 28, found: 40 });
        assert_eq!(with(16, 2), CodecError::IndexOrder { position: 1, index: 2, before: 2 });
        assert_eq!(with(20, 4), CodecError::IndexOutOfRange { position: 1, index: 4, elements: 4 });
    }

    #[test]
    fn a_union_names_the_gradient_that_is_none() {
        let gradients = [encoded(&rows(2), &[1.0; 4]), encoded(&rows(2), &[1.0; 6])];
        let error = rows(2).unite(&gradients, None, 4, &mut Vec::new()).unwrap_err();
        assert_eq!(error, (1, CodecError::WrongElements { expected: 4, found: 6 }));
    }

    /// Few rows with anything, and elements of all kinds.
    fn gradients() -> impl Strategy<Value = Vec<Vec<f32>>> {
        let element = prop_oneof![Just(0.0), Just(-0.0), Just(1.0), Just(-1.0), any_f32()];
        let row = (prop::bool::weighted(0.3), prop::collection::vec(element, 3));
        let row = row.prop_map(|(is_set, row)| if is_set { row } else { vec![0.0; 3] });
        let gradient = prop::collection::vec(row, 7).prop_map(|rows| rows.concat()[..20].to_vec());
        prop::collection::vec(gradient, 1..5)
    }

    proptest! {
        #[test]
        fn nothing_is_lost(gradients in gradients(), width in 1_u32..25) {
            for gradient in gradients {
                let bytes = encoded(&rows(width), &gradient);
                prop_assert!(bytes.len() <= rows(width).encoded_bytes(gradient.len()));
                prop_assert_eq!(bits(&decoded(rows(width), &bytes, gradient.len())), bits(&gradient));
            }
        }

        #[test]
        fn a_union_has_the_bits_of_the_sum(gradients in gradients(), width in 1_u32..25, is_average: bool) {
            let divisor = is_average.then_some(gradients.len() as f32);
            let sums = (0..20).map(|at| {
                let sum = gradients.iter().map(|gradient| gradient[at]).reduce(|sum, element| sum + element).unwrap();
                divisor.map_or(sum, |divisor| sum / divisor)
            });
            let sums: Vec<f32> = sums.collect();
            let all: Vec<Vec<u8>> = gradients.iter().map(|gradient| encoded(&rows(width), gradient)).collect();
            let mut bytes = Vec::new();
            rows(width).unite(&all, divisor, 20, &mut bytes).unwrap();
            prop_assert!(bytes.len() <= rows(width).encoded_bytes(20));
            let got = decoded(rows(width), &bytes, 20);
            // Which NaN comes of two is the processor's to say.
            let is_same = |(got, want): (&f32, &f32)| got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
            prop_assert!(got.iter().zip(&sums).all(is_same), "{:?}, not {:?}", got, sums);
        }
    }
}
