//! What a log says about one communicator, as one rank sees it.

use std::collections::BTreeMap;

/// One init of one communicator in one process. What the log does not say is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommunicatorFacts {
    /// Host in front of the lines, as the library cuts it (before the first dot).
    pub host: String,
    /// Process id as the process sees it.
    pub pid: u32,
    /// `ncclComm_t` as a number. Reused by the library after a communicator has ended.
    pub comm_pointer: u64,
    /// How many complete inits with this pointer came before in this process's log.
    pub occurrence: u32,
    /// commHash as the library printed it ("commId").
    pub comm_hash: Option<u64>,
    /// commHash of a split as NCCL 2.26 and later compute it from the parent's, where the log does not print it.
    pub derived_hash: Option<u64>,
    /// Rank of the process.
    pub rank: u32,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Number of NCCL nodes.
    pub n_nodes: Option<u32>,
    /// PCI bus id of the rank's GPU as the kernel writes it: `0000:1b:00.0`.
    pub bus_id: Option<String>,
    /// CUDA device number.
    pub cuda_device: Option<u32>,
    /// Channels that the node's own search found, min(ring, tree).
    pub init_channels: Option<u32>,
    /// Channels agreed.
    pub final_channels: Option<u32>,
    /// The rank's place on the ring of each channel, by channel.
    pub rings: Vec<RingFact>,
    /// How the rank reaches its next one, by channel.
    pub hops: BTreeMap<u32, Hop>,
    /// Channel settings of the process, by name as set.
    pub settings: BTreeMap<String, i64>,
    /// Whether the init was seen to its end.
    pub complete: bool,
    /// Whether the log says that it has ended since.
    pub end: Option<End>,
}

impl CommunicatorFacts {
    /// The rank after this one on a channel.
    #[must_use]
    pub fn next_on(&self, channel: u32) -> Option<u32> {
        self.rings.iter().find(|ring| ring.channel == channel).map(|ring| ring.next)
    }
}

/// `prev -> rank -> next` of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingFact {
    /// Channel number.
    pub channel: u32,
    /// Rank before this one.
    pub prev: u32,
    /// Rank after this one.
    pub next: u32,
}

/// How a rank sends to the next one on a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Transport without device and suffixes: `NET/IB`, `P2P/IPC`, `P2P/direct pointer`, `SHM/direct`.
    pub transport: String,
    /// Name of the NIC, where the hop has one and the log names it.
    pub nic: Option<String>,
    /// Whether the NIC reads the GPU's memory itself (`GDRDMA`).
    pub gpu_direct: bool,
}

/// How a communicator ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Destroyed.
    Destroyed,
    /// Aborted.
    Aborted,
}
