//! Operations: single calls.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// One call of a primitive by one rank.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Operation {
    /// Rank in the communicator.
    pub rank: u32,
    /// Host of that rank.
    pub host: String,
    /// `all_reduce`, ...
    pub primitive: String,
    /// Counts the rank's calls of this primitive on this communicator from 0: equal numbers belong together.
    pub seq_number: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Elements.
    pub count: u64,
    /// Name of the element type.
    pub datatype: String,
    /// Peer of send and recv, root of rooted collectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub peer: Option<u32>,
    /// Number among the collective calls of the communicator, over all primitives: equal numbers belong together. Absent:
    /// a send, recv or put_signal, or its collector does not number calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub call_number: Option<u64>,
    /// Reduction operator: `sum`, `prod`, `max`, `min`, `avg`, or `custom`. Absent: it has none, or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub op: Option<String>,
    /// When the device or the proxy first showed that it runs. Absent: it has not started, or nothing tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub started_at: Option<Timestamp>,
    /// Where it stands.
    pub state: OperationState,
    /// When it was called.
    #[schema(value_type = String, format = DateTime)]
    pub issued_at: Timestamp,
    /// From call to completion; for one in flight until now, or until its process died; 0 where nobody can
    /// say.
    pub duration_s: f64,
    /// Channels that have finished, of those that take part (0 of 0: the library has not said).
    pub channels_done: u32,
    /// Channels that take part.
    pub channels_expected: u32,
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Called inside a group that has not ended.
    Queued,
    /// Handed to the library; nothing tells when operations of this rank complete.
    Issued,
    /// Handed to the library, not completed. If the rank was killed: what it was in when it died.
    InFlight,
    /// Completed.
    Completed,
    /// Refused by the library, or its communicator was aborted.
    Failed,
    /// Captured into a CUDA graph: runs whenever the graph does.
    Captured,
}
