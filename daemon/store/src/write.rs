//! Writing: one transaction for one [`WriteSet`], several rows a statement.

use std::collections::BTreeMap;

use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use sqlx::QueryBuilder;

use super::bulk::{chunks, upsert};
use super::columns::{Packer, Values};
use super::history::{COMMUNICATORS, PACES, SUMMATIONS};
use super::leader::fence;
use super::rows::{
    AgentRow, CommunicatorRow, CountersRow, HopsRow, HostRow, JobRow, PaceMemoryRow, ProcessRow, RankRow,
    SummationGroupRow, WriteSet,
};
use super::series_ids::SeriesOf;
use super::spans::{SpanRow, turn};
use super::{Store, StoreError, each};

impl Store {
    /// Writes everything or nothing. Rows replace what was there under their keys.
    ///
    /// # Errors
    /// What the driver says; then nothing was written.
    pub async fn write(&self, set: &WriteSet) -> Result<(), StoreError> {
        let moments = self.moments(set).await?;
        each!(write self, |pool, Db| {
            let mut tx = pool.begin().await?;
            fence!(self, tx);
            upsert!(Db, tx, set.agents, AgentRow:
                "agents" ["agent_id"] agent_id, host, last_seq, last_seen_ns);
            upsert!(Db, tx, set.processes, ProcessRow:
                "processes" ["key"] key, job, host, pid, started_ns, ended_ns, facts, updated_ns);
            upsert!(Db, tx, set.counters, CountersRow: "process_counters" ["key"] key, counters, updated_ns);
            upsert!(Db, tx, set.jobs, JobRow:
                "jobs" ["id"] id, state, world_size, n_processes, first_seen_ns, last_seen_ns, updated_ns);
            upsert!(Db, tx, set.hosts, HostRow:
                "hosts" ["host"] host, degraded, n_processes, last_seen_ns, updated_ns);
            upsert!(Db, tx, set.communicators, CommunicatorRow:
                "communicators" ["id"] id, job, comm_hash, name, state, n_ranks, n_nodes, base_channels,
                final_channels, created_ns, ended_ns, updated_ns);
            upsert!(Db, tx, set.ranks, RankRow:
                "communicator_ranks" ["comm, rank"] comm, rank, host, pid, gpu, init_channels, final_channels,
                cause, updated_ns);
            upsert!(Db, tx, set.hops, HopsRow:
                "rank_hops" ["comm, rank"] comm, rank, hops);
            let findings: Vec<FindingRow> = set.findings.iter().map(FindingRow::from).collect();
            upsert!(Db, tx, findings, FindingRow:
                "findings" ["id"] id, finding, severity, state, job, host, comm, rank, cause, message,
                first_seen_ns, last_seen_ns, resolved_ns, body);
            let incidents: Vec<IncidentRow> = set.incidents.iter().map(IncidentRow::from).collect();
            upsert!(Db, tx, incidents, IncidentRow:
                "incidents" ["id"] id, state, severity, job, host, began_ns, last_seen_ns, resolved_ns, body);
            for row in set.turns.iter().map(SpanRow::from) {
                turn!(tx, row);
            }
            upsert!(Db, tx, set.summation_groups, SummationGroupRow:
                "summation_groups" ["id"] id, job, session, membership_epoch, state, n_workers, n_servers,
                asynchronous, model_bytes, started_ns, ended_ns, updated_ns);
            upsert!(Db, tx, set.pace_memories, PaceMemoryRow: "pace_memories" ["job"] job, memory, updated_ns);
            for moment in &moments {
                let query = "INSERT INTO recent_samples (ts_ms, points) VALUES ($1, $2)";
                sqlx::query(query).bind(moment.ts_ms).bind(&moment.points).execute(&mut *tx).await?;
            }
            tx.commit().await?;
        });
        Ok(())
    }
}

/// All samples of one time, packed.
struct Moment {
    ts_ms: i64,
    points: Vec<u8>,
}

