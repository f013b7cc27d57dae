//! Reading back what the model and the hub knew.

use futures::TryStreamExt as _;
use prost::Message as _;
use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::Process;
use sqlx::{AssertSqlSafe, Row as _};

use super::{AgentRow, Store, StoreError, each};

/// What a daemon starts from.
#[derive(Debug, Default)]
pub struct Restored {
    /// Agents and the numbers they had reached.
    pub agents: Vec<AgentRow>,
    /// Processes, facts and counters of each in one message: those that live, and those that ended of the same jobs.
    pub processes: Vec<Process>,
    /// Every firing finding, and the newest resolved ones.
    pub findings: Vec<api::Finding>,
    /// Every open incident, and the newest that are over.
    pub incidents: Vec<api::Incident>,
    /// What was known of the pace of jobs: the job, and JSON.
    pub pace_memories: Vec<(String, String)>,
    /// Communicators whose history is kept.
    pub communicators: Vec<StoredCommunicator>,
    /// Summation groups whose history is kept: the id, and the session.
    pub groups: Vec<(String, u64)>,
    /// Rows that could not be read: damaged, or from another version.
    pub unreadable_rows: u64,
}

/// What a communicator is known by.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the columns")]
pub struct StoredCommunicator {
    pub id: String,
    pub job: String,
    pub comm_hash: u64,
    pub n_ranks: u32,
}

impl Store {
    /// Reads back what a daemon needs before it is ready; of other jobs, what ended is left to [`Store::processes`].
    ///
    /// # Errors
    /// What the driver says. A row that cannot be decoded is counted and left out.
    pub async fn restore(&self) -> Result<Restored, StoreError> {
        let mut restored = Restored::default();
        self.restore_agents(&mut restored).await?;
        self.restore_ids(&mut restored).await?;
        self.restore_processes(&mut restored).await?;
        self.restore_findings(&mut restored).await?;
        self.restore_incidents(&mut restored).await?;
        self.restore_pace_memories(&mut restored).await?;
        Ok(restored)
    }

