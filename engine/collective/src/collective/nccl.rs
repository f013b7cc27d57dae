//! What NCCL would take of a collective on a described machine, by its own model (`src/graph/tuning.cc`, `ncclTopoTuneModel` and
//! `ncclTopoGetAlgoTime`): time is latency plus bytes over bandwidth, for each algorithm in each protocol. The figures are those of
//! 2.28; 2.27 and 2.30 have the same up to Hopper. CollNet and PAT, which the machines do not have by default, are left out.

use crate::collective::primitive::Primitive;

/// An algorithm of NCCL's, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The trees.
    Tree,
    /// The rings.
    Ring,
    /// NVSwitches that reduce.
    Nvls,
    /// The same, with trees between nodes.
    NvlsTree,
}

/// A protocol, in NCCL's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Ll,
    Ll128,
    Simple,
}

impl Protocol {
    const ALL: [Self; 3] = [Self::Ll, Self::Ll128, Self::Simple];
}

/// A search's result, as all ranks agree on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    /// Channels.
    pub(crate) n_channels: usize,
    /// GB/s of each within a node.
    pub(crate) bw_intra: f64,
    /// GB/s of each between nodes.
    pub(crate) bw_inter: f64,
    /// Whether GPUs that follow each other are joined by NVLink alone.
    pub(crate) nvlink: bool,
    /// Whether LL128 is safe on all its ways.
    pub(crate) near: bool,
    /// Whether all channels pass the GPUs in the same order.
    pub(crate) same_channels: bool,
}

/// What the model knows of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Model {
    /// Ranks.
    pub(crate) n_ranks: usize,
    /// Nodes.
    pub(crate) n_nodes: usize,
    /// Final channels.
    pub(crate) n_channels: usize,
    /// The lowest compute capability.
    pub(crate) capability: u32,
    /// Whether the processors are AMD's.
    pub(crate) amd: bool,
    /// The rings.
    pub(crate) rings: Shape,
    /// The trees.
    pub(crate) trees: Shape,
    /// Whether a node's first GPU has all of a tree's traffic.
    pub(crate) simple_tree: bool,
    /// NVLS, where the machine has it.
    pub(crate) nvls: Option<Shape>,
}

/// µs by algorithm (tree, ring, NVLS and NVLS tree) and protocol.
const BASE: [[f64; 3]; 2] = [[6.8, 14.0, 8.4], [6.6, 14.0, 8.4]];
const NVLINK: [[f64; 3]; 4] = [[0.6, 1.25, 4.0], [0.6, 1.9, 3.4], [0.0, 0.0, 25.0], [0.0, 0.0, 25.0]];
const PCI: [[f64; 3]; 4] = [[1.0, 1.9, 4.0], [1.0, 2.5, 5.7], [0.0; 3], [0.0; 3]];
const NET: [[f64; 3]; 4] = [[5.0, 8.5, 14.0], [2.7, 4.0, 14.0], [0.0, 0.0, 18.0], [0.0, 0.0, 20.9]];
/// GB/s at most, by generation (Volta, Ampere, Hopper, Blackwell) and nodes (1, 2, more).
const LL: [[f64; 3]; 4] = [[39.0, 39.0, 20.4], [87.7, 22.5, 19.0], [141.0, 45.0, 35.0], [282.0, 90.0, 70.0]];
const RING_LL128: [[f64; 3]; 4] = [[20.0; 3], [20.0; 3], [36.7; 3], [73.4, 34.6, 73.4]];
const TREE_LL128: [[f64; 3]; 4] = [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]];
const TREE: [[f64; 3]; 4] = [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], [70.0, 42.8, 24.0]];
const NVLS_TREE: [[f64; 3]; 4] =
    [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [0.0, 57.7, 45.5], [0.0, 96.0, 43.8]];
const NVLS_EFFICIENCY: [f64; 4] = [0.0, 0.0, 0.85, 0.74];
/// A tree's share of its bandwidth by protocol, for each power of two from 64 bytes on.
const TREE_SHARE: [[f64; 23]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
        1.0, 1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9,
        0.9, 1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7,
        0.8, 0.9, 0.9,
    ],
];
/// How much longer a ring's latency is where it moves more than this per channel and rank.
const PLATEAU: (f64, usize) = (1.4, 64);

impl Model {
    /// What is taken of a collective of `bytes`, and its µs.
    pub(crate) fn choose(&self, primitive: Primitive, bytes: usize) -> (Taken, f64) {
        let mut best = (Taken::Ring, f64::INFINITY);
        for taken in [Taken::Tree, Taken::Ring, Taken::Nvls, Taken::NvlsTree] {
            for protocol in Protocol::ALL {
                let time = self.time(primitive, bytes, taken, protocol);
                if time.is_some_and(|time| time < best.1) {
                    best = (taken, time.unwrap_or_default());
                }
            }
        }
        best
    }

