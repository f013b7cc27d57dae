//! What codecs leave out of a worker's contributions, from one round to the next and over the loss of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::codec::{Codec, CodecError, Feedback};
use rsccl_collective::lock::lock;

/// What rounds have left out, by key: a worker's own, which it keeps whatever is declared and whoever comes and goes, since
/// a tensor keeps its parts and their keys.
#[derive(Debug, Default)]
pub(crate) struct Residuals {
    /// Whether rounds that fail are submitted again. It takes as much memory once more, and a copy a round.
    outlive_losses: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parts: BTreeMap<u32, Residual>,
    /// Parts whose rounds are not over.
    open: BTreeSet<u32>,
}

/// What the rounds of one part have left out.
#[derive(Debug, Default)]
pub(in crate::run) struct Residual {
    now: Feedback,
    /// Before the round that was encoded last; none where a loss is the end.
    before: Option<Feedback>,
}

impl Residuals {
    /// Of a job that may go on after a loss.
    pub(crate) fn new(outlive_losses: bool) -> Self {
        Self { outlive_losses, state: Mutex::default() }
    }

    /// For the next round of a part, until it is given back.
    pub(super) fn take(&self, key: u32) -> Residual {
        let mut state = lock(&self.state);
        let mut residual = state.parts.remove(&key).unwrap_or_default();
        if self.outlive_losses {
            residual.before.get_or_insert_default();
        }
        residual
    }

    /// With what the part's round has left out, which is not over.
    pub(super) fn give_back(&self, key: u32, residual: Residual) {
        let mut state = lock(&self.state);
        state.parts.insert(key, residual);
        state.open.insert(key);
    }

    /// As it was taken.
    pub(super) fn give_back_unused(&self, key: u32, residual: Residual) {
        lock(&self.state).parts.insert(key, residual);
    }

    /// The round of these parts is over: what it has left out counts from now on.
    pub(super) fn settle(&self, keys: impl Iterator<Item = u32>) {
        let mut state = lock(&self.state);
        for key in keys {
            state.open.remove(&key);
        }
    }

    /// The rounds that are open have failed, and will be submitted again: what they have left out was never sent.
    pub(super) fn undo(&self) {
        let mut state = lock(&self.state);
        for key in std::mem::take(&mut state.open) {
            if let Some(Residual { now, before: Some(before) }) = state.parts.get_mut(&key) {
                std::mem::swap(now, before);
            }
        }
    }
}

impl Residual {
    /// As [`Feedback::encode`].
    pub(super) fn encode(
        &mut self,
        codec: &dyn Codec,
        gradient: &[f32],
        into: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        if let Some(before) = &mut self.before {
            before.clone_from(&self.now);
        }
        self.now.encode(codec, gradient, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Choice;

    const GRADIENT: [f32; 3] = [1.0, -0.5, 2.0];

    fn round(residuals: &Residuals, key: u32) -> Feedback {
        let mut residual = residuals.take(key);
        residual.encode(Choice::OneBit.codec().as_ref(), &GRADIENT, &mut Vec::new()).unwrap();
        let left_out = residual.now.clone();
        residuals.give_back(key, residual);
        left_out
    }

    fn left_out(residuals: &Residuals, key: u32) -> Feedback {
        lock(&residuals.state).parts[&key].now.clone()
    }

    #[test]
    fn a_round_that_fails_leaves_what_was_left_out_before_it() {
        let residuals = Residuals::new(true);
        let first = [0, 1].map(|key| round(&residuals, key));
        residuals.settle(0..2);
        assert_ne!(round(&residuals, 1), first[1]);
        residuals.undo();
        assert_eq!([0, 1].map(|key| left_out(&residuals, key)), first, "only the round of part 1 was open");
        // Once more, and now it is over.
        let second = round(&residuals, 1);
        residuals.settle(1..2);
        residuals.undo();
        assert_eq!(left_out(&residuals, 1), second);
    }

    #[test]
    fn where_a_loss_is_the_end_nothing_is_kept_twice() {
        let residuals = Residuals::new(false);
        round(&residuals, 0);
        assert!(lock(&residuals.state).parts[&0].before.is_none());
    }
}
