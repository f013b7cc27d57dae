//! How much of a communicator ringscope sees.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much of a communicator, or of all of a job's, is seen, and why not more.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Coverage {
    /// Whether anything is lacking.
    pub state: CoverageState,
    /// Ranks heard of.
    pub ranks: u32,
    /// Those of which the calls come through the collector.
    pub calls: u32,
    /// Those of which the library's profiler tells.
    pub plugin: u32,
    /// Those of which the library's log tells.
    pub log: u32,
    /// What is lacking and what to do about it, in sentences for an operator. Empty: nothing.
    pub lacks: Vec<String>,
}

/// Whether anything is lacking.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoverageState {
    /// All that ringscope can see is seen.
    #[default]
    Full,
    /// Something is lacking.
    Partly,
}
