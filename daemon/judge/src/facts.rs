//! What diagnosis needs to know of a communicator, taken from the model at once.

use std::collections::{BTreeMap, HashMap};

use ringscope_api::Fnv;
use ringscope_api::clock::Timestamp;
use ringscope_api::{ChannelPrediction, CommunicatorState, OddHop};
use ringscope_model::{Communicator, CommunicatorId, Model, Name};

use super::causes::causes;
use super::channels::{self, Bounds};
use super::coverage::Coverage;
use super::hops::{self, OddHost, Rails};
use super::inputs;
use super::nodes::{Node, Place, nodes};
use super::past::Past;
use super::predict::{self, Assumed, HOPPER_BW, Inputs, Prediction};
use super::rank_channels::RankChannels;
use super::ranks::Ranks;

/// The channels of a communicator.
#[derive(Clone, Debug)]
pub struct Channels {
    /// Its id.
    pub id: CommunicatorId,
    /// Its job.
    pub job: Name,
    /// What its program calls it. Empty: nothing.
    pub name: Name,
    /// When its first rank called its init.
    pub created: Timestamp,
    /// Whether it is in use: only then it can have findings.
    pub is_live: bool,
    /// Number of ranks, heard of or not.
    pub n_ranks: u32,
    /// The ranks heard of, by rank.
    pub ranks: Vec<RankChannels>,
    /// Lowest init of all ranks. Absent: not every rank has said.
    pub base: Option<u32>,
    /// Its NCCL nodes.
    pub nodes: Vec<Node>,
    /// Those that are not a whole host, by the hosts that they have, ascending.
    odd_nodes: HashMap<Name, Vec<usize>>,
    /// Its odd hops.
    pub odd: Vec<OddHost>,
    /// How much is known of the rails of its hops.
    pub rails: Rails,
    /// How many channels the rules give. Absent: not every rank's init is known.
    pub judged: Option<Judged>,
    /// How much of it is seen.
    pub coverage: Coverage,
    /// Agreed number. Absent: not every rank has said, or they disagree.
    pub final_channels: Option<u32>,
    /// Known from files alone.
    pub past: Option<Past>,
}

/// What the rules give for each set of settings that its ranks have.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What the rules were given, with the settings of the first rank.
    pub inputs: Inputs,
    /// Ranks that keep the library from doubling for Hopper, because their GPU is older or their ring too slow, while
    /// others are such that it would, ascending. Empty: none does.
    pub hopper_off: Vec<u32>,
    predictions: Vec<(Bounds, Prediction)>,
}

impl Judged {
    /// Judges all ranks, and tells each its causes.
    fn of(inputs: Inputs, ranks: &mut [RankChannels]) -> Self {
        let hopper = inputs.version.and_then(|version| version.rules().hopper);
        let several_nodes = inputs.n_nodes.is_some_and(|n_nodes| n_nodes > 1);
        let fits = |rank: &RankChannels| {
            let admits = hopper.zip(rank.compute_capability).is_some_and(|(rule, cc)| rule.admits(cc));
            several_nodes && admits && rank.ring_bw_intra.is_some_and(|bw| bw > HOPPER_BW)
        };
        let is_unfit = |rank: &RankChannels| {
            let too_old = hopper.zip(rank.compute_capability).is_some_and(|(rule, cc)| !rule.admits(cc));
            too_old || rank.ring_bw_intra.is_some_and(|bw| bw <= HOPPER_BW)
        };
        let some_fit = ranks.iter().any(fits);
        let hopper_off =
            ranks.iter().filter(|rank| some_fit && is_unfit(rank)).map(|rank| rank.rank).collect();
        let mut judged = Self { inputs, hopper_off, predictions: Vec::new() };
        for rank in ranks.iter_mut() {
            if !judged.predictions.iter().any(|(bounds, _)| *bounds == rank.bounds) {
                let inputs = Inputs { bounds: rank.bounds.clone(), ..judged.inputs.clone() };
                judged.predictions.push((rank.bounds.clone(), predict::predict(&inputs)));
            }
        }
        for rank in ranks.iter_mut() {
            let alone = fits(rank);
            rank.causes = causes(
                rank.init,
                rank.final_channels,
                Some(judged.inputs.base),
                &rank.bounds,
                Some(judged.of_bounds(&rank.bounds)),
                alone,
            );
        }
        judged
    }

    /// Whether the library has other rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.predictions.iter().all(|(_, prediction)| prediction.outcomes.is_empty())
    }

    /// The prediction for a rank with these settings.
    #[must_use]
    pub fn of_bounds(&self, bounds: &Bounds) -> &Prediction {
        const NONE: &Prediction = &Prediction { outcomes: BTreeMap::new(), unknown: Vec::new() };
        self.predictions.iter().find(|(known, _)| known == bounds).map_or(NONE, |(_, prediction)| prediction)
    }
}

