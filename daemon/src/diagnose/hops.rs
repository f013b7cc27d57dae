//! Hops that are odd among their like: slower transports than others have, and NICs on different rails. Pure.
//!
//! Each rule compares: what all hosts do alike is how the cluster is built, and no fault. So a communicator whose hops
//! all run over sockets, or whose rings cross rails on purpose (NCCL's crossNic), has no odd hop.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::api::OddHop;
use crate::model::{Name, Position, RankRef};

/// One hop of a ring of one channel.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Channel.
    pub channel: u32,
    /// Sender and receiver.
    pub rank: u32,
    /// Receiver.
    pub next: u32,
    /// Their hosts.
    pub host: Name,
    /// Host of the receiver.
    pub next_host: Name,
    /// Their NCCL nodes.
    pub node: u32,
    /// NCCL node of the receiver.
    pub next_node: u32,
    /// As the library names it.
    pub transport: Name,
    /// Whether the NIC reads the GPU's memory itself.
    pub gpu_direct: bool,
    /// Rails that it is sent and received on, by the name or index of their NICs.
    pub rails: Option<(Rail, Rail)>,
}

/// A rail: NICs of the same place in each host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rail {
    /// Index of the NIC in its net plugin.
    Index(u32),
    /// Name of the NIC.
    Name(Name),
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
    pub hops: Vec<Hop>,
    /// What most others have.
    pub usual: String,
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
    /// Of these hops.
    #[must_use]
    pub fn of(hops: &[Hop]) -> Self {
        let senders: BTreeSet<(u32, u32)> = hops.iter().map(|hop| (hop.channel, hop.rank)).collect();
        let over_network = || hops.iter().filter(|hop| hop.over_network());
        Self {
            hops: over_network().count(),
            known: over_network().filter(|hop| hop.rails.is_some()).count(),
            is_whole: hops.iter().all(|hop| senders.contains(&(hop.channel, hop.next))),
        }
    }

    /// Whether they can be judged. What is known of some hops says nothing of most: without GRAPH lines the NICs of the
    /// hops around rank 0 alone may be known, and these may be the ones that cross.
    #[must_use]
    pub fn are_known(&self) -> bool {
        self.is_whole && self.known == self.hops
    }
}

/// The hops of a communicator, taken together from both ends. `node_of`: NCCL node by rank.
#[must_use]
pub fn hops(ranks: &BTreeMap<u32, RankRef<'_>>, node_of: &BTreeMap<u32, u32>) -> Vec<Hop> {
    let mut hops = Vec::new();
    for rank in ranks.values() {
        for (channel, place) in &rank.facts.rings {
            let Some(next) = ranks.get(&place.next).filter(|_| place.next != rank.rank) else { continue };
            let other = next.facts.rings.get(channel).filter(|other| other.prev == rank.rank);
            hops.push(Hop {
                channel: *channel,
                rank: rank.rank,
                next: place.next,
                host: rank.identity.host.clone(),
                next_host: next.identity.host.clone(),
                node: node_of.get(&rank.rank).copied().unwrap_or_default(),
                next_node: node_of.get(&place.next).copied().unwrap_or_default(),
                transport: place.transport.clone(),
                gpu_direct: place.gpu_direct,
                rails: other.and_then(|other| rails(place, other)),
            });
        }
    }
    hops
}

fn rails(place: &Position, next: &Position) -> Option<(Rail, Rail)> {
    match (place.nic_index, next.recv_nic_index) {
        (Some(send), Some(receive)) => Some((Rail::Index(send), Rail::Index(receive))),
        _ if place.nic.is_empty() || next.recv_nic.is_empty() => None,
        _ => Some((Rail::Name(place.nic.clone()), Rail::Name(next.recv_nic.clone()))),
    }
}

/// Every odd hop, by host and reason.
#[must_use]
pub fn odd(hops: &[Hop]) -> Vec<OddHost> {
    let mut odd = sockets(hops);
    odd.extend(inside(hops));
    odd.extend(without_gpu_direct(hops));
    odd.extend(cross_rail(hops));
    odd
}

impl Hop {
    fn over_network(&self) -> bool {
        self.transport.starts_with("NET")
    }

    fn over_socket(&self) -> bool {
        self.transport.starts_with("NET/Socket")
    }

    fn crosses(&self) -> bool {
        self.rails.as_ref().is_some_and(|(send, receive)| send != receive)
    }
}

/// Sockets where others have a faster network.
fn sockets(hops: &[Hop]) -> Vec<OddHost> {
    let faster = hops.iter().find(|hop| hop.over_network() && !hop.over_socket());
    let Some(faster) = faster else { return Vec::new() };
    let slow = hops.iter().filter(|hop| hop.over_socket() && hop.host != hop.next_host);
    by_host(slow, OddHop::Fallback, "socket", &faster.transport)
}

