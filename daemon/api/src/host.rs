//! Hosts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Finding, FindingCounts, Hardware, HostClock, Place, RankState, Standing};
use crate::clock::Timestamp;

/// A host in a list.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct HostSummary {
    /// Name.
    pub host: String,
    /// How it stands, and why.
    pub standing: Standing,
    /// Whether it is the subject of a firing finding of severity warning or above.
    pub degraded: bool,
    /// Why, in words: the messages of those findings, worst first. Empty if not degraded.
    pub reasons: Vec<String>,
    /// Firing findings of which it is the subject, by severity.
    pub findings: FindingCounts,
    /// Jobs that have processes on it now.
    pub jobs: Vec<String>,
    /// Its live processes.
    pub n_processes: u32,
    /// Init channels in its newest active communicator over several hosts (else its newest). Absent: not known.
    #[schema(required = true)]
    pub init_channels: Option<u32>,
    /// Final channels there.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
    /// Completed bytes per second over the last seconds, all its ranks.
    pub completed_bytes_per_s: f64,
    /// Its NICs. Absent: nobody has read its hardware.
    #[schema(required = true)]
    pub n_nics: Option<u32>,
    /// NICs that are down, of those that its peers have up.
    #[schema(required = true)]
    pub n_nics_down: Option<u32>,
    /// Its GPUs. Absent: not known.
    #[schema(required = true)]
    pub n_gpus: Option<u32>,
    /// When something was last heard of it.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
}

/// A host, whole.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct HostDetail {
    /// What the list says.
    #[serde(flatten)]
    pub summary: HostSummary,
    /// Its ranks in active communicators.
    pub ranks: Vec<HostRank>,
    /// Findings of which it is the subject, firing first, newest first.
    pub firing: Vec<Finding>,
    /// NICs and GPUs. Absent: nobody has read them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub hardware: Option<Hardware>,
    /// How its clock differs from the daemon's, as of now.
    pub clock: HostClock,
}

/// What a host found in one communicator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct HostChannels {
    /// Communicator id.
    pub comm: String,
    /// Name that the program gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub name: Option<String>,
    /// Job.
    pub job: String,
    /// When its first rank called its init.
    #[schema(value_type = String, format = DateTime)]
    pub created: Timestamp,
    /// When its last rank ended it. Absent: in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub ended: Option<Timestamp>,
    /// Ranks of the communicator, and of those on this host.
    pub n_ranks: u32,
    /// Its ranks on this host.
    pub n_ranks_here: u32,
    /// Lowest init of its ranks on this host. Absent: not known.
    #[schema(required = true)]
    pub init_channels: Option<u32>,
    /// Lowest init of all ranks. Absent: not known.
    #[schema(required = true)]
    pub base: Option<u32>,
    /// Agreed channel count. Absent: not known.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
    /// Why final is what it is, of its lowest rank here: one of the words of `Rank.causes`.
    pub cause: String,
}

/// One rank on a host.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct HostRank {
    /// Job.
    pub job: String,
    /// Communicator id.
    pub comm: String,
    /// Rank in it.
    pub rank: u32,
    /// Process id.
    pub pid: u32,
    /// Where a scheduler has put it. Absent: none has, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub place: Option<Place>,
    /// What has become of its process.
    pub state: RankState,
    /// How it stands in this communicator, and why.
    pub standing: Standing,
    /// Channels that the node's search found.
    #[schema(required = true)]
    pub init_channels: Option<u32>,
    /// Channels in use.
    #[schema(required = true)]
    pub final_channels: Option<u32>,
}
