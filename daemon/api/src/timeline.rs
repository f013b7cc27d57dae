//! The operations of a job over time, all ranks side by side.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// Operations of a job that completed, by the daemon's clock: times of all hosts are corrected by how their clocks differ.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Timeline {
    /// First moment: what ended before is left out. Times of operations count from here.
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// Last moment: what was called later is left out.
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
    /// The clocks of the job's hosts, by name.
    pub clocks: Vec<HostClock>,
    /// The communicators of the operations, by id.
    pub communicators: Vec<TimelineCommunicator>,
    /// The processes of the job, by rank.
    pub ranks: Vec<TimelineRank>,
    /// The operations, in the order in which they were called.
    pub operations: TimelineOperations,
    /// What is missing and why, in words.
    pub lacks: Vec<String>,
}

/// A communicator of a timeline.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct TimelineCommunicator {
    /// Id.
    pub id: String,
    /// Name that the program gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Its ranks.
    pub n_ranks: u32,
    /// Calls are shown whose number is divisible by this; at least 2 where sends and receives are only counted.
    pub every: u64,
}

/// A process of a timeline.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct TimelineRank {
    /// Rank in the job, as its launcher says; where none says, its place here.
    pub rank: u32,
    /// Host.
    pub host: String,
    /// Process id.
    pub pid: u32,
}

/// Operations as columns of the same length: the first of each column belong together, and so on.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct TimelineOperations {
    /// Who: an index into `ranks`.
    pub rank: Vec<u32>,
    /// On which communicator: an index into `communicators`.
    pub communicator: Vec<u32>,
    /// Number among the collective calls of the communicator: equal numbers belong together. Null: it has none (send, recv).
    pub call_number: Vec<Option<u64>>,
    /// `all_reduce`, ...
    pub primitive: Vec<String>,
    /// Payload bytes.
    pub bytes: Vec<u64>,
    /// When it was called, in microseconds since `from`.
    pub called_us: Vec<i64>,
    /// When the device first showed that it runs. Null: nothing tells.
    pub started_us: Vec<Option<i64>>,
    /// When it completed.
    pub completed_us: Vec<i64>,
    /// When the last rank called the same operation: until then it waited, from then on bytes moved. Null: not all ranks have
    /// told of it, or it has no number.
    pub last_called_us: Vec<Option<i64>>,
}

/// How the clock of a host differs from the daemon's.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct HostClock {
    /// Host.
    pub host: String,
    /// Seconds by which it is ahead.
    pub offset_s: f64,
    /// Seconds by which times of this host, corrected, may be wrong against those of the reference.
    pub error_s: f64,
    /// Where that is known from.
    pub basis: ClockBasis,
    /// The host against whose clock it is known. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reference: Option<String>,
}

/// Where it is known from how a host's clock differs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClockBasis {
    /// The clocks of others are told against this one.
    Reference,
    /// Collectives: nobody completes one before all have called it. The error is a bound, whatever the network did.
    Collectives,
    /// When its agent sent its batches, and when they came.
    Agent,
    /// Nothing: its clock is taken to be right.
    Unknown,
}
