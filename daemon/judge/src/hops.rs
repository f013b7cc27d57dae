//! Hops that are odd among their like: slower transports than others have, and NICs on different rails. Pure.
//!
//! Each rule compares: what all hosts do alike is how the cluster is built, and no fault. So a communicator whose hops
//! all run over sockets, or whose rings cross rails on purpose (NCCL's crossNic), has no odd hop.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use ringscope_api::OddHop;
use ringscope_model::{Name, Position};

use super::ranks::Ranks;

/// One hop of a ring of one channel.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// Channel.
    pub channel: u32,
    /// Sender.
    pub rank: u32,
    /// Receiver.
    pub next: u32,
    /// Host of the sender.
    pub host: &'a Name,
    /// Host of the receiver.
    pub next_host: &'a Name,
    /// NCCL node of the sender.
    pub node: u32,
    /// NCCL node of the receiver.
    pub next_node: u32,
    /// As the library names it.
    pub transport: &'a Name,
    /// Whether the NIC reads the GPU's memory itself.
    pub gpu_direct: bool,
    /// Rails that it is sent and received on, by the name or index of their NICs.
    pub rails: Option<(Rail<'a>, Rail<'a>)>,
    /// Whether the ring goes on from the receiver.
    pub goes_on: bool,
}

/// A rail: NICs of the same place in each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rail<'a> {
    /// Index of the NIC in its net plugin.
    Index(u32),
    /// Name of the NIC.
    Name(&'a Name),
}

/// Odd hops of one host, for one reason.
#[derive(Clone, Debug)]
pub struct OddHost {
    /// Why.
    pub odd: OddHop,
    /// One word why.
    pub cause: &'static str,
    /// Host to blame.
    pub host: Name,
    /// Its odd hops.
    pub hops: Vec<OddPlace>,
    /// The first of them.
    pub first: Example,
    /// What most others have.
    pub usual: String,
}

/// Where an odd hop is.
#[derive(Clone, Copy, Debug)]
pub struct OddPlace {
    /// Channel.
    pub channel: u32,
    /// Sender.
    pub rank: u32,
    /// Receiver.
    pub next: u32,
}

/// An odd hop, to be told of.
#[derive(Clone, Debug)]
pub struct Example {
    /// Host of the sender.
    pub host: Name,
    /// Host of the receiver.
    pub next_host: Name,
    /// As the library names it.
    pub transport: Name,
    /// NICs that it is sent and received on. Absent: not known.
    pub nics: Option<(String, String)>,
}

/// How much is known of the rails of a communicator's hops over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rails {
    /// Hops over the network.
    pub hops: usize,
    /// Those of which the NICs of both ends are known.
    pub known: usize,
    /// Every ring closes, so that no hop is missing.
    pub is_whole: bool,
}

impl Rails {
    /// Whether they can be judged. What is known of some hops says nothing of most: without GRAPH lines the NICs of the
    /// hops around rank 0 alone may be known, and these may be the ones that cross.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.is_whole && self.known == self.hops
    }
}

/// The hops of a communicator, taken together from both ends. `node_of`: NCCL node by place in `ranks`.
pub fn hops<'a>(ranks: &'a Ranks<'a>, node_of: &'a [u32]) -> impl Iterator<Item = Hop<'a>> + Clone {
    let node = |place: usize| node_of.get(place).copied().unwrap_or_default();
    ranks.iter().enumerate().flat_map(move |(at, rank)| {
        rank.facts.rings.iter().filter_map(move |(channel, place)| {
            let next_at = ranks.place(place.next).filter(|next_at| *next_at != at)?;
            let next = ranks.at(next_at)?;
            let there = next.facts.rings.get(channel);
            Some(Hop {
                channel,
                rank: rank.rank,
                next: place.next,
                host: &rank.identity.host,
                next_host: &next.identity.host,
                node: node(at),
                next_node: node(next_at),
                transport: &place.transport,
                gpu_direct: place.gpu_direct,
                rails: there.filter(|there| there.prev == rank.rank).and_then(|there| rails(place, there)),
                goes_on: there
                    .is_some_and(|there| ranks.place(there.next).is_some_and(|after| after != next_at)),
            })
        })
    })
}

fn rails<'a>(place: &'a Position, next: &'a Position) -> Option<(Rail<'a>, Rail<'a>)> {
    match (place.nic_index, next.recv_nic_index) {
        (Some(send), Some(receive)) => Some((Rail::Index(send), Rail::Index(receive))),
        _ if place.nic.is_empty() || next.recv_nic.is_empty() => None,
        _ => Some((Rail::Name(&place.nic), Rail::Name(&next.recv_nic))),
    }
}

/// Every odd hop, by host and reason, and how much is known of their rails.
pub fn odd<'a>(hops: impl Iterator<Item = Hop<'a>> + Clone) -> (Vec<OddHost>, Rails) {
    let kinds = Kinds::of(hops.clone());
    let mut odd = Vec::new();
    if let Some(faster) = kinds.faster.filter(|_| kinds.across_on_sockets > 0) {
        odd.extend(sockets(hops.clone(), faster));
    }
    if kinds.inside.len() > 1 {
        odd.extend(inside(hops.clone()));
    }
    if kinds.with_gpu_direct > 0 && kinds.without_gpu_direct > 0 {
        odd.extend(without_gpu_direct(hops.clone()));
    }
    if kinds.rails.are_known() && kinds.crossing > 0 && 2 * kinds.crossing <= kinds.rails.hops {
        odd.extend(cross_rail(hops));
    }
    (odd, kinds.rails)
}

