//! Error feedback: what one round leaves out, the next one adds.
//!
//! For each key, with residual e = 0 at first:
//!
//! > x' = x + e,  send encode(x'),  e = x' − decode(encode(x'))
//!
//! So what was decoded over all rounds is the sum of the gradients less the last residual, but for one rounding of each
//! sum and difference. Source: Seide et al. 2014.
//!
//! A round whose x' or decoded form has a NaN or an infinity is sent as it is and leaves the residual as it was: trainers
//! drop such a step, and the next one goes on from before it.

use std::collections::HashMap;

use super::{Codec, CodecError};

/// A codec with the residuals of all keys of one sender.
#[derive(Debug)]
pub struct Feedback {
    codec: Box<dyn Codec>,
    residuals: HashMap<u64, Vec<f32>>,
    limit_elements: usize,
    held_elements: usize,
    not_finite_rounds: u64,
    /// x', then the next residual; kept for its memory.
    corrected: Vec<f32>,
    /// What the receiver will have; kept for its memory.
    decoded: Vec<f32>,
}

/// Why a gradient was not encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedbackError {
    /// The codec's own.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The key's residual is of another length.
    #[error(
        "key {key} has {found} elements, and had {expected} before: forget it first if its tensor changed"
    )]
    Length {
        /// The caller's.
        key: u64,
        /// Of its residual.
        expected: usize,
        /// Of the gradient.
        found: usize,
    },
    /// No room for another residual.
    #[error("key {key} needs a residual of {elements} elements, where {held} of {limit} are in use")]
    Full {
        /// The caller's.
        key: u64,
        /// Of the gradient.
        elements: usize,
        /// Of all residuals.
        held: usize,
        /// Of all residuals at most.
        limit: usize,
    },
}

