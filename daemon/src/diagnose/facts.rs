//! What diagnosis needs to know of a communicator, taken from the model at once.

use std::collections::BTreeMap;

use super::channels::{self, Bounds, Cause};
use super::coverage::Coverage;
use super::version::Version;
use crate::api::{ChannelPrediction, CommunicatorState, OddHop};
use crate::clock::Timestamp;
use crate::model::{Communicator, CommunicatorId, Fnv, Model, Name};

/// The channels of a communicator.
#[derive(Clone, Debug)]
pub struct Channels {
    /// Its id.
    pub id: CommunicatorId,
    /// Its job.
    pub job: Name,
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
    /// How many channels it should run on.
    pub prediction: ChannelPrediction,
    /// How much of it is seen.
    pub coverage: Coverage,
    /// Agreed number. Absent: not every rank has said, or they disagree.
    pub final_channels: Option<u32>,
}

/// The channels of one rank.
#[derive(Clone, Debug)]
pub struct RankChannels {
    /// Rank.
    pub rank: u32,
    /// Its host.
    pub host: Name,
    /// Channels that its node's own search found.
    pub init: Option<u32>,
    /// Channels that it runs on.
    pub final_channels: Option<u32>,
    /// Its settings.
    pub bounds: Bounds,
    /// Why it runs on as many, the strongest first. Never empty.
    pub causes: Vec<Cause>,
    /// Index of its NCCL node.
    pub node: Option<u32>,
    /// Its library.
    pub version: Option<Version>,
}

impl RankChannels {
    /// The strongest cause.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.causes.first().copied().unwrap_or(Cause::Unknown)
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
    /// Number of its ranks.
    pub n_ranks: u32,
    /// Settings of its lowest rank.
    pub bounds: Bounds,
}

impl Channels {
    /// What the model knows of this communicator.
    #[must_use]
    pub fn of(communicator: &Communicator, model: &Model) -> Self {
        let mut ranks: Vec<RankChannels> = communicator
            .ranks(model)
            .map(|rank| RankChannels {
                rank: rank.rank,
                host: rank.identity.host.clone(),
                init: rank.facts.init_channels,
                final_channels: rank.facts.final_channels,
                bounds: Bounds::of(&rank.facts.settings),
                causes: vec![Cause::Unknown],
                node: None,
                version: Version::of(&rank.facts.log_version, rank.identity.library_version),
            })
            .collect();
        let is_whole = ranks.len() == communicator.n_ranks() as usize;
        let base = all(is_whole, ranks.iter().map(|rank| rank.init)).and_then(|all| all.into_iter().min());
        let finals = all(is_whole, ranks.iter().map(|rank| rank.final_channels)).unwrap_or_default();
        for rank in &mut ranks {
            rank.causes = vec![channels::cause(rank.init, rank.final_channels, base, &rank.bounds)];
        }
        let state = communicator.state(model).0;
        Self {
            id: communicator.id(),
            job: communicator.job().clone(),
            created: communicator.created(model),
            is_live: matches!(state, CommunicatorState::Active | CommunicatorState::Broken),
            n_ranks: communicator.n_ranks(),
            ranks,
            base,
            prediction: ChannelPrediction::default(),
            coverage: Coverage::of(communicator, model),
            final_channels: finals.first().copied().filter(|one| finals.iter().all(|other| one == other)),
        }
    }

    /// What is odd about hops, by (rank, channel).
    #[must_use]
    pub fn odd_hops(&self) -> BTreeMap<(u32, u32), Vec<OddHop>> {
        BTreeMap::new()
    }

    /// Its hosts, in the order of their lowest rank; empty unless every rank's init is known.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostChannels> {
        let mut places: BTreeMap<&Name, usize> = BTreeMap::new();
        let mut hosts: Vec<HostChannels> = Vec::new();
        if self.base.is_none() {
            return hosts;
        }
        for rank in &self.ranks {
            let init = rank.init.unwrap_or_default();
            if let Some(host) = places.get(&rank.host).and_then(|place| hosts.get_mut(*place)) {
                host.init = host.init.min(init);
                host.highest_init = host.highest_init.max(init);
                host.n_ranks += 1;
            } else {
                places.insert(&rank.host, hosts.len());
                let (host, bounds) = (rank.host.clone(), rank.bounds.clone());
                hosts.push(HostChannels { host, init, highest_init: init, n_ranks: 1, bounds });
            }
        }
        hosts
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

/// What communicators have in common that can be compared: the job, and how many ranks are on which hosts.
#[must_use]
pub(super) fn shape(hosts: &[HostChannels]) -> u64 {
    let mut parts: Vec<(&str, u32)> = hosts.iter().map(|host| (&*host.host, host.n_ranks)).collect();
    parts.sort_unstable();
    parts.iter().fold(Fnv::new(), |hash, (host, n)| hash.text(host).number(u64::from(*n))).finish()
}

/// All values, if there is none missing.
fn all(is_whole: bool, mut values: impl Iterator<Item = Option<u32>>) -> Option<Vec<u32>> {
    if is_whole { values.by_ref().collect() } else { None }
}
