//! From the facts of every process, of one file or many, to whole communicators: who belongs together, the rings that
//! their ranks make, and what is missing. Nothing is made up: what the lines do not prove stays `None`.
//!
//! Ranks are joined by commHash. Where none is printed (up to 2.15, splits of 2.23 to 2.31 whose parent is not in the
//! log) by order: the k-th communicator of a size in one process belongs to the k-th of that size in the others, as long
//! as the rank is still free.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::facts::{CommunicatorFacts, Fragment, Searched};
use super::log::NcclLog;

mod rings;

/// One communicator with all ranks that were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssembledCommunicator {
    /// commHash, as printed or as computed.
    pub comm_hash: Option<u64>,
    /// Ranks were joined by their order, for nothing names the communicator.
    pub joined_by_order: bool,
    /// Number of ranks, as printed; else as the closed rings tell.
    pub n_ranks: Option<u32>,
    /// Number of NCCL nodes.
    pub n_nodes: Option<u32>,
    /// Version of the library.
    pub version: Option<String>,
    /// What each rank says.
    pub members: BTreeMap<u32, Member>,
    /// Facts of threads of which not even the rank is known.
    pub unplaced: Vec<Member>,
    /// Rings by channel, from rank 0 on.
    pub rings: BTreeMap<u32, Vec<u32>>,
    /// Which lines tell the rings.
    pub rings_source: Option<RingsSource>,
}

/// One rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// Which of the logs it was read from.
    pub log: usize,
    /// An init line names it. Otherwise its place was concluded from lines of its thread.
    pub named: bool,
    /// What it says.
    pub facts: CommunicatorFacts,
}

/// Where rings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingsSource {
    /// The "Ring" lines of all ranks.
    EveryRank,
    /// The orders that rank 0 prints.
    Rank0,
    /// The connections, where they leave no choice.
    Connections,
}

/// How the final number of channels stands to twice the initial one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Final < 2 × initial.
    Less,
    /// Final = 2 × initial.
    Equal,
    /// Final > 2 × initial.
    Greater,
}

/// What several logs say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assembled {
    /// In the order in which they are first heard of.
    pub communicators: Vec<AssembledCommunicator>,
    /// What is missing, by log.
    pub lacks: Vec<Vec<String>>,
}

impl AssembledCommunicator {
    /// Ranks of which nothing was seen.
    #[must_use]
    pub fn missing(&self) -> Vec<u32> {
        let n_ranks = self.n_ranks.unwrap_or(0).min(MAX_RANKS);
        (0..n_ranks).filter(|rank| !self.members.contains_key(rank)).collect()
    }

    /// Channels agreed, where all that say it agree.
    #[must_use]
    pub fn final_channels(&self) -> Option<u32> {
        let mut said = self.all().filter_map(|member| member.facts.final_channels);
        let first = said.next()?;
        said.all(|other| other == first).then_some(first)
    }

    /// Initial channels of each rank that says them.
    #[must_use]
    pub fn init_channels(&self) -> BTreeMap<u32, u32> {
        let said = self.members.iter();
        said.filter_map(|(rank, member)| Some((*rank, member.facts.init_channels?))).collect()
    }

    /// How final stands to twice a rank's initial channels.
    #[must_use]
    pub fn relation_of(&self, rank: u32) -> Option<Relation> {
        relation(self.final_channels()?, self.members.get(&rank)?.facts.init_channels?)
    }

    /// The relations of all that can be told, those of unplaced threads too.
    pub fn relations(&self) -> impl Iterator<Item = Relation> {
        let agreed = self.final_channels();
        self.all().filter_map(move |member| relation(agreed?, member.facts.init_channels?))
    }

