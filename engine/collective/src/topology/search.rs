//! Which channels a node has: each takes the network in by one NIC, passes all ranks of the node, and leaves by a NIC.
//!
//! 1. Every speed class of NCCL, fast to slow: the NICs that carry it are counted, each once. The class with the most
//!    bandwidth in all wins, the faster one of two that are equal. So a NIC that is down is missing, and a slow one is
//!    left out where it would slow the others by more than it adds.
//! 2. A channel starts at its NIC's NUMA node and passes all ranks there, then those of the next NUMA node. With
//!    `crossNic` 0 the last rank is again at the NIC's NUMA node, where it has two. With 1, the channel leaves by a NIC
//!    of the last NUMA node. With 2, which is the default, it does so if that spares a crossing and all NICs pair up.
//! 3. Inside a NUMA node the ranks are rotated by the channel: another one faces the network each time.
//!
//! Of NCCL's search (`src/graph/search.cc`, `ncclTopoCompute`) this keeps the classes and the result's form. It does not
//! share out the links inside the host: what ranks exchange there goes through memory.

use serde::{Deserialize, Serialize};

use crate::channels::{MAX_CHANNELS, SINGLE_NODE_INIT_CHANNELS, rules};
use crate::topology::graph::{Path, PathType, System, TopoNode};

/// GB/s of a channel between nodes that NCCL tries (`speedArrayInter`).
const INTER_CLASSES: [f32; 19] = [
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12,
];
/// GB/s of a channel inside a node: NCCL's fastest (`speedArrayIntra`), since memory is not searched.
const INTRA_CLASS: f32 = 40.0;
/// GB/s that NCCL reports where no class fits, with one channel.
const NO_CLASS: f32 = 0.1;

/// `NCCL_CROSS_NIC`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CrossNic {
    /// 0: a channel leaves by the NIC that it came in by.
    Never,
    /// 1: it may leave by another one.
    Always,
    /// 2: only where that is better, and so that hops stay on their rail.
    #[default]
    IfBetter,
}

/// A channel inside a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channel {
    /// The NIC that it comes in by.
    pub(crate) enter: usize,
    /// The NIC that it leaves by.
    pub(crate) exit: usize,
    /// The ranks, by their index in the node.
    pub(crate) order: Vec<usize>,
}

/// A node's channels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Graph {
    /// Whether they cross NICs: 0, 1 or 2, as in NCCL's log.
    pub(crate) cross_nic: u8,
    /// Init channels.
    pub(crate) channels: Vec<Channel>,
    /// GB/s of each inside the node.
    pub(crate) bw_intra: f32,
    /// GB/s of each between nodes.
    pub(crate) bw_inter: f32,
    /// The longest path between ranks that follow each other.
    pub(crate) type_intra: PathType,
    /// The longest path between a NIC and the rank beside it.
    pub(crate) type_inter: PathType,
}

/// The channels of a node in a communicator of several nodes: one for each of `nics`, in their order.
pub(crate) fn search(system: &System, class: f32, nics: &[usize], cross: CrossNic) -> Graph {
    let groups = Groups::new(system);
    let found = match cross {
        CrossNic::Never => None,
        CrossNic::Always => groups.far_exits(system, nics).map(|ends| (1, ends)),
        CrossNic::IfBetter => groups.pairs(system, nics).map(|ends| (2, ends)),
    };
    let same = || (0, nics.iter().map(|nic| (*nic, *nic)).collect());
    let (cross_nic, ends) = found.unwrap_or_else(same);
    let channel = |(index, (enter, exit)): (usize, (usize, usize))| Channel {
        enter,
        exit,
        order: groups.order(index, groups.of_nic(system, enter), groups.of_nic(system, exit)),
    };
    let channels = ends.into_iter().enumerate().map(channel).collect();
    typed(system, Graph { cross_nic, channels, ..Graph::bare(class) }, true)
}

/// The channels of a communicator that lies within the node, where no NIC limits them.
pub(crate) fn search_inside(system: &System) -> Graph {
    let groups = Groups::new(system);
    let channel = |index| Channel { enter: 0, exit: 0, order: groups.order(index, None, None) };
    let channels = (0..SINGLE_NODE_INIT_CHANNELS).map(channel).collect();
    typed(system, Graph { channels, ..Graph::bare(INTRA_CLASS) }, false)
}

/// Fills in the longest paths of the channels.
pub(crate) fn typed(system: &System, mut graph: Graph, inter: bool) -> Graph {
    let ranks: Vec<Vec<Option<Path>>> =
        (0..system.n_ranks()).map(|rank| system.paths(&TopoNode::Rank(rank))).collect();
    let index = |part: TopoNode| system.parts().position(|(other, _)| *other == part).unwrap_or(0);
    let worst = |rank: usize, to: usize| ranks[rank][to].map_or(PathType::Sys, |path| path.kind);
    for channel in &graph.channels {
        let hops = channel.order.windows(2).map(|hop| worst(hop[0], index(TopoNode::Rank(hop[1]))));
        graph.type_intra = hops.fold(graph.type_intra, PathType::max);
        if let (true, Some(first), Some(last)) = (inter, channel.order.first(), channel.order.last()) {
            let enter = worst(*first, index(TopoNode::Nic(channel.enter)));
            let exit = worst(*last, index(TopoNode::Nic(channel.exit)));
            graph.type_inter = graph.type_inter.max(enter).max(exit);
        }
    }
    graph
}