/// Shared memory, or the network, inside a host where most hosts with as many ranks have P2P.
fn inside(hops: &[Hop]) -> Vec<OddHost> {
    let class = |hop: &Hop| match &*hop.transport {
        text if text.starts_with("P2P") => Some(0),
        text if text.starts_with("SHM") || text.contains("shared memory") => Some(1),
        text if text.starts_with("NET") => Some(2),
        _ => None,
    };
    let mut hosts: BTreeMap<&Name, (BTreeSet<u32>, u8)> = BTreeMap::new();
    let here = || hops.iter().filter(|hop| hop.host == hop.next_host);
    for hop in here() {
        let host = hosts.entry(&hop.host).or_default();
        host.0.extend([hop.rank, hop.next]);
        host.1 = host.1.max(class(hop).unwrap_or_default());
    }
    let mut odd = Vec::new();
    for (host, (ranks, worst)) in &hosts {
        let like =
            || hosts.iter().filter(|(other, (others, _))| other != &host && others.len() == ranks.len());
        let (better, alike) = (
            like().filter(|(_, (_, other))| other < worst).count(),
            like().filter(|(_, (_, other))| other >= worst).count() + 1,
        );
        let Some(best) = like().map(|(_, (_, other))| *other).min().filter(|_| better >= alike) else {
            continue;
        };
        let cause = if *worst == 1 { "shm" } else { "network_inside_host" };
        let usual = if best == 0 { "P2P" } else { "SHM" };
        let slow = here().filter(|hop| &hop.host == *host && class(hop).is_some_and(|class| class > best));
        odd.extend(by_host(slow, OddHop::Fallback, cause, usual));
    }
    odd
}

/// A copy through the host's memory where the NICs of most hosts read the GPU's memory themselves.
fn without_gpu_direct(hops: &[Hop]) -> Vec<OddHost> {
    let fast =
        || hops.iter().filter(|hop| hop.over_network() && !hop.over_socket() && hop.host != hop.next_host);
    let mut hosts: BTreeMap<&Name, bool> = BTreeMap::new();
    for hop in fast() {
        *hosts.entry(&hop.host).or_insert(true) &= hop.gpu_direct;
    }
    let n_with = hosts.values().filter(|all| **all).count();
    if n_with == 0 || n_with < hosts.len() - n_with {
        return Vec::new();
    }
    by_host(fast().filter(|hop| !hop.gpu_direct), OddHop::NoGpuDirect, "no_gpu_direct", "GPUDirect")
}

/// Hops between NICs of different rails, while most keep theirs. Nothing where not all rails are known.
fn cross_rail(hops: &[Hop]) -> Vec<OddHost> {
    if !Rails::of(hops).are_known() {
        return Vec::new();
    }
    let railed: Vec<&Hop> = hops.iter().filter(|hop| hop.over_network() && hop.rails.is_some()).collect();
    let mut crossing: Vec<&Hop> = railed.iter().copied().filter(|hop| hop.crosses()).collect();
    if crossing.is_empty() || 2 * crossing.len() > railed.len() || is_crossing_on_purpose(&railed) {
        return Vec::new();
    }
    let mut odd = Vec::new();
    // A host whose NICs are in another order crosses where it sends and where it receives: blame the one that most
    // crossing hops have in common, then the next.
    while !crossing.is_empty() {
        let mut counts: BTreeMap<&Name, usize> = BTreeMap::new();
        for host in crossing.iter().flat_map(|hop| [&hop.host, &hop.next_host]) {
            *counts.entry(host).or_default() += 1;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let Some(host) = counts.iter().find(|(_, n)| **n == most).map(|(host, _)| (*host).clone()) else {
            break;
        };
        let (its, rest): (Vec<&Hop>, Vec<&Hop>) =
            crossing.into_iter().partition(|hop| hop.host == host || hop.next_host == host);
        crossing = rest;
        odd.push(OddHost {
            odd: OddHop::CrossRail,
            cause: "cross_rail",
            host,
            hops: its.into_iter().cloned().collect(),
            usual: "one rail".to_owned(),
        });
    }
    odd
}

/// NCCL crosses rails where `NCCL_CROSS_NIC` lets it: a ring then enters a node on one NIC and leaves it on another, or
/// all odd nodes swap the rings of each pair of channels (`ncclTopoPostset`).
fn is_crossing_on_purpose(railed: &[&Hop]) -> bool {
    let swapped = railed.iter().all(|hop| hop.crosses() == (hop.node % 2 != hop.next_node % 2));
    let enters: BTreeMap<(u32, u32), &Rail> = railed
        .iter()
        .filter_map(|hop| Some(((hop.channel, hop.next_node), &hop.rails.as_ref()?.1)))
        .collect();
    let (mut turns, mut keeps) = (0_usize, 0_usize);
    for hop in railed {
        let (Some(enter), Some((leave, _))) = (enters.get(&(hop.channel, hop.node)), hop.rails.as_ref())
        else {
            continue;
        };
        if *enter == leave { keeps += 1 } else { turns += 1 }
    }
    swapped || turns > keeps
}

fn by_host<'a>(
    hops: impl Iterator<Item = &'a Hop>,
    odd: OddHop,
    cause: &'static str,
    usual: &str,
) -> Vec<OddHost> {
    let mut hosts: BTreeMap<&Name, Vec<Hop>> = BTreeMap::new();
    for hop in hops {
        hosts.entry(&hop.host).or_default().push(hop.clone());
    }
    let one = |(host, hops): (&Name, Vec<Hop>)| OddHost {
        odd,
        cause,
        host: host.clone(),
        hops,
        usual: usual.to_owned(),
    };
    hosts.into_iter().map(one).collect()
}