impl Store {
    async fn moments(&self, set: &WriteSet) -> Result<Vec<Moment>, StoreError> {
        let communicators = set.samples.iter().map(|row| {
            let (subject, host, kind) = (&*row.comm, &*row.host, row.primitive);
            (SeriesOf { history: COMMUNICATORS.name, subject, host, kind }, row.ts_ms, row.values())
        });
        let groups = set.summation_samples.iter().map(|row| {
            let (subject, host, kind) = (&*row.group_id, &*row.host, &*row.service);
            (SeriesOf { history: SUMMATIONS.name, subject, host, kind }, row.ts_ms, row.values())
        });
        let paces = set.paces.iter().map(|row| {
            let of = SeriesOf { history: PACES.name, subject: &row.job, host: "", kind: "" };
            (of, row.ts_ms, row.values())
        });
        let samples: Vec<_> = communicators.chain(groups).chain(paces).collect();
        if samples.is_empty() {
            return Ok(Vec::new());
        }
        let of: Vec<SeriesOf<'_>> = samples.iter().map(|(of, ..)| *of).collect();
        let numbers = self.series_numbers(&of).await?;
        let mut moments: BTreeMap<i64, BTreeMap<i64, Values>> = BTreeMap::new();
        for ((_, ts_ms, values), series) in samples.into_iter().zip(numbers) {
            moments.entry(ts_ms).or_default().insert(series, values);
        }
        let pack = |(ts_ms, samples): (i64, BTreeMap<i64, Values>)| {
            let mut packer = Packer::default();
            samples.iter().for_each(|(series, values)| packer.push(*series, values));
            Some(Moment { ts_ms, points: packer.pack()? })
        };
        Ok(moments.into_iter().filter_map(pack).collect())
    }
}

/// A finding as its table has it.
struct FindingRow {
    id: String,
    finding: &'static str,
    severity: &'static str,
    state: &'static str,
    job: String,
    host: String,
    comm: String,
    rank: Option<i64>,
    cause: String,
    message: String,
    first_seen_ns: i64,
    last_seen_ns: i64,
    resolved_ns: Option<i64>,
    body: String,
}

/// An incident as its table has it.
struct IncidentRow {
    id: String,
    state: &'static str,
    severity: &'static str,
    job: String,
    host: String,
    began_ns: i64,
    last_seen_ns: i64,
    resolved_ns: Option<i64>,
    body: String,
}

impl From<&api::Incident> for IncidentRow {
    fn from(incident: &api::Incident) -> Self {
        Self {
            id: incident.id.clone(),
            state: state(incident.state),
            severity: incident.severity.label(),
            job: incident.job.clone(),
            host: incident.host.clone(),
            began_ns: ns(incident.began_at),
            last_seen_ns: ns(incident.last_seen),
            resolved_ns: incident.resolved_at.map(ns),
            body: serde_json::to_string(incident).unwrap_or_default(),
        }
    }
}

fn ns(time: Timestamp) -> i64 {
    time.0.cast_signed()
}

fn state(state: api::FindingState) -> &'static str {
    match state {
        api::FindingState::Firing => "firing",
        api::FindingState::Resolved => "resolved",
    }
}

impl From<&api::Finding> for FindingRow {
    fn from(finding: &api::Finding) -> Self {
        Self {
            id: finding.id.clone(),
            finding: finding.finding.label(),
            severity: finding.severity.label(),
            state: state(finding.state),
            job: finding.job.clone(),
            host: finding.host.clone(),
            comm: finding.comm.clone(),
            rank: finding.rank.map(i64::from),
            cause: finding.cause.clone(),
            message: finding.message.clone(),
            first_seen_ns: ns(finding.first_seen),
            last_seen_ns: ns(finding.last_seen),
            resolved_ns: finding.resolved_at.map(ns),
            body: serde_json::to_string(finding).unwrap_or_default(),
        }
    }
}