/// What kinds of hops there are: where all are alike none is odd, and nobody needs to look closer.
#[derive(Default)]
struct Kinds<'a> {
    /// Transport of a hop over a network that is faster than sockets.
    faster: Option<&'a Name>,
    /// Hops between hosts over sockets.
    across_on_sockets: usize,
    /// Classes of the hops inside hosts.
    inside: BTreeSet<u8>,
    /// Hops between hosts over a fast network where the NIC reads the GPU's memory itself, and where it does not.
    with_gpu_direct: usize,
    without_gpu_direct: usize,
    rails: Rails,
    /// Hops over the network between two rails.
    crossing: usize,
}

impl<'a> Kinds<'a> {
    fn of(hops: impl Iterator<Item = Hop<'a>>) -> Self {
        let mut kinds = Self { rails: Rails { is_whole: true, ..Rails::default() }, ..Self::default() };
        for hop in hops {
            kinds.rails.is_whole &= hop.goes_on;
            let (is_inside, over_network) = (hop.is_inside(), hop.over_network());
            if is_inside {
                kinds.inside.insert(hop.class().unwrap_or_default());
            }
            if !over_network {
                continue;
            }
            kinds.rails.hops += 1;
            kinds.rails.known += usize::from(hop.rails.is_some());
            kinds.crossing += usize::from(hop.crosses());
            if hop.over_socket() {
                kinds.across_on_sockets += usize::from(!is_inside);
                continue;
            }
            kinds.faster = kinds.faster.or(Some(hop.transport));
            if !is_inside {
                kinds.with_gpu_direct += usize::from(hop.gpu_direct);
                kinds.without_gpu_direct += usize::from(!hop.gpu_direct);
            }
        }
        kinds
    }
}

impl Hop<'_> {
    fn is_inside(&self) -> bool {
        self.host == self.next_host
    }

    fn over_network(&self) -> bool {
        self.transport.starts_with("NET")
    }

    fn over_socket(&self) -> bool {
        self.transport.starts_with("NET/Socket")
    }

    fn crosses(&self) -> bool {
        self.rails.as_ref().is_some_and(|(send, receive)| send != receive)
    }

    /// How slow its transport is inside a host: P2P, shared memory, network. `None`: not known.
    fn class(&self) -> Option<u8> {
        match &**self.transport {
            text if text.starts_with("P2P") => Some(0),
            text if text.starts_with("SHM") || text.contains("shared memory") => Some(1),
            text if text.starts_with("NET") => Some(2),
            _ => None,
        }
    }

    fn example(&self) -> Example {
        Example {
            host: self.host.clone(),
            next_host: self.next_host.clone(),
            transport: self.transport.clone(),
            nics: self.rails.map(|(send, receive)| (send.to_string(), receive.to_string())),
        }
    }
}

impl fmt::Display for Rail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "NIC {index}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Sockets where others have a faster network.
fn sockets<'a>(hops: impl Iterator<Item = Hop<'a>>, faster: &str) -> Vec<OddHost> {
    by_host(hops.filter(|hop| hop.over_socket() && !hop.is_inside()), OddHop::Fallback, "socket", faster)
}

/// Shared memory, or the network, inside a host where most hosts with as many ranks have P2P.
fn inside<'a>(hops: impl Iterator<Item = Hop<'a>> + Clone) -> Vec<OddHost> {
    let here = || hops.clone().filter(Hop::is_inside);
    let mut hosts: BTreeMap<&Name, (BTreeSet<u32>, u8)> = BTreeMap::new();
    for hop in here() {
        let host = hosts.entry(hop.host).or_default();
        host.0.extend([hop.rank, hop.next]);
        host.1 = host.1.max(hop.class().unwrap_or_default());
    }
    // How many hosts there are of each number of ranks, by their slowest class.
    let mut classes: BTreeMap<usize, BTreeMap<u8, usize>> = BTreeMap::new();
    for (ranks, worst) in hosts.values() {
        *classes.entry(ranks.len()).or_default().entry(*worst).or_default() += 1;
    }
    // Of each host that is slower than most of its like: its slowest class, and the best of theirs.
    let mut slower: BTreeMap<&Name, (u8, u8)> = BTreeMap::new();
    for (host, (ranks, worst)) in &hosts {
        let Some(like) = classes.get(&ranks.len()) else { continue };
        let better: usize = like.range(..worst).map(|(_, n)| n).sum();
        let alike: usize = like.range(worst..).map(|(_, n)| n).sum();
        if let Some((best, _)) = like.first_key_value().filter(|(best, _)| *best < worst && better >= alike) {
            slower.insert(host, (*worst, *best));
        }
    }
    let slow = here().filter(|hop| {
        slower.get(hop.host).is_some_and(|(_, best)| hop.class().is_some_and(|class| class > *best))
    });
    let mut odd = by_host(slow, OddHop::Fallback, "", "");
    for one in &mut odd {
        let (worst, best) = slower.get(&one.host).copied().unwrap_or_default();
        one.cause = if worst == 1 { "shm" } else { "network_inside_host" };
        one.usual = if best == 0 { "P2P" } else { "SHM" }.to_owned();
    }
    odd
}

