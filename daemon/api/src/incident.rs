//! Incidents: findings with one cause, as one thing that somebody has to look at.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Cost, Culprit, Finding, FindingKind, FindingState, Severity};
use crate::clock::Timestamp;

/// Entries of a timeline that are kept.
pub const TIMELINE_MAX: usize = 64;
/// Notes of one incident.
pub const NOTES_MAX: usize = 64;
/// Characters of a note.
pub const NOTE_CHARS_MAX: usize = 2000;
/// Characters of a name that somebody gives themselves.
pub const BY_CHARS_MAX: usize = 100;
/// Longest silence: a year is a decision, not a silence.
pub const SILENCE_S_MAX: u64 = 30 * 24 * 3600;

/// Findings with one cause.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct Incident {
    /// Stable id: that of the finding that was its first root; of one that comes again later with a number behind it.
    pub id: String,
    /// Whether it goes on.
    pub state: FindingState,
    /// The worst of its findings that hold; of one that is over, the worst that it was at last.
    pub severity: Severity,
    /// Of its root.
    pub finding: FindingKind,
    /// What is wrong, in one sentence that begins with the culprit: that of its root.
    pub sentence: String,
    /// What to do. Empty: nothing is known to help.
    pub advice: String,
    /// Job: that of its root, else the only one that its findings are about. Empty: none, or several.
    pub job: String,
    /// Host of the culprit.
    pub host: String,
    /// Rank of the culprit in `comm`. Absent: no single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rank: Option<u32>,
    /// Communicator id. Empty: none.
    pub comm: String,
    /// Who is waited for, or differs. Empty: nobody in particular.
    pub culprits: Vec<Culprit>,
    /// Ranks that wait because of it.
    pub n_victims: u32,
    /// What it costs the job, as its sentence says it: that of its root; where that has none, of its costliest finding. Absent: not
    /// known, or it is not about time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub cost: Option<Cost>,
    /// It was found of files that were imported: it is the past, and nobody is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// When it truly began: the wait, the death, the first call that differs.
    #[schema(value_type = String, format = DateTime)]
    pub began_at: Timestamp,
    /// When ringscope found it, which may be later than `began_at`.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    /// When it was last seen to go on.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// When it ended. Absent: it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub resolved_at: Option<Timestamp>,
    /// When the job that it is about ended; of an incident that is over, that it ended with its job, and that the job did not end
    /// well. Absent: the job goes on, or it is about none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub job_ended_at: Option<Timestamp>,
    /// How often it was over and came back: what comes back within ten minutes is the same.
    #[serde(default)]
    pub times_back: u32,
    /// Ids of its findings, those of old too, the root first; at most 256.
    pub findings: Vec<String>,
    /// What was known when, oldest first; at most 64.
    pub timeline: Vec<IncidentEvent>,
    /// Who looks after it. Absent: nobody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub acknowledged: Option<Acknowledgement>,
    /// Until when nobody is to be told of it. Absent: not silenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub silenced_until: Option<Timestamp>,
    /// What people have written, oldest first; at most 64.
    pub notes: Vec<IncidentNote>,
}

/// An incident with its findings, whole.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct IncidentDetail {
    /// What the list says.
    #[serde(flatten)]
    pub incident: Incident,
    /// Its findings, the root first.
    pub members: Vec<Finding>,
}

/// Something that became known.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct IncidentEvent {
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What, in words.
    pub text: String,
}

/// Somebody has said that they look after it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// Who: as the daemon knows them (`ops`, and `ops (for ann)` where they named somebody else), else as they name themselves.
    pub by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// Something that somebody has written.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
pub struct IncidentNote {
    /// Who: as the daemon knows them (`ops`, and `ops (for ann)` where they named somebody else), else as they name themselves.
    pub by: String,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What; at most 2000 characters.
    pub text: String,
}

/// Who speaks: the body of `POST incidents/{id}/acknowledge`, of `unacknowledge` and of `unsilence`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IncidentBy {
    /// Who, as they name themselves; 1 to 100 characters. Where the daemon knows who asks, it keeps that name, and this one
    /// beside it: `ops (for ann)`.
    #[schema(min_length = 1, max_length = 100)]
    pub by: String,
}

/// The body of `POST incidents/{id}/silence`: until when, or for how long.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IncidentSilence {
    /// Who, as they name themselves; 1 to 100 characters. Where the daemon knows who asks, it keeps that name, and this one
    /// beside it: `ops (for ann)`.
    #[schema(min_length = 1, max_length = 100)]
    pub by: String,
    /// Until when, within 30 days. Absent: `for_s` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub until: Option<Timestamp>,
    /// For how many seconds from now. Absent: `until` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 2_592_000)]
    pub for_s: Option<u64>,
}

/// The body of `POST incidents/{id}/notes`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct IncidentText {
    /// Who, as they name themselves; 1 to 100 characters. Where the daemon knows who asks, it keeps that name, and this one
    /// beside it: `ops (for ann)`.
    #[schema(min_length = 1, max_length = 100)]
    pub by: String,
    /// What; 1 to 2000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    pub text: String,
}