    /// Whether an init of it returned an error.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.all().any(|member| member.facts.failed)
    }

    /// Connection lines by kind.
    #[must_use]
    pub fn connections(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for (kind, n) in self.all().flat_map(|member| &member.facts.connections) {
            *sum.entry(kind.clone()).or_default() += n;
        }
        sum
    }

    /// Hosts that its members run on.
    #[must_use]
    pub fn hosts(&self) -> BTreeSet<&str> {
        self.all().map(|member| member.facts.host.as_str()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.values().chain(&self.unplaced)
    }

    fn takes(&self, facts: &CommunicatorFacts) -> bool {
        let same = |member: &Member| {
            let other = &member.facts;
            (&other.host, other.pid, other.cuda_device, &other.bus_id)
                == (&facts.host, facts.pid, facts.cuda_device, &facts.bus_id)
        };
        self.n_ranks == Some(facts.n_ranks)
            && !self.members.contains_key(&facts.rank)
            && !self.members.values().any(same)
    }

    fn add(&mut self, log: usize, facts: CommunicatorFacts, named: bool) {
        self.n_nodes = self.n_nodes.or(facts.n_nodes);
        self.members.insert(facts.rank, Member { log, named, facts });
    }
}

fn relation(agreed: u32, init: u32) -> Option<Relation> {
    Some(match agreed.cmp(&init.checked_mul(2)?) {
        Ordering::Less => Relation::Less,
        Ordering::Equal => Relation::Equal,
        Ordering::Greater => Relation::Greater,
    })
}

/// Largest number of ranks whose absence is listed.
const MAX_RANKS: u32 = 1 << 20;

/// Joins what the logs say.
#[must_use]
pub fn assemble(logs: &[&NcclLog]) -> Assembled {
    let mut communicators: Vec<AssembledCommunicator> = Vec::new();
    // How many communicators of a size, and of a kind, a process has had so far.
    let mut order: BTreeMap<(String, u32, Option<String>, u32), usize> = BTreeMap::new();
    for (log, read) in logs.iter().enumerate() {
        for mut facts in read.communicators().cloned().chain(read.unfinished()) {
            facts.host = read.host_of(&facts.host, facts.pid).to_owned();
            place(&mut communicators, &mut order, log, facts);
        }
    }
    for (log, read) in logs.iter().enumerate() {
        place_fragments(&mut communicators, log, read.fragments());
    }
    for communicator in &mut communicators {
        rings::find(communicator);
        count_nodes(communicator);
        let own = communicator.all().find_map(|member| member.facts.version.clone());
        let any = || logs.iter().find_map(|log| log.version()).map(str::to_owned);
        communicator.version = own.or_else(any);
    }
    Assembled { communicators, lacks: logs.iter().map(|log| log.lacks()).collect() }
}

/// Where no line says it, from the places of all ranks in their nodes.
fn count_nodes(communicator: &mut AssembledCommunicator) {
    if communicator.n_nodes.is_some() || communicator.n_ranks.is_none() || !communicator.missing().is_empty()
    {
        return;
    }
    let places: Option<Vec<u32>> =
        communicator.members.values().map(|member| member.facts.local_rank).collect();
    let firsts = places.map(|places| places.iter().filter(|place| **place == 0).count());
    communicator.n_nodes = firsts.and_then(|firsts| u32::try_from(firsts).ok()).filter(|nodes| *nodes > 0);
}

type Order = BTreeMap<(String, u32, Option<String>, u32), usize>;

fn place(
    communicators: &mut Vec<AssembledCommunicator>,
    order: &mut Order,
    log: usize,
    facts: CommunicatorFacts,
) {
    let hash = facts.hash();
    let mut open = communicators.iter_mut().filter(|other| other.comm_hash == hash && other.takes(&facts));
    let found = if hash.is_some() {
        open.next()
    } else {
        let key = (facts.host.clone(), facts.pid, facts.bus_id.clone(), facts.n_ranks);
        let nth = order.entry(key).or_default();
        *nth += 1;
        // Communicators that the process is already in are not open to it, so the first open one is its next.
        let mut open: Vec<_> = open.collect();
        let near = open.iter().position(|other| other.hosts().contains(facts.host.as_str()));
        let at = if *nth == 1 { near.unwrap_or(0) } else { 0 };
        (at < open.len()).then(|| open.swap_remove(at))
    };
    if let Some(communicator) = found {
        communicator.add(log, facts, true);
        return;
    }
    let mut communicator = AssembledCommunicator {
        comm_hash: hash,
        joined_by_order: hash.is_none(),
        n_ranks: Some(facts.n_ranks),
        ..AssembledCommunicator::default()
    };
    communicator.add(log, facts, true);
    communicators.push(communicator);
}

