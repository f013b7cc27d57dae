//! What a call asks for, under the names that NCCL, its profilers and our messages have for it.

use std::ffi::CStr;

/// Which primitive; roots and peers are ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    /// `ncclAllReduce`
    AllReduce,
    /// `ncclAllGather`
    AllGather,
    /// `ncclReduceScatter`
    ReduceScatter,
    /// `ncclBroadcast`
    Broadcast {
        /// Whose data it is.
        root: usize,
    },
    /// `ncclReduce`
    Reduce {
        /// Who gets the result.
        root: usize,
    },
    /// `ncclAlltoAll`
    AllToAll,
    /// `ncclGather`
    Gather {
        /// Who gets all blocks.
        root: usize,
    },
    /// `ncclScatter`
    Scatter {
        /// Whose blocks they are.
        root: usize,
    },
    /// `ncclSend`
    Send {
        /// To whom.
        peer: usize,
    },
    /// `ncclRecv`
    Recv {
        /// From whom.
        peer: usize,
    },
}

impl Primitive {
    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::AllToAll => "all_to_all",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Send { .. } => "send",
            Self::Recv { .. } => "recv",
        }
    }

    /// NCCL's name for it.
    pub(crate) fn nccl_name(self) -> &'static CStr {
        match self {
            Self::AllReduce => c"AllReduce",
            Self::AllGather => c"AllGather",
            Self::ReduceScatter => c"ReduceScatter",
            Self::Broadcast { .. } => c"Broadcast",
            Self::Reduce { .. } => c"Reduce",
            Self::AllToAll => c"AlltoAll",
            Self::Gather { .. } => c"Gather",
            Self::Scatter { .. } => c"Scatter",
            Self::Send { .. } => c"Send",
            Self::Recv { .. } => c"Recv",
        }
    }

    /// NCCL 2.28's `ncclFunc_t` (`src/include/nccl_common.h`); a message carries the sender's, so a receive looks for a send's.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Broadcast { .. } => 0,
            Self::Reduce { .. } => 1,
            Self::AllGather => 2,
            Self::ReduceScatter => 3,
            Self::AllReduce => 4,
            Self::Send { .. } | Self::Recv { .. } => 6,
            Self::AllToAll => 8,
            Self::Scatter { .. } => 9,
            Self::Gather { .. } => 10,
        }
    }

    /// The name that belongs to a code.
    pub(crate) fn name_of(code: u32) -> &'static str {
        FUNCTION_NAMES.get(code as usize).copied().unwrap_or("an unknown primitive")
    }

    /// The other rank, of a send or receive.
    pub(crate) fn peer(self) -> Option<usize> {
        match self {
            Self::Send { peer } | Self::Recv { peer } => Some(peer),
            _ => None,
        }
    }

    /// Whether elements are combined, and not only moved.
    pub(crate) fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce { .. })
    }

    /// Whether `count` is that of one of many blocks.
    pub(crate) fn has_blocks(self) -> bool {
        matches!(self, Self::AllGather | Self::ReduceScatter) || self.is_pairwise()
    }

    /// The root, or 0.
    pub(crate) fn root(self) -> usize {
        match self {
            Self::Broadcast { root } | Self::Reduce { root } => root,
            Self::Gather { root } | Self::Scatter { root } => root,
            _ => 0,
        }
    }

    /// Whether it is made of messages between pairs of ranks, so that rings are of no use.
    pub(crate) fn is_pairwise(self) -> bool {
        matches!(self, Self::AllToAll | Self::Gather { .. } | Self::Scatter { .. })
    }
}

/// Values of `ncclFunc_t` that are used.
pub(crate) const N_FUNCTIONS: usize = 11;
/// Names by `ncclFunc_t`.
const FUNCTION_NAMES: [&str; N_FUNCTIONS] = [
    "broadcast",
    "reduce",
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "send_recv",
    "send",
    "recv",
    "all_to_all",
    "scatter",
    "gather",
];
