//! What a log says about one communicator, as one rank sees it.

use std::collections::{BTreeMap, BTreeSet};

/// One init of one communicator in one process. What the log does not say is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// Ranks in this rank's NCCL node.
    pub local_ranks: Option<u32>,
    /// This rank's place in its NCCL node.
    pub local_rank: Option<u32>,
    /// Whether the node spans hosts by multi-node NVLink.
    pub mnnvl: Option<bool>,
    /// Version of the library, e.g. `2.27.3+cuda12.9`.
    pub version: Option<String>,
    /// Function that made it, e.g. `ncclCommSplit`.
    pub api: Option<String>,
    /// `ncclComm_t` of the parent.
    pub parent_pointer: Option<u64>,
    /// PCI bus id of the rank's GPU as the kernel writes it: `0000:1b:00.0`.
    pub bus_id: Option<String>,
    /// CUDA device number.
    pub cuda_device: Option<u32>,
    /// Number of the device in NVML.
    pub nvml_device: Option<u32>,
    /// Which child of its parent it is, counting as the library does (`splitCount`, `childCount`).
    pub child_count: Option<i32>,
    /// Colour that it was split by.
    pub color: Option<i32>,
    /// Channels that the node's own search found, min(ring, tree).
    pub init_channels: Option<u32>,
    /// Bandwidth of the ring search inside the node, GB/s as printed.
    pub ring_bw_intra: Option<f64>,
    /// The same between nodes.
    pub ring_bw_inter: Option<f64>,
    /// The search found nothing and fell back to one channel in simple order.
    pub search_fell_back: bool,
    /// Channels agreed.
    pub final_channels: Option<u32>,
    /// CollNet channels agreed.
    pub collnet_channels: Option<u32>,
    /// NVLS channels agreed.
    pub nvls_channels: Option<u32>,
    /// Channels for send and receive, and how many of them a peer gets.
    pub p2p_channels: Option<(u32, u32)>,
    /// Channels as rank 0 prints them before it connects ("Channel 00/08"): also there when the init then fails.
    pub printed_channels: Option<u32>,
    /// Name of the network ("Using network IB").
    pub network: Option<String>,
    /// The rank's place on the ring of each channel, by channel.
    pub rings: Vec<RingFact>,
    /// How the rank reaches its next one, by channel.
    pub hops: BTreeMap<u32, Hop>,
    /// How it receives from the one before it, by channel.
    pub recv_hops: BTreeMap<u32, Hop>,
    /// Whole rings as rank 0 prints them, by channel; without those that are cut.
    pub orders: BTreeMap<u32, Vec<u32>>,
    /// Rows of the ring search of the rank's node, and of its tree search: what it found before all ranks agreed.
    pub searched: Searched,
    /// The rank's place in the tree of each channel, by channel.
    pub trees: BTreeMap<u32, TreeFact>,
    /// Connections for collectives that this rank sends on, (channel, rank that receives), those of trees too.
    pub edges: Vec<(u32, u32)>,
    /// How the rank reaches the others of `edges` on channels whose ring its own lines do not tell: those of all ranks, or
    /// rank 0's, may.
    pub edge_hops: BTreeMap<(u32, u32), Hop>,
    /// How it receives from others, (channel, rank that sends), on the same channels.
    pub recv_edge_hops: BTreeMap<(u32, u32), Hop>,
    /// Connection lines of this rank by kind: `P2P/IPC`, `NET/IB send`, `NET/IB receive`, and ` (p2p conn /1)` behind it
    /// if the connection is for send and receive.
    pub connections: BTreeMap<String, u64>,
    /// Indices of the NICs that those lines name.
    pub nics_used: BTreeSet<u32>,
    /// Ranks whose proxies those lines name (PXN).
    pub proxy_ranks: BTreeSet<u32>,
    /// Channel settings of the process, by name as set.
    pub settings: BTreeMap<String, i64>,
    /// Whether the init was seen to its end.
    pub complete: bool,
    /// The init returned an error: the log shows its way up through the library's functions.
    pub failed: bool,
    /// Whether the log says that it has ended since.
    pub end: Option<End>,
    /// The lines that prove the above.
    pub evidence: Vec<Evidence>,
}

/// What a node's own searches found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// Rings through the node.
    pub rings: Vec<RowFact>,
    /// Trees in it.
    pub trees: Vec<RowFact>,
}

/// One ring or tree inside a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFact {
    /// The ranks of the node in its order.
    pub ranks: Vec<u32>,
    /// Device of the network by which it comes into the node, as the library numbers it.
    pub enter: Option<String>,
    /// The one by which it leaves.
    pub leave: Option<String>,
}

/// A rank's place in a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeFact {
    /// The rank.
    pub rank: u32,
    /// The rank above. Absent: it is the root.
    pub up: Option<u32>,
    /// The ranks below.
    pub down: Vec<u32>,
}

/// A line of the log that proves a fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Which fact, in the words of `batch.proto`.
    pub fact: String,
    /// Number of the line in its file, counting from 1.
    pub line: u64,
    /// The line, cut to 240 bytes.
    pub text: String,
}

impl Evidence {
    /// About how much memory this takes.
    pub(super) fn weight_bytes(&self) -> usize {
        self.text.len() + 80
    }
}

impl CommunicatorFacts {
    /// commHash as printed, else as computed.
    #[must_use]
    pub fn hash(&self) -> Option<u64> {
        self.comm_hash.or(self.derived_hash)
    }

    /// About how much memory this takes.
    pub(super) fn weight_bytes(&self) -> usize {
        let evidence: usize = self.evidence.iter().map(Evidence::weight_bytes).sum();
        let orders: usize = self.orders.values().map(|ranks| ranks.len() * 4 + 64).sum();
        let named = self.settings.len() * 80 + self.rings.len() * 12 + self.trees.len() * 64;
        let rows = self.searched.rings.iter().chain(&self.searched.trees);
        let rows: usize = rows.map(|row| row.ranks.len() * 4 + 96).sum();
        1024 + rows + evidence + orders + named + self.weight_of_connections_bytes()
    }

    /// The part of it that grows with connections.
    pub(super) fn weight_of_connections_bytes(&self) -> usize {
        let hops = self.hops.len() + self.recv_hops.len() + self.edge_hops.len() + self.recv_edge_hops.len();
        (self.connections.len() + self.nics_used.len()) * 80 + hops * 160 + self.edges.len() * 8
    }
}

/// What one thread said of a communicator that no line of it names: GRAPH without INIT, or a log cut at its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fragment {
    /// Thread that wrote it.
    pub tid: u32,
    /// Rank, where the lines tell it: the middle of "Ring" lines, or the near end of connections.
    pub rank: Option<u32>,
    /// The rest. `rank` and `n_ranks` are not to be used where they are 0 here.
    pub facts: CommunicatorFacts,
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
    /// Index of the NIC in its net plugin.
    pub nic_index: Option<u32>,
    /// Rank whose proxy carries the hop (PXN).
    pub proxy_rank: Option<u32>,
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
