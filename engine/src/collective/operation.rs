//! One call of the API, as it is queued: what, over which buffers, in which order.

use std::ffi::CStr;

use crate::collective::partition::{channels_used, part};
use crate::collective::program::{Program, Ready};
use crate::collective::reduction::Reduction;
use crate::collective::{all_gather, all_reduce, broadcast, reduce, reduce_scatter};
use crate::comm::operators::PreMul;
use crate::hash;
use crate::memory::{Place, Region, Span};
use crate::profiler::emit::OperationEvents;
use crate::topology::RingPlace;

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

/// A queued call.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Which primitive.
    pub(crate) primitive: Primitive,
    /// NCCL's `count` argument: elements, of one rank's block for all-gather and reduce-scatter.
    pub(crate) count: usize,
    /// Element type, operator and number of ranks.
    pub(crate) reduction: Reduction,
    /// What the contribution is multiplied by first.
    pub(crate) pre_mul: Option<PreMul>,
    /// What is sent.
    pub(crate) send: Region,
    /// What is received.
    pub(crate) recv: Region,
    /// Index among the communicator's collectives, or among the messages of this direction with this peer.
    pub(crate) sequence: u64,
    /// What a profiler is told.
    pub(crate) events: OperationEvents,
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

    /// Whether `rank` sends a block to `peer`.
    pub(crate) fn sends(self, rank: usize, peer: usize) -> bool {
        match self {
            Self::AllToAll => true,
            Self::Gather { root } => peer == root,
            Self::Scatter { root } => rank == root,
            _ => false,
        }
    }
}

/// Names by `ncclFunc_t`.
const FUNCTION_NAMES: [&str; 11] = [
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

impl Operation {
    /// Bytes of `count` elements.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.reduction.data_type.size_bytes()
    }

    /// Channels that it uses of `final_channels`: judged by the whole buffer that the ring carries.
    pub(crate) fn n_channels(&self, final_channels: usize) -> usize {
        match self.primitive {
            primitive if primitive.peer().is_some() || primitive.is_pairwise() => 1,
            Primitive::AllGather | Primitive::ReduceScatter => {
                channels_used(self.bytes().saturating_mul(self.reduction.n_ranks), final_channels)
            }
            _ => channels_used(self.bytes(), final_channels),
        }
    }

    /// The steps of a collective on channel `channel` of `n_channels`.
    pub(crate) fn program(
        &self,
        ring: &RingPlace,
        channel: usize,
        n_channels: usize,
        rank: usize,
    ) -> Program {
        let size_bytes = self.reduction.data_type.size_bytes();
        let elements = part(self.count, n_channels, channel);
        // All-gather and broadcast do not look at elements, so they cut bytes, as NCCL does.
        let bytes = part(self.bytes(), n_channels, channel);
        match self.primitive {
            Primitive::AllReduce => all_reduce::program(ring, &elements, size_bytes),
            Primitive::AllGather => all_gather::program(ring, &bytes, self.bytes()),
            Primitive::ReduceScatter => reduce_scatter::program(ring, &elements, self.count, size_bytes),
            Primitive::Broadcast { root } => broadcast::program(ring, &bytes, root, rank),
            Primitive::Reduce { root } => reduce::program(ring, &elements, size_bytes, root, rank),
            _ => self.message(),
        }
    }

    /// The block for `peer`, in the caller's send buffer.
    pub(crate) fn block_to(&self, peer: usize) -> Span {
        let index = if matches!(self.primitive, Primitive::Gather { .. }) { 0 } else { peer };
        Span { place: Place::Send, offset: index * self.bytes(), len: self.bytes() }
    }

    /// Where the block of `peer` goes, in the caller's receive buffer.
    pub(crate) fn block_from(&self, peer: usize) -> Span {
        let index = if matches!(self.primitive, Primitive::Scatter { .. }) { 0 } else { peer };
        Span { place: Place::Recv, offset: index * self.bytes(), len: self.bytes() }
    }

    /// A send or receive: the whole buffer, part by part.
    pub(crate) fn message(&self) -> Program {
        let mut program = Program::default();
        let whole = |place| Span { place, offset: 0, len: self.bytes() };
        match self.primitive {
            Primitive::Send { .. } => program.send(whole(Place::Send), Ready::Now),
            _ => {
                program.recv_copy(whole(Place::Recv));
            }
        }
        program
    }

    /// What all ranks must agree on, beside the primitive.
    pub(crate) fn signature(&self) -> u64 {
        let facts = match self.primitive {
            // A send and its receive agree on bytes alone, as in NCCL.
            Primitive::Send { .. } | Primitive::Recv { .. } => format!("{}", self.bytes()),
            Primitive::AllGather
            | Primitive::Broadcast { .. }
            | Primitive::AllToAll
            | Primitive::Gather { .. }
            | Primitive::Scatter { .. } => {
                format!("{} {}", self.bytes(), self.primitive.root())
            }
            _ => format!("{} {:?} {}", self.count, self.reduction, self.primitive.root()),
        };
        hash::hash(facts.as_bytes())
    }

    /// The average of one rank, and any reduction of one rank, is its data; so the result of each primitive in a
    /// communicator of one rank is a copy.
    pub(crate) fn copy_of_one_rank(&self) -> Program {
        let whole = |place| Span { place, offset: 0, len: self.bytes() };
        Program { copies: vec![(whole(Place::Send), whole(Place::Recv))], ..Program::default() }
    }
}
