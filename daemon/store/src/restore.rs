//! Reading back what the model and the hub knew.

use prost::Message as _;
use ringscope_api as api;
use ringscope_wire::batch::Process;
use sqlx::Row as _;

use super::{AgentRow, Store, StoreError, each};

/// What a daemon starts from.
#[derive(Debug, Default)]
pub struct Restored {
    /// Agents and the numbers they had reached.
    pub agents: Vec<AgentRow>,
    /// Each process, facts and counters in one message.
    pub processes: Vec<Process>,
    /// Every firing finding, and the newest resolved ones.
    pub findings: Vec<api::Finding>,
    /// Every open incident, and the newest that are over.
    pub incidents: Vec<api::Incident>,
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
    /// Reads back what was written.
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
        Ok(restored)
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

    async fn restore_processes(&self, restored: &mut Restored) -> Result<(), StoreError> {
        let query = "SELECT p.facts AS facts, c.counters AS counters FROM processes p \
                     LEFT JOIN process_counters c ON c.key = p.key ORDER BY p.updated_ns DESC LIMIT $1";
        each!(read self, |pool| {
            for row in sqlx::query(query).bind(PROCESSES_MAX).fetch_all(pool).await? {
                let facts: Vec<u8> = row.try_get("facts")?;
                let counters: Option<Vec<u8>> = row.try_get("counters")?;
                match join(&facts, counters.as_deref().unwrap_or_default()) {
                    Ok(process) => restored.processes.push(process),
                    Err(_) => restored.unreadable_rows += 1,
                }
            }
        });
        // Oldest first, as they came.
        restored.processes.reverse();
        Ok(())
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

/// Communicators, and groups, that keep their ids.
const IDS_MAX: i64 = 100_000;
/// Agents remembered: a thousand hosts that each restarted their agent a few times.
const AGENTS_MAX: i64 = 10_000;
/// Processes read back: a hundred thousand ranks are more than one daemon is for.
const PROCESSES_MAX: i64 = 100_000;
/// Findings read back.
const FINDINGS_MAX: i64 = 10_000;
/// Incidents read back: as many as may be open, and some that are over.
const INCIDENTS_MAX: i64 = 12_000;
