//! What every endpoint has in common.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Page<T> {
    /// The items, in a stable order.
    pub items: Vec<T>,
    /// Give this as `cursor` to get the next page. Absent: this is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// An error as RFC 9457 describes it (`application/problem+json`).
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Problem {
    /// A short name of the kind of error, e.g. `about:blank#unknown-communicator`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// HTTP status.
    pub status: u16,
    /// What was wrong here, and what to do.
    pub detail: String,
}

/// The data of a `changed` event: something that the lists show is not as it was.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Changed {
    /// Grows with every change.
    pub version: u64,
    /// Communicators whose channels, rings, state or counters changed, by id; at most 256.
    pub communicators: Vec<String>,
    /// Summation groups that changed, by id; at most 256.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub summations: Vec<String>,
    /// Whether a finding appeared, was resolved or changed.
    pub findings: bool,
    /// Whether an incident appeared, ended or changed, also by somebody's word.
    #[serde(default)]
    pub incidents: bool,
}
