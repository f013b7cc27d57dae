//! What NCCL would take of a communicator's collectives, in the faithful mode: its model over what was found on the described
//! machines, or else over the engine's own search.

use std::ffi::CStr;

use crate::collective::algorithm::Algorithm;
use crate::collective::nccl::{Model, Shape, Taken};
use crate::collective::operation::Operation;
use crate::collective::primitive::Primitive;
use crate::comm::member::Member;
use crate::topology::Topology;
use crate::topology::graph::PathType;
use crate::topology::machine::described::Described;
use crate::topology::machine::search::{Pattern, TopoGraph};
use crate::topology::search::Graph;
use crate::types::{DataType, RedOp};

/// What is taken for the compute capability where no GPU is described: Ampere's.
const CAPABILITY: u32 = 80;

impl Member {
    /// What NCCL would take of an operation of so many bytes.
    pub(crate) fn taken(&self, operation: &Operation, bytes: usize) -> Taken {
        let nvls = self.model.nvls.filter(|_| multicasts(operation));
        Model { nvls, ..self.model }.choose(operation.primitive, bytes).0
    }

    /// The name of what carries out an operation, for a profiler: NCCL's own where that is what is pretended.
    pub(crate) fn algorithm_name(&self, operation: &Operation, algorithm: Algorithm) -> &'static CStr {
        if self.topology.machine.is_none() || !matches!(algorithm, Algorithm::Ring | Algorithm::Tree) {
            return algorithm.profiler_name();
        }
        match self.taken(operation, self.whole_bytes(operation)) {
            Taken::Nvls => c"NVLS",
            Taken::NvlsTree => c"NVLS_TREE",
            Taken::Ring | Taken::Tree => algorithm.profiler_name(),
        }
    }
}

/// Whether NVSwitches can reduce it (`ncclNvlsSupported`).
fn multicasts(operation: &Operation) -> bool {
    use DataType::{Bf16, F16, F32, F64, I32, I64, U32, U64};
    let op = operation.reducer.op;
    let sums = op == RedOp::Sum && operation.pre_mul.is_none();
    let compares = matches!(op, RedOp::Max | RedOp::Min);
    operation.primitive == Primitive::AllGather
        || match operation.reducer.data_type {
            I32 | U32 | I64 | U64 | F16 | Bf16 => sums || compares,
            F32 | F64 => sums,
            _ => false,
        }
}

/// The model of a communicator with so many final channels.
pub(super) fn model(topology: &Topology, n_channels: usize, has_nvls: bool) -> Model {
    let (n_ranks, n_nodes) = (topology.nodes.len(), topology.n_nodes());
    let model = Model { n_ranks, n_nodes, n_channels, ..Model::default() };
    let Some(machine) = &topology.machine else {
        let shape = searched(topology);
        return Model { capability: CAPABILITY, rings: shape, trees: shape, ..model };
    };
    let views = || (0..n_nodes).map(|node| machine.view(node));
    let capability = machine.capability();
    let of = |found: &dyn Fn(usize) -> Option<TopoGraph>| agreed(machine, found, topology.base);
    let nvls = |node: usize| machine.view(node).nvls.clone();
    let nvls = of(&nvls).filter(|_| has_nvls).map(|shape| Shape {
        n_channels: views()
            .filter_map(|view| view.nvls.as_ref())
            .map(|nvls| nvls.channels.len())
            .min()
            .unwrap_or(0),
        ..shape
    });
    Model {
        capability,
        amd: views().any(|view| view.system.cpu().1 == 2),
        rings: of(&|node| Some(machine.view(node).rings.clone())).unwrap_or_default(),
        trees: of(&|node| Some(machine.view(node).trees.clone())).unwrap_or_default(),
        simple_tree: views().any(|view| view.trees.pattern == Pattern::Tree),
        nvls,
        ..model
    }
}

/// What all nodes agree on of a search, with the channels of all.
fn agreed(
    machine: &Described,
    found: &dyn Fn(usize) -> Option<TopoGraph>,
    n_channels: usize,
) -> Option<Shape> {
    let all: Option<Vec<TopoGraph>> = (0..machine.n_nodes()).map(found).collect();
    let all = all?;
    let least = |of: fn(&TopoGraph) -> f32| f64::from(all.iter().map(of).fold(f32::INFINITY, f32::min));
    let (intra, inter) =
        (all.iter().map(|found| found.type_intra).max()?, all.iter().map(|found| found.type_inter).max()?);
    // On Hopper LL128 is safe over another GPU too.
    let far = if machine.capability() >= 90 { PathType::Pxn } else { PathType::Pxb };
    Some(Shape {
        n_channels,
        bw_intra: least(|found| found.bw_intra),
        bw_inter: least(|found| found.bw_inter),
        nvlink: intra == PathType::Nvl,
        near: inter <= far && intra <= PathType::Nvb,
        same_channels: all.iter().all(|found| found.same_channels),
    })
}

/// What the engine's own search found.
fn searched(topology: &Topology) -> Shape {
    let graphs = || topology.graphs.iter();
    let least = |of: fn(&Graph) -> f32| f64::from(graphs().map(of).fold(f32::INFINITY, f32::min));
    Shape {
        n_channels: topology.base,
        bw_intra: least(|graph| graph.bw_intra),
        bw_inter: least(|graph| graph.bw_inter),
        same_channels: graphs().all(Graph::same_channels),
        ..Shape::default()
    }
}
