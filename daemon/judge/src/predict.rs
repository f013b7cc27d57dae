//! From the lowest search result of all ranks to the final channel count, as the library goes (NCCL `ncclTopoPostset`,
//! `src/graph/connect.cc`, by version). Pure.
//!
//! Not every input is always known. What is not known is tried both ways: the result is then the set of final counts
//! that are possible, each with the fewest assumptions that lead to it.

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use super::channels::{Bounds, Cause, Step};
use super::version::{Family, Rules, Version};
pub(super) use words::in_words;

/// What the rules need, of all ranks together. `None`: not known.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Lowest init of all ranks.
    pub base: u32,
    /// The library.
    pub version: Option<Version>,
    /// Number of NCCL nodes.
    pub n_nodes: Option<u32>,
    /// Lowest compute capability of all ranks, times ten.
    pub compute_capability: Option<u32>,
    /// Lowest bandwidth inside a node that any rank's ring search found, GB/s.
    pub ring_bw_intra: Option<f64>,
    /// Whether CollNet is used and its rings are faster inside nodes than between them.
    pub collnet: Option<bool>,
    /// Whether the network device unpacks what it receives.
    pub unpack: Option<bool>,
    /// Channels for NVLS.
    pub nvls_channels: Option<u32>,
    /// Whether it shares its parent's channels.
    pub shared: Shared,
    /// Settings of the rank in question.
    pub bounds: Bounds,
}

/// Whether a communicator shares the channels of the one that it was split from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shared {
    /// It does not.
    #[default]
    No,
    /// It does; the channels of its topmost parent, and whether its parent has NVLS channels.
    With {
        /// Channels of the parent.
        channels: Option<u32>,
        /// Whether the parent has NVLS channels.
        nvls: Option<bool>,
    },
    /// It has a parent; the rest is not known.
    Maybe {
        /// Channels of the parent.
        channels: Option<u32>,
        /// Whether the parent has NVLS channels.
        nvls: Option<bool>,
    },
}

/// What the rules give.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// The ways to each possible final count, by final count. Empty: the library has other rules.
    pub outcomes: BTreeMap<u32, Outcome>,
    /// Inputs that are not known and change the result.
    pub unknown: Vec<&'static str>,
}

impl Prediction {
    /// The outcome that takes the fewest assumptions.
    #[must_use]
    pub fn likeliest(&self) -> Option<&Outcome> {
        self.outcomes.values().min_by_key(|outcome| outcome.cost)
    }
}

/// What is not known of RCCL: it follows NCCL's numbers and has rules of its own, so nothing is judged by NCCL's.
pub const RCCL_RULES: &str = "rccl_rules";

/// One way to a final count.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The rules that changed the number, in the library's order.
    pub steps: Vec<Step>,
    /// What was assumed, where an input is not known.
    pub assumed: Assumed,
    cost: u32,
}

/// Everything that the rules need, known or assumed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumed {
    /// Rules of the version.
    pub rules: Rules,
    /// CollNet's condition holds.
    pub collnet: bool,
    /// Hopper's condition holds, but for the count.
    pub hopper: bool,
    /// The condition of unpacking holds, but for the count.
    pub unpack: bool,
    /// Channels for NVLS.
    pub nvls_channels: u32,
    /// Channels of the parent that are shared.
    pub shared: Option<u32>,
    /// The parent has NVLS channels.
    pub parent_nvls: bool,
}

/// The final counts that are possible.
#[must_use]
pub fn predict(inputs: &Inputs) -> Prediction {
    if inputs.version.is_some_and(|version| version.family == Family::Rccl) {
        return Prediction { outcomes: BTreeMap::new(), unknown: vec![RCCL_RULES] };
    }
    let dimensions = Dimensions::of(inputs);
    let mut outcomes: BTreeMap<u32, Outcome> = BTreeMap::new();
    let mut tried = Vec::new();
    dimensions.each(|assumed, choice| {
        let steps = steps(inputs.base, &inputs.bounds, assumed);
        let last = steps.last().map_or(0, |step| step.channels);
        tried.push((*choice, last));
        let cost = choice.iter().map(|place| u32::from(*place)).sum();
        if outcomes.get(&last).is_none_or(|known| cost < known.cost) {
            outcomes.insert(last, Outcome { steps, assumed: *assumed, cost });
        }
    });
    let unknown = if outcomes.len() > 1 { dimensions.deciding(inputs, &tried) } else { Vec::new() };
    Prediction { outcomes, unknown }
}

