//! Who is where, and the order of each ring: pure functions of what the ranks told each other.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::channels;
use crate::topology::graph::{NodeNic, System};
use crate::topology::rails;
use crate::topology::search::{Channel, CrossNic, Graph};
use crate::topology::seat::Seat;
use crate::transport::shm::connect::Announcement;

/// A usable NIC of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerNic {
    /// Its name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: IpAddr,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: u32,
    /// The port of its card, from 1; 0 where it does not tell.
    pub(crate) port: u32,
    /// Where it is in its host.
    pub(crate) seat: Seat,
}

/// What a rank tells the others about where it is in its host and what it was told to do there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    /// Where its cores are.
    pub(crate) seat: Seat,
    /// Where the node's ranks are, by index in the node, if a topology file says so.
    pub(crate) seats: Vec<Seat>,
    /// The channels of a graph file, in place of a search.
    pub(crate) channels: Vec<Channel>,
    /// Whether channels may leave by another NIC.
    pub(crate) cross_nic: CrossNic,
    /// The lowest compute capability of the GPUs in a topology file, in the faithful mode; else 0.
    pub(crate) compute_capability: u32,
}

/// What a rank tells the others about its host, as a rule in the same words as the host's other ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostFacts {
    /// The host's name.
    pub(crate) host: String,
    /// Ranks with the same hash are one node.
    pub(crate) host_hash: u64,
    /// Equal where ranks of the host can share memory; nothing, if that is switched off.
    pub(crate) shm_domain: Option<u64>,
    /// The machine that it runs on; ranks of different pretended hosts may share one.
    pub(crate) machine: u64,
    /// The cores that it may use: bit i of word w is core 64 w + i.
    pub(crate) cores: Vec<u64>,
    /// The NICs it can use now; never empty.
    pub(crate) nics: Vec<PeerNic>,
    /// Its place in its host.
    pub(crate) placement: Placement,
}

/// What a rank tells the others about itself; of its host's facts, kept once for those that say the same, it can be asked
/// as of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerInfo {
    /// Its rank in the communicator.
    pub(crate) rank: usize,
    /// Where ranks of its host can share memory with it; nowhere, if that is switched off, or if it is another host.
    pub(crate) shm: Option<Announcement>,
    /// Where its process listens, on each of its NICs.
    pub(crate) ports: Vec<u16>,
    /// What it has in common with the ranks of its host.
    pub(crate) facts: Arc<HostFacts>,
}

impl PeerInfo {
    /// Where it listens on a NIC of its list.
    pub(crate) fn listens(&self, nic: usize) -> SocketAddr {
        SocketAddr::new(self.nics[nic].address, self.ports.get(nic).copied().unwrap_or(0))
    }
}

impl Deref for PeerInfo {
    type Target = HostFacts;

    fn deref(&self) -> &HostFacts {
        &self.facts
    }
}

impl DerefMut for PeerInfo {
    fn deref_mut(&mut self) -> &mut HostFacts {
        Arc::make_mut(&mut self.facts)
    }
}

/// Where a communicator's ranks are, and what the search found for each node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Topology {
    /// Node of each rank; nodes are numbered by their first rank.
    pub(crate) nodes: Vec<usize>,
    /// Ranks of each node, ascending.
    pub(crate) members: Vec<Vec<usize>>,
    /// The search's result for each node.
    pub(crate) graphs: Vec<Graph>,
    /// Init channels of each rank.
    pub(crate) init_channels: Vec<usize>,
    /// The channels that all agree on.
    pub(crate) base: usize,
    /// By rank and channel, the rank's NICs that the channel comes in and leaves by.
    nics: Vec<Arc<Vec<(usize, usize)>>>,
}

/// Which way data goes on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Into the node.
    In,
    /// Out of it.
    Out,
}

impl Topology {
    /// From the host hash of each rank, without NICs: rings are the ranks in order.
    pub(crate) fn new(host_hashes: &[u64]) -> Self {
        let mut seen: HashMap<u64, usize> = HashMap::new();
        let mut nodes = Vec::with_capacity(host_hashes.len());
        for hash in host_hashes {
            let next = seen.len();
            nodes.push(*seen.entry(*hash).or_insert(next));
        }
        let mut members = vec![Vec::new(); seen.len()];
        for (rank, node) in nodes.iter().enumerate() {
            members[*node].push(rank);
        }
        Self { members, nodes, ..Self::default() }
    }

    /// Searches every node, as each of its ranks would, and agrees on the channels.
    pub(crate) fn search(peers: &[PeerInfo]) -> Self {
        let hashes: Vec<u64> = peers.iter().map(|peer| peer.host_hash).collect();
        let mut topology = Self::new(&hashes);
        topology.graphs = rails::graphs(peers, &topology.members);
        for (graph, members) in topology.graphs.iter_mut().zip(&topology.members) {
            let placements = members.iter().map(|rank| &peers[*rank].placement);
            let least = placements.clone().map(|placement| placement.compute_capability).min().unwrap_or(0);
            if least > 0 && placements.clone().all(|placement| placement.channels.is_empty()) {
                graph.duplicate(least);
            }
        }
        let init = |(rank, peer): (usize, &PeerInfo)| {
            let node = topology.nodes[rank];
            let told = rails::told(peer, topology.members[node].len());
            told.map_or(topology.graphs[node].channels.len(), <[Channel]>::len)
        };
        topology.init_channels = peers.iter().enumerate().map(init).collect();
        topology.base = channels::base(&topology.init_channels);
        topology.nics = topology.all_ends(peers);
        topology
    }