/// One host's part: what the lowest of its ranks found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostChannels {
    /// Name.
    pub host: Name,
    /// Lowest init of its ranks.
    pub init: u32,
    /// Highest init of its ranks: the same, unless the library sees several nodes in this host.
    pub highest_init: u32,
    /// Places of its ranks in [`Channels::ranks`].
    pub places: Vec<usize>,
    /// Settings of its lowest rank.
    pub bounds: Bounds,
}

impl Channels {
    /// What the model knows of this communicator.
    #[must_use]
    pub fn of(communicator: &Communicator, model: &Model) -> Self {
        let refs = Ranks::of(communicator, model);
        let places: Vec<Place> = refs.iter().map(Place::of).collect();
        let nodes = nodes(&places);
        let mut node_of = vec![0; refs.len()];
        for (index, node) in (0_u32..).zip(&nodes) {
            for place in node.ranks.iter().filter_map(|rank| refs.place(*rank)) {
                node_of[place] = index;
            }
        }
        let mut ranks: Vec<RankChannels> =
            refs.iter().zip(&node_of).map(|(rank, node)| RankChannels::of(rank, Some(*node))).collect();
        let is_whole = ranks.len() == communicator.n_ranks() as usize;
        let base = all(is_whole, ranks.iter().map(|rank| rank.init)).and_then(|all| all.into_iter().min());
        let finals = all(is_whole, ranks.iter().map(|rank| rank.final_channels)).unwrap_or_default();
        let final_channels = finals.first().copied().filter(|one| finals.iter().all(|other| one == other));
        let judged = base.map(|base| {
            let inputs = inputs::of(communicator, model, &refs, &ranks, base);
            Judged::of(inputs, &mut ranks)
        });
        let state = communicator.state_of(refs.iter().copied()).0;
        let (odd, rails) = hops::odd(hops::hops(&refs, &node_of));
        let created = refs.iter().map(|rank| rank.facts.created).filter(|created| created.0 > 0).min();
        Self {
            id: communicator.id(),
            job: communicator.job().clone(),
            name: communicator.name(model).cloned().unwrap_or_default(),
            created: created.unwrap_or_default(),
            is_live: matches!(state, CommunicatorState::Active | CommunicatorState::Broken),
            n_ranks: communicator.n_ranks(),
            odd,
            rails,
            odd_nodes: odd_nodes(&nodes),
            nodes,
            base,
            judged,
            coverage: Coverage::of(communicator, model, &refs),
            final_channels,
            past: Past::of(refs.iter().map(|rank| rank.process)),
            ranks,
        }
    }

    /// How many channels it should run on, as the API shows it.
    #[must_use]
    pub fn prediction(&self) -> ChannelPrediction {
        let (Some(judged), Some(rank)) = (&self.judged, self.ranks.first()) else {
            return ChannelPrediction::default();
        };
        let prediction = judged.of_bounds(&rank.bounds);
        let finals: Vec<u32> = prediction.outcomes.keys().copied().collect();
        let outcome = match self.final_channels {
            Some(last) => prediction.outcomes.get(&last),
            None => prediction.outcomes.values().next().filter(|_| finals.len() == 1),
        };
        let explained = self.final_channels.filter(|_| !finals.is_empty()).map(|last| finals.contains(&last));
        ChannelPrediction {
            explained,
            steps: outcome
                .map(|outcome| predict::in_words(outcome, &judged.inputs, &rank.bounds))
                .unwrap_or_default(),
            unknown: prediction.unknown.iter().map(|name| (*name).to_owned()).collect(),
            finals,
        }
    }

    /// What it would run on, had the ranks found no fewer than `base`; all else as it is. `None`: nobody can say.
    #[must_use]
    pub fn instead(&self, base: u32, bounds: &Bounds, hopper: bool) -> Option<u32> {
        let judged = self.judged.as_ref()?;
        let prediction = judged.of_bounds(bounds);
        let known = self.final_channels.and_then(|last| prediction.outcomes.get(&last));
        let outcome = known.or_else(|| prediction.likeliest())?;
        let assumed = Assumed { hopper: outcome.assumed.hopper || hopper, ..outcome.assumed };
        Some(channels::last(&predict::steps(base, bounds, &assumed)))
    }

