//! Rounds of one part each: those that wait, and results.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// A round that is not over, and for whom it waits.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationWait {
    /// Number of the service.
    pub service: u32,
    /// Part.
    pub key: u32,
    /// Name of the tensor that the part is of.
    pub tensor: String,
    /// Round of that part.
    pub round: u64,
    /// True: for contributions. False: for workers to take their answers.
    pub for_push: bool,
    /// Numbers of the workers that it waits for, at most 64.
    pub workers: Vec<u32>,
    /// Since its first contribution came.
    pub age_ns: u64,
}

/// Results, the newest first.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationRounds {
    /// The results.
    pub items: Vec<SummationRound>,
}

/// One result.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationRound {
    /// Part.
    pub key: u32,
    /// Round of that part.
    pub round: u64,
    /// Of the result's bytes: `0x` and 16 hexadecimal digits. Where members differ: as it was made.
    pub fingerprint: String,
    /// When it was there.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Number of the service that made it. Null: only workers have told of it.
    #[schema(required = true)]
    pub made_by: Option<u32>,
    /// Contributions in it. Null: not known.
    #[schema(required = true)]
    pub contributors: Option<u32>,
    /// Worker that came last. Null: not known.
    #[schema(required = true)]
    pub last_arriver: Option<u32>,
    /// How much that one came after the first. Null: not known.
    #[schema(required = true)]
    pub spread_ns: Option<u64>,
    /// From the first contribution until the result was there. Null: not known.
    #[schema(required = true)]
    pub took_ns: Option<u64>,
    /// Whether all who told of it have the same bytes. Null: only one has told, or sums are asynchronous.
    #[schema(required = true)]
    pub agree: Option<bool>,
}
