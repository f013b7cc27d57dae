//! Who is where, and the order of each ring: pure functions of what the ranks told each other.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::transport::shm::connect::Announcement;

/// A usable NIC of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerNic {
    /// Its name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: IpAddr,
    /// Where it listens for this communicator.
    pub(crate) listen: SocketAddr,
}

/// What a rank tells the others about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerInfo {
    /// Its rank in the communicator.
    pub(crate) rank: usize,
    /// Its host's name.
    pub(crate) host: String,
    /// Ranks with the same hash are one node.
    pub(crate) host_hash: u64,
    /// Its process.
    pub(crate) pid: u32,
    /// Where ranks of its host can share memory with it; nowhere, if that is switched off.
    pub(crate) shm: Option<Announcement>,
    /// The machine that it runs on; ranks of different pretended hosts may share one.
    pub(crate) machine: u64,
    /// The cores that it may use: bit i of word w is core 64 w + i.
    pub(crate) cores: Vec<u64>,
    /// Where it waits for ranks that make another communicator of this one.
    pub(crate) rendezvous: SocketAddr,
    /// The NICs it can use now; never empty.
    pub(crate) nics: Vec<PeerNic>,
}

/// Where a communicator's ranks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Node of each rank; nodes are numbered by their first rank.
    pub(crate) nodes: Vec<usize>,
    /// Ranks of each node, ascending.
    pub(crate) members: Vec<Vec<usize>>,
}

impl Topology {
    /// From the host hash of each rank.
    pub(crate) fn new(host_hashes: &[u64]) -> Self {
        let mut seen: Vec<u64> = Vec::new();
        let mut nodes = Vec::with_capacity(host_hashes.len());
        for hash in host_hashes {
            let node = seen.iter().position(|other| other == hash).unwrap_or_else(|| {
                seen.push(*hash);
                seen.len() - 1
            });
            nodes.push(node);
        }
        let of_node = |node| (0..nodes.len()).filter(|rank| nodes[*rank] == node).collect();
        Self { members: (0..seen.len()).map(of_node).collect(), nodes }
    }

    /// Number of nodes.
    pub(crate) fn n_nodes(&self) -> usize {
        self.members.len()
    }

    /// A rank's index among the ranks of its node.
    pub(crate) fn local_rank(&self, rank: usize) -> usize {
        self.members[self.nodes[rank]].iter().position(|member| *member == rank).unwrap_or(0)
    }

    /// Ranks on the node of `rank`.
    pub(crate) fn local_ranks(&self, rank: usize) -> usize {
        self.members[self.nodes[rank]].len()
    }

    /// The ring of search channel `search`: node after node, the ranks inside each rotated by the channel, so that
    /// another rank of the node faces the network on each, as on machines with one NIC per GPU.
    pub(crate) fn ring(&self, search: usize) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.nodes.len());
        for members in &self.members {
            let first = search % members.len();
            order.extend((0..members.len()).map(|index| members[(first + index) % members.len()]));
        }
        order
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
    fn rings_group_nodes_and_rotate_inside_them() {
        let topology = Topology::new(&[1, 1, 2, 2]);
        assert_eq!(topology.ring(0), [0, 1, 2, 3]);
        assert_eq!(topology.ring(1), [1, 0, 3, 2]);
        assert_eq!(topology.ring(2), topology.ring(0));
    }

    #[test]
    fn places_know_their_neighbours() {
        let place = RingPlace::new(vec![1, 0, 3, 2], 3);
        assert_eq!((place.prev(), place.next(), place.behind(3)), (0, 2, 2));
        assert_eq!(place.behind(4), 3);
    }
}
