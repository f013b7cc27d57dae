//! Search.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that was searched for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SearchHit {
    /// What it is.
    pub kind: SearchKind,
    /// What to call it, e.g. `host-17`, `rank 12 of world`.
    pub title: String,
    /// Where it is, in words, e.g. `job llm-7b, host-3`.
    pub detail: String,
    /// Job. Absent: belongs to none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub job: Option<String>,
    /// Communicator id. Absent: not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub comm: Option<String>,
    /// Rank in it. Absent: not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rank: Option<u32>,
    /// Host. Absent: not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub host: Option<String>,
    /// NIC on it. Absent: not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub nic: Option<String>,
    /// Summation group id. Absent: not one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
}

/// What can be searched for.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the things")]
pub enum SearchKind {
    Job,
    Host,
    Communicator,
    Summation,
    Rank,
    Nic,
}
