//! Communicators: their ranks, channels, rings and bytes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Coverage, FindingCounts, Operation, Place, RankState, Standing};
use crate::clock::Timestamp;

/// A communicator in a list.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CommunicatorSummary {
    /// Short id: twelve hexadecimal digits, the same on every daemon for the same communicator.
    pub id: String,
    /// The library's own hash as its log prints it, e.g. `0x9f3b5c6d7e8f9a0b`.
    pub comm_hash: String,
    /// Job.
    pub job: String,
    /// What it is called: by the program (`ncclConfig_t.commName`), else as the framework calls its group of the same ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// What it is for, as far as its name or its shape tell. Absent: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub purpose: Option<Purpose>,
    /// Whether it is in use.
    pub state: CommunicatorState,
    /// How it stands, and why.
    pub standing: Standing,
    /// When the first rank called its init.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When the last rank ended it. Absent: in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub ended: Option<Timestamp>,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Ranks heard of.
    pub n_ranks_seen: u32,
    /// Number of NCCL nodes; hosts if the library did not say.
    pub n_nodes: u32,
    /// Hosts in order of their lowest rank.
    pub hosts: Vec<String>,
    /// Lowest init channel count of all ranks. Absent: not every rank has said.
    #[schema(required = true)]
    pub base: Option<u32>,
    /// Agreed channel count. Absent: not known, or the ranks disagree.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
    /// Hosts that hold the others back; empty if none does.
    pub culprits: Vec<String>,
    /// Whether a finding of severity warning or above is firing.
    pub degraded: bool,
    /// Firing findings by severity.
    pub findings: FindingCounts,
    /// How much of it is seen.
    pub coverage: Coverage,
    /// How the end of its operations is known.
    pub completion: Completion,
    /// Payload bytes issued by all ranks, all primitives.
    pub issued_bytes: u64,
    /// Payload bytes completed.
    pub completed_bytes: u64,
    /// Completed bytes per second over the last seconds.
    pub completed_bytes_per_s: f64,
}

/// What a communicator is for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Purpose {
    /// Which dimension of the parallelism.
    pub dimension: Dimension,
    /// Whether its name says so; else its shape does, which is a guess.
    pub named: bool,
}

/// Dimensions of parallelism.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Every rank of the job.
    World,
    /// Data parallel (DP, FSDP).
    Data,
    /// Tensor parallel (TP).
    Tensor,
    /// Pipeline parallel (PP).
    Pipeline,
    /// Expert parallel (EP).
    Expert,
    /// Context or sequence parallel (CP, SP).
    Context,
}

/// How the end of operations is known.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    /// Nobody has said.
    Unknown,
    /// Not at all (yet): completed counts stay behind.
    None,
    /// The library's profiler tells it.
    Profiler,
    /// CUDA events tell it.
    Events,
    /// Not the same on all ranks.
    Mixed,
}

/// How many channels the library's rules give this communicator, and by which steps.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ChannelPrediction {
    /// Final counts that the rules allow, ascending: one where everything is known that they need. Empty: nothing can
    /// be said.
    pub finals: Vec<u32>,
    /// Whether the final count is among them. Absent: one of both is not known.
    #[schema(required = true)]
    pub explained: Option<bool>,
    /// The steps from the lowest init to the final count, in the library's order. Where an input is not known: those
    /// that lead to the final count that the communicator has.
    pub steps: Vec<ChannelStep>,
    /// What was not known and could have changed the result, e.g. `compute_capability`.
    pub unknown: Vec<String>,
}

/// One rule that changed the number of channels.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ChannelStep {
    /// Which: one of the words of `Rank.causes`.
    pub cause: String,
    /// Channels after it.
    pub channels: u32,
    /// In words for an operator.
    pub text: String,
    /// Whether it holds by inference only: an input of the rule is not known, the result fits.
    pub inferred: bool,
}

/// A communicator, whole.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CommunicatorDetail {
    /// What the list says.
    #[serde(flatten)]
    pub summary: CommunicatorSummary,
    /// How many channels it should run on.
    pub prediction: ChannelPrediction,
    /// Every rank heard of, by rank.
    pub ranks: Vec<Rank>,
    /// The way to the rings, and the trees. Absent: no log tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub graphs: Option<super::Graphs>,
}

/// Whether a communicator is in use.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommunicatorState {
    /// Some rank's init has not returned.
    Forming,
    /// In use.
    Active,
    /// A rank aborted it, or its process is gone while others still use it.
    Broken,
    /// Ended on every rank.
    Ended,
}

