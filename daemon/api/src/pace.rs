//! How the ranks of a job spend their time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the ranks of a job spent their time of late: in collectives, or outside of them.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct JobPace {
    /// Job.
    pub job: String,
    /// Seconds that a step took of late; each call where no step was found in the order of the calls. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub step_seconds: Option<f64>,
    /// Ranks, the slowest of their like first, as many as were asked for.
    pub ranks: Vec<RankPace>,
    /// Ranks of which it is known.
    pub n_ranks: usize,
    /// Processes of which it is not known: their agents do not tell, or have not for long enough.
    pub n_unknown: usize,
    /// Why processes that tell their times are among those of which it is not known, in words.
    pub lacks: Vec<String>,
}

/// How fast a job went over time. Each step of time has the mean over all of it that is known; null: nothing is.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct PaceSeries {
    /// Job.
    pub job: String,
    /// Seconds between points.
    pub step_s: f64,
    /// Times of the points, milliseconds since the Unix epoch.
    pub times_ms: Vec<u64>,
    /// Seconds that a step of the job took; each call where no step was found in the order of the calls.
    pub step_seconds: Vec<Option<f64>>,
    /// Of this, the own time of the rank that had most of it: no operation of any communicator was under way.
    pub own_seconds: Vec<Option<f64>>,
    /// Share of the time in operations, the mean of the ranks, from 0 to 1: they waited for others, or bytes moved.
    pub in_operations_share: Vec<Option<f64>>,
    /// Of the time again, what ranks waited there for the last one, the mean of them: more than the rank that was there least.
    pub waiting_share: Vec<Option<f64>>,
}

/// How one rank spent its time of late.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct RankPace {
    /// Process.
    pub process: String,
    /// Host.
    pub host: String,
    /// Process id there.
    pub pid: u32,
    /// Rank in the job. Absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub global_rank: Option<u32>,
    /// Ranks of one number do the same work, so they are compared.
    pub class: usize,
    /// Seconds of a step, or of a call where no step is known.
    pub step_seconds: f64,
    /// Whether a step was found in the order of its calls.
    pub has_steps: bool,
    /// Of this, its own: no operation of any communicator was under way. What long steps took longer is not in it.
    pub own_seconds: f64,
    /// What is usual of its like: a quarter of them take no longer.
    pub usual_own_seconds: f64,
    /// Of this, in operations: it waited for others, or bytes moved.
    pub in_operations_seconds: f64,
    /// What its long steps took longer, as a share of the time, from 0 to 1.
    pub longer_share: f64,
    /// Whether operations begin when the device begins them. Else when the program calls: where a library enqueues long before the
    /// device runs, own time is told too short.
    pub by_device: bool,
    /// By how much the device's clock may lie beside the host's, in seconds. Absent: times are not the device's, or its clock was not
    /// asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub device_error_seconds: Option<f64>,
}