    /// The graph of a node.
    pub(crate) fn system(&self, peers: &[PeerInfo], node: usize) -> System {
        rails::system(peers, &self.members[node])
    }

    /// Number of nodes.
    pub(crate) fn n_nodes(&self) -> usize {
        self.members.len()
    }

    /// A rank's index among the ranks of its node.
    pub(crate) fn local_rank(&self, rank: usize) -> usize {
        self.members[self.nodes[rank]].binary_search(&rank).unwrap_or(0)
    }

    /// Ranks on the node of `rank`.
    pub(crate) fn local_ranks(&self, rank: usize) -> usize {
        self.members[self.nodes[rank]].len()
    }

    /// The ring of a channel: node after node, in each the order that its search found.
    pub(crate) fn ring(&self, channel: usize) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        for (node, members) in self.members.iter().enumerate() {
            match self.channel(node, channel) {
                Some(found) => order.extend(found.order.iter().map(|index| members[*index])),
                None => order.extend_from_slice(members),
            }
        }
        order
    }

    /// The NIC of `rank`, in its own list, by which data of `channel` goes its way.
    pub(crate) fn nic(&self, rank: usize, channel: usize, way: Way) -> usize {
        let ends = self.nics.get(rank).filter(|ends| !ends.is_empty());
        ends.map_or(0, |ends| {
            let (enter, exit) = ends[channel % ends.len()];
            if way == Way::In { enter } else { exit }
        })
    }

    /// What a node does on a channel. Where channels cross NICs in pairs, every second node swaps them, so that data
    /// arrives by the rail that it left by (`ncclTopoPostset`, 2.28).
    fn channel(&self, node: usize, channel: usize) -> Option<&Channel> {
        let graph = self.graphs.get(node)?;
        let channel = channel % self.base;
        let swap = graph.cross_nic == 2 && self.base.is_multiple_of(2) && node % 2 == 1;
        graph.channels.get(if swap { channel ^ 1 } else { channel })
    }

    /// Of all ranks: of those of a node that see the same NICs once.
    fn all_ends(&self, peers: &[PeerInfo]) -> Vec<Arc<Vec<(usize, usize)>>> {
        let mut all = vec![Arc::default(); peers.len()];
        for members in &self.members {
            let names = rails::nics(peers, members);
            let same = |one: &usize, other: &usize| Arc::ptr_eq(&peers[*one].facts, &peers[*other].facts);
            for alike in members.chunk_by(same) {
                let ends = Arc::new(self.ends(peers, alike[0], &names));
                alike.iter().for_each(|rank| all[*rank] = Arc::clone(&ends));
            }
        }
        all
    }

    fn ends(&self, peers: &[PeerInfo], rank: usize, names: &[NodeNic]) -> Vec<(usize, usize)> {
        let node = self.nodes[rank];
        let own = &peers[rank].nics;
        let find = |nic: usize| {
            let same = |other: &PeerNic| names.get(nic).is_some_and(|nic| nic.name == other.name);
            own.iter().position(same).unwrap_or(nic % own.len().max(1))
        };
        let ends = (0..self.base).filter_map(|channel| self.channel(node, channel));
        ends.map(|channel| (find(channel.enter), find(channel.exit))).collect()
    }
}

/// One rank's place in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RingPlace {
    /// All ranks, in ring order; starts anywhere.
    pub(crate) order: Vec<usize>,
    /// This rank's index in `order`.
    pub(crate) position: usize,
}

impl RingPlace {
    /// The place of `rank` in `order`.
    pub(crate) fn new(order: Vec<usize>, rank: usize) -> Self {
        let position = order.iter().position(|other| *other == rank).unwrap_or(0);
        Self { order, position }
    }

    /// The rank `steps` behind this one.
    pub(crate) fn behind(&self, steps: usize) -> usize {
        let n_ranks = self.order.len();
        self.order[(self.position + n_ranks - steps % n_ranks) % n_ranks]
    }

    /// The rank that this one sends to.
    pub(crate) fn next(&self) -> usize {
        self.order[(self.position + 1) % self.order.len()]
    }

    /// The rank that this one receives from.
    pub(crate) fn prev(&self) -> usize {
        self.behind(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_first_rank() {
        let topology = Topology::new(&[9, 7, 9, 7]);
        assert_eq!(topology.nodes, [0, 1, 0, 1]);
        assert_eq!(topology.members, [vec![0, 2], vec![1, 3]]);
        assert_eq!((topology.local_rank(3), topology.local_ranks(3)), (1, 2));
    }

    #[test]
    fn without_a_search_rings_are_the_ranks_in_order() {
        assert_eq!(Topology::new(&[1, 2, 1, 2]).ring(1), [0, 2, 1, 3]);
    }

    #[test]
    fn places_know_their_neighbours() {
        let place = RingPlace::new(vec![1, 0, 3, 2], 3);
        assert_eq!((place.prev(), place.next(), place.behind(3)), (0, 2, 2));
        assert_eq!(place.behind(4), 3);
    }
}