    async fn restore_pace_memories(&self, restored: &mut Restored) -> Result<(), StoreError> {
        let query = "SELECT m.job AS job, m.memory AS memory FROM pace_memories m WHERE m.job IN \
                     (SELECT job FROM processes WHERE ended_ns IS NULL) ORDER BY m.updated_ns DESC LIMIT $1";
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(MEMORIES_MAX).fetch_all(pool).await? {
                restored.pace_memories.push((row.try_get("job")?, row.try_get("memory")?));
            }
        });
        Ok(())
    }

    async fn restore_agents(&self, restored: &mut Restored) -> Result<(), StoreError> {
        let query =
            "SELECT agent_id, host, last_seq, last_seen_ns FROM agents ORDER BY last_seen_ns DESC LIMIT $1";
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(AGENTS_MAX).fetch_all(pool).await? {
                restored.agents.push(AgentRow {
                    agent_id: row.try_get("agent_id")?,
                    host: row.try_get("host")?,
                    last_seq: row.try_get("last_seq")?,
                    last_seen_ns: row.try_get("last_seen_ns")?,
                });
            }
        });
        Ok(())
    }

    async fn restore_ids(&self, restored: &mut Restored) -> Result<(), StoreError> {
        let communicators =
            "SELECT id, job, comm_hash, n_ranks FROM communicators ORDER BY updated_ns DESC LIMIT $1";
        let groups = "SELECT id, session FROM summation_groups ORDER BY updated_ns DESC LIMIT $1";
        each!(read self, |pool| {
            for row in sqlx::query(communicators).bind(IDS_MAX).fetch_all(pool).await? {
                let (hash, n_ranks): (String, i64) = (row.try_get("comm_hash")?, row.try_get("n_ranks")?);
                match (hexadecimal(&hash), u32::try_from(n_ranks)) {
                    (Some(comm_hash), Ok(n_ranks)) => restored.communicators.push(StoredCommunicator {
                        id: row.try_get("id")?,
                        job: row.try_get("job")?,
                        comm_hash,
                        n_ranks,
                    }),
                    _ => restored.unreadable_rows += 1,
                }
            }
            for row in sqlx::query(groups).bind(IDS_MAX).fetch_all(pool).await? {
                match hexadecimal(row.try_get("session")?) {
                    Some(session) => restored.groups.push((row.try_get("id")?, session)),
                    None => restored.unreadable_rows += 1,
                }
            }
        });
        Ok(())
    }

    /// Those that live, and with them those that ended of jobs that run or of which something is to be told: a rank that was
    /// killed hours ago may be why the others wait.
    async fn restore_processes(&self, restored: &mut Restored) -> Result<(), StoreError> {
        for (which, most) in [(LIVING, LIVING_MAX), (OF_THE_SAME_JOBS, ENDED_FIRST_MAX)] {
            let query = format!("{FACTS_AND_COUNTERS} {which} LIMIT $1");
            each!(read self, |pool| {
                let mut tx = pool.begin().await?;
                // Of a hundred thousand it takes longer than any other statement.
                if matches!(self, Self::Pg(..)) {
                    sqlx::query("SET LOCAL statement_timeout = 120000").execute(&mut *tx).await?;
                }
                let mut rows = sqlx::query(AssertSqlSafe(query)).bind(most).fetch(&mut *tx);
                while let Some(row) = rows.try_next().await? {
                    let (facts, counters) = (row.try_get("facts")?, row.try_get("counters")?);
                    restored.add(facts, counters);
                }
            });
        }
        // Oldest first, as they came.
        restored.processes.reverse();
        Ok(())
    }

    /// How many processes ended since then.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn n_ended(&self, since: Timestamp) -> Result<u64, StoreError> {
        let query = "SELECT COUNT(*) AS n FROM processes WHERE ended_ns >= $1";
        let n: i64 = each!(read self, |pool| {
            sqlx::query(query).bind(since.0.cast_signed()).fetch_one(pool).await?.try_get("n")?
        });
        Ok(n.cast_unsigned())
    }

    /// Their keys, those that ended last first.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn ended(&self, since: Timestamp) -> Result<Vec<String>, StoreError> {
        let query = "SELECT key FROM processes WHERE ended_ns >= $1 ORDER BY ended_ns DESC LIMIT $2";
        let mut keys = Vec::new();
        each!(read self, |pool| {
            let mut rows = sqlx::query(query).bind(since.0.cast_signed()).bind(LIVING_MAX).fetch(pool);
            while let Some(row) = rows.try_next().await? {
                keys.push(row.try_get("key")?);
            }
        });
        Ok(keys)
    }

    /// The processes of these keys, as [`Restored::processes`] has them; what cannot be read is left out, and counted.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn processes(&self, keys: &[String]) -> Result<Restored, StoreError> {
        let mut restored = Restored::default();
        if keys.is_empty() {
            return Ok(restored);
        }
        let places: Vec<String> = (1..=keys.len()).map(|place| format!("${place}")).collect();
        let sql = format!("{FACTS_AND_COUNTERS} WHERE p.key IN ({})", places.join(", "));
        each!(read self, |pool| {
            let mut query = sqlx::query(AssertSqlSafe(sql));
            for key in keys {
                query = query.bind(key);
            }
            for row in query.fetch_all(pool).await? {
                restored.add(row.try_get("facts")?, row.try_get("counters")?);
            }
        });
        Ok(restored)
    }

    async fn restore_findings(&self, restored: &mut Restored) -> Result<(), StoreError> {
        // 'firing' sorts before 'resolved'.
        let query = "SELECT body FROM findings ORDER BY state, last_seen_ns DESC LIMIT $1";
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(FINDINGS_MAX).fetch_all(pool).await? {
                let body: String = row.try_get("body")?;
                match serde_json::from_str(&body) {
                    Ok(finding) => restored.findings.push(finding),
                    Err(_) => restored.unreadable_rows += 1,
                }
            }
        });
        Ok(())
    }

    async fn restore_incidents(&self, restored: &mut Restored) -> Result<(), StoreError> {
        let query = "SELECT body FROM incidents ORDER BY state, last_seen_ns DESC LIMIT $1";
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(INCIDENTS_MAX).fetch_all(pool).await? {
                let body: String = row.try_get("body")?;
                match serde_json::from_str(&body) {
                    Ok(incident) => restored.incidents.push(incident),
                    Err(_) => restored.unreadable_rows += 1,
                }
            }
        });
        Ok(())
    }
}

impl Restored {
    fn add(&mut self, facts: &[u8], counters: Option<&[u8]>) {
        match join(facts, counters.unwrap_or_default()) {
            Ok(process) => self.processes.push(process),
            Err(_) => self.unreadable_rows += 1,
        }
    }
}

/// Protobuf merges by concatenation: the counters' message adds its fields to the facts'.
fn join(facts: &[u8], counters: &[u8]) -> Result<Process, prost::DecodeError> {
    let mut process = Process::decode(facts)?;
    let key = process.key.clone();
    process.merge(counters)?;
    process.key = key;
    Ok(process)
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// Jobs of which it is known again how fast they were.
const MEMORIES_MAX: i64 = 10_000;
/// Communicators, and groups, that keep their ids.
const IDS_MAX: i64 = 250_000;
/// Agents remembered: as many as the model has room for.
const AGENTS_MAX: i64 = 50_000;
/// What is read of a process.
const FACTS_AND_COUNTERS: &str = "SELECT p.facts AS facts, c.counters AS counters FROM processes p LEFT JOIN process_counters c ON c.key = p.key";
const LIVING: &str = "WHERE p.ended_ns IS NULL ORDER BY p.updated_ns DESC";
const OF_THE_SAME_JOBS: &str = "WHERE p.ended_ns IS NOT NULL AND p.job IN ( \
    SELECT job FROM processes WHERE ended_ns IS NULL UNION SELECT job FROM findings WHERE state = 'firing' \
    UNION SELECT job FROM incidents WHERE state = 'firing') ORDER BY p.ended_ns DESC";
/// Processes read back: as many as the model has room for.
const LIVING_MAX: i64 = 250_000;
/// Processes that ended and are read back before the daemon is ready: some 100 ms.
const ENDED_FIRST_MAX: i64 = 4_096;
/// Findings read back.
const FINDINGS_MAX: i64 = 10_000;
/// Incidents read back: as many as may be open, and some that are over.
const INCIDENTS_MAX: i64 = 12_000;
