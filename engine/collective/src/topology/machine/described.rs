//! A communicator's ranks on described machines: which GPU is whose, and what follows for its channels.

use std::sync::Arc;

use super::files::{Gpu, Machine};
use super::view::{MachineSpec, View, Wish, view};
use crate::channels::rules::{self, Facts};
use crate::channels::{Limits, MAX_CHANNELS};
use crate::error::{Error, Result};
use crate::faithful::Version;
use crate::topology::peers::PeerInfo;
use crate::topology::rails;
use crate::topology::search::Channel;

/// Channels of NVLS that NCCL takes on Hopper, and on later ones between nodes and within a node (`src/transport/nvls.cc`).
const NVLS_CHANNELS: usize = 16;
const NVLS_CHANNELS_LATER: (usize, usize) = (24, 32);
/// Channels to a rank of another node, from which fewer follow where there are many ranks.
const NET_PEER_CHANNELS: usize = 2;
/// Operations that a channel carries at a time, at half of its room.
const P2P_PER_CHANNEL: usize = 4;
/// Nodes from which CollNet pays (`NCCL_COLLNET_NODE_THRESHOLD`).
const COLLNET_NODES: usize = 2;

/// The ranks and their nodes.
#[derive(Debug)]
pub(crate) struct Described {
    nodes: Vec<usize>,
    members: Vec<Vec<usize>>,
    views: Vec<Arc<View>>,
    devices: Vec<u32>,
    processes: Vec<u32>,
    version: Version,
}

/// Two are equal if their ranks have the same GPUs.
impl PartialEq for Described {
    fn eq(&self, other: &Self) -> bool {
        (&self.nodes, &self.devices, self.version) == (&other.nodes, &other.devices, other.version)
    }
}

impl Described {
    /// Of ranks that have all told of a machine; else none.
    ///
    /// # Errors
    /// A host with more ranks than its machine has GPUs, or a file that is none.
    pub(crate) fn new(
        peers: &[PeerInfo],
        (nodes, members): (&[usize], &[Vec<usize>]),
        version: Version,
    ) -> Result<Option<Self>> {
        let told: Option<Vec<&MachineSpec>> =
            peers.iter().map(|peer| peer.placement.machine.as_ref()).collect();
        let Some(told) = told else { return Ok(None) };
        let mut devices = vec![0; peers.len()];
        for members in members {
            for (rank, index) in members.iter().zip(0_u32..) {
                devices[*rank] = peers[*rank].device.unwrap_or(index);
            }
        }
        let unusable = |error| Error::InvalidUsage(format!("RSCCL_MACHINE: {error}"));
        let mut machines: Vec<(&str, Arc<Machine>)> = Vec::new();
        let of_node = |members: &Vec<usize>| {
            let devices: Vec<u32> = members.iter().map(|rank| devices[*rank]).collect();
            let placement = &peers[members[0]].placement;
            let text = told[members[0]].machine.as_str();
            if machines.iter().all(|(known, _)| *known != text) {
                machines.push((text, Machine::parse(text).map_err(unusable)?));
            }
            let gpus = machines.iter().find(|(known, _)| *known == text).map(|(_, machine)| &machine.gpus);
            check(gpus.map_or(&[], Vec::as_slice), &devices, members)?;
            let wish = Wish {
                told: told[members[0]].clone(),
                devices,
                inter: nodes.iter().any(|node| *node != nodes[0]),
                cross_nic: placement.cross_nic,
                channels: channels(&peers[members[0]], members.len())?,
                version,
            };
            view(&wish).map_err(unusable)
        };
        let views = members.iter().map(of_node).collect::<Result<_>>()?;
        let processes = peers.iter().map(|peer| peer.process).collect();
        Ok(Some(Self {
            nodes: nodes.to_vec(),
            members: members.to_vec(),
            views,
            devices,
            processes,
            version,
        }))
    }

    /// Number of nodes.
    pub(crate) fn n_nodes(&self) -> usize {
        self.members.len()
    }

    /// Whose rules count.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The node of a rank.
    pub(crate) fn node(&self, rank: usize) -> usize {
        self.nodes[rank]
    }

    /// A rank's index in its node.
    pub(crate) fn local(&self, rank: usize) -> usize {
        self.members[self.nodes[rank]].binary_search(&rank).unwrap_or(0)
    }

    /// The rank with this index in a node.
    pub(crate) fn rank(&self, node: usize, local: usize) -> usize {
        self.members[node][local]
    }

    /// What is found in a node.
    pub(crate) fn view(&self, node: usize) -> &View {
        &self.views[node]
    }

    /// The ranks of a node.
    pub(crate) fn members(&self, node: usize) -> &[usize] {
        &self.members[node]
    }

    /// The number of a rank's GPU in its host.
    pub(crate) fn device(&self, rank: usize) -> u32 {
        self.devices[rank]
    }

    /// The bus id of a rank's GPU.
    pub(crate) fn bus_id(&self, rank: usize) -> u64 {
        let gpus = &self.views[self.nodes[rank]].machine.gpus;
        gpus.iter().find(|gpu| gpu.device == self.devices[rank]).map_or(0, |gpu| gpu.bus_id)
    }

    /// Whether two ranks are of one process.
    pub(super) fn is_same_process(&self, one: usize, other: usize) -> bool {
        self.processes[one] == self.processes[other]
    }

