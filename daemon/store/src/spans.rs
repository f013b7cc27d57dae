//! What was found over time: from when to when each finding and incident held, in the words of then.

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, FindingState, Incident};

/// Something that was found begins to hold, is told otherwise from now on, or ended.
#[derive(Clone, Debug)]
pub struct Turn {
    /// What it is of, as it is told.
    pub of: Told,
    /// When.
    pub at: Timestamp,
}

/// What is told.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Told {
    Finding(Finding),
    Incident(Incident),
}

/// A turn as its table has it.
pub(super) struct SpanRow {
    pub(super) kind: &'static str,
    pub(super) subject: String,
    pub(super) at_ns: i64,
    pub(super) job: String,
    pub(super) host: String,
    pub(super) is_over: bool,
    pub(super) body: String,
}

impl From<&Turn> for SpanRow {
    fn from(turn: &Turn) -> Self {
        let at_ns = turn.at.0.cast_signed();
        match &turn.of {
            Told::Finding(one) => Self {
                kind: FINDING,
                subject: one.id.clone(),
                at_ns,
                job: one.job.clone(),
                host: one.host.clone(),
                is_over: one.state == FindingState::Resolved,
                body: serde_json::to_string(one).unwrap_or_default(),
            },
            Told::Incident(one) => Self {
                kind: INCIDENT,
                subject: one.id.clone(),
                at_ns,
                job: one.job.clone(),
                host: one.host.clone(),
                is_over: one.state == FindingState::Resolved,
                body: serde_json::to_string(one).unwrap_or_default(),
            },
        }
    }
}

/// Writes a turn, in a transaction: the span that is open ends there, with its last words where it is over; else the next begins.
macro_rules! turn {
    ($tx:ident, $row:ident) => {
        if $row.is_over {
            let query = sqlx::query($crate::spans::END).bind($row.kind).bind(&$row.subject).bind($row.at_ns);
            query.bind(&$row.body).bind(i64::MAX).execute(&mut *$tx).await?;
        } else {
            let query =
                sqlx::query($crate::spans::CLOSE).bind($row.kind).bind(&$row.subject).bind($row.at_ns);
            query.bind(i64::MAX).execute(&mut *$tx).await?;
            let query =
                sqlx::query($crate::spans::BEGIN).bind($row.kind).bind(&$row.subject).bind($row.at_ns);
            let query = query.bind(i64::MAX).bind(&$row.job).bind(&$row.host).bind(&$row.body);
            query.execute(&mut *$tx).await?;
        }
    };
}
pub(super) use turn;

pub(super) const FINDING: &str = "finding";
pub(super) const INCIDENT: &str = "incident";
pub(super) const END: &str = "UPDATE spans SET until_ns = CASE WHEN from_ns > $3 THEN from_ns ELSE $3 END, body = $4 \
    WHERE kind = $1 AND subject = $2 AND until_ns = $5";
pub(super) const CLOSE: &str = "UPDATE spans SET until_ns = CASE WHEN from_ns > $3 THEN from_ns ELSE $3 END \
    WHERE kind = $1 AND subject = $2 AND until_ns = $4";
pub(super) const BEGIN: &str = "INSERT INTO spans (kind, subject, from_ns, until_ns, job, host, whole, body) \
    VALUES ($1, $2, $3, $4, $5, $6, 1, $7) ON CONFLICT (kind, subject, from_ns) DO UPDATE SET \
    until_ns = excluded.until_ns, body = excluded.body";