/// One rank of a communicator.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Rank {
    /// Rank in the communicator.
    pub rank: u32,
    /// Rank in the job, if the launcher says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub global_rank: Option<u32>,
    /// Host.
    pub host: String,
    /// Process id on it.
    pub pid: u32,
    /// Where a scheduler has put it. Absent: none has, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub place: Option<Place>,
    /// GPU as the library names it. Absent: none, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gpu: Option<String>,
    /// What has become of its process.
    pub state: RankState,
    /// How it stands in this communicator, and why.
    pub standing: Standing,
    /// Channels that its node's own search found. Absent: the log does not say.
    #[schema(required = true)]
    pub init_channels: Option<u32>,
    /// Channels that it uses. Absent: the log does not say.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
    /// The first of `causes`.
    pub cause: String,
    /// Why final is what it is, the strongest first: `doubled`, `capped_by_peer`, `coincidence` (twice its init, though
    /// a peer limits it), `max_nchannels`, `min_nchannels`, `collnet_x1.5`, `hopper_x2`, `hopper_off_by_peer`,
    /// `unpack_x2`, `nvls_raise`, `shared_parent`, `max_channels`, `rccl`, `unexplained`, `unknown`.
    pub causes: Vec<String>,
    /// Index of its NCCL node within the communicator. Not always a host. Absent: not known.
    #[schema(required = true)]
    pub node: Option<u32>,
    /// Version of the library, e.g. `2.27.3`. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub library_version: Option<String>,
    /// Compute capability of its GPU times ten (90 is 9.0). Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub compute_capability: Option<u32>,
    /// Bandwidth inside the node that its ring search found, GB/s as the library prints it. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ring_bw_intra: Option<f64>,
    /// The same between nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub ring_bw_inter: Option<f64>,
    /// Whether its NICs read the GPU's memory themselves, on all its hops over the network. Absent: it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gpu_direct: Option<bool>,
    /// Who has spoken of it: `calls`, `plugin`, `log`.
    pub sources: Vec<String>,
    /// How the end of its operations is known.
    pub completion: Completion,
    /// How much its collector asks the library for: `counters`, `channels`, `steps`, `events`. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub level: Option<String>,
    /// Version of the profiler interface that the library speaks to its collector. Absent: it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub profiler_version: Option<u32>,
    /// The operation that it is in; if in none, the last one it completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub operation: Option<Operation>,
}

/// The rings of a communicator.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Rings {
    /// Communicator id.
    pub id: String,
    /// One ring a channel, by channel.
    pub rings: Vec<Ring>,
}

/// The ring of one channel.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Ring {
    /// Channel number.
    pub channel: u32,
    /// Whether `order` holds every rank exactly once and closes.
    pub complete: bool,
    /// Ranks whose part of the ring is not known, or that say something that does not fit; empty if complete.
    pub missing_ranks: Vec<u32>,
    /// Why it is not complete, in words. Absent if complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub problem: Option<String>,
    /// The hops in order, from rank 0 (or the lowest rank known). If not complete: the longest piece known.
    pub order: Vec<Hop>,
}

/// One rank in a ring, and how it reaches the next.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Hop {
    /// Rank in the communicator.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// Its GPU. Absent: none, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gpu: Option<String>,
    /// Transport to the next rank, e.g. `NET/Socket`. Absent: not known.
    #[schema(required = true)]
    pub transport: Option<String>,
    /// NIC of that hop. Absent: none, or not known.
    #[schema(required = true)]
    pub nic: Option<String>,
    /// NIC on which the next rank receives it. Absent: none, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub recv_nic: Option<String>,
    /// Whether the NIC reads the GPU's memory itself. Absent: no network hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub gpu_direct: Option<bool>,
    /// Rank whose proxy carries the hop. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub proxy_rank: Option<u32>,
    /// What is odd about it among its like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub odd: Vec<OddHop>,
    /// Next rank.
    pub next: u32,
    /// Payload bytes that this rank has sent to the next one over the network, all primitives and channels. Absent: its
    /// collector does not ask for network steps, so nobody counted them.
    #[schema(required = true)]
    pub sent_bytes: Option<u64>,
}

/// What is odd about a hop among its like in the same communicator.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OddHop {
    /// It leads from one rail to another, while most hops keep theirs.
    CrossRail,
    /// A slower transport than its like have.
    Fallback,
    /// The NIC does not read the GPU's memory itself, while those of its like do.
    NoGpuDirect,
}

/// Counters of a communicator, summed and per rank.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Primitives {
    /// Communicator id.
    pub id: String,
    /// Summed over all ranks, by primitive; only primitives that were called.
    pub primitives: Vec<PrimitiveTotals>,
    /// The same per rank, by rank.
    pub ranks: Vec<RankPrimitives>,
}

/// Counters of one rank.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RankPrimitives {
    /// Rank in the communicator.
    pub rank: u32,
    /// Its host.
    pub host: String,
    /// By primitive.
    pub primitives: Vec<PrimitiveTotals>,
}

/// Counters of one primitive, cumulative since the communicator was made.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct PrimitiveTotals {
    /// `all_reduce`, `all_gather`, ...
    pub primitive: String,
    /// Calls handed to the library.
    pub issued_calls: u64,
    /// Their payload bytes by NCCL's convention (all_gather: what one rank contributes).
    pub issued_bytes: u64,
    /// Calls finished.
    pub completed_calls: u64,
    /// Their bytes.
    pub completed_bytes: u64,
    /// Calls that the library refused or that can never complete.
    pub failed_calls: u64,
    /// Calls captured into CUDA graphs: templates, not among the issued.
    pub captured_calls: u64,
    /// Payload bytes of one run of each of them.
    pub captured_bytes: u64,
    /// Runs of captured calls that the library reported; they are among the issued and completed.
    pub replayed_calls: u64,
    /// Their bytes.
    pub replayed_bytes: u64,
    /// Bytes sent to ranks on the same host. Absent: `reason` says why.
    #[schema(required = true)]
    pub intra_bytes: Option<u64>,
    /// Bytes sent to ranks on other hosts. Absent: `reason` says why.
    #[schema(required = true)]
    pub inter_bytes: Option<u64>,
    /// Why `intra_bytes` and `inter_bytes` are not known, in words: the level does not count them, or the library does not
    /// tell them. Absent: they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
    /// Issued and not completed.
    pub backlog_bytes: u64,
    /// Completed bytes per second over the last seconds (algbw, summed over ranks).
    pub completed_bytes_per_s: f64,
    /// That times the primitive's ring factor, per rank: what a link carries (busbw).
    pub bus_bytes_per_s: f64,
}