impl Feedback {
    /// No residual yet; `limit_elements` of all keys together at most, which is the length of all gradients of a sender.
    #[must_use]
    pub fn new(codec: Box<dyn Codec>, limit_elements: usize) -> Self {
        Self {
            codec,
            residuals: HashMap::new(),
            limit_elements,
            held_elements: 0,
            not_finite_rounds: 0,
            corrected: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// Appends the key's gradient, encoded with what its last round left out.
    ///
    /// # Errors
    /// The length is not that of the key's last round, or there is no room. `into` and residuals are then as they were.
    pub fn encode(&mut self, key: u64, gradient: &[f32], into: &mut Vec<u8>) -> Result<(), FeedbackError> {
        self.correct(key, gradient)?;
        let start = into.len();
        self.codec.encode(&self.corrected, into)?;
        self.decoded.resize(gradient.len(), 0.0);
        if let Err(error) = self.codec.decode(into.get(start..).unwrap_or_default(), &mut self.decoded) {
            into.truncate(start);
            return Err(error.into());
        }
        self.remember(key);
        Ok(())
    }

    /// The codec, to decode with.
    #[must_use]
    pub fn codec(&self) -> &dyn Codec {
        self.codec.as_ref()
    }

    /// What the key's rounds have left out so far, if it had one.
    #[must_use]
    pub fn residual(&self, key: u64) -> Option<&[f32]> {
        self.residuals.get(&key).map(Vec::as_slice)
    }

    /// Drops the key's residual: its tensor changed or is no more.
    pub fn forget(&mut self, key: u64) {
        self.held_elements -= self.residuals.remove(&key).map_or(0, |residual| residual.len());
    }

    /// Rounds with a NaN or an infinity, which left the residual of their key as it was.
    #[must_use]
    pub fn not_finite_rounds(&self) -> u64 {
        self.not_finite_rounds
    }

    /// x'.
    fn correct(&mut self, key: u64, gradient: &[f32]) -> Result<(), FeedbackError> {
        let elements = gradient.len();
        self.corrected.clear();
        match self.residuals.get(&key) {
            Some(residual) if residual.len() != elements => {
                return Err(FeedbackError::Length { key, expected: residual.len(), found: elements });
            }
            Some(residual) => {
                self.corrected
                    .extend(gradient.iter().zip(residual).map(|(value, left_out)| value + left_out));
            }
            None => {
                let (held, limit) = (self.held_elements, self.limit_elements);
                if elements > limit.saturating_sub(held) {
                    return Err(FeedbackError::Full { key, elements, held, limit });
                }
                self.corrected.extend_from_slice(gradient);
            }
        }
        Ok(())
    }

    /// e = x' − what was decoded, unless that is no number.
    fn remember(&mut self, key: u64) {
        let mut is_finite = true;
        for (value, decoded) in self.corrected.iter_mut().zip(&self.decoded) {
            *value -= decoded;
            is_finite &= value.is_finite();
        }
        if !is_finite {
            self.not_finite_rounds += 1;
            return;
        }
        let residual = self.residuals.entry(key).or_default();
        self.held_elements += self.corrected.len() - residual.len();
        std::mem::swap(residual, &mut self.corrected);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Choice;

    const KEY: u64 = 7 << 16;

    fn feedback(choice: &str) -> Feedback {
        Feedback::new(choice.parse::<Choice>().unwrap().codec(), 1000)
    }

    /// What the receiver has after one round.
    fn round(feedback: &mut Feedback, gradient: &[f32]) -> Vec<f32> {
        let mut bytes = Vec::new();
        feedback.encode(KEY, gradient, &mut bytes).unwrap();
        let mut decoded = vec![0.0; gradient.len()];
        feedback.codec().decode(&bytes, &mut decoded).unwrap();
        decoded
    }

    #[test]
    fn what_one_round_leaves_out_the_next_one_sends() {
        let mut feedback = feedback("top-k:0.3");
        assert_eq!(round(&mut feedback, &[4.0, 3.0, -2.0]), [4.0, 0.0, 0.0]);
        assert_eq!(feedback.residual(KEY).unwrap(), [0.0, 3.0, -2.0]);
        assert_eq!(round(&mut feedback, &[4.0, 3.0, -2.0]), [0.0, 6.0, 0.0]);
        assert_eq!(round(&mut feedback, &[0.0, 0.0, -2.0]), [0.0, 0.0, -6.0]);
        assert_eq!(round(&mut feedback, &[0.0; 3]), [4.0, 0.0, 0.0]);
    }

    #[test]
    fn a_round_that_is_not_finite_goes_out_and_leaves_no_trace() {
        for choice in ["one-bit", "top-k:0.5", "f16"] {
            for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
                let mut feedback = feedback(choice);
                round(&mut feedback, &[1.0, 2.5, -3.0, 1.0 / 3.0]);
                let before = feedback.residual(KEY).unwrap().to_vec();
                // Finite in f32 but not in f16, and with the residual of the other codecs no more than large.
                let is_sendable = bad == f32::MAX && choice != "f16";
                let got = round(&mut feedback, &[1.0, bad, 1.0, 1.0]);
                assert_eq!(got.iter().all(|value| value.is_finite()), is_sendable, "{choice} {bad}");
                assert_eq!(feedback.not_finite_rounds(), u64::from(!is_sendable));
                assert_eq!(feedback.residual(KEY).unwrap() == before, !is_sendable, "{choice} {bad}");
            }
        }
    }

    #[test]
    fn a_key_of_another_length_or_too_many_are_refused() {
        let mut feedback = feedback("one-bit");
        let mut bytes = vec![1];
        feedback.encode(1, &[1.0; 600], &mut bytes).unwrap();
        let len = bytes.len();
        let error = feedback.encode(1, &[1.0; 599], &mut bytes).unwrap_err();
        assert_eq!(error, FeedbackError::Length { key: 1, expected: 600, found: 599 });
        let error = feedback.encode(2, &[1.0; 401], &mut bytes).unwrap_err();
        assert_eq!(error, FeedbackError::Full { key: 2, elements: 401, held: 600, limit: 1000 });
        assert_eq!(bytes.len(), len);
        feedback.forget(1);
        feedback.forget(1);
        feedback.encode(2, &[1.0; 401], &mut bytes).unwrap();
        assert_eq!(feedback.residual(1), None);
    }

    proptest! {
        #[test]
        fn whole_numbers_are_all_sent_in_the_end(
            rounds in prop::collection::vec(prop::collection::vec(-1000_i16..1000, 9), 1..30),
            fraction in 0.1..1.0,
        ) {
            let mut feedback = feedback(&format!("top-k:{fraction}"));
            let (mut sent, mut wanted) = ([0.0; 9], [0.0; 9]);
            for gradient in rounds {
                let gradient: Vec<f32> = gradient.into_iter().map(f32::from).collect();
                let decoded = round(&mut feedback, &gradient);
                sent.iter_mut().zip(decoded).for_each(|(sum, value)| *sum += value);
                wanted.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
            }
            let residual = feedback.residual(KEY).unwrap();
            sent.iter_mut().zip(residual).for_each(|(sum, value)| *sum += value);
            prop_assert_eq!(sent, wanted);
        }

        #[test]
        fn decoded_sums_are_the_gradients_less_the_last_residual(
            rounds in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 11), 1..40),
            choice in prop::sample::select(vec!["one-bit", "top-k:0.2", "f16", "bf16"]),
        ) {
            let mut feedback = feedback(choice);
            // Sums of sent and wanted, and of half a unit in the last place of each x' and each residual.
            let mut sums = [[0.0_f64; 3]; 11];
            for gradient in &rounds {
                let before = feedback.residual(KEY).map_or(vec![0.0; 11], <[f32]>::to_vec);
                let decoded = round(&mut feedback, gradient);
                let after = feedback.residual(KEY).unwrap();
                for (at, [sent, wanted, rounding]) in sums.iter_mut().enumerate() {
                    *sent += f64::from(decoded[at]);
                    *wanted += f64::from(gradient[at]);
                    let touched = f64::from((gradient[at] + before[at]).abs()) + f64::from(after[at].abs());
                    *rounding += touched * 2.0_f64.powi(-24) + 1e-45;
                }
            }
            let residual = feedback.residual(KEY).unwrap();
            for ([sent, wanted, rounding], left_out) in sums.into_iter().zip(residual) {
                let off = (sent + f64::from(*left_out) - wanted).abs();
                prop_assert!(off <= rounding + 1e-12, "{choice}: off by {off}, rounding {rounding}");
            }
        }
    }
}
