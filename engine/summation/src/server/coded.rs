//! Contributions in the form of a codec: how they are added up, and in which form the result goes back.
//!
//! Halves go back as halves, rounded once more. One-bit goes back as one bit, with what the answers before left out: a
//! service keeps that as long as it owns the part, and all services begin with nothing together, so the number of servers
//! changes no bit. Of top-k the union of what was pushed goes back as indices and values, filled up with zeros to the most
//! that it may be, since answers have a length that is known before; or as `f32`, where that is shorter.

use std::cell::RefCell;

use super::reduction::Reduction;
use crate::codec::{Choice, CodecError, Feedback, Fraction, Half, OneBit, Rows, TopK};
use rsccl_collective::kernels::gradients;

thread_local! {
    /// The sums of a part, kept for their memory.
    static SUMS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// How the contributions to a part are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The codec.
    pub choice: Choice,
    /// How many contributions there are to a round.
    pub n_workers: usize,
}

/// A contribution that is none, by its index.
type Malformed = (usize, CodecError);

impl Coded {
    /// Bytes of a contribution of so many elements; at most, where they have not all one length.
    #[must_use]
    pub fn pushed_bytes(self, count: usize) -> usize {
        self.choice.codec().encoded_bytes(count)
    }

    /// Bytes of a result; at most, where they have not all one length.
    #[must_use]
    pub fn answered_bytes(self, count: usize) -> usize {
        match self.choice {
            Choice::F16 | Choice::Bf16 | Choice::OneBit | Choice::Rows(_) => self.pushed_bytes(count),
            Choice::TopK(fraction) => {
                let plain = count.saturating_mul(size_of::<f32>());
                self.united(fraction, count).map_or(plain, TopK::bytes_of)
            }
        }
    }

    /// Whether a result goes back in the codec's form.
    #[must_use]
    pub fn answers(self, count: usize) -> bool {
        match self.choice {
            Choice::F16 | Choice::Bf16 | Choice::OneBit | Choice::Rows(_) => true,
            Choice::TopK(fraction) => self.united(fraction, count).is_some(),
        }
    }

    /// Adds contributions up in `f32`, in the order of their ranks from left to right, and replaces `into` by the result, in
    /// the form in which it goes back. An average is divided before it is encoded.
    ///
    /// # Errors
    /// The index of a contribution that is none, and what is wrong with it.
    pub(super) fn reduce(
        self,
        count: usize,
        reduction: Reduction,
        contributions: &[Vec<u8>],
        feedback: &mut Feedback,
        into: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let divisor = (reduction == Reduction::Average).then_some(contributions.len() as f32);
        into.clear();
        match self.choice {
            Choice::F16 => Half::F16.reduce(contributions, divisor, count, into),
            Choice::Bf16 => Half::BF16.reduce(contributions, divisor, count, into),
            Choice::OneBit => SUMS.with_borrow_mut(|sums| {
                sums.resize(count, 0.0);
                self.add_up(contributions, divisor, sums)?;
                feedback.encode(&OneBit, sums, into).map_err(|error| (0, error))
            }),
            Choice::Rows(width) => Rows::new(width).unite(contributions, divisor, count, into),
            Choice::TopK(fraction) => match self.united(fraction, count) {
                Some(n_values) => TopK::unite(contributions, divisor, count, n_values, into),
                None => {
                    into.resize(count.saturating_mul(size_of::<f32>()), 0);
                    self.reduce_plainly(contributions, divisor, count, into)
                }
            },
        }
    }

    fn reduce_plainly(
        self,
        contributions: &[Vec<u8>],
        divisor: Option<f32>,
        count: usize,
        into: &mut [u8],
    ) -> Result<(), Malformed> {
        if let Some(sums) = gradients::floats_mut(into) {
            return self.add_up(contributions, divisor, sums);
        }
        let mut sums = vec![0.0; count];
        self.add_up(contributions, divisor, &mut sums)?;
        for (place, sum) in into.as_chunks_mut().0.iter_mut().zip(sums) {
            *place = sum.to_ne_bytes();
        }
        Ok(())
    }

    fn add_up(
        self,
        contributions: &[Vec<u8>],
        divisor: Option<f32>,
        sums: &mut [f32],
    ) -> Result<(), Malformed> {
        let codec = self.choice.codec();
        for (index, contribution) in contributions.iter().enumerate() {
            let added =
                if index == 0 { codec.decode(contribution, sums) } else { codec.add(contribution, sums) };
            added.map_err(|error| (index, error))?;
        }
        if let Some(divisor) = divisor {
            sums.iter_mut().for_each(|sum| *sum /= divisor);
        }
        Ok(())
    }

    /// Values of a union at most; none where all elements take less.
    fn united(self, fraction: Fraction, count: usize) -> Option<usize> {
        let n_values = fraction.of(count).saturating_mul(self.n_workers).min(count);
        (TopK::bytes_of(n_values) < count.saturating_mul(size_of::<f32>())).then_some(n_values)
    }
}
