//! What the ranks tell each other of themselves and of their hosts.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::topology::machine::view::MachineSpec;
use crate::topology::search::{Channel, CrossNic};
use crate::topology::seat::Seat;
use crate::transport::shm::connect::Announcement;

/// A usable NIC of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PeerNic {
    /// Its name.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: IpAddr,
    /// 10⁶ bits per second.
    pub(crate) speed_mbit: u32,
    /// The port of its card, from 1; 0 where it does not tell.
    pub(crate) port: u32,
    /// Where it is in its host.
    pub(crate) seat: Seat,
}

/// What a rank tells the others about where it is in its host and what it was told to do there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    /// Where its cores are.
    pub(crate) seat: Seat,
    /// Where the node's ranks are, by index in the node, if a topology file says so.
    pub(crate) seats: Vec<Seat>,
    /// The channels of a graph file, in place of a search.
    pub(crate) channels: Vec<Channel>,
    /// Whether channels may leave by another NIC.
    pub(crate) cross_nic: CrossNic,
    /// The lowest compute capability of the GPUs in a topology file, in the faithful mode; else 0.
    pub(crate) compute_capability: u32,
    /// The described machine, in the faithful mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<MachineSpec>,
}

/// What a rank tells the others about its host, as a rule in the same words as the host's other ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostFacts {
    /// The host's name.
    pub(crate) host: String,
    /// Ranks with the same hash are one node.
    pub(crate) host_hash: u64,
    /// Equal where ranks of the host can share memory; nothing, if that is switched off.
    pub(crate) shm_domain: Option<u64>,
    /// The machine that it runs on; ranks of different pretended hosts may share one.
    pub(crate) machine: u64,
    /// The cores that it may use: bit i of word w is core 64 w + i.
    pub(crate) cores: Vec<u64>,
    /// The NICs it can use now; never empty.
    pub(crate) nics: Vec<PeerNic>,
    /// Its place in its host.
    pub(crate) placement: Placement,
    /// The version of NCCL as which it shows, by name; empty without the faithful mode.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) faithful: String,
    /// The network that carries data between hosts, where it is a plugin: its name; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) network: String,
    /// `RSCCL_DETERMINISTIC`, in full; empty without it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) rank_order: String,
}

/// What a rank tells the others about itself; of its host's facts, kept once for those that say the same, it can be asked
/// as of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerInfo {
    /// Its rank in the communicator.
    pub(crate) rank: usize,
    /// Where ranks of its host can share memory with it; nowhere, if that is switched off, or if it is another host.
    pub(crate) shm: Option<Announcement>,
    /// Where its process listens, on each of its NICs.
    pub(crate) ports: Vec<u16>,
    /// On a described machine, the number of its GPU, where a parent has one for it.
    pub(crate) device: Option<u32>,
    /// On a described machine, the number of its process.
    pub(crate) process: u32,
    /// What it has in common with the ranks of its host.
    pub(crate) facts: Arc<HostFacts>,
}

impl PeerInfo {
    /// Where it listens on a NIC of its list.
    pub(crate) fn listens(&self, nic: usize) -> SocketAddr {
        SocketAddr::new(self.nics[nic].address, self.ports.get(nic).copied().unwrap_or(0))
    }
}

impl Deref for PeerInfo {
    type Target = HostFacts;

    fn deref(&self) -> &HostFacts {
        &self.facts
    }
}

impl DerefMut for PeerInfo {
    fn deref_mut(&mut self) -> &mut HostFacts {
        Arc::make_mut(&mut self.facts)
    }
}