/// The rules that change the number, in the library's order; the last one gives the final count.
#[must_use]
pub fn steps(base: u32, bounds: &Bounds, assumed: &Assumed) -> Vec<Step> {
    let rules = assumed.rules;
    let doubled = base.saturating_mul(2);
    let mut run = Run { steps: vec![Step { cause: Cause::Doubled, channels: doubled }] };
    run.cap(Cause::MaxChannels, Some(rules.max_channels));
    if assumed.collnet && rules.collnet {
        run.to(Cause::Collnet, (run.n() + run.n() / 2).min(rules.max_channels));
    }
    if let Some(hopper) = rules.hopper.filter(|_| assumed.hopper)
        && run.n() < hopper.below
    {
        run.to(Cause::Hopper, 2 * run.n());
    }
    if assumed.unpack && rules.unpack && run.n() < 16 {
        run.to(Cause::Unpack, 2 * run.n());
    }
    let shared = assumed.shared.filter(|_| rules.shared_cap);
    run.cap(Cause::MaxNchannels, bounds.max(&rules).map(|bound| bound.channels));
    run.cap(Cause::SharedParent, shared);
    let min = bounds
        .min(&rules)
        .map_or(0, |bound| bound.channels.min(rules.max_channels).min(shared.unwrap_or(u32::MAX)));
    run.to(Cause::MinNchannels, run.n().max(min));
    if rules.nvls_raise {
        run.to(Cause::NvlsRaise, run.n().max(assumed.nvls_channels));
    }
    if rules.parent_clamp && assumed.parent_nvls {
        run.cap(Cause::SharedParent, shared);
    }
    run.steps
}

struct Run {
    steps: Vec<Step>,
}

impl Run {
    fn n(&self) -> u32 {
        self.steps.last().map_or(0, |step| step.channels)
    }

    fn to(&mut self, cause: Cause, channels: u32) {
        if channels != self.n() {
            self.steps.push(Step { cause, channels });
        }
    }

    fn cap(&mut self, cause: Cause, most: Option<u32>) {
        self.to(cause, most.map_or(self.n(), |most| self.n().min(most)));
    }
}

/// What each input may be: one value if it is known. The first is the likelier one.
struct Dimensions {
    rules: Vec<Rules>,
    collnet: Vec<bool>,
    hopper: Vec<bool>,
    unpack: Vec<bool>,
    nvls: Vec<u32>,
    shared: Vec<(Option<u32>, bool)>,
}

/// Index of the value taken in each dimension.
type Choice = [u8; 6];

impl Dimensions {
    fn of(inputs: &Inputs) -> Self {
        let rules = match inputs.version {
            Some(version) => vec![version.rules()],
            None => eras(),
        };
        let several_nodes = inputs.n_nodes.map(|n_nodes| n_nodes > 1);
        let hopper = |rules: &Rules| {
            let admits = match (rules.hopper, inputs.compute_capability) {
                (None, _) => Some(false),
                (Some(hopper), Some(compute_capability)) => Some(hopper.admits(compute_capability)),
                (Some(_), None) => None,
            };
            all([admits, several_nodes, inputs.ring_bw_intra.map(|bw| bw > HOPPER_BW)])
        };
        let mut hoppers: Vec<Option<bool>> = rules.iter().map(hopper).collect();
        hoppers.dedup();
        Self {
            hopper: if let [one] = hoppers.as_slice() { either(*one) } else { either(None) },
            collnet: either(
                inputs
                    .collnet
                    .filter(|_| rules.iter().any(|rules| rules.collnet))
                    .or(rules.iter().all(|rules| !rules.collnet).then_some(false)),
            ),
            unpack: either(if rules.iter().any(|rules| rules.unpack) {
                all([inputs.unpack, several_nodes, Some(inputs.bounds.doubles_unpack)])
            } else {
                Some(false)
            }),
            nvls: match inputs.nvls_channels {
                Some(channels) => vec![channels],
                None if rules.iter().any(|rules| rules.nvls_raise) => vec![0, NVLS_DEFAULT],
                None => vec![0],
            },
            shared: if rules.iter().any(|rules| rules.shared_cap) {
                shares(inputs)
            } else {
                vec![(None, false)]
            },
            rules,
        }
    }

