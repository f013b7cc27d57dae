//! What was so at a moment of the past: which processes ran where, what was found, which communicators were in use.

use std::collections::BTreeSet;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Finding, Incident};
use sqlx::Row as _;

use super::spans::{FINDING, INCIDENT};
use super::{Store, StoreError, each};

/// Of when, and of what.
#[derive(Clone, Debug)]
pub struct PastQuery {
    /// The moment, to the millisecond.
    pub at: Timestamp,
    /// Only of this job; findings about hardware are of none, and are given.
    pub job: Option<String>,
    /// Only what has names that begin with this.
    pub of_names: Option<String>,
}

/// What is kept of that moment.
#[derive(Clone, Debug, Default)]
pub struct KeptPast {
    /// Processes by host and job.
    pub places: Vec<KeptPlace>,
    /// Communicators in use, the newest first.
    pub communicators: Vec<KeptCommunicator>,
    /// Their ranks by host.
    pub ranks: Vec<KeptRanks>,
    /// Findings that held.
    pub findings: Vec<Finding>,
    /// Incidents that were open.
    pub incidents: Vec<Incident>,
    /// Of these, how many are from before it was kept what was told at each time: in their latest words, and without their pauses.
    pub n_of_before: usize,
    /// When the oldest job began that is kept. `None`: none is.
    pub begins: Option<Timestamp>,
    /// Whether there was more than is given.
    pub is_cut: bool,
    /// Rows that could not be read: damaged, or from another version.
    pub unreadable_rows: u64,
}

/// Processes of one job on one host.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub struct KeptPlace {
    pub host: String,
    pub job: String,
    pub n_processes: u32,
}

/// A communicator that was in use.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the columns are documented in migrations/")]
pub struct KeptCommunicator {
    pub id: String,
    pub job: String,
    pub name: Option<String>,
    pub n_ranks: u32,
    pub base_channels: Option<u32>,
    pub final_channels: Option<u32>,
    pub created: Timestamp,
    pub ended: Option<Timestamp>,
}

/// Ranks of a communicator on one host.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the columns are documented in migrations/; of channels the lowest")]
pub struct KeptRanks {
    pub comm: String,
    pub host: String,
    pub init_channels: Option<u32>,
    pub final_channels: Option<u32>,
}

/// What one rank said of its place in the rings.
#[derive(Clone, Debug)]
pub struct KeptHops {
    /// Ranks of the communicator.
    pub n_ranks: u32,
    /// Rank in it.
    pub rank: u32,
    /// Host. Empty: not known.
    pub host: String,
    /// GPU. `None`: none, or not known.
    pub gpu: Option<String>,
    /// Of each channel.
    pub hops: Vec<KeptHop>,
}

/// A place in the ring of one channel, in the order of the column: channel, rank before, rank after, transport to it, NIC.
pub type KeptHop = (u32, u32, u32, Option<String>, Option<String>);

