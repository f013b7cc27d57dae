//! The summation service: groups of workers and servers, what each service owns and moves, and for whom rounds wait.
//!
//! Bytes are as on the wire, both to other processes and within one; durations end in `_ns`; shares are fractions of 1.

mod comparison;
mod member;
mod round;
mod series;

#[cfg(test)]
mod tests;

pub use comparison::{SummationComparison, SummationDifference, SummationParty};
pub use member::{SummationFlow, SummationRole, SummationService, SummationStage, SummationWorker};
pub use round::{SummationRound, SummationRounds, SummationWait};
pub use series::{SummationSeries, SummationSeriesLine};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// A summation group in a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationGroup {
    /// Short id: twelve hexadecimal digits, the same on every daemon for the same group.
    pub id: String,
    /// What stays when members change: groups of one session follow each other by `membership_epoch`. 16 hexadecimal
    /// digits.
    pub session: String,
    /// Job of its workers.
    pub job: String,
    /// Counts the changes of members in the session.
    pub membership_epoch: u64,
    /// Counts the changes of what belongs to whom.
    pub placement_epoch: u64,
    /// Whether it is at work.
    pub state: SummationGroupState,
    /// Workers, heard of or not.
    pub n_workers: u32,
    /// Servers on machines of their own, heard of or not.
    pub n_servers: u32,
    /// Whether sums are asynchronous.
    pub asynchronous: bool,
    /// Bytes of all tensors.
    pub model_bytes: u64,
    /// When the first of its members joined.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// Bytes per second that all workers pushed over the last seconds.
    pub push_bytes_per_s: f64,
    /// The same that they pulled.
    pub pull_bytes_per_s: f64,
    /// Rounds of parts per second that got a result.
    pub rounds_per_s: f64,
    /// The round that waits the longest. Null: none is in flight.
    #[serde(default)]
    #[schema(required = true)]
    pub oldest_wait: Option<SummationWait>,
    /// What the worst service owns as a multiple of what it should: 1 is as it should be. Services that own next to nothing
    /// do not count. 0: there is none.
    #[serde(default)]
    #[schema(required = true)]
    pub worst_share_ratio: f64,
    /// Findings that are firing and that somebody should look at: all but those of severity `info`.
    pub n_findings: u32,
}

/// A summation group with everything that is known of it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationGroupDetail {
    /// What the list has too.
    #[serde(flatten)]
    pub group: SummationGroup,
    /// Tensors that are declared.
    pub n_tensors: u64,
    /// Parts of all tensors.
    pub n_parts: u64,
    /// Bytes of a part at most.
    pub partition_bytes: u64,
    /// Rounds that a worker may be ahead of the slowest. Null: no bound, or synchronous.
    #[schema(required = true)]
    pub staleness_bound: Option<u64>,
    /// The member whose loss ended it. Null: none is lost.
    #[schema(required = true)]
    pub lost: Option<SummationLost>,
    /// What comparisons of the workers' parameters have come to. Null: they are not compared (`RSUM_DEBUG_EVERY`), so nobody
    /// knows whether they are the same.
    #[serde(default)]
    #[schema(required = true)]
    pub comparison: Option<SummationComparison>,
    /// Services: those of servers first, then one in each worker.
    pub services: Vec<SummationService>,
    /// Workers, by number.
    pub workers: Vec<SummationWorker>,
    /// What goes between each worker and each service.
    pub flows: Vec<SummationFlow>,
    /// Rounds that are not over, the longest first, at most 64.
    pub waits: Vec<SummationWait>,
    /// Asynchronous: pulls by how many rounds the slowest worker was behind: 0, 1, 2, ...; the last one and more.
    pub staleness: Vec<u64>,
    /// Bytes by what tensors are for.
    pub key_classes: Vec<SummationKeyClass>,
    /// Ids of the findings that are firing.
    pub findings: Vec<String>,
}

/// Whether a group is at work.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SummationGroupState {
    /// Members have joined; declarations are not agreed yet.
    Starting,
    /// At work.
    Running,
    /// Left for a group with other members.
    Suspended,
    /// All members have left.
    Ended,
    /// A member was lost, or the group broke otherwise.
    Failed,
}

impl SummationGroupState {
    /// Every state, by the word used in JSON.
    pub const WORDS: [(&str, Self); 5] = [
        ("starting", Self::Starting),
        ("running", Self::Running),
        ("suspended", Self::Suspended),
        ("ended", Self::Ended),
        ("failed", Self::Failed),
    ];

    /// The word used in JSON and for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// A member that was lost.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationLost {
    /// Rank in the group: workers first, then servers.
    pub rank: u32,
    /// Worker or server.
    pub role: SummationRole,
    /// Number among the workers, or among the servers.
    pub index: u32,
    /// Its host. Empty: not known.
    pub host: String,
    /// Why, as the engine or the host says it.
    pub why: String,
}

/// Bytes of the tensors of one class. Issued: submitted, asked for; completed: sent, come.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the names are those of batch.proto's SummationTraffic")]
pub struct SummationKeyClass {
    /// `gradient`, `parameter` or `other`.
    pub key_class: String,
    pub push_issued_bytes: u64,
    pub push_completed_bytes: u64,
    pub pull_issued_bytes: u64,
    pub pull_completed_bytes: u64,
}
