//! RDMA connections of a host's processes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// One RDMA connection of a process, in which data go one way.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Connection {
    /// Names it as long as it is shown, on its host.
    pub id: String,
    /// Job of the process.
    pub job: String,
    /// Process id.
    pub pid: u32,
    /// Rank in the job. Absent: not known.
    #[schema(required = true)]
    pub global_rank: Option<u32>,
    /// Communicator that it was made for, as the library names it (`Communicator.comm_hash`). Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub comm_hash: Option<String>,
    /// Whether data leave this process.
    pub is_send: bool,
    /// How it stands.
    pub state: ConnectionState,
    /// Since when, as it was first told of.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// How it failed, in the verbs' own words. Absent: it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// This end.
    pub local: ConnectionEnd,
    /// The other end.
    pub remote: ConnectionEnd,
    /// Bytes of payload in a packet that it uses. Absent: not known.
    #[schema(required = true)]
    pub path_mtu_bytes: Option<u32>,
    /// Traffic class.
    pub traffic_class: u32,
    /// Service level.
    pub service_level: u32,
    /// Its queue pairs.
    pub queue_pairs: Vec<QueuePair>,
    /// Bytes of whole requests that went over it.
    pub bytes: u64,
    /// Bytes per second over the last seconds. Absent: not known yet.
    #[schema(required = true)]
    pub bytes_per_s: Option<f64>,
    /// Requests that were asked for.
    pub requests: u64,
    /// Requests that are done.
    pub completed_requests: u64,
    /// Work requests that were posted.
    pub work_requests: u64,
    /// How often a request had to be asked for again, because the other end had not made room.
    pub waits: u64,
    /// How long requests waited for that, in seconds.
    pub wait_s: f64,
    /// Registrations of memory.
    pub registrations: u64,
    /// Those of them that were found in the cache.
    pub cached_registrations: u64,
    /// When a request was last done. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_done: Option<Timestamp>,
}

/// How a connection stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionState {
    /// It failed.
    Failed,
    /// Data may flow, but one of its queue pairs stands in an error state.
    Broken,
    /// It is being made.
    Connecting,
    /// Data may flow.
    Open,
    /// It was closed.
    Closed,
}

impl ConnectionState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Failed, Self::Broken, Self::Connecting, Self::Open, Self::Closed];

    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Broken => "broken",
            Self::Connecting => "connecting",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// One end of a connection.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ConnectionEnd {
    /// Host.
    pub host: String,
    /// Process id. Absent: not known.
    #[schema(required = true)]
    pub pid: Option<u32>,
    /// Rank in the job. Absent: not known.
    #[schema(required = true)]
    pub global_rank: Option<u32>,
    /// Device, e.g. `mlx5_3`.
    pub device: String,
    /// Its port, counting from 1. Absent: not known.
    #[schema(required = true)]
    pub port: Option<u32>,
    /// GID, as an IPv6 address. Absent: none.
    #[schema(required = true)]
    pub gid: Option<String>,
    /// Index of the GID in the port's table. Absent: not known.
    #[schema(required = true)]
    pub gid_index: Option<u32>,
    /// Kind of the GID. Absent: not known.
    #[schema(required = true)]
    pub gid_kind: Option<GidKind>,
    /// Bytes of payload in a packet that its port can. Absent: not known.
    #[schema(required = true)]
    pub mtu_bytes: Option<u32>,
}

/// Kinds of GID.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GidKind {
    /// InfiniBand.
    Infiniband,
    /// RoCE version 1: on Ethernet, without IP.
    RoceV1,
    /// RoCE version 2: on UDP.
    RoceV2,
}

/// The two ends of a queue pair.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct QueuePair {
    /// Its number here.
    pub number: u32,
    /// Its number at the other end.
    pub remote_number: u32,
    /// Its state as the InfiniBand specification names it, e.g. `RTS`, `ERR`. Absent: the kernel does not tell.
    #[schema(required = true)]
    pub state: Option<String>,
}

/// An entry of a port's table of GIDs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Gid {
    /// Its place in the table.
    pub index: u32,
    /// As an IPv6 address.
    pub gid: String,
    /// Its kind. Absent: not said.
    #[schema(required = true)]
    pub kind: Option<GidKind>,
    /// Network interface that it belongs to. Absent: none, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub interface: Option<String>,
}
