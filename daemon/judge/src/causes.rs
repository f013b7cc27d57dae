//! Why a rank runs on as many channels as it does.

use super::channels::{Bounds, Cause, last};
use super::predict::{Assumed, Outcome, Prediction, steps};

/// Why a rank that found `init` runs on `final_channels`, the strongest cause first. `base`: the lowest that any rank
/// found. `alone`: whether the Hopper rule would hold for this rank, were it not for its peers.
#[must_use]
pub(super) fn causes(
    init: Option<u32>,
    final_channels: Option<u32>,
    base: Option<u32>,
    bounds: &Bounds,
    prediction: Option<&Prediction>,
    hopper_alone: bool,
) -> Vec<Cause> {
    let (Some(init), Some(final_channels), Some(base), Some(prediction)) =
        (init, final_channels, base, prediction)
    else {
        return vec![Cause::Unknown];
    };
    if prediction.outcomes.is_empty() {
        return vec![Cause::Rccl];
    }
    let is_limited = init > base;
    let Some(outcome) = prediction.outcomes.get(&final_channels) else {
        let peer = is_limited.then_some(Cause::CappedByPeer);
        return [Cause::Unexplained].into_iter().chain(peer).collect();
    };
    let mut causes = Vec::new();
    // Alone it would run on more. If not, a setting holds it anyway, and no peer matters.
    if is_limited && last(&steps(init, bounds, &outcome.assumed)) > final_channels {
        causes.push(Cause::CappedByPeer);
    }
    if is_limited && u64::from(final_channels) == 2 * u64::from(init) {
        causes.push(Cause::Coincidence);
    }
    if is_hopper_off(base, final_channels, bounds, outcome, hopper_alone) {
        causes.push(Cause::HopperOffByPeer);
    }
    causes.extend(outcome.steps.iter().rev().map(|step| step.cause).filter(|cause| *cause != Cause::Doubled));
    if causes.is_empty() {
        causes.push(Cause::Doubled);
    }
    causes.dedup();
    causes
}

/// Whether only a peer keeps the library from doubling for Hopper.
fn is_hopper_off(base: u32, final_channels: u32, bounds: &Bounds, outcome: &Outcome, alone: bool) -> bool {
    let on = Assumed { hopper: true, ..outcome.assumed };
    alone && !outcome.assumed.hopper && last(&steps(base, bounds, &on)) > final_channels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_cause() {
        let bounds = Bounds::default();
        for (init, last, base) in
            [(None, Some(4), Some(2)), (Some(2), None, Some(2)), (Some(2), Some(4), None)]
        {
            assert_eq!(causes(init, last, base, &bounds, None, false), [Cause::Unknown]);
        }
        assert_eq!(causes(Some(2), Some(4), Some(2), &bounds, None, false), [Cause::Unknown]);
    }
}
