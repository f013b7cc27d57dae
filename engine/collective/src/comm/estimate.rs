//! What a collective may take: steps times a latency, and bytes over the bandwidth that the search found. A rough model of the
//! described machine, as NCCL's is one of its GPUs (`src/graph/tuning.cc`); not a measurement of this one.

use crate::collective::algorithm::Algorithm;
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::comm::member::Member;

/// Microseconds of a step within a node and between nodes: NCCL's for its simple protocol over PCI and networks, rounded.
const STEP_US: (f32, f32) = (6.0, 14.0);
/// Bytes in a microsecond at one GB/s.
const BYTES_PER_US: f32 = 1000.0;

impl Member {
    /// Microseconds; nothing of a send or receive, and of a communicator of one rank.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn estimate_us(&self, operation: &Operation) -> Option<f32> {
        if operation.primitive.peer().is_some() || self.n_ranks == 1 {
            return None;
        }
        let n = self.n_ranks as f32;
        let (blocks, factor) = match operation.primitive {
            Primitive::AllReduce => (1.0, 2.0 * (n - 1.0) / n),
            Primitive::Broadcast { .. } | Primitive::Reduce { .. } => (1.0, 1.0),
            _ => (n, (n - 1.0) / n),
        };
        let rounds = if operation.primitive == Primitive::AllReduce { 2.0 } else { 1.0 };
        let steps = match self.choose(operation).algorithm {
            Algorithm::Tree => rounds * n.log2().ceil(),
            _ => rounds * (n - 1.0),
        };
        let between = self.topology.n_nodes() > 1;
        let bandwidth =
            self.topology.graphs.iter().map(|graph| {
                graph.channels.len() as f32 * if between { graph.bw_inter } else { graph.bw_intra }
            });
        let bandwidth = bandwidth.fold(f32::INFINITY, f32::min);
        let step = if between { STEP_US.1 } else { STEP_US.0 };
        let bytes = operation.bytes() as f32 * blocks * factor;
        Some(steps * step + bytes / (bandwidth * BYTES_PER_US))
    }
}
