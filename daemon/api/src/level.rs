//! How much the collectors of a job ask the library for.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::RankState;
use crate::clock::Timestamp;

/// What somebody can wish for in a job.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LevelChoice {
    /// Issued and completed counters, at the least cost that gives them.
    Counters,
    /// Also when each channel of each operation finishes.
    Channels,
    /// Also each network step, and so bytes per link.
    Steps,
    /// As counters, and when the device begins and ends each operation, by CUDA events.
    Events,
    /// As each process was started.
    Default,
    /// Count and record nothing.
    Off,
}

impl LevelChoice {
    /// Every choice.
    pub const ALL: [Self; 6] =
        [Self::Counters, Self::Channels, Self::Steps, Self::Events, Self::Default, Self::Off];

    /// The word on the command line and in JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Channels => "channels",
            Self::Steps => "steps",
            Self::Events => "events",
            Self::Default => "default",
            Self::Off => "off",
        }
    }
}

/// Why a word is no level.
#[derive(Debug, thiserror::Error)]
#[error("no level is called {word:?}; allowed: counters, channels, steps, events, default, off")]
pub struct UnknownLevel {
    /// What was said.
    pub word: String,
}

impl std::str::FromStr for LevelChoice {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, UnknownLevel> {
        let found = Self::ALL.into_iter().find(|choice| choice.label() == word);
        // A word of any length may come over the network.
        found.ok_or_else(|| UnknownLevel { word: word.chars().take(WORD_CHARS_MAX).collect() })
    }
}

/// How much of a wrong word is repeated.
const WORD_CHARS_MAX: usize = 100;

/// What is wished for.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelWish {
    /// One of `counters`, `channels`, `steps`, `events`, `default`, `off`.
    pub level: String,
}

/// The level of a job: what is wished for, and what its processes do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobLevel {
    /// Job id.
    pub job: String,
    /// What was wished for last. Absent: nothing since this daemon started.
    #[schema(required = true)]
    pub wish: Option<LevelChoice>,
    /// When it was.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub wished_at: Option<Timestamp>,
    /// The job's processes that have not ended.
    pub processes: Vec<ProcessLevel>,
}

/// What one process does.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct ProcessLevel {
    /// Host.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Rank in the job. Absent: the launcher did not say.
    #[schema(required = true)]
    pub global_rank: Option<u32>,
    /// What its collector does: `counters`, `channels`, `steps`, `events` or `off`. Absent: it has not said, or it is not in this
    /// process, or it has switched itself off after a fault.
    #[schema(required = true)]
    pub level: Option<LevelChoice>,
    /// Whether it was heard of lately.
    pub state: RankState,
}
