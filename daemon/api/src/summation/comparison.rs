//! Whether all workers have the same parameters, as they have found out by comparing hashes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// What comparisons have come to.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationComparison {
    /// Steps from one comparison to the next.
    pub every: u64,
    /// Steps that were made before the last one.
    pub steps: u64,
    /// When that was.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Parameters that were compared.
    pub n_parameters: u64,
    /// Those that were not the same on all workers.
    pub n_different: u64,
    /// Steps before the last comparison in which all were the same. Null: there was none.
    #[schema(required = true)]
    pub equal_steps: Option<u64>,
    /// The first comparison since then that showed a difference. Null: all are the same.
    #[schema(required = true)]
    pub difference: Option<SummationDifference>,
}

/// Parameters that are not the same.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationDifference {
    /// Steps that were made before it was seen.
    pub steps: u64,
    /// When it was seen.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// The first parameter that differed.
    pub parameter: String,
    /// Who has which, the most workers first.
    pub parties: Vec<SummationParty>,
}

/// Workers that have the same parameter.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct SummationParty {
    /// Of its bits: `0x` and 16 hexadecimal digits.
    pub hash: String,
    /// Numbers of the workers.
    pub workers: Vec<u32>,
}
