//! What is searched, and what is found.

use crate::channels::MAX_CHANNELS;
use crate::faithful::Version;
use crate::topology::graph::PathType;
use crate::topology::search::{Channel, CrossNic};

/// The shape of a channel; the numbers are NCCL's, which its log shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The network's traffic is shared by the first two GPUs.
    #[default]
    BalancedTree = 1,
    /// The first GPU has the network's traffic.
    Tree = 3,
    /// A ring.
    Ring = 4,
    /// One GPU each, over the NVSwitches.
    Nvls = 5,
    /// One GPU each, to all others.
    CollNetDirect = 6,
}

/// What a search finds, and what it was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TopoGraph {
    /// The shape.
    pub(crate) pattern: Pattern,
    /// Whether channels leave by another NIC than they came in by: 0, 1 or 2, as in NCCL's log.
    pub(crate) cross_nic: u8,
    /// Whether all pass the GPUs in the same order.
    pub(crate) same_channels: bool,
    /// The channels; GPUs by the index of their rank among those of the node.
    pub(crate) channels: Vec<Channel>,
    /// GB/s of each within the node.
    pub(crate) bw_intra: f32,
    /// GB/s of each between nodes.
    pub(crate) bw_inter: f32,
    /// As far as GPUs that follow each other may be.
    pub(crate) type_intra: PathType,
    /// As far as a GPU and its NIC may be.
    pub(crate) type_inter: PathType,
    pub(super) min_channels: usize,
    pub(super) max_channels: usize,
    pub(super) collnet: bool,
    pub(super) n_hops: i64,
}

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The shape.
    pub(crate) pattern: Pattern,
    /// Channels at least and at most.
    pub(crate) channels: (usize, usize),
    /// Only over NICs that reduce.
    pub(crate) collnet: bool,
    /// `NCCL_CROSS_NIC`.
    pub(crate) cross_nic: CrossNic,
    /// Whose rules.
    pub(crate) version: Version,
}

impl Wanted {
    /// The rings.
    pub(crate) fn rings(cross_nic: CrossNic, version: Version) -> Self {
        Self { pattern: Pattern::Ring, channels: (1, MAX_CHANNELS / 2), collnet: false, cross_nic, version }
    }

    /// Trees, as many as there are rings.
    pub(crate) fn trees(self, rings: &TopoGraph) -> Self {
        let n = rings.channels.len();
        Self { pattern: Pattern::BalancedTree, channels: (n, n), ..self }
    }

    /// CollNet's chains, as many as there are rings.
    pub(crate) fn chains(self, rings: &TopoGraph) -> Self {
        let n = rings.channels.len();
        Self { pattern: Pattern::Tree, channels: (n, n), collnet: true, ..self }
    }

    /// CollNet's heads.
    pub(crate) fn heads(self) -> Self {
        Self { pattern: Pattern::CollNetDirect, channels: (1, MAX_CHANNELS), collnet: true, ..self }
    }

    /// NVLS.
    pub(crate) fn nvls(self) -> Self {
        Self { pattern: Pattern::Nvls, channels: (1, MAX_CHANNELS), ..self }
    }
}
