//! Jobs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Coverage, Dropped, FindingCounts, ScheduledJob, Standing};
use crate::clock::Timestamp;

/// A job: all processes that name the same job id.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Job {
    /// Job id as the launcher named it.
    pub id: String,
    /// Whether it runs.
    pub state: JobState,
    /// How it stands, and why.
    pub standing: Standing,
    /// When the first of its processes started.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    /// When something was last heard of it.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// When the last of its processes was seen to have ended. Absent: it has not ended, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub ended_at: Option<Timestamp>,
    /// Ranks as the launcher says. Absent: not said.
    #[schema(required = true)]
    pub world_size: Option<u32>,
    /// Processes seen; of a job that was started again, those since then.
    pub n_processes: u32,
    /// Those of them that ended without running their exit handlers, and were not ended by their launch.
    pub n_killed: u32,
    /// What its scheduler calls it. Absent: no scheduler started it, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scheduled: Option<ScheduledJob>,
    /// Hosts, by name.
    pub hosts: Vec<String>,
    /// Communicators that are active now.
    pub active_communicators: u32,
    /// Communicators ever seen.
    pub n_communicators: u32,
    /// Findings that are firing.
    pub findings: FindingCounts,
    /// How much of its communicators in use is seen; the ranks of all of them together.
    pub coverage: Coverage,
    /// Payload bytes issued by all ranks, all primitives.
    pub issued_bytes: u64,
    /// Payload bytes completed.
    pub completed_bytes: u64,
    /// Completed bytes per second over the last seconds.
    pub completed_bytes_per_s: f64,
    /// What the collectors of this job dropped.
    pub dropped: Dropped,
}

/// Whether a job runs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// At least one process lives and was heard of lately.
    Running,
    /// Processes live as far as is known, but nothing was heard of them for a while.
    Stale,
    /// Read from files: whether its processes live is not known.
    Imported,
    /// Every process has ended.
    Ended,
}

impl JobState {
    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stale => "stale",
            Self::Imported => "imported",
            Self::Ended => "ended",
        }
    }
}

/// What has become of a rank's process.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RankState {
    /// Runs.
    #[default]
    Running,
    /// Runs as far as is known, but nothing was heard of it for a while.
    Stale,
    /// Ran its exit handlers.
    Exited,
    /// Gone without having run them, while others shared a communicator with it that it had not ended, or a call had not
    /// returned.
    Killed,
    /// Gone without having run them, and nobody needed it any more: by `_exit`, by another program in its place, or by a
    /// signal; as which is not known.
    Gone,
    /// Read from files: whether it lives is not known.
    Imported,
}
