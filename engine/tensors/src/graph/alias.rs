//! Which tensors are the same memory: through views and nodes that work in place, back to the node that allocates.

use crate::graph::{Effect, Graph, MachineId, NodeId, TensorId};

/// The memory that a tensor lies in, on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// The tensor that its allocating node makes there, or that is received there.
    pub(super) tensor: TensorId,
    /// Where the tensor begins in it.
    pub(super) offset_bytes: u64,
}

/// The memory of `tensor` on `machine`. What another machine made is received, so it is its own root.
pub(super) fn root(graph: &Graph, tensor: TensorId, machine: MachineId) -> Root {
    let mut root = Root { tensor, offset_bytes: 0 };
    while let Some((input, offset_bytes, _)) = below(graph, root.tensor, machine) {
        root = Root { tensor: input, offset_bytes: root.offset_bytes + offset_bytes };
    }
    root
}

/// Whether `tensor` on that machine is what `through` has made of its input's memory, or a view of that, or made in place of
/// it: not what was there before.
pub(super) fn comes_through(graph: &Graph, tensor: TensorId, through: NodeId, machine: MachineId) -> bool {
    let mut at = tensor;
    while let Some((input, _, by)) = below(graph, at, machine) {
        if by == through {
            return true;
        }
        at = input;
    }
    false
}

/// The tensor in whose memory this one lies, where it begins there, and the node that has it so.
fn below(graph: &Graph, tensor: TensorId, machine: MachineId) -> Option<(TensorId, u64, NodeId)> {
    let (id, node) = graph.producer(tensor)?;
    let offset_bytes = match node.effect {
        Effect::Views { offset_bytes } => offset_bytes,
        Effect::InPlace => 0,
        Effect::Computes | Effect::Keeps => return None,
    };
    let is_same = node.machine == machine && node.outputs.first() == Some(&tensor);
    is_same.then_some((*node.inputs.first()?, offset_bytes, id))
}
