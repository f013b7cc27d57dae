//! Who is where, and the order of each ring: pure functions of what the ranks told each other.

use std::collections::HashMap;
use std::sync::Arc;

use crate::channels::{self, Limits};
use crate::topology::graph::{NodeNic, System};
use crate::topology::machine::described::Described;
use crate::topology::machine::search::TopoGraph;
use crate::topology::machine::view::View;
use crate::topology::peers::{PeerInfo, PeerNic};
use crate::topology::rails;
use crate::topology::search::{Channel, Graph};

/// Where a communicator's ranks are, and what the search found for each node.
#[derive(Debug, Default, PartialEq)]
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
    /// The ranks on described machines, if they are such.
    pub(crate) machine: Option<Described>,
    /// On described machines by final channel, the channel of the search and of its copies that it is.
    pub(crate) sources: Vec<usize>,
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

    /// From what is found on the described machines of all ranks.
    pub(crate) fn described(peers: &[PeerInfo], machine: Described) -> Self {
        let hashes: Vec<u64> = peers.iter().map(|peer| peer.host_hash).collect();
        let mut topology = Self::new(&hashes);
        let views = || (0..machine.n_nodes()).map(|node| machine.view(node));
        topology.graphs = views().map(|view| graph(&view.rings)).collect();
        let init: Vec<usize> = views().map(View::init_channels).collect();
        topology.init_channels = topology.nodes.iter().map(|node| init[*node]).collect();
        topology.base = channels::base(&init);
        topology.nics = topology.all_ends(peers);
        topology.machine = Some(machine);
        topology
    }

    /// On described machines, what each final channel is of the channels of the search and their copies.
    pub(crate) fn described_sources(&self, limits: Limits, args_bytes: Option<usize>) -> Vec<usize> {
        self.machine.as_ref().map_or_else(Vec::new, |machine| machine.sources(self.base, limits, args_bytes))
    }

    /// The number of a rank's GPU in its host, where it is described; else its index among the ranks of its node.
    pub(crate) fn device(&self, rank: usize) -> usize {
        let described = self.machine.as_ref().map(|machine| machine.device(rank) as usize);
        described.unwrap_or_else(|| self.local_rank(rank))
    }

    /// What a node does on a channel. Where channels cross NICs in pairs, every second node swaps them, so that data
    /// arrives by the rail that it left by (`ncclTopoPostset`, 2.28).
    fn channel(&self, node: usize, channel: usize) -> Option<&Channel> {
        let graph = self.graphs.get(node)?;
        let channel = self.sources.get(channel).copied().unwrap_or(channel) % self.base;
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

/// The rings of a described machine, as those that bytes take.
fn graph(found: &TopoGraph) -> Graph {
    Graph {
        cross_nic: found.cross_nic,
        channels: found.channels.clone(),
        bw_intra: found.bw_intra,
        bw_inter: found.bw_inter,
        type_intra: found.type_intra,
        type_inter: found.type_inter,
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