    /// µs; nothing where it cannot be taken.
    fn time(&self, primitive: Primitive, bytes: usize, taken: Taken, protocol: Protocol) -> Option<f64> {
        let mut bandwidth =
            self.bandwidth(primitive, taken, protocol).filter(|bandwidth| *bandwidth > 0.0)?;
        let mut latency = self.latency(primitive, taken, protocol);
        let all_reduce = primitive == Primitive::AllReduce;
        let size = (bytes >> 6).checked_ilog2().and_then(|size| usize::try_from(size).ok());
        if let (Taken::Tree, Some(size)) = (taken, size) {
            bandwidth *= TREE_SHARE[protocol as usize].get(size).copied().unwrap_or(1.0);
        }
        let each = bytes / (self.n_channels * self.n_ranks).max(1);
        if (taken, protocol) == (Taken::Ring, Protocol::Simple)
            && self.n_nodes > 1
            && all_reduce
            && each >= PLATEAU.1
        {
            latency *= PLATEAU.0;
        }
        Some(latency + count(bytes) / (1000.0 * bandwidth))
    }

    fn steps(&self, primitive: Primitive) -> usize {
        match primitive {
            Primitive::AllReduce => 2 * (self.n_ranks - 1),
            Primitive::AllGather | Primitive::ReduceScatter => self.n_ranks - 1,
            _ => self.n_ranks,
        }
    }

    fn shape(&self, taken: Taken) -> Option<Shape> {
        match taken {
            Taken::Tree => Some(self.trees),
            Taken::Ring => Some(self.rings),
            Taken::Nvls => self.nvls.filter(|_| self.n_nodes == 1),
            Taken::NvlsTree => self.nvls.filter(|_| self.n_nodes > 1),
        }
    }

    fn indices(&self) -> (usize, usize) {
        let generation = match self.capability {
            100.. => 3,
            90.. => 2,
            80.. => 1,
            _ => 0,
        };
        (generation, self.n_nodes.clamp(1, 3) - 1)
    }

    /// GB/s of the algorithm, as its caller sees it.
    fn bandwidth(&self, primitive: Primitive, taken: Taken, protocol: Protocol) -> Option<f64> {
        let shape = self.shape(taken)?;
        let all_reduce = primitive == Primitive::AllReduce;
        let scatters = matches!(primitive, Primitive::AllGather | Primitive::ReduceScatter);
        let fits = taken == Taken::Ring || all_reduce || (scatters && taken == Taken::Nvls);
        if !fits || (protocol == Protocol::Ll128 && !shape.near) {
            return None;
        }
        let (n, channels) = (count(self.n_ranks), count(shape.n_channels));
        let bus = match taken {
            Taken::Ring => self.ring_bus(shape, protocol),
            Taken::Tree => self.tree_bus(shape, protocol),
            Taken::Nvls | Taken::NvlsTree => (protocol == Protocol::Simple && shape.n_channels >= 2)
                .then(|| channels * self.nvls_channel(shape, all_reduce, taken))?,
        };
        let ratio = match taken {
            Taken::Nvls if scatters => 1.0,
            Taken::Tree => 0.5,
            _ => n / count(self.steps(primitive)),
        };
        Some(bus * ratio)
    }

    /// GB/s of a channel of the search where between nodes more than two are passed.
    fn channel(&self, shape: Shape) -> f64 {
        if self.n_nodes <= 2 { shape.bw_intra } else { shape.bw_inter }
    }

    fn ring_bus(&self, shape: Shape, protocol: Protocol) -> f64 {
        let (generation, nodes) = self.indices();
        let bus = count(shape.n_channels) * self.channel(shape);
        match protocol {
            Protocol::Ll => (bus * 0.5).min(self.ll_most()),
            Protocol::Ll128 => (bus * 0.92).min(count(shape.n_channels) * RING_LL128[generation][nodes]),
            Protocol::Simple => bus,
        }
    }

    fn tree_bus(&self, shape: Shape, protocol: Protocol) -> f64 {
        let (generation, nodes) = self.indices();
        let channels = count(shape.n_channels);
        let bus = (channels * self.channel(shape) * 0.92).min(channels * TREE[generation][nodes]);
        let bus = match protocol {
            Protocol::Ll => (bus / 3.8).min(self.ll_most()),
            Protocol::Ll128 => {
                let share = if self.n_nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                (bus * share).min(channels * TREE_LL128[generation][nodes])
            }
            Protocol::Simple => bus,
        };
        if self.simple_tree { bus * 0.85 } else { bus }
    }

    fn nvls_channel(&self, shape: Shape, all_reduce: bool, taken: Taken) -> f64 {
        let (generation, nodes) = self.indices();
        let (channels, each) = (count(shape.n_channels), count(self.n_ranks) / count(self.n_nodes));
        let intra = shape.bw_intra * NVLS_EFFICIENCY[generation] * (channels - 1.0) / channels;
        let intra = intra * if all_reduce { 2.0 } else { (each - 1.0) / each };
        match taken {
            Taken::NvlsTree => {
                let twice = if self.n_nodes <= 2 { 2.0 } else { 1.0 };
                intra.min(shape.bw_inter * twice).min(NVLS_TREE[generation][nodes])
            }
            _ => intra.min(shape.bw_inter),
        }
    }