    /// Whether the machines' library is AMD's.
    pub(crate) fn is_amd(&self) -> bool {
        self.views.iter().any(|view| view.machine.is_amd)
    }

    /// The lowest compute capability.
    pub(crate) fn capability(&self) -> u32 {
        self.views.iter().map(|view| view.system.capability()).min().unwrap_or(0)
    }

    /// What the rules for the number of channels take into account.
    pub(crate) fn facts(&self, limits: Limits, args_bytes: Option<usize>) -> Facts {
        let least =
            |of: fn(&View) -> f32| self.views.iter().map(|view| of(view)).fold(f32::INFINITY, f32::min);
        Facts {
            // The rules by generation are NVIDIA's.
            compute_capability: if self.is_amd() { 0 } else { self.capability() },
            n_nodes: self.n_nodes(),
            ring_intra: least(|view| view.rings.bw_intra),
            collnet: self.has_collnet()
                && self.nodes.len() > self.n_nodes()
                && least(|view| view.collnet.as_ref().map_or(0.0, |(chains, _)| chains.bw_intra))
                    > least(|view| view.collnet.as_ref().map_or(0.0, |(chains, _)| chains.bw_inter)),
            nvls_channels: self.nvls_channels(limits),
            args_bytes,
            ..Facts::default()
        }
    }

    /// Whether all nodes have CollNet and there are enough of them.
    pub(crate) fn has_collnet(&self) -> bool {
        let has =
            |view: &Arc<View>| view.collnet.as_ref().is_some_and(|(chains, _)| !chains.channels.is_empty());
        self.n_nodes() >= COLLNET_NODES && self.views.iter().all(has)
    }

    /// NVLS channels of a node before the ranks agree; 0 without NVLS.
    pub(crate) fn node_nvls_channels(&self, node: usize, limits: Limits) -> usize {
        if self.views[node].nvls.is_none() {
            return 0;
        }
        let usual = match (self.capability(), self.n_nodes()) {
            (100.., 1) => NVLS_CHANNELS_LATER.1,
            (100.., _) => NVLS_CHANNELS_LATER.0,
            _ => NVLS_CHANNELS,
        };
        usual.min(limits.max_ctas.unwrap_or(MAX_CHANNELS)).max(limits.min_ctas.unwrap_or(1))
    }

    /// NVLS channels of all; 0 where a node has none.
    pub(crate) fn nvls_channels(&self, limits: Limits) -> usize {
        let lacks = |view: &Arc<View>| view.nvls.as_ref().is_none_or(|nvls| nvls.channels.is_empty());
        if self.views.iter().any(lacks) { 0 } else { self.node_nvls_channels(0, limits) }
    }

    /// Channels for send and receive, and those to each peer (`ncclTopoComputeP2pChannels`).
    pub(crate) fn p2p_channels(&self, node: usize, n_channels: usize) -> (usize, usize) {
        let view = &self.views[node];
        let gpus = 0..view.system.n_gpus();
        let pairs = gpus.clone().flat_map(|one| gpus.clone().map(move |other| (one, other)));
        let within = pairs.filter(|(one, other)| one != other);
        let within = within.map(|(one, other)| view.p2p_channels(other, one)).min().unwrap_or(usize::MAX);
        let mut between = NET_PEER_CHANNELS;
        while between * self.nodes.len() > n_channels * P2P_PER_CHANNEL && between > 1 {
            between /= 2;
        }
        let between = if self.n_nodes() > 1 { between } else { usize::MAX };
        let least = n_channels.min(within).min(between).max(1);
        let all = n_channels.next_power_of_two();
        (all, least.next_power_of_two().min(all))
    }

    /// By final channel, the channel of the search and of its copies that it is.
    pub(crate) fn sources(&self, base: usize, limits: Limits, args_bytes: Option<usize>) -> Vec<usize> {
        rules::sources(self.version, base, limits, &self.facts(limits, args_bytes))
    }
}

/// The channels of a graph file, where the first rank of a host has one.
fn channels(peer: &PeerInfo, n_ranks: usize) -> Result<Vec<Channel>> {
    if peer.placement.channels.is_empty() {
        return Ok(Vec::new());
    }
    let told = rails::told(peer, n_ranks).map(<[Channel]>::to_vec);
    told.ok_or_else(|| {
        let host = &peer.host;
        let text = format!("NCCL_GRAPH_FILE: its channels are not orders of the {n_ranks} ranks on {host}");
        Error::InvalidUsage(text)
    })
}

/// No two ranks of a host have one GPU, and each has one.
fn check(gpus: &[Gpu], devices: &[u32], members: &[usize]) -> Result<()> {
    for (index, device) in devices.iter().enumerate() {
        if gpus.iter().all(|gpu| gpu.device != *device) {
            return Err(Error::InvalidUsage(format!(
                "RSCCL_MACHINE: {} ranks on a host of {} GPUs",
                members.len(),
                gpus.len()
            )));
        }
        if let Some(other) = devices[..index].iter().position(|other| other == device) {
            let bus_id = gpus.iter().find(|gpu| gpu.device == *device).map_or(0, |gpu| gpu.bus_id);
            return Err(Error::InvalidUsage(format!(
                "Duplicate GPU detected : rank {} and rank {} both on CUDA device {bus_id:x}",
                members[index], members[other]
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "described_tests.rs"]
mod tests;