/// Threads whose communicator no line names. If there is exactly one communicator with that host or that lacks that
/// rank, it is theirs; if there is none at all, they make one of their own.
fn place_fragments(communicators: &mut Vec<AssembledCommunicator>, log: usize, fragments: Vec<Fragment>) {
    let named = communicators.len();
    for Fragment { rank, facts, .. } in by_gpu(fragments) {
        if named > 1 {
            continue;
        }
        if communicators.is_empty() {
            communicators
                .push(AssembledCommunicator { joined_by_order: true, ..AssembledCommunicator::default() });
        }
        let Some(communicator) = communicators.first_mut() else { continue };
        if facts.n_ranks > 0 && communicator.n_ranks.is_none() {
            communicator.n_ranks = Some(facts.n_ranks);
        }
        communicator.n_nodes = communicator.n_nodes.or(facts.n_nodes);
        let fits = |rank: &u32| communicator.n_ranks.is_none_or(|n| *rank < n);
        match rank.filter(fits).map(|rank| (rank, communicator.members.get_mut(&rank))) {
            Some((_, Some(member))) => merge(&mut member.facts, facts),
            Some((rank, None)) => {
                let named = facts.comm_pointer != 0;
                communicator.add(log, CommunicatorFacts { rank, ..facts }, named);
            }
            None => communicator.unplaced.push(Member { log, named: false, facts }),
        }
    }
}

/// The threads of one process and GPU speak of one rank, where they do not contradict each other.
fn by_gpu(fragments: Vec<Fragment>) -> Vec<Fragment> {
    let mut joined: Vec<Fragment> = Vec::new();
    for fragment in fragments {
        let key = |facts: &CommunicatorFacts| (facts.host.clone(), facts.pid, facts.cuda_device);
        let same = |other: &&mut Fragment| {
            key(&other.facts) == key(&fragment.facts)
                && fragment.facts.cuda_device.is_some()
                && other.rank.zip(fragment.rank).is_none_or(|(a, b)| a == b)
        };
        match joined.iter_mut().find(same) {
            Some(other) => {
                if other.rank.is_none() {
                    other.facts.rank = fragment.facts.rank;
                }
                other.rank = other.rank.or(fragment.rank);
                merge(&mut other.facts, fragment.facts);
            }
            None => joined.push(fragment),
        }
    }
    joined
}

/// Two threads of one rank: the one that made the communicator, and the one that connected it later.
fn merge(into: &mut CommunicatorFacts, other: CommunicatorFacts) {
    if (&into.host, into.pid) != (&other.host, other.pid) {
        return;
    }
    into.init_channels = into.init_channels.or(other.init_channels);
    into.n_ranks = into.n_ranks.max(other.n_ranks);
    into.n_nodes = into.n_nodes.or(other.n_nodes);
    if into.comm_pointer == 0 {
        into.comm_pointer = other.comm_pointer;
    }
    into.ring_bw_intra = into.ring_bw_intra.or(other.ring_bw_intra);
    into.ring_bw_inter = into.ring_bw_inter.or(other.ring_bw_inter);
    into.final_channels = into.final_channels.or(other.final_channels);
    into.nvml_device = into.nvml_device.or(other.nvml_device);
    into.bus_id = into.bus_id.take().or(other.bus_id);
    if into.rings.is_empty() {
        into.rings = other.rings;
    }
    if into.searched == Searched::default() {
        into.searched = other.searched;
    }
    if into.trees.is_empty() {
        into.trees = other.trees;
    }
    for (kind, n) in other.connections {
        *into.connections.entry(kind).or_default() += n;
    }
    into.edges.extend(other.edges);
    into.nics_used.extend(other.nics_used);
    into.proxy_ranks.extend(other.proxy_ranks);
    into.evidence.extend(other.evidence);
}

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod faithful_tests;
#[cfg(test)]
mod tests;