/// A copy through the host's memory where the NICs of most hosts read the GPU's memory themselves.
fn without_gpu_direct<'a>(hops: impl Iterator<Item = Hop<'a>> + Clone) -> Vec<OddHost> {
    let fast = hops.filter(|hop| hop.over_network() && !hop.over_socket() && !hop.is_inside());
    let mut hosts: BTreeMap<&Name, bool> = BTreeMap::new();
    for hop in fast.clone() {
        *hosts.entry(hop.host).or_insert(true) &= hop.gpu_direct;
    }
    let n_with = hosts.values().filter(|all| **all).count();
    if n_with == 0 || n_with < hosts.len() - n_with {
        return Vec::new();
    }
    by_host(fast.filter(|hop| !hop.gpu_direct), OddHop::NoGpuDirect, "no_gpu_direct", "GPUDirect")
}

/// Hops between NICs of different rails, while most keep theirs. All rails are known.
fn cross_rail<'a>(hops: impl Iterator<Item = Hop<'a>> + Clone) -> Vec<OddHost> {
    let railed = hops.filter(|hop| hop.over_network() && hop.rails.is_some());
    if is_crossing_on_purpose(&railed) {
        return Vec::new();
    }
    let mut crossing: Vec<Hop<'a>> = railed.filter(Hop::crosses).collect();
    let mut odd = Vec::new();
    let mut counts: BTreeMap<&Name, usize> = BTreeMap::new();
    let ends = |hop: &Hop<'a>| [hop.host, hop.next_host];
    for host in crossing.iter().flat_map(ends) {
        *counts.entry(host).or_default() += 1;
    }
    // A host whose NICs are in another order crosses where it sends and where it receives: blame the one that most
    // crossing hops have in common, then the next.
    while !crossing.is_empty() && odd.len() < CROSSING_HOSTS_MAX {
        let most = counts.values().max().copied().unwrap_or_default();
        let Some(host) = counts.iter().find(|(_, n)| **n == most).map(|(host, _)| *host) else { break };
        let (its, rest): (Vec<Hop<'_>>, Vec<Hop<'_>>) =
            crossing.into_iter().partition(|hop| hop.host == host || hop.next_host == host);
        crossing = rest;
        for host in its.iter().flat_map(ends) {
            counts.entry(host).and_modify(|n| *n -= 1);
        }
        odd.extend(odd_host(host, &its, OddHop::CrossRail, "cross_rail", "one rail"));
    }
    odd
}

/// NCCL crosses rails where `NCCL_CROSS_NIC` lets it: a ring then enters a node on one NIC and leaves it on another, or
/// all odd nodes swap the rings of each pair of channels (`ncclTopoPostset`).
fn is_crossing_on_purpose<'a>(railed: &(impl Iterator<Item = Hop<'a>> + Clone)) -> bool {
    let swapped = railed.clone().all(|hop| hop.crosses() == (hop.node % 2 != hop.next_node % 2));
    let enters: HashMap<(u32, u32), Rail<'_>> =
        (railed.clone()).filter_map(|hop| Some(((hop.channel, hop.next_node), hop.rails?.1))).collect();
    let (mut turns, mut keeps) = (0_usize, 0_usize);
    for hop in railed.clone() {
        let (Some(enter), Some((leave, _))) = (enters.get(&(hop.channel, hop.node)), hop.rails.as_ref())
        else {
            continue;
        };
        if enter == leave { keeps += 1 } else { turns += 1 }
    }
    swapped || turns > keeps
}

/// Hosts that are blamed for crossed rails: where there are more, something is wrong with none of them alone.
const CROSSING_HOSTS_MAX: usize = 1_000;

fn by_host<'a>(
    hops: impl Iterator<Item = Hop<'a>>,
    odd: OddHop,
    cause: &'static str,
    usual: &str,
) -> Vec<OddHost> {
    let mut hosts: BTreeMap<&Name, Vec<Hop<'_>>> = BTreeMap::new();
    for hop in hops {
        hosts.entry(hop.host).or_default().push(hop);
    }
    hosts.into_iter().filter_map(|(host, hops)| odd_host(host, &hops, odd, cause, usual)).collect()
}

/// `None`: it has no odd hop.
fn odd_host(host: &Name, hops: &[Hop<'_>], odd: OddHop, cause: &'static str, usual: &str) -> Option<OddHost> {
    let place = |hop: &Hop<'_>| OddPlace { channel: hop.channel, rank: hop.rank, next: hop.next };
    Some(OddHost {
        odd,
        cause,
        host: host.clone(),
        first: hops.first()?.example(),
        hops: hops.iter().map(place).collect(),
        usual: usual.to_owned(),
    })
}
