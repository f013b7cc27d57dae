//! The objects of the REST API, the public contract: `ringscope-view` fills them, `ringscope-server` sends them, the command
//! line reads them. With them what all say them with: ids ([`CommunicatorId`], [`GroupId`], by [`Digest`]), times ([`clock`]), words
//! ([`words`], [`xid`]), and what must not reach a terminal ([`terminal`], [`unseen`]).
//!
//! Bytes are counted in bytes, bandwidth in bytes per second, durations in seconds (or as their names end), times as RFC
//! 3339 UTC.

mod access;
mod bandwidth;
pub mod blame;
pub mod clock;
mod communicator;
mod condition;
mod connection;
mod coverage;
mod digest;
mod finding;
mod fnv;
mod graphs;
mod group_id;
mod hardware;
mod host;
mod id;
mod import;
mod incident;
mod job;
mod level;
mod operation;
mod pace;
mod page;
mod past;
mod place;
mod runbook;
mod search;
mod series;
pub mod signal;
mod summation;
pub mod terminal;
mod timeline;
mod trace;
pub mod unseen;
pub mod words;
pub mod xid;

pub use access::{
    AuditEntry, KnownBy, NewToken, OidcWay, Role, Session, SignIn, SignInWays, TOKEN_LIFE_S_MAX,
    TOKEN_NAME_CHARS_MAX, Token, TokenWish, UnknownRole,
};
pub use bandwidth::{BandwidthCurve, BandwidthOfSize, Bandwidths, BestBandwidth};
pub use communicator::{
    ChannelPrediction, ChannelStep, CommunicatorDetail, CommunicatorState, CommunicatorSummary, Completion,
    Dimension, Hop, OddHop, PrimitiveTotals, Primitives, Purpose, Rank, RankPrimitives, Ring, Rings,
};
pub use condition::{Condition, ConditionCounts, Health, HealthLevel, Standing};
pub use connection::{Connection, ConnectionEnd, ConnectionState, Gid, GidKind, QueuePair};
pub use coverage::{Coverage, CoverageState};
pub use digest::Digest;
pub use finding::{
    Cost, Culprit, Detail, Evidence, Finding, FindingCounts, FindingKind, FindingState, Severity,
};
pub use fnv::Fnv;
pub use graphs::{Graphs, NodeSearch, SearchedRow, Tree, TreePlace};
pub use group_id::{GroupId, GroupIdError};
pub use hardware::{Gpu, GpuNic, Hardware, Nic, NicChannels, NicError, NicFlow};
pub use host::{HostChannels, HostDetail, HostRank, HostSummary};
pub use id::{CommunicatorId, CommunicatorIdError};
pub use import::{
    FileKind, Import, ImportedBandwidth, ImportedCommunicator, ImportedFile, ImportedFinding, Observation,
    Proof, Verdict,
};
pub use incident::{
    Acknowledgement, BY_CHARS_MAX, Incident, IncidentBy, IncidentDetail, IncidentEvent, IncidentNote,
    IncidentSilence, IncidentText, NOTE_CHARS_MAX, NOTES_MAX, SILENCE_S_MAX, TIMELINE_MAX,
};
pub use job::{Job, JobState, RankState};
pub use level::{JobLevel, LevelChoice, LevelWish, ProcessLevel, UnknownLevel};
pub use operation::{Operation, OperationState};
pub use pace::{JobPace, PaceSeries, RankPace};
pub use page::{Changed, Page, Problem};
pub use past::{Past, PastCommunicator, PastHost, PastPace};
pub use place::{Place, ScheduledJob, Scheduler};
pub use runbook::RunbookEntry;
pub use search::{SearchHit, SearchKind};
pub use series::{Series, SeriesLine};
pub use summation::{
    SummationComparison, SummationDifference, SummationFlow, SummationGroup, SummationGroupDetail,
    SummationGroupState, SummationKeyClass, SummationLost, SummationParty, SummationRole, SummationRound,
    SummationRounds, SummationSeries, SummationSeriesLine, SummationService, SummationStage, SummationWait,
    SummationWorker,
};
pub use timeline::{ClockBasis, HostClock, Timeline, TimelineCommunicator, TimelineOperations, TimelineRank};
pub use trace::{Trace, TraceEvent};

use std::collections::BTreeMap;

/// What was lost by ringscope itself, by reason; only reasons that occurred.
pub type Dropped = BTreeMap<String, u64>;
