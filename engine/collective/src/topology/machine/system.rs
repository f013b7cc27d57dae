//! The graph of one node of a described machine, as NCCL builds it from a topology file (`src/graph/topo.cc`,
//! `ncclTopoGetSystemFromXml`): its GPUs, switches, NUMA nodes and NICs, and the links between them.

use crate::topology::graph::{LOC_BANDWIDTH, Link, LinkKind, PathType};

/// GB/s of an NVLink by compute capability, at least this one: NCCL's figures (`src/graph/topo.h`, `ncclTopoNVLinkBw`).
const NVLINKS: [(u32, f32); 4] = [(100, 40.1), (90, 20.6), (87, 20.0), (86, 12.0)];
const NVLINK: f32 = 20.0;
/// GB/s between the sockets of Intel's processors by NCCL's code of their model, and of all others of AMD.
const INTEL: [f32; 5] = [6.0, 6.0, 10.0, 22.0, 40.0];
const AMD: f32 = 16.0;
const ARM: f32 = 6.0;

/// What a node of the graph is, in NCCL's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A GPU.
    Gpu,
    /// A PCI switch.
    Pci,
    /// The NVSwitches, as one.
    Nvs,
    /// A NUMA node.
    Cpu,
    /// A card.
    Nic,
    /// A port of a card.
    Net,
}

impl Kind {
    /// All of them.
    pub(crate) const ALL: [Self; 6] = [Self::Gpu, Self::Pci, Self::Nvs, Self::Cpu, Self::Nic, Self::Net];

    /// The word.
    pub(crate) fn word(self) -> &'static str {
        ["GPU", "PCI", "NVS", "CPU", "NIC", "NET"][self as usize]
    }
}

/// What is known of a node beside its links.
#[derive(Clone, Debug)]
pub(crate) enum Facts {
    /// Of a GPU.
    Gpu {
        /// Its number in the machine.
        device: u32,
        /// Its rank's index among the node's ranks.
        local: usize,
        /// Its compute capability.
        capability: u32,
        /// Whether NICs may reach its memory.
        gdr: bool,
    },
    /// Of a switch: the numbers of its maker.
    Pci(u64),
    /// Of a NUMA node: NCCL's codes of architecture, vendor and model.
    Cpu((i8, i8, i8)),
    /// Of a port.
    Net(Net),
    /// Nothing.
    None,
}

/// A port of a card.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Net {
    /// Its name.
    pub(crate) name: String,
    /// Its card's number.
    pub(crate) asic: u64,
    /// Its number on its card.
    pub(crate) port: u32,
    /// GB/s.
    pub(crate) bandwidth: f32,
    /// Whether it may reach the memory of GPUs.
    pub(crate) gdr: bool,
    /// Whether it can reduce in the network.
    pub(crate) coll: bool,
}

/// A node of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its bus id, or its number.
    pub(crate) id: u64,
    /// What else is known.
    pub(crate) facts: Facts,
    /// Its links, the fastest first, that upwards last.
    pub(crate) links: Vec<Link>,
}

/// The way between two nodes of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    /// Each link, as the node where it begins and its index there.
    pub(crate) links: Vec<(usize, usize)>,
    /// GB/s of the narrowest one.
    pub(crate) bandwidth: f32,
    /// How far.
    pub(crate) kind: PathType,
}

/// The graph.
#[derive(Clone, Debug)]
pub(crate) struct System {
    /// All nodes.
    pub(crate) nodes: Vec<Node>,
    /// The nodes of each kind.
    pub(super) of_kind: [Vec<usize>; 6],
    /// By where it begins and where it ends.
    pub(super) paths: Vec<Vec<Option<Path>>>,
    /// The GPU that is nearest to each port.
    pub(super) local_gpus: Vec<Option<usize>>,
    /// Whether the communicator has ranks on other nodes.
    pub(crate) inter: bool,
    /// GB/s of the fastest way of a channel.
    pub(crate) max_bandwidth: f32,
    /// GB/s of all channels together.
    pub(crate) total_bandwidth: f32,
    /// Whether links between GPUs are called XGMI.
    pub(crate) is_amd: bool,
}

impl System {
    /// The nodes of a kind.
    pub(crate) fn of(&self, kind: Kind) -> &[usize] {
        &self.of_kind[kind as usize]
    }

    /// Number of GPUs.
    pub(crate) fn n_gpus(&self) -> usize {
        self.of(Kind::Gpu).len()
    }

    /// The device number, the index of its rank and the capability of a GPU.
    pub(crate) fn gpu(&self, gpu: usize) -> (u32, usize, u32) {
        match self.nodes[self.of(Kind::Gpu)[gpu]].facts {
            Facts::Gpu { device, local, capability, .. } => (device, local, capability),
            _ => (0, 0, 0),
        }
    }