    fn each(&self, mut visit: impl FnMut(&Assumed, &Choice)) {
        for (a, rules) in (0_u8..).zip(&self.rules) {
            for (b, collnet) in (0_u8..).zip(&self.collnet) {
                for (c, hopper) in (0_u8..).zip(&self.hopper) {
                    for (d, unpack) in (0_u8..).zip(&self.unpack) {
                        for (e, nvls) in (0_u8..).zip(&self.nvls) {
                            for (f, (shared, parent_nvls)) in (0_u8..).zip(&self.shared) {
                                let assumed = Assumed {
                                    rules: *rules,
                                    collnet: *collnet,
                                    hopper: *hopper,
                                    unpack: *unpack,
                                    nvls_channels: *nvls,
                                    shared: *shared,
                                    parent_nvls: *parent_nvls,
                                };
                                visit(&assumed, &[a, b, c, d, e, f]);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The inputs without which the result is not certain: with all else alike, another value gives another count.
    fn deciding(&self, inputs: &Inputs, tried: &[(Choice, u32)]) -> Vec<&'static str> {
        let by_choice: BTreeMap<Choice, u32> = tried.iter().copied().collect();
        let decides = |dimension: usize| {
            tried.iter().any(|(choice, last)| {
                let mut other = *choice;
                other[dimension] = 0;
                by_choice.get(&other).is_some_and(|other| other != last)
            })
        };
        let [version, collnet, hopper, unpack, nvls, shared] = std::array::from_fn(decides);
        let several = hopper || unpack;
        let named = [
            ("version", version && inputs.version.is_none()),
            ("collnet", collnet),
            ("n_nodes", several && inputs.n_nodes.is_none()),
            ("compute_capability", hopper && inputs.compute_capability.is_none()),
            ("ring_bw_intra", hopper && inputs.ring_bw_intra.is_none()),
            ("net_unpack", unpack && inputs.unpack.is_none()),
            ("nvls_channels", nvls),
            ("shared_parent", shared),
        ];
        named.into_iter().filter(|(_, decides)| *decides).map(|(name, _)| name).collect()
    }
}

fn shares(inputs: &Inputs) -> Vec<(Option<u32>, bool)> {
    let with = |channels: Option<u32>, nvls: Option<bool>| -> Vec<(Option<u32>, bool)> {
        // A parent whose channels are not known may cap at anything: the doubled base is what it would not change.
        let nvls = nvls.unwrap_or(true);
        let halves =
            || (0..inputs.base.min(MAX_UNKNOWN_CAP)).map(|less| inputs.base.saturating_mul(2) - less - 1);
        match channels {
            Some(channels) => vec![(Some(channels), nvls)],
            None => std::iter::once(None).chain(halves().map(Some)).map(|cap| (cap, nvls)).collect(),
        }
    };
    match inputs.shared {
        Shared::No => vec![(None, false)],
        Shared::With { channels, nvls } => with(channels, nvls),
        Shared::Maybe { channels, nvls } => {
            let mut both = vec![(None, false)];
            both.extend(with(channels, nvls).into_iter().filter(|(cap, _)| cap.is_some()));
            both
        }
    }
}

/// False as soon as one is; true only if all are.
fn all<const N: usize>(conditions: [Option<bool>; N]) -> Option<bool> {
    if conditions.contains(&Some(false)) {
        Some(false)
    } else {
        conditions.into_iter().collect::<Option<Vec<bool>>>().map(|_| true)
    }
}

/// Not holding is the likelier.
fn either(condition: Option<bool>) -> Vec<bool> {
    condition.map_or_else(|| vec![false, true], |known| vec![known])
}

/// Every set of rules that there is, the newest first.
fn eras() -> Vec<Rules> {
    const FIRST: [(u32, u32, u32); 12] = [
        (2, 28, 0),
        (2, 25, 0),
        (2, 22, 0),
        (2, 21, 5),
        (2, 20, 3),
        (2, 20, 0),
        (2, 18, 0),
        (2, 17, 0),
        (2, 9, 0),
        (2, 8, 0),
        (2, 7, 0),
        (2, 5, 0),
    ];
    let mut eras: Vec<Rules> = Vec::new();
    for (major, minor, patch) in FIRST {
        let rules = Version::nccl(major, minor, patch).rules();
        if !eras.contains(&rules) {
            eras.push(rules);
        }
    }
    eras
}

/// GB/s inside the node, above which Hopper's rule holds.
pub const HOPPER_BW: f64 = 45.0;

/// `NCCL_NVLS_NCHANNELS` where it is not set.
const NVLS_DEFAULT: u32 = 16;

/// Caps that are tried for a parent whose channels are not known.
const MAX_UNKNOWN_CAP: u32 = 64;
