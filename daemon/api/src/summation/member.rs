//! Who is in a group: services, workers, and what goes between them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a process is in a group.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SummationRole {
    /// Pushes and pulls, and owns a service too.
    Worker,
    /// Only sums.
    Server,
}

impl SummationRole {
    /// The word used in JSON and for people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Server => "server",
        }
    }
}

/// One service: what it owns against what it should, and what it does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationService {
    /// Number among the services.
    pub service: u32,
    /// Of its process.
    pub role: SummationRole,
    /// Number of its process among the workers, or among the servers.
    pub index: u32,
    /// Rank of its process in the group: workers first, then servers.
    pub rank: u32,
    /// Host of its process. Empty: not known.
    pub host: String,
    /// Its process, `<host>/<pid>/<start_time_ns>`. Null: not heard of.
    #[schema(required = true)]
    pub process: Option<String>,
    /// Part of all bytes that it should own, by the water-filling of the group's NICs.
    pub optimal_share: f64,
    /// Part of all bytes that it owns.
    pub share: f64,
    /// Bytes of the parts that it owns.
    pub owned_bytes: u64,
    /// Bytes that its process sends, by the placement, for one round of all tensors.
    pub predicted_sent_bytes: u64,
    /// The same that it receives.
    pub predicted_received_bytes: u64,
    /// Bytes per second that workers pushed to it over the last seconds.
    pub pushed_bytes_per_s: f64,
    /// The same that they pulled from it.
    pub pulled_bytes_per_s: f64,
    /// Bytes of contributions that it added up per second.
    pub summed_bytes_per_s: f64,
    /// Time that summing a MiB of contributions takes it. Null: it has not summed.
    #[schema(required = true)]
    pub sum_ns_per_mib: Option<u64>,
    /// Rounds of parts that got a result.
    pub finished_rounds: u64,
    /// Rounds that wait.
    pub waits: u32,
    /// Bytes in both directions that crossed no NIC.
    pub loopback_bytes: u64,
    /// Whether it was lost.
    pub lost: bool,
}

/// One worker: how it comes to rounds, and its pipeline.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationWorker {
    /// Number among the workers.
    pub index: u32,
    /// Rank in the group; the same.
    pub rank: u32,
    /// Its host. Empty: not known.
    pub host: String,
    /// Rank in the job, as the launcher says. Null: not said.
    #[schema(required = true)]
    pub global_rank: Option<u32>,
    /// Rounds in which it came last, at all services.
    pub last_arrivals: u64,
    /// Fraction of the rounds of the last minute in which it came last; of all rounds, before a minute is over.
    pub last_share: f64,
    /// How much after the first one it comes, on average over the same rounds.
    pub mean_late_ns: u64,
    /// Contributions of it that came.
    pub contributions: u64,
    /// Answers to it that are not sent whole.
    pub unanswered: u64,
    /// Bytes of its parts in flight.
    pub credits_used_bytes: u64,
    /// The bound of these.
    pub credit_bytes: u64,
    /// Its pipeline, in order. Empty: not told.
    pub stages: Vec<SummationStage>,
}

/// One stage of a worker's pipeline.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationStage {
    /// `compress`, `push`, `sum`, `pull` or `decompress`.
    pub stage: String,
    /// Parts that wait for it.
    pub waiting_parts: u64,
    /// Parts that are in it.
    pub running_parts: u64,
    /// Parts that leave it per second.
    pub parts_per_s: f64,
    /// How long a part waits for it, over the last seconds; since the beginning while none leaves it.
    pub mean_wait_ns: u64,
    /// How long a part is in it, over the same time.
    pub mean_work_ns: u64,
    /// The longest wait since the beginning.
    pub longest_wait_ns: u64,
}

/// What goes between one worker and one service.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationFlow {
    /// Number among the workers.
    pub worker: u32,
    /// Number among the services.
    pub service: u32,
    /// Bytes per second that were pushed over the last seconds.
    pub push_bytes_per_s: f64,
    /// The same that were pulled.
    pub pull_bytes_per_s: f64,
    /// Bytes that were submitted for it and are not sent.
    pub push_backlog_bytes: u64,
}