    /// What is odd about hops, by (rank, channel).
    #[must_use]
    pub fn odd_hops(&self) -> BTreeMap<(u32, u32), Vec<OddHop>> {
        let mut odd: BTreeMap<(u32, u32), Vec<OddHop>> = BTreeMap::new();
        for (hop, why) in self.odd.iter().flat_map(|host| host.hops.iter().map(|hop| (hop, host.odd))) {
            let marks = odd.entry((hop.rank, hop.channel)).or_default();
            if !marks.contains(&why) {
                marks.push(why);
            }
        }
        odd
    }

    /// What it has in common with the communicators that it can be compared with, beside the job: its name, and which
    /// GPUs of which hosts it has with which settings. A group over other GPUs, or with other settings, may well find
    /// fewer channels. The NICs in use are not part of it: that one is lost is what the comparison is for. Nor are numbers in
    /// the name: programs count what they make anew.
    #[must_use]
    pub(super) fn shape(&self) -> u64 {
        let mut ranks: Vec<u64> = self.ranks.iter().map(|rank| rank.likeness).collect();
        ranks.sort_unstable();
        let name: String = self.name.chars().filter(|c| !c.is_ascii_digit()).collect();
        ranks.into_iter().fold(Fnv::new().text(&name), Fnv::number).finish()
    }

    /// Its hosts, in the order of their lowest rank; empty unless every rank's init is known.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostChannels> {
        let mut places: HashMap<&Name, usize> = HashMap::new();
        let mut hosts: Vec<HostChannels> = Vec::new();
        if self.base.is_none() {
            return hosts;
        }
        for (at, rank) in self.ranks.iter().enumerate() {
            let init = rank.init.unwrap_or_default();
            if let Some(host) = places.get(&rank.host).and_then(|place| hosts.get_mut(*place)) {
                host.init = host.init.min(init);
                host.highest_init = host.highest_init.max(init);
                host.places.push(at);
            } else {
                places.insert(&rank.host, hosts.len());
                let (host, bounds) = (rank.host.clone(), rank.bounds.clone());
                hosts.push(HostChannels { host, init, highest_init: init, places: vec![at], bounds });
            }
        }
        hosts
    }

    /// One rank, if it had been heard of.
    #[must_use]
    pub fn rank(&self, rank: u32) -> Option<&RankChannels> {
        let at = self.ranks.binary_search_by_key(&rank, |known| known.rank);
        self.ranks.get(at.ok()?)
    }

    /// The ranks of a host.
    pub fn ranks_of<'a>(&'a self, host: &'a HostChannels) -> impl Iterator<Item = &'a RankChannels> + Clone {
        host.places.iter().filter_map(|at| self.ranks.get(*at))
    }

    /// The nodes of a host's ranks, if nodes and hosts are not the same there.
    pub fn odd_nodes(&self, host: &Name) -> impl Iterator<Item = (usize, &Node)> {
        let its = self.odd_nodes.get(host).into_iter().flatten();
        its.filter_map(|index| Some((*index, self.nodes.get(*index)?)))
    }

    /// Whether these ranks of the host keep the library from doubling for Hopper, and the final count if they did not.
    #[must_use]
    pub fn hopper_off<'a>(&'a self, host: &'a HostChannels) -> Option<(&'a RankChannels, u32)> {
        let judged = self.judged.as_ref().filter(|judged| !judged.hopper_off.is_empty())?;
        let is_off = |rank: &&RankChannels| judged.hopper_off.binary_search(&rank.rank).is_ok();
        let rank = self.ranks_of(host).find(is_off)?;
        let instead = self.instead(judged.inputs.base, &rank.bounds, true)?;
        Some((rank, instead)).filter(|(_, instead)| self.final_channels.is_some_and(|last| *instead > last))
    }

    /// The hosts that hold others back: those with the lowest init, if any rank found more.
    #[must_use]
    pub fn culprits(&self) -> Vec<Name> {
        let hosts = self.hosts();
        let Some(base) = self.base else { return Vec::new() };
        if hosts.iter().all(|host| host.highest_init == base) {
            return Vec::new();
        }
        hosts.into_iter().filter(|host| host.init == base).map(|host| host.host).collect()
    }
}

fn odd_nodes(nodes: &[Node]) -> HashMap<Name, Vec<usize>> {
    let mut odd: HashMap<Name, Vec<usize>> = HashMap::new();
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| !node.is_host) {
        for host in &node.hosts {
            odd.entry(host.clone()).or_default().push(index);
        }
    }
    odd
}

/// All values, if there is none missing.
fn all(is_whole: bool, mut values: impl Iterator<Item = Option<u32>>) -> Option<Vec<u32>> {
    if is_whole { values.by_ref().collect() } else { None }
}
