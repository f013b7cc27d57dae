//! A prediction in words.

use ringscope_api::ChannelStep;

use super::{Inputs, Outcome, Shared};
use crate::channels::{Bound, Bounds, Cause, Step};

/// The steps of a prediction, each with its number and why.
pub(crate) fn in_words(outcome: &Outcome, inputs: &Inputs, bounds: &Bounds) -> Vec<ChannelStep> {
    let rules = outcome.assumed.rules;
    let step = |step: &Step| {
        let n = step.channels;
        let named = |bound: Option<&Bound>| match bound {
            Some(bound) => format!("{}={}", bound.name, bound.channels),
            None => "a setting".to_owned(),
        };
        let (text, is_known) = match step.cause {
            Cause::Doubled => (format!("twice the lowest init of all ranks, {}: {n}", inputs.base), true),
            Cause::MaxChannels => (format!("there are at most {n}"), true),
            Cause::Collnet => (format!("CollNet adds half as many: {n}"), inputs.collnet.is_some()),
            Cause::Hopper => {
                let cc = inputs.compute_capability.map_or(UNKNOWN_CAPABILITY.to_owned(), |cc| {
                    format!(" (compute capability {}.{})", cc / 10, cc % 10)
                });
                let bw =
                    inputs.ring_bw_intra.map_or(String::new(), |bw| format!(", rings of {bw} GB/s > 45"));
                let is_known =
                    inputs.compute_capability.is_some() && inputs.n_nodes.is_some() && !bw.is_empty();
                (format!("Hopper{cc}, several nodes{bw}: doubled to {n}"), is_known)
            }
            Cause::Unpack => (format!("the network device unpacks: doubled to {n}"), inputs.unpack.is_some()),
            Cause::MaxNchannels => (format!("{} lowers it to {n}", named(bounds.max(&rules))), true),
            Cause::MinNchannels => (format!("{} raises it to {n}", named(bounds.min(&rules))), true),
            Cause::NvlsRaise => (format!("NVLS needs {n}"), inputs.nvls_channels.is_some()),
            Cause::SharedParent => {
                let is_known = matches!(inputs.shared, Shared::With { channels: Some(_), .. });
                (format!("it shares its parent's {n} channels"), is_known)
            }
            _ => (String::new(), true),
        };
        ChannelStep { cause: step.cause.label().to_owned(), channels: n, text, inferred: !is_known }
    };
    outcome.steps.iter().map(step).collect()
}

/// What a log does not tell unless it comes with a topology dump.
const UNKNOWN_CAPABILITY: &str = " (compute capability not known)";