    /// A port.
    pub(crate) fn net(&self, net: usize) -> Option<&Net> {
        match &self.nodes.get(*self.of(Kind::Net).get(net)?)?.facts {
            Facts::Net(net) => Some(net),
            _ => None,
        }
    }

    /// NCCL's codes of the processor.
    pub(crate) fn cpu(&self) -> (i8, i8, i8) {
        let first = self.of(Kind::Cpu).first().map(|cpu| &self.nodes[*cpu].facts);
        match first {
            Some(Facts::Cpu(codes)) => *codes,
            _ => (-1, -1, -1),
        }
    }

    /// The lowest compute capability.
    pub(crate) fn capability(&self) -> u32 {
        (0..self.n_gpus()).map(|gpu| self.gpu(gpu).2).min().unwrap_or(0)
    }

    pub(super) fn add(&mut self, kind: Kind, id: u64, facts: Facts) -> usize {
        self.nodes.push(Node { kind, id, facts, links: Vec::new() });
        self.of_kind[kind as usize].push(self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Links of the same two nodes are one; faster ones come first.
    pub(super) fn link(&mut self, from: usize, to: usize, kind: LinkKind, bandwidth: f32) {
        let links = &mut self.nodes[from].links;
        let found = links.iter().position(|link| link.to == to && link.kind == kind);
        let mut at = found.unwrap_or_else(|| {
            links.push(Link { to, kind, bandwidth: 0.0 });
            links.len() - 1
        });
        links[at].bandwidth += bandwidth;
        while at > 0 && links[at - 1].bandwidth < links[at].bandwidth {
            links.swap(at - 1, at);
            at -= 1;
        }
    }

    pub(super) fn join(&mut self, one: usize, other: usize, kind: LinkKind, bandwidth: f32) {
        self.link(one, other, kind, bandwidth);
        self.link(other, one, kind, bandwidth);
    }

    pub(super) fn connect_cpus(&mut self) {
        let cpus = self.of_kind[Kind::Cpu as usize].clone();
        for one in &cpus {
            let bandwidth = match self.nodes[*one].facts {
                Facts::Cpu((3, ..)) => ARM,
                Facts::Cpu((1, 1, model)) => {
                    usize::try_from(model).map_or(INTEL[0], |model| INTEL[model.min(4)])
                }
                Facts::Cpu((1, 2, _)) => AMD,
                _ => LOC_BANDWIDTH,
            };
            for other in cpus.iter().filter(|other| *other != one) {
                self.link(*one, *other, LinkKind::Sys, bandwidth);
            }
        }
    }

    /// Puts the link upwards behind all others, down the tree of PCI devices.
    pub(super) fn sort(&mut self, node: usize, above: Option<usize>) {
        if let Some(at) = self.nodes[node].links.iter().position(|link| Some(link.to) == above) {
            let up = self.nodes[node].links.remove(at);
            self.nodes[node].links.push(up);
        }
        for link in self.nodes[node].links.clone() {
            if link.kind == LinkKind::Pci && Some(link.to) != above {
                self.sort(link.to, Some(node));
            }
        }
    }

    /// What a channel, and all together, can have at most (`ncclTopoSearchInit`).
    pub(super) fn find_bandwidths(&mut self) {
        if !self.inter && self.n_gpus() == 1 {
            (self.max_bandwidth, self.total_bandwidth) = (LOC_BANDWIDTH, LOC_BANDWIDTH);
            return;
        }
        let ends = if self.inter { Kind::Net } else { Kind::Gpu };
        let gpus = self.of(Kind::Gpu).iter();
        let most = gpus.clone().flat_map(|gpu| self.of(ends).iter().filter_map(|end| self.path(*gpu, *end)));
        let most = most.filter(|path| !path.links.is_empty()).map(|path| path.bandwidth).fold(0.0, f32::max);
        let total = gpus.map(|gpu| {
            let links = self.nodes[*gpu].links.iter();
            let nvlinks = links.clone().filter(|link| link.kind == LinkKind::Nvl).map(|link| link.bandwidth);
            let pci = links.filter(|link| link.kind == LinkKind::Pci).map(|link| link.bandwidth);
            nvlinks.sum::<f32>().max(pci.fold(0.0, |_, last| last))
        });
        let total = total.fold(0.0, f32::max);
        (self.max_bandwidth, self.total_bandwidth) = (most, total);
    }
}

/// GB/s of one NVLink.
pub(crate) fn nvlink_bandwidth(capability: u32) -> f32 {
    let known = NVLINKS.iter().find(|(from, _)| capability >= *from);
    known.map_or(NVLINK, |(_, bandwidth)| *bandwidth)
}