impl Store {
    /// What is kept of a moment.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn past(&self, query: &PastQuery) -> Result<KeptPast, StoreError> {
        let mut kept = KeptPast::default();
        self.past_places(query, &mut kept).await?;
        self.past_communicators(query, &mut kept).await?;
        self.past_ranks(query, &mut kept).await?;
        self.past_findings(query, &mut kept).await?;
        let begins =
            "SELECT MIN(first_seen_ns) AS begins FROM jobs WHERE $1 = '' OR substr(id, 1, length($1)) = $1";
        let (_, of_names) = query.names();
        each!(read self, |pool| {
            let row = sqlx::query(begins).bind(of_names).fetch_one(pool).await?;
            kept.begins = row.try_get::<Option<i64>, _>("begins")?.map(time);
        });
        Ok(kept)
    }

    /// A process whose end nobody heard of counts as long as something was heard of it or of its job.
    async fn past_places(&self, query: &PastQuery, kept: &mut KeptPast) -> Result<(), StoreError> {
        let sql = "SELECT p.host AS host, p.job AS job, COUNT(*) AS n FROM processes p \
                   LEFT JOIN jobs j ON j.id = p.job LEFT JOIN process_counters c ON c.key = p.key \
                   WHERE p.started_ns > 0 AND p.started_ns <= $1 AND p.host <> '' AND ($2 = '' OR p.job = $2) \
                   AND ($3 = '' OR substr(p.job, 1, length($3)) = $3) AND (p.ended_ns > $1 OR (p.ended_ns IS NULL AND \
                   (COALESCE(j.last_seen_ns, 0) >= $1 OR p.updated_ns >= $1 OR COALESCE(c.updated_ns, 0) >= $1))) \
                   GROUP BY p.host, p.job ORDER BY p.host, p.job LIMIT $4";
        let (job, of_names) = query.names();
        each!(read self, |pool| {
            let asked = sqlx::query(sql).bind(query.until_ns()).bind(job).bind(of_names).bind(ROWS_MAX);
            for row in asked.fetch_all(pool).await? {
                let (host, job) = (row.try_get("host")?, row.try_get("job")?);
                let n_processes = number(Some(row.try_get("n")?)).unwrap_or(0);
                kept.places.push(KeptPlace { host, job, n_processes });
            }
        });
        kept.note_cut(kept.places.len(), ROWS_MAX);
        Ok(())
    }

    async fn past_communicators(&self, query: &PastQuery, kept: &mut KeptPast) -> Result<(), StoreError> {
        let sql = "SELECT c.id AS id, c.job AS job, c.name AS name, c.n_ranks AS n_ranks, \
                   c.base_channels AS base_channels, c.final_channels AS final_channels, c.created_ns AS created_ns, \
                   c.ended_ns AS ended_ns FROM communicators c LEFT JOIN jobs j ON j.id = c.job \
                   WHERE c.created_ns <= $1 AND ($2 = '' OR c.job = $2) AND ($3 = '' OR substr(c.job, 1, length($3)) = $3) \
                   AND (c.ended_ns > $1 OR (c.ended_ns IS NULL AND \
                   (COALESCE(j.last_seen_ns, 0) >= $1 OR c.updated_ns >= $1))) \
                   ORDER BY c.created_ns DESC, c.id LIMIT $4";
        let (job, of_names) = query.names();
        each!(read self, |pool| {
            let asked = sqlx::query(sql).bind(query.until_ns()).bind(job).bind(of_names).bind(COMMUNICATORS_MAX);
            for row in asked.fetch_all(pool).await? {
                kept.communicators.push(KeptCommunicator {
                    id: row.try_get("id")?,
                    job: row.try_get("job")?,
                    name: row.try_get("name")?,
                    n_ranks: number(Some(row.try_get("n_ranks")?)).unwrap_or(0),
                    base_channels: number(row.try_get("base_channels")?),
                    final_channels: number(row.try_get("final_channels")?),
                    created: time(row.try_get("created_ns")?),
                    ended: row.try_get::<Option<i64>, _>("ended_ns")?.map(time),
                });
            }
        });
        kept.note_cut(kept.communicators.len(), COMMUNICATORS_MAX);
        Ok(())
    }

    async fn past_ranks(&self, query: &PastQuery, kept: &mut KeptPast) -> Result<(), StoreError> {
        // By communicator: who joins the two the other way round reads the ranks of all that are kept.
        let sql = "SELECT r.comm AS comm, r.host AS host, MIN(r.init_channels) AS init_channels, \
                   MIN(r.final_channels) AS final_channels FROM communicator_ranks r WHERE r.comm IN \
                   (SELECT c.id FROM communicators c LEFT JOIN jobs j ON j.id = c.job \
                   WHERE c.created_ns <= $1 AND ($2 = '' OR c.job = $2) AND ($3 = '' OR substr(c.job, 1, length($3)) = $3) \
                   AND (c.ended_ns > $1 OR (c.ended_ns IS NULL AND \
                   (COALESCE(j.last_seen_ns, 0) >= $1 OR c.updated_ns >= $1)))) \
                   GROUP BY r.comm, r.host ORDER BY r.comm, r.host LIMIT $4";
        let (job, of_names) = query.names();
        each!(read self, |pool| {
            let asked = sqlx::query(sql).bind(query.until_ns()).bind(job).bind(of_names).bind(RANKS_MAX);
            for row in asked.fetch_all(pool).await? {
                kept.ranks.push(KeptRanks {
                    comm: row.try_get("comm")?,
                    host: row.try_get("host")?,
                    init_channels: number(row.try_get("init_channels")?),
                    final_channels: number(row.try_get("final_channels")?),
                });
            }
        });
        kept.note_cut(kept.ranks.len(), RANKS_MAX);
        Ok(())
    }

    async fn past_findings(&self, query: &PastQuery, kept: &mut KeptPast) -> Result<(), StoreError> {
        for body in self.past_bodies(FINDING, query, kept).await? {
            match serde_json::from_str(&body) {
                Ok(one) => kept.findings.push(one),
                Err(_) => kept.unreadable_rows += 1,
            }
        }
        for body in self.past_bodies(INCIDENT, query, kept).await? {
            match serde_json::from_str(&body) {
                Ok(one) => kept.incidents.push(one),
                Err(_) => kept.unreadable_rows += 1,
            }
        }
        Ok(())
    }

    /// What held then, each in the words of then.
    async fn past_bodies(
        &self,
        kind: &'static str,
        query: &PastQuery,
        kept: &mut KeptPast,
    ) -> Result<Vec<String>, StoreError> {
        // What held is told by the index alone: only then its words are read.
        let sql = "SELECT s.subject AS subject, s.whole AS whole, s.body AS body FROM \
                   (SELECT subject, from_ns FROM spans WHERE kind = $1 AND until_ns > $2 AND from_ns <= $2) held \
                   JOIN spans s ON s.kind = $1 AND s.subject = held.subject AND s.from_ns = held.from_ns \
                   WHERE ($3 = '' OR s.job = $3 OR s.job = '') AND ($4 = '' OR substr(s.job, 1, length($4)) = $4 \
                   OR substr(s.host, 1, length($4)) = $4) ORDER BY s.from_ns DESC LIMIT $5";
        let (job, of_names) = query.names();
        let (mut n, mut subjects, mut found) = (0, BTreeSet::new(), Vec::new());
        each!(read self, |pool| {
            let asked = sqlx::query(sql).bind(kind).bind(query.until_ns()).bind(job).bind(of_names).bind(ROWS_MAX);
            for row in asked.fetch_all(pool).await? {
                n += 1;
                // What is told to have begun again before it had ended is one, in its later words.
                if subjects.insert(row.try_get::<String, _>("subject")?) {
                    found.push(row.try_get("body")?);
                    kept.n_of_before += usize::from(row.try_get::<i64, _>("whole")? == 0);
                }
            }
        });
        kept.note_cut(n, ROWS_MAX);
        Ok(found)
    }

    /// What the ranks of a communicator said of its rings, whether anything still runs of it or not. Empty: nothing is kept.
    /// `of_names`: only where its job begins with this.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn kept_hops(&self, comm: &str, of_names: Option<&str>) -> Result<Vec<KeptHops>, StoreError> {
        let sql = "SELECT c.n_ranks AS n_ranks, h.rank AS rank, COALESCE(r.host, '') AS host, r.gpu AS gpu, h.hops AS hops \
                   FROM rank_hops h JOIN communicators c ON c.id = h.comm \
                   LEFT JOIN communicator_ranks r ON r.comm = h.comm AND r.rank = h.rank \
                   WHERE h.comm = $1 AND ($2 = '' OR substr(c.job, 1, length($2)) = $2) ORDER BY h.rank LIMIT $3";
        let mut kept = Vec::new();
        each!(read self, |pool| {
            let asked = sqlx::query(sql).bind(comm).bind(of_names.unwrap_or_default()).bind(RANKS_MAX);
            for row in asked.fetch_all(pool).await? {
                let hops: String = row.try_get("hops")?;
                let (Some(n_ranks), Some(rank)) =
                    (number(Some(row.try_get("n_ranks")?)), number(Some(row.try_get("rank")?)))
                else {
                    continue;
                };
                let (host, gpu) = (row.try_get("host")?, row.try_get("gpu")?);
                // What cannot be read is a rank that has said nothing: the ring says that it lacks.
                let hops = serde_json::from_str(&hops).unwrap_or_default();
                kept.push(KeptHops { n_ranks, rank, host, gpu, hops });
            }
        });
        Ok(kept)
    }
}

impl PastQuery {
    /// The end of its millisecond: what began within it had begun.
    fn until_ns(&self) -> i64 {
        (self.at.0 / 1_000_000 * 1_000_000 + 999_999).cast_signed()
    }

    /// As statements take them: empty for all.
    fn names(&self) -> (&str, &str) {
        (self.job.as_deref().unwrap_or_default(), self.of_names.as_deref().unwrap_or_default())
    }
}

impl KeptPast {
    fn note_cut(&mut self, n: usize, most: i64) {
        self.is_cut |= i64::try_from(n).is_ok_and(|n| n >= most);
    }
}

fn time(ns: i64) -> Timestamp {
    Timestamp(ns.cast_unsigned())
}

fn number(value: Option<i64>) -> Option<u32> {
    value.and_then(|value| u32::try_from(value).ok())
}

/// Findings, incidents, and jobs of hosts: as many as a page can show.
const ROWS_MAX: i64 = 10_000;
const COMMUNICATORS_MAX: i64 = 4_000;
/// Ranks of one communicator, or hosts of all of them.
const RANKS_MAX: i64 = 50_000;