    /// GB/s of LL at most: by GPU within a node, by processor between nodes.
    fn ll_most(&self) -> f64 {
        let (generation, nodes) = self.indices();
        LL[if self.n_nodes == 1 { generation } else { usize::from(self.amd) }][nodes]
    }

    /// µs before bytes flow.
    fn latency(&self, primitive: Primitive, taken: Taken, protocol: Protocol) -> f64 {
        let (at, protocol) = (taken as usize, protocol as usize);
        let inside = |nvlink: bool| if nvlink { NVLINK } else { PCI };
        let shape = self.shape(taken).unwrap_or_default();
        let intra = inside(shape.nvlink)[at][protocol];
        let alone = self.n_ranks == self.n_nodes;
        let inter = NET[if alone { Taken::Tree as usize } else { at }][protocol];
        let (ranks, nodes) = (self.n_ranks, self.n_nodes);
        let rounds = f64::from(nodes.max(1).ilog2());
        match taken {
            Taken::Tree => BASE[at][protocol] + 2.0 * (count(ranks / nodes - 1) * intra + rounds * inter),
            Taken::Nvls => intra,
            Taken::NvlsTree => intra + 2.0 * rounds * inter,
            Taken::Ring if matches!(primitive, Primitive::Broadcast { .. } | Primitive::Reduce { .. }) => {
                let table = if nodes == 1 { inside(shape.nvlink) } else { NET };
                if shape.same_channels {
                    return BASE[at][protocol] + table[at][protocol];
                }
                let tree = if protocol == Protocol::Simple as usize { Taken::Tree as usize } else { at };
                BASE[at][protocol] + count(self.steps(primitive)) * table[tree][protocol]
            }
            Taken::Ring => {
                let posts = if protocol == Protocol::Simple as usize { 3.0 } else { 1.0 };
                let post = if nodes == 1 { 0.0 } else { posts * if self.amd { 2.0 } else { 1.0 } };
                let between = if nodes == 1 { 0 } else { nodes - 1 };
                let between = if primitive == Primitive::AllReduce { 2 * between } else { between };
                let within = count(self.steps(primitive).saturating_sub(between));
                BASE[at][protocol] + within * intra.max(post) + count(between) * inter
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "an estimate of time")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(n_channels: usize, bw: f64) -> Shape {
        Shape { n_channels, bw_intra: bw, bw_inter: bw, nvlink: true, near: true, same_channels: false }
    }

    fn a100(n_nodes: usize) -> Model {
        let shape = if n_nodes == 1 { shape(12, 20.0) } else { shape(8, 24.0) };
        Model {
            n_ranks: 8 * n_nodes,
            n_nodes,
            n_channels: 2 * shape.n_channels,
            capability: 80,
            amd: true,
            rings: shape,
            trees: shape,
            ..Model::default()
        }
    }

    fn h100(n_nodes: usize) -> Model {
        let shape = if n_nodes == 1 { shape(12, 30.0) } else { shape(8, 48.0) };
        let nvls = Shape {
            n_channels: 8,
            bw_intra: 40.0,
            bw_inter: if n_nodes == 1 { 60.0 } else { 48.0 },
            ..shape
        };
        Model {
            capability: 90,
            amd: false,
            simple_tree: n_nodes > 1,
            rings: shape,
            trees: shape,
            nvls: Some(nvls),
            ..a100(n_nodes)
        }
    }

    #[test]
    fn trees_are_for_small_ones_between_nodes() {
        let table = [
            (a100(1), 64, Taken::Ring),
            (a100(1), 1 << 30, Taken::Ring),
            (a100(2), 1 << 10, Taken::Tree),
            (a100(2), 1 << 30, Taken::Ring),
            (a100(128), 1 << 26, Taken::Tree),
            (h100(1), 64, Taken::Ring),
            (h100(1), 1 << 30, Taken::Nvls),
            (h100(4), 1 << 28, Taken::NvlsTree),
        ];
        for (model, bytes, expected) in table {
            let taken = model.choose(Primitive::AllReduce, bytes).0;
            assert_eq!(taken, expected, "{bytes} bytes on {} nodes of {}", model.n_nodes, model.capability);
        }
        assert_eq!(a100(4).choose(Primitive::Broadcast { root: 0 }, 64).0, Taken::Ring);
        assert_eq!(h100(4).choose(Primitive::AllGather, 64).0, Taken::Ring);
    }

    /// Worked out by hand for a ring of 16 ranks on two nodes: 8.4 + 1.4-reduce of 28 steps of 6 µs and 2 of 14, and S / 96 GB/s.
    #[test]
    fn times_are_nccls() {
        let model = Model { trees: Shape::default(), ..a100(2) };
        let time = model.time(Primitive::AllReduce, 1 << 30, Taken::Ring, Protocol::Simple).unwrap();
        let bandwidth = 8.0 * 24.0 * 16.0 / 30.0;
        let expected = (8.4 + 28.0 * 6.0 + 2.0 * 14.0) * 1.4 + f64::from(1 << 30) / (1000.0 * bandwidth);
        assert!((time - expected).abs() < 1e-6, "{time} {expected}");
    }
}
