//! How everything stood at a moment of the past, as far as the database keeps it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Finding, HealthLevel, Incident, Standing};
use crate::clock::Timestamp;

/// Everything at one moment of the past.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Past {
    /// Of when it is.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// How bad it was.
    pub level: HealthLevel,
    /// In words.
    pub sentence: String,
    /// Incidents that were open then, worst first, in the words of then; numbers in them may be somewhat older or newer.
    pub incidents: Vec<Incident>,
    /// Findings that held then, worst first, in the words of then; `resolved_at` says until when, where they ended in these words.
    pub findings: Vec<Finding>,
    /// Hosts that had a process then, or about which something was found, by name.
    pub hosts: Vec<PastHost>,
    /// Communicators that were in use then, the newest first. Their rings: `communicators/{id}/rings`.
    pub communicators: Vec<PastCommunicator>,
    /// How fast jobs went then, by job; those of which it was not recorded are left out.
    pub paces: Vec<PastPace>,
    /// What is not known of that moment, and why, one line each.
    pub lacks: Vec<String>,
}

/// How fast a job went around that moment: the mean of a minute, or of two where it is more than an hour ago.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct PastPace {
    /// Job.
    pub job: String,
    /// Seconds that a step took, or a call where no step is known.
    pub step_seconds: f64,
    /// Of this, the own time of the rank that had most of it.
    pub own_seconds: f64,
    /// Share of the time in operations, the mean of its ranks, from 0 to 1.
    pub in_operations_share: f64,
    /// Of the time again, what ranks waited there for the last one, the mean of them.
    pub waiting_share: f64,
}

/// A host at that moment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct PastHost {
    /// Name.
    pub host: String,
    /// How it stood, and why. What nothing was recorded of is `unknown`.
    pub standing: Standing,
    /// Jobs that had processes on it.
    pub jobs: Vec<String>,
    /// Its processes.
    pub n_processes: u32,
    /// Init channels in its newest communicator over several hosts (else its newest). Absent: not known.
    #[schema(required = true)]
    pub init_channels: Option<u32>,
    /// Final channels there.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
    /// Completed bytes per second over the 20 seconds around it, or over two minutes where it is more than an hour ago. Absent:
    /// nothing was recorded.
    #[schema(required = true)]
    pub completed_bytes_per_s: Option<f64>,
}

/// A communicator at that moment.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct PastCommunicator {
    /// Short id: twelve hexadecimal digits.
    pub id: String,
    /// Job.
    pub job: String,
    /// Name that the program gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// When the first rank called its init.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When its last rank ended it, later than the moment. Absent: it is in use, or nobody heard of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub ended: Option<Timestamp>,
    /// Number of ranks.
    pub n_ranks: u32,
    /// Hosts that have one of its ranks.
    pub n_hosts: u32,
    /// Lowest init channel count of all ranks. Absent: not known.
    #[schema(required = true)]
    pub base: Option<u32>,
    /// Agreed channel count. Absent: not known, or the ranks disagree.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
    /// Completed bytes per second over the 20 seconds around it, or over two minutes where it is more than an hour ago. Absent:
    /// nothing was recorded.
    #[schema(required = true)]
    pub completed_bytes_per_s: Option<f64>,
}
