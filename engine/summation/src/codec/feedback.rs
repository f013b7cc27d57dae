//! Error feedback: what one round leaves out, the next one adds.
//!
//! With residual e = 0 at first:
//!
//! > x' = x + e,  send encode(x'),  e = x' − decode(encode(x'))
//!
//! So what was decoded over all rounds is the sum of the gradients less the last residual, but for one rounding of each
//! sum and difference. Source: Seide et al. 2014.
//!
//! A round whose x' or decoded form has a NaN or an infinity is sent as it is and leaves the residual as it was: trainers
//! drop such a step, and the next one goes on from before it.

use super::{Codec, CodecError};

/// What the rounds of one part have left out so far.
#[derive(Debug, Default, PartialEq)]
pub struct Feedback {
    residual: Vec<f32>,
}

// A residual has no NaN.
impl Eq for Feedback {}

impl Clone for Feedback {
    fn clone(&self) -> Self {
        Self { residual: self.residual.clone() }
    }

    /// In the memory that is there.
    fn clone_from(&mut self, source: &Self) {
        self.residual.clone_from(&source.residual);
    }
}

impl Feedback {
    /// Appends a gradient, encoded with what the last round left out. One of another length than that begins anew.
    ///
    /// # Errors
    /// [`CodecError::TooMany`]; `into` and the residual are then as they were.
    pub fn encode(
        &mut self,
        codec: &dyn Codec,
        gradient: &[f32],
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if self.residual.len() != gradient.len() {
            self.residual.clear();
            self.residual.resize(gradient.len(), 0.0);
        }
        codec.encode_fed(gradient, &mut self.residual, into)
    }

    /// What was left out; nothing before the first round.
    #[must_use]
    pub fn residual(&self) -> &[f32] {
        &self.residual
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::Choice;

    /// A sender, and what its receiver has after a round.
    struct Sender(Box<dyn Codec>, Feedback);

    impl Sender {
        fn new(choice: &str) -> Self {
            Self(choice.parse::<Choice>().unwrap().codec(), Feedback::default())
        }

        fn round(&mut self, gradient: &[f32]) -> Vec<f32> {
            let mut bytes = Vec::new();
            self.1.encode(self.0.as_ref(), gradient, &mut bytes).unwrap();
            let mut decoded = vec![0.0; gradient.len()];
            self.0.decode(&bytes, &mut decoded).unwrap();
            decoded
        }

        fn residual(&self) -> &[f32] {
            self.1.residual()
        }
    }

    #[test]
    fn what_one_round_leaves_out_the_next_one_sends() {
        let mut sender = Sender::new("top-k:0.3");
        assert_eq!(sender.round(&[4.0, 3.0, -2.0]), [4.0, 0.0, 0.0]);
        assert_eq!(sender.residual(), [0.0, 3.0, -2.0]);
        assert_eq!(sender.round(&[4.0, 3.0, -2.0]), [0.0, 6.0, 0.0]);
        assert_eq!(sender.round(&[0.0, 0.0, -2.0]), [0.0, 0.0, -6.0]);
        assert_eq!(sender.round(&[0.0; 3]), [4.0, 0.0, 0.0]);
    }

    #[test]
    fn a_round_that_is_not_finite_goes_out_and_leaves_no_trace() {
        for choice in ["one-bit", "top-k:0.5", "f16"] {
            for bad in [f32::NAN, f32::INFINITY, f32::MAX] {
                let mut sender = Sender::new(choice);
                sender.round(&[1.0, 2.5, -3.0, 1.0 / 3.0]);
                let before = sender.residual().to_vec();
                // Finite in f32 but not in f16, and with the residual of the other codecs no more than large.
                let is_sendable = bad == f32::MAX && choice != "f16";
                let got = sender.round(&[1.0, bad, 1.0, 1.0]);
                assert_eq!(got.iter().all(|value| value.is_finite()), is_sendable, "{choice} {bad}");
                assert_eq!(sender.residual() == before, !is_sendable, "{choice} {bad}");
            }
        }
    }

    #[test]
    fn another_length_begins_anew() {
        let mut sender = Sender::new("top-k:0.5");
        sender.round(&[1.0, 2.0]);
        assert_eq!(sender.round(&[3.0]), [3.0]);
        assert_eq!(sender.residual(), [0.0]);
    }

    proptest! {
        #[test]
        fn whole_numbers_are_all_sent_in_the_end(
            rounds in prop::collection::vec(prop::collection::vec(-1000_i16..1000, 9), 1..30),
            fraction in 0.1..1.0,
        ) {
            let mut sender = Sender::new(&format!("top-k:{fraction}"));
            let (mut sent, mut wanted) = ([0.0; 9], [0.0; 9]);
            for gradient in rounds {
                let gradient: Vec<f32> = gradient.into_iter().map(f32::from).collect();
                let decoded = sender.round(&gradient);
                sent.iter_mut().zip(decoded).for_each(|(sum, value)| *sum += value);
                wanted.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
            }
            sent.iter_mut().zip(sender.residual()).for_each(|(sum, value)| *sum += value);
            prop_assert_eq!(sent, wanted);
        }

        #[test]
        fn a_codecs_own_way_is_that_of_encoding_and_decoding(
            rounds in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 37), 1..5),
            choice in prop::sample::select(vec!["one-bit", "top-k:0.2", "top-k:1"]),
        ) {
            let mut sender = Sender::new(choice);
            let mut residual = vec![0.0; 37];
            for gradient in &rounds {
                let (mut own, mut plain) = (Vec::new(), Vec::new());
                sender.1.encode(sender.0.as_ref(), gradient, &mut own).unwrap();
                crate::codec::encode_fed_plainly(sender.0.as_ref(), gradient, &mut residual, &mut plain).unwrap();
                prop_assert_eq!(own, plain);
                prop_assert_eq!(sender.residual(), &residual[..]);
            }
        }

        #[test]
        fn decoded_sums_are_the_gradients_less_the_last_residual(
            rounds in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 11), 1..40),
            choice in prop::sample::select(vec!["one-bit", "top-k:0.2", "f16", "bf16"]),
        ) {
            let mut sender = Sender::new(choice);
            // Sums of sent and wanted, and of half a unit in the last place of each x' and each residual.
            let mut sums = [[0.0_f64; 3]; 11];
            for gradient in &rounds {
                let mut before = sender.residual().to_vec();
                before.resize(11, 0.0);
                let decoded = sender.round(gradient);
                let after = sender.residual();
                for (at, [sent, wanted, rounding]) in sums.iter_mut().enumerate() {
                    *sent += f64::from(decoded[at]);
                    *wanted += f64::from(gradient[at]);
                    let touched = f64::from((gradient[at] + before[at]).abs()) + f64::from(after[at].abs());
                    *rounding += touched * 2.0_f64.powi(-24) + 1e-45;
                }
            }
            for ([sent, wanted, rounding], left_out) in sums.into_iter().zip(sender.residual()) {
                let off = (sent + f64::from(*left_out) - wanted).abs();
                prop_assert!(off <= rounding + 1e-12, "{choice}: off by {off}, rounding {rounding}");
            }
        }
    }
}
