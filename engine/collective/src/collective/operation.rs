//! One call of the API, as it is queued: what, over which buffers, in which order.

use crate::collective::algorithm::{Algorithm, Choice};
use crate::collective::partition::channels_used;
use crate::collective::primitive::Primitive;
use crate::collective::schedule::{Action, Chunk, Step};
use crate::comm::operators::PreMul;
use crate::hash;
use crate::kernels::Reducer;
use crate::memory::{Place, Region};
use crate::profiler::emit::OperationEvents;
use crate::types::{DataType, RedOp};

/// A queued call.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Which primitive.
    pub(crate) primitive: Primitive,
    /// NCCL's `count` argument: elements, of one rank's block for all-gather and reduce-scatter.
    pub(crate) count: usize,
    /// Contributions in the send buffer, one after another; 1 but for `rscclAllReduceVirtual`.
    pub(crate) n_virtual: usize,
    /// Element type, operator and number of (virtual) ranks.
    pub(crate) reducer: Reducer,
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

impl Operation {
    /// Bytes of `count` elements.
    pub(crate) fn bytes(&self) -> usize {
        self.count * self.reducer.data_type.size_bytes()
    }

    /// Element type and operator as an algorithm moves the data: what is not reduced is moved as bytes, as NCCL does, so that
    /// ranks may call it by different types of the same bytes. Partial results have the width of their elements, as NCCL's
    /// (`reduce_kernel.h`: sums of halves are halves), but where the order of the ranks is kept.
    pub(crate) fn moved_as(&self, algorithm: Algorithm) -> Reducer {
        if !self.primitive.reduces() {
            return Reducer { data_type: DataType::U8, op: RedOp::Max, ..self.reducer };
        }
        Reducer { width: algorithm.width(), ..self.reducer }
    }

    /// [`Operation::count`] in elements as they are moved.
    pub(crate) fn moved_count(&self) -> usize {
        if self.primitive.reduces() { self.count } else { self.bytes() }
    }

    /// Channels that it uses of `final_channels`: judged by the whole buffer that the ring carries.
    pub(crate) fn n_channels(&self, final_channels: usize, channel_bytes: usize) -> usize {
        let used = |bytes| channels_used(bytes, final_channels, channel_bytes);
        match self.primitive {
            primitive if primitive.peer().is_some() || primitive.is_pairwise() => 1,
            Primitive::AllGather | Primitive::ReduceScatter => {
                used(self.bytes().saturating_mul(self.reducer.n_ranks))
            }
            _ => used(self.bytes()),
        }
    }

    /// A send or receive: the whole buffer.
    pub(crate) fn message(&self) -> Option<Step> {
        let whole = |place| Chunk { place, start: 0, len: self.bytes() };
        match self.primitive {
            Primitive::Send { peer } => Some(Step::Send { peer, from: whole(Place::Send) }),
            Primitive::Recv { peer } => {
                let (into, action) = (whole(Place::Recv), Action::Store);
                Some(Step::Recv { peer, partial: false, into, action })
            }
            _ => None,
        }
    }

    /// What all ranks must agree on, beside the primitive.
    pub(crate) fn signature(&self, choice: Choice) -> u64 {
        let facts = match self.primitive {
            // A send and its receive agree on bytes alone, as in NCCL.
            Primitive::Send { .. } | Primitive::Recv { .. } => format!("{}", self.bytes()),
            primitive if primitive.reduces() => {
                format!("{} {:?} {} {choice:?}", self.count, self.reducer, primitive.root())
            }
            primitive => format!("{} {} {choice:?}", self.bytes(), primitive.root()),
        };
        hash::hash(facts.as_bytes())
    }
}
