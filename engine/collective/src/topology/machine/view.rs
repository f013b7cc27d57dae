//! All that NCCL finds in one node of a described machine. A cluster has few kinds of nodes: each is searched once in a process.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use super::files::Machine;
use super::search::{TopoGraph, Wanted, search};
use super::system::{Kind, System, nvlink_bandwidth};
use crate::channels::rules;
use crate::faithful::Version;
use crate::lock::lock;
use crate::topology::graph::PathType;
use crate::topology::search::{Channel, CrossNic};
use crate::topology::xml::XmlError;

/// Kinds of nodes that a process remembers.
const MAX_KNOWN: usize = 64;
/// GPUs that a node needs for NVLS.
const NVLS_GPUS: usize = 2;

/// What a rank tells the others of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineSpec {
    /// Its name, or the text of its file.
    pub(crate) machine: String,
    /// Whether CollNet may be used.
    pub(crate) collnet: bool,
    /// Whether NVLS may be used.
    pub(crate) nvls: bool,
}

/// What a node is, and what decides what is found in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish {
    /// The machine and what may be used.
    pub(crate) told: MachineSpec,
    /// The GPUs of its ranks, in their order.
    pub(crate) devices: Vec<u32>,
    /// Whether the communicator has other nodes.
    pub(crate) inter: bool,
    /// `NCCL_CROSS_NIC`.
    pub(crate) cross_nic: CrossNic,
    /// Channels of a graph file, in place of the search.
    pub(crate) channels: Vec<Channel>,
    /// Whose rules.
    pub(crate) version: Version,
}

/// A node.
#[derive(Debug)]
pub(crate) struct View {
    /// The machine.
    pub(crate) machine: Arc<Machine>,
    /// Its graph.
    pub(crate) system: System,
    /// The rings.
    pub(crate) rings: TopoGraph,
    /// The trees, and CollNet's and NVLS's channels where there are such.
    pub(crate) trees: TopoGraph,
    /// CollNet's chains and heads.
    pub(crate) collnet: Option<(TopoGraph, TopoGraph)>,
    /// NVLS, where GPUs have it.
    pub(crate) nvls: Option<TopoGraph>,
}

static KNOWN: Mutex<Vec<(Wish, Arc<View>)>> = Mutex::new(Vec::new());

/// A node, searched if it was not yet.
pub(crate) fn view(wish: &Wish) -> Result<Arc<View>, XmlError> {
    // Whoever asks for the same waits for the search in place of doing it again.
    let mut known = lock(&KNOWN);
    if let Some((_, view)) = known.iter().find(|(other, _)| other == wish) {
        return Ok(Arc::clone(view));
    }
    let view = Arc::new(View::new(wish)?);
    if known.len() == MAX_KNOWN {
        known.remove(0);
    }
    known.push((wish.clone(), Arc::clone(&view)));
    Ok(view)
}

impl View {
    fn new(wish: &Wish) -> Result<Self, XmlError> {
        let machine = Machine::parse(&wish.told.machine)?;
        // Up to 2.27 a communicator within a node forgets its NICs.
        let has_nets = wish.inter || wish.version >= Version::V2_28;
        let system = System::new(&machine.tree, &wish.devices, wish.inter, has_nets)?;
        let wanted = Wanted::rings(wish.cross_nic, wish.version);
        let nets = 0..system.of(Kind::Net).len();
        let rings = told(search(&system, wanted), &wish.channels, nets.len());
        let trees = told(search(&system, wanted.trees(&rings)), &wish.channels, nets.len());
        let reduces = nets.clone().any(|net| system.net(net).is_some_and(|net| net.coll));
        let collnet = (wish.told.collnet && reduces)
            .then(|| (search(&system, wanted.chains(&rings)), search(&system, wanted.heads())));
        let multicasts = system.capability() >= 90 && !system.of(Kind::Nvs).is_empty();
        let nvls = (wish.told.nvls && multicasts && system.n_gpus() >= NVLS_GPUS)
            .then(|| search(&system, wanted.nvls()));
        Ok(Self { machine, system, rings, trees, collnet, nvls })
    }

    /// Channels before the ranks agree.
    pub(crate) fn init_channels(&self) -> usize {
        self.rings.channels.len().min(self.trees.channels.len())
    }

    /// The GPU of a rank of the node, by the rank's index there.
    pub(crate) fn gpu(&self, local: usize) -> usize {
        (0..self.system.n_gpus()).find(|gpu| self.system.gpu(*gpu).1 == local).unwrap_or(0)
    }

    /// The ranks that begin NVLS, each once, by their index in the node.
    pub(crate) fn heads(&self) -> Vec<usize> {
        let mut heads = Vec::new();
        for head in
            self.nvls.iter().flat_map(|nvls| &nvls.channels).filter_map(|channel| channel.order.first())
        {
            if !heads.contains(head) {
                heads.push(*head);
            }
        }
        heads
    }

    /// The search results in the order in which the log shows them.
    pub(crate) fn found(&self) -> impl Iterator<Item = &TopoGraph> {
        let collnet = self.collnet.iter().flat_map(|(chains, heads)| [chains, heads]);
        [&self.rings, &self.trees].into_iter().chain(collnet).chain(&self.nvls)
    }

    /// Send and receive channels between two of its GPUs (`ncclTopoGetNchannels`).
    pub(crate) fn p2p_channels(&self, one: usize, other: usize) -> usize {
        let path = self.system.between((Kind::Gpu, one), (Kind::Gpu, other));
        let nvlink = path.filter(|path| path.kind == PathType::Nvl);
        nvlink.map_or(2, |path| rules::links(path.bandwidth, nvlink_bandwidth(self.system.gpu(other).2)))
    }

    /// Cores of the NUMA node of a GPU, as `0-23,48-71`; empty where the file does not tell.
    pub(crate) fn affinity(&self, gpu: usize) -> String {
        let cpu = self.system.of(Kind::Cpu).get(self.system.local_cpu(gpu));
        let id = cpu.map(|cpu| self.system.nodes[*cpu].id.to_string());
        let cpus = self.machine.tree.below.iter().filter(|branch| branch.element.name == "cpu");
        let mut found = cpus.filter(|branch| branch.element.find("numaid").map(str::to_owned) == id);
        found.next().and_then(|branch| branch.element.find("affinity")).map(ranges).unwrap_or_default()
    }
}

/// A graph file takes the place of what the search found. It may name NICs that are not there.
fn told(mut found: TopoGraph, channels: &[Channel], n_nets: usize) -> TopoGraph {
    if !channels.is_empty() {
        let port = |port: usize| port % n_nets.max(1);
        let fitting = channels.iter().cloned();
        let fitting = fitting.map(|one| Channel { enter: port(one.enter), exit: port(one.exit), ..one });
        found.channels = fitting.collect();
    }
    found
}

/// `000000ff,ffffffff` as `0-39`.
fn ranges(mask: &str) -> String {
    let words = mask.split(',').rev().map(|word| u32::from_str_radix(word.trim(), 16).unwrap_or(0));
    let cores: Vec<u32> = (0_u32..)
        .zip(words)
        .flat_map(|(at, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 32 + bit))
        .collect();
    let runs = cores.chunk_by(|one, next| next - one == 1);
    let shown: Vec<String> = runs
        .map(|run| match run {
            [one] => one.to_string(),
            _ => format!("{}-{}", run[0], run[run.len() - 1]),
        })
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_told_as_ranges() {
        assert_eq!(ranges("000000ff,ffffffff,00000001"), "0,32-71");
        assert_eq!(ranges(""), "");
    }
}