impl Graph {
    /// Without channels.
    pub(crate) fn bare(bandwidth: f32) -> Self {
        Self {
            cross_nic: 0,
            channels: Vec::new(),
            bw_intra: bandwidth,
            bw_inter: bandwidth,
            type_intra: PathType::Loc,
            type_inter: PathType::Pix,
        }
    }

    /// Copies the channels, where NCCL's search does so for GPUs of this compute capability.
    pub(crate) fn duplicate(&mut self, compute_capability: u32) {
        let found = self.channels.len();
        let (count, intra) = rules::duplicate(found, self.bw_intra, compute_capability, MAX_CHANNELS / 2);
        if count > found {
            self.channels.extend_from_within(..count - found);
            (self.bw_intra, self.bw_inter) = (intra, self.bw_inter / 2.0);
        }
    }

    /// Whether all channels pass the ranks in the same order.
    pub(crate) fn same_channels(&self) -> bool {
        self.channels.windows(2).all(|pair| pair[0].order == pair[1].order)
    }
}

/// The class with the most bandwidth in all, and its NICs.
pub(crate) fn best_class(system: &System) -> (f32, Vec<usize>) {
    let speeds: Vec<f32> = (0..system.nics().len()).map(|nic| reach(system, nic)).collect();
    let mut best = (NO_CLASS, vec![0]);
    let mut most = 0.0;
    for class in INTER_CLASSES {
        let mut nics: Vec<usize> = (0..speeds.len()).filter(|nic| speeds[*nic] >= class).collect();
        nics.truncate(MAX_CHANNELS / 2);
        let all = class * f32::from(u16::try_from(nics.len()).unwrap_or(u16::MAX));
        if all > most {
            (most, best) = (all, (class, nics));
        }
    }
    best
}

/// GB/s of a NIC as the rank that is nearest to it sees it.
pub(crate) fn reach(system: &System, nic: usize) -> f32 {
    let paths = system.paths(&TopoNode::Nic(nic));
    let ranks = system.parts().zip(paths).filter(|((part, _), _)| matches!(part, TopoNode::Rank(_)));
    ranks.filter_map(|(_, path)| path.map(|path| path.bandwidth)).fold(0.0, f32::max)
}

/// The ranks of each NUMA node; those without one come last.
struct Groups {
    homes: Vec<Option<u32>>,
    ranks: Vec<Vec<usize>>,
}

impl Groups {
    fn new(system: &System) -> Self {
        let mut homes: Vec<Option<u32>> = (0..system.n_ranks()).map(|rank| system.home(rank)).collect();
        homes.sort_by_key(|home| (home.is_none(), *home));
        homes.dedup();
        let of = |home: &Option<u32>| {
            (0..system.n_ranks()).filter(|rank| system.home(*rank) == *home).collect::<Vec<_>>()
        };
        let ranks = homes.iter().map(of).collect();
        Self { homes, ranks }
    }

    /// The group at a NIC's NUMA node.
    fn of_nic(&self, system: &System, nic: usize) -> Option<usize> {
        let numa = system.nics()[nic].seat.numa;
        self.homes.iter().position(|home| *home == numa)
    }

    /// All ranks, from the group of the NIC that comes in to that of the NIC that leaves.
    fn order(&self, channel: usize, enter: Option<usize>, exit: Option<usize>) -> Vec<usize> {
        let n_groups = self.ranks.len();
        let first = enter.or(exit).unwrap_or(0);
        let mut groups: Vec<usize> = (0..n_groups).map(|step| (first + step) % n_groups).collect();
        if let Some(exit) = exit.filter(|exit| *exit != first) {
            groups.retain(|group| *group != exit);
            groups.push(exit);
        }
        let rotated = |group: &usize| {
            let ranks = &self.ranks[*group];
            (0..ranks.len()).map(move |index| ranks[(channel + index) % ranks.len()])
        };
        let mut order: Vec<usize> = groups.iter().flat_map(rotated).collect();
        let near = self.ranks[first].len();
        if exit == Some(first) && n_groups > 1 && near > 1 {
            // The last rank faces the NIC again: only its neighbours are in another NUMA node.
            let back = order.remove(near - 1);
            order.push(back);
        }
        order
    }

    /// For each NIC, the next one of another NUMA node that has ranks; none if there is no such NIC.
    fn far_exits(&self, system: &System, nics: &[usize]) -> Option<Vec<(usize, usize)>> {
        let mut free: Vec<usize> = nics.to_vec();
        let mut ends = Vec::with_capacity(nics.len());
        for enter in nics {
            let home = self.of_nic(system, *enter)?;
            let other = |exit: &usize| self.of_nic(system, *exit).is_some_and(|group| group != home);
            let exit = free.remove(free.iter().position(other)?);
            ends.push((*enter, exit));
        }
        Some(ends)
    }

    /// Neighbouring channels that swap NICs of two NUMA nodes: one comes in where the other leaves. NCCL swaps the two
    /// on every second node, so that each hop stays on its rail.
    fn pairs(&self, system: &System, nics: &[usize]) -> Option<Vec<(usize, usize)>> {
        let mut free: Vec<usize> = nics.to_vec();
        let mut ends = Vec::with_capacity(nics.len());
        while !free.is_empty() {
            let one = free.remove(0);
            let home = self.of_nic(system, one)?;
            let far = |nic: &usize| self.of_nic(system, *nic).is_some_and(|group| group != home);
            let other = free.remove(free.iter().position(far)?);
            ends.extend([(one, other), (other, one)]);
        }
        Some(ends)
    }
}
