//! Ranks in NCCL nodes. A node is not always a host: with multi-node NVLink one spans hosts, and where P2P and shared
//! memory are off each GPU of a host is a node of its own. Pure.

use std::collections::HashMap;

use ringscope_model::{Name, RankRef};

/// What a rank says of its node.
#[derive(Clone, Debug)]
pub struct Place {
    /// Rank.
    pub rank: u32,
    /// Its host.
    pub host: Name,
    /// Ranks in its node, and its own place among them.
    pub local: Option<(u32, u32)>,
    /// Whether nodes span hosts.
    pub mnnvl: bool,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its ranks, ascending.
    pub ranks: Vec<u32>,
    /// Its hosts, in the order of their lowest rank.
    pub hosts: Vec<Name>,
    /// Whether it is all of one host that the communicator has there, as is usual.
    pub is_host: bool,
    /// Ranks that it has by its own word.
    n_ranks: u32,
    mnnvl: bool,
}

impl Place {
    /// What the model knows of a rank.
    #[must_use]
    pub fn of(rank: &RankRef<'_>) -> Self {
        let facts = rank.facts;
        Self {
            rank: rank.rank,
            host: rank.identity.host.clone(),
            local: facts.local_ranks.zip(facts.local_rank).filter(|(n, place)| place < n),
            mnnvl: facts.mnnvl.unwrap_or(false),
        }
    }
}

/// The nodes of a communicator, in the order of their lowest rank, as the library numbers them. `places` ascend by
/// rank. What a rank does not say is taken to be usual: the host is the node.
#[must_use]
pub fn nodes(places: &[Place]) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut open = Open::default();
    for place in places {
        let at = open.near(place).find(|at| nodes.get(*at).is_some_and(|node| node.takes(place)));
        if let Some(node) = at.and_then(|at| nodes.get_mut(at)) {
            node.ranks.push(place.rank);
            if !node.hosts.contains(&place.host) {
                node.hosts.push(place.host.clone());
            }
        } else {
            nodes.push(Node {
                ranks: vec![place.rank],
                hosts: vec![place.host.clone()],
                is_host: false,
                n_ranks: place.local.map_or(u32::MAX, |(n, _)| n),
                mnnvl: place.mnnvl,
            });
        }
        let at = at.unwrap_or(nodes.len() - 1);
        open.note(at, place, nodes.get(at).is_some_and(Node::is_full));
    }
    let mut nodes_of: HashMap<Name, u32> = HashMap::new();
    for host in nodes.iter().flat_map(|node| &node.hosts) {
        *nodes_of.entry(host.clone()).or_default() += 1;
    }
    for node in &mut nodes {
        node.is_host = node.hosts.len() == 1 && nodes_of.get(&node.hosts[0]) == Some(&1);
    }
    nodes
}

/// Nodes that may take more ranks, by what they are near to: so that each rank asks few of them.
#[derive(Default)]
struct Open<'a> {
    /// By host, the first first.
    of_host: HashMap<&'a Name, Vec<usize>>,
    /// Those that span hosts.
    mnnvl: Vec<usize>,
}

impl<'a> Open<'a> {
    /// The nodes that a place may be in, the first first.
    fn near(&self, place: &Place) -> impl Iterator<Item = usize> {
        let mut near = self.of_host.get(&place.host).cloned().unwrap_or_default();
        if place.mnnvl {
            near.extend(&self.mnnvl);
            near.sort_unstable();
        }
        near.into_iter()
    }

    /// Notes that a node took a place, and whether it takes no more.
    fn note(&mut self, at: usize, place: &'a Place, is_full: bool) {
        let of_host = self.of_host.entry(&place.host).or_default();
        if is_full {
            of_host.retain(|known| *known != at);
            self.mnnvl.retain(|known| *known != at);
            return;
        }
        for near in [Some(of_host), place.mnnvl.then_some(&mut self.mnnvl)].into_iter().flatten() {
            if !near.contains(&at) {
                near.push(at);
            }
        }
    }
}

impl Node {
    /// Whether no place can be in it any more.
    fn is_full(&self) -> bool {
        self.ranks.len() >= self.n_ranks as usize
    }

    /// Places in a node are counted in the order of ranks; ranks that were not heard of leave gaps.
    fn takes(&self, place: &Place) -> bool {
        let fits = match place.local {
            Some((n_ranks, local_rank)) => {
                n_ranks == self.n_ranks && local_rank as usize >= self.ranks.len() && local_rank > 0
            }
            None => self.n_ranks == u32::MAX,
        };
        fits && (self.hosts.contains(&place.host) || self.mnnvl && place.mnnvl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Host, (local ranks, local rank), whether nodes span hosts.
    type Said = (&'static str, Option<(u32, u32)>, bool);

    fn check(places: &[Said], expected: &[(&[u32], bool)]) {
        let places: Vec<Place> = (0..)
            .zip(places)
            .map(|(rank, (host, local, mnnvl))| Place {
                rank,
                host: (*host).into(),
                local: *local,
                mnnvl: *mnnvl,
            })
            .collect();
        let found = nodes(&places);
        let found: Vec<(&[u32], bool)> =
            found.iter().map(|node| (node.ranks.as_slice(), node.is_host)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_host_is_a_node() {
        let n = |i| Some((2, i));
        let (a, b) = ("host-a", "host-b");
        check(
            &[(a, n(0), false), (a, n(1), false), (b, n(0), false), (b, n(1), false)],
            &[(&[0, 1], true), (&[2, 3], true)],
        );
        check(&[(a, None, false), (b, None, false), (a, None, false)], &[(&[0, 2], true), (&[1], true)]);
        check(
            &[(a, n(0), false), (b, n(0), false), (a, n(1), false), (b, n(1), false)],
            &[(&[0, 2], true), (&[1, 3], true)],
        );
    }

    #[test]
    fn each_gpu_is_a_node_where_p2p_and_shared_memory_are_off() {
        check(
            &[("host-a", Some((1, 0)), false), ("host-a", Some((1, 0)), false)],
            &[(&[0], false), (&[1], false)],
        );
    }

    #[test]
    fn a_node_spans_hosts_by_nvlink() {
        let n = |i| Some((4, i));
        let (a, b) = ("host-a", "host-b");
        check(
            &[(a, n(0), true), (a, n(1), true), (b, n(2), true), (b, n(3), true)],
            &[(&[0, 1, 2, 3], false)],
        );
        check(&[(a, n(0), true), (b, n(2), true)], &[(&[0, 1], false)]);
    }
}
