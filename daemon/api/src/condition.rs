//! How things stand: of a process, a communicator, a job, a host, and of everything.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Timestamp;

/// How something stands. Green needs evidence: what is not known is `unknown`.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Something completed lately, or nothing was asked for; and nothing speaks against it.
    Healthy,
    /// Nobody can say; the reason says what would be needed.
    #[default]
    Unknown,
    /// It works, and slower or with less than it could.
    Degraded,
    /// Something does not end.
    Hung,
    /// It was killed, has failed, or its results cannot be trusted.
    Failed,
}

impl Condition {
    /// Every condition, from the best to the worst.
    pub const ALL: [Self; 5] = [Self::Healthy, Self::Unknown, Self::Degraded, Self::Hung, Self::Failed];

    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
            Self::Hung => "hung",
            Self::Failed => "failed",
        }
    }
}

/// A condition and why.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Standing {
    /// How it stands.
    pub condition: Condition,
    /// Why, in words: what is wrong, what would be needed to know, or what shows that it is well. Never empty.
    pub reason: String,
    /// Somebody else is to blame as far as is known: it hangs only because it waits for others, whom a finding names, or it was
    /// killed, as launchers do where another process has failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub waits: bool,
}

/// How everything stands, in one sentence. Page, terminal, alerts and exit statuses say what stands here.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Health {
    /// How bad it is.
    pub level: HealthLevel,
    /// In words, for an operator; the worst incident first.
    pub sentence: String,
    /// What to do about the worst of it. Absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub advice: Option<String>,
    /// When the oldest open incident began, of those of jobs that go on, or if there is none, of those of jobs that have ended.
    /// Absent: there is none at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub since: Option<Timestamp>,
    /// Open incidents, by severity.
    pub incidents: super::FindingCounts,
    /// Hosts by condition, of those that have processes or findings.
    pub hosts: ConditionCounts,
    /// Jobs that run, by condition; and the job that was asked for by its name, whether it runs or has ended.
    pub jobs: ConditionCounts,
    /// What is not known, in words, one line each; at most eight.
    pub unknown: Vec<String>,
    /// What else there is to say, one line each, and changes no level: what ended within a day with jobs that did not end well and
    /// nobody has acknowledged; and of the daemon itself, e.g. that its certificate ends soon. Absent: nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub notices: Vec<String>,
}

/// How bad everything is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthLevel {
    /// No job was ever seen.
    Empty,
    /// No job runs.
    Idle,
    /// All is well, and there is evidence for it.
    Ok,
    /// Nothing is known to be wrong, and not everything is known.
    Unknown,
    /// Somebody should look.
    Warning,
    /// A job is slower than it could be, stands, or has failed.
    Critical,
}

impl HealthLevel {
    /// The word used in labels and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Idle => "idle",
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// How many are in each condition.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[expect(missing_docs, reason = "the names are the conditions")]
pub struct ConditionCounts {
    pub healthy: u32,
    pub unknown: u32,
    pub degraded: u32,
    pub hung: u32,
    pub failed: u32,
}

impl ConditionCounts {
    /// How many are in a condition.
    #[must_use]
    pub const fn of(&self, condition: Condition) -> u32 {
        match condition {
            Condition::Healthy => self.healthy,
            Condition::Unknown => self.unknown,
            Condition::Degraded => self.degraded,
            Condition::Hung => self.hung,
            Condition::Failed => self.failed,
        }
    }

    /// Counts one more.
    pub fn add(&mut self, condition: Condition) {
        let count = match condition {
            Condition::Healthy => &mut self.healthy,
            Condition::Unknown => &mut self.unknown,
            Condition::Degraded => &mut self.degraded,
            Condition::Hung => &mut self.hung,
            Condition::Failed => &mut self.failed,
        };
        *count = count.saturating_add(1);
    }
}
