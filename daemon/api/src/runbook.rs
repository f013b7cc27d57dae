//! What to do about findings.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::FindingKind;

/// What to do about one kind of finding. The texts are `dashboards/runbook.md`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct RunbookEntry {
    /// Which kind.
    pub finding: FindingKind,
    /// Its name for people, e.g. `Channel shortfall`.
    pub title: String,
    /// What it means for the job, one paragraph.
    pub meaning: String,
    /// What to look at, in order; commands in backquotes.
    pub checks: Vec<String>,
    /// What to do, in order; commands in backquotes.
    pub actions: Vec<String>,
}
