//! Which algorithm an operation runs.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::kernels::Width;

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Algorithm {
    /// Every rank talks to its neighbours on the channel's ring.
    Ring,
    /// Two binary trees, each over half of the data.
    Tree,
    /// Recursive halving and doubling.
    HalvingDoubling,
    /// Recursive doubling: whole buffers, in the fewest steps.
    RecursiveDoubling,
    /// Inside each host first, then between hosts, then inside again.
    Hierarchical,
    /// Every rank talks to every other one: pairwise exchange; for reductions, each chunk has an owner that reduces all
    /// contributions in the order of the ranks.
    Direct,
    /// A fixed binary tree over (virtual) ranks: the same association of the same contributions on any number of
    /// processes.
    FixedTree,
}

impl Algorithm {
    /// All, in the order of their names in `RSCCL_ALGO`.
    pub(crate) const ALL: [Self; 7] = [
        Self::Ring,
        Self::Tree,
        Self::HalvingDoubling,
        Self::RecursiveDoubling,
        Self::Hierarchical,
        Self::Direct,
        Self::FixedTree,
    ];

    /// Whether contributions are reduced in an order that depends on nothing but the (virtual) ranks.
    pub(crate) fn keeps_rank_order(self) -> bool {
        matches!(self, Self::Direct | Self::FixedTree)
    }

    /// Of partial results of small floats. In the order of the ranks they are accumulated in `f32`, for the same bits on any
    /// number of processes; of those only a fixed tree's travel.
    pub(crate) fn width(self) -> Width {
        if self.keeps_rank_order() { Width::F32 } else { Width::Element }
    }

    /// Its name in `RSCCL_ALGO`, in messages and, in capitals, for a profiler.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::HalvingDoubling => "halving-doubling",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::Hierarchical => "hierarchical",
            Self::Direct => "direct",
            Self::FixedTree => "fixed-tree",
        }
    }

    /// Its name for a profiler: NCCL's where NCCL has the algorithm.
    pub(crate) fn profiler_name(self) -> &'static CStr {
        match self {
            Self::Ring => c"RING",
            Self::Tree => c"TREE",
            Self::HalvingDoubling => c"HALVING_DOUBLING",
            Self::RecursiveDoubling => c"RECURSIVE_DOUBLING",
            Self::Hierarchical => c"HIERARCHICAL",
            Self::Direct => c"DIRECT",
            Self::FixedTree => c"FIXED_TREE",
        }
    }
}

/// How one operation is carried out; the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// By which algorithm.
    pub(crate) algorithm: Algorithm,
    /// Over how many channels.
    pub(crate) n_channels: usize,
}
