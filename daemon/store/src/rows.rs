//! Rows as they are written: plain data, one struct a table.

use ringscope_api as api;

use super::spans::Turn;

/// Everything that goes into one transaction.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are the tables; turns go into spans, in their order")]
pub struct WriteSet {
    pub agents: Vec<AgentRow>,
    pub processes: Vec<ProcessRow>,
    pub counters: Vec<CountersRow>,
    pub jobs: Vec<JobRow>,
    pub hosts: Vec<HostRow>,
    pub communicators: Vec<CommunicatorRow>,
    pub ranks: Vec<RankRow>,
    pub hops: Vec<HopsRow>,
    pub findings: Vec<api::Finding>,
    pub incidents: Vec<api::Incident>,
    pub turns: Vec<Turn>,
    pub samples: Vec<SampleRow>,
    pub summation_groups: Vec<SummationGroupRow>,
    pub summation_samples: Vec<SummationSampleRow>,
    pub paces: Vec<PaceRow>,
    pub pace_memories: Vec<PaceMemoryRow>,
}

impl WriteSet {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
            && self.processes.is_empty()
            && self.counters.is_empty()
            && self.jobs.is_empty()
            && self.hosts.is_empty()
            && self.communicators.is_empty()
            && self.ranks.is_empty()
            && self.hops.is_empty()
            && self.findings.is_empty()
            && self.incidents.is_empty()
            && self.turns.is_empty()
            && self.samples.is_empty()
            && self.summation_groups.is_empty()
            && self.summation_samples.is_empty()
            && self.paces.is_empty()
            && self.pace_memories.is_empty()
    }
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "the columns are documented in migrations/")]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

rows! {
    /// A row of `agents`.
    AgentRow { agent_id: String, host: String, last_seq: i64, last_seen_ns: i64 }
    /// A row of `processes`.
    ProcessRow {
        key: String, job: String, host: String, pid: i64, started_ns: i64, ended_ns: Option<i64>, facts: Vec<u8>,
        updated_ns: i64,
    }
    /// A row of `process_counters`.
    CountersRow { key: String, counters: Vec<u8>, updated_ns: i64 }
    /// A row of `jobs`.
    JobRow {
        id: String, state: String, world_size: Option<i64>, n_processes: i64, first_seen_ns: i64,
        last_seen_ns: i64, updated_ns: i64,
    }
    /// A row of `hosts`.
    HostRow { host: String, degraded: i64, n_processes: i64, last_seen_ns: i64, updated_ns: i64 }
    /// A row of `communicators`.
    CommunicatorRow {
        id: String, job: String, comm_hash: String, name: Option<String>, state: String, n_ranks: i64,
        n_nodes: i64, base_channels: Option<i64>, final_channels: Option<i64>, created_ns: i64,
        ended_ns: Option<i64>, updated_ns: i64,
    }
    /// A row of `communicator_ranks`.
    RankRow {
        comm: String, rank: i64, host: String, pid: i64, gpu: Option<String>, init_channels: Option<i64>,
        final_channels: Option<i64>, cause: String, updated_ns: i64,
    }
    /// A row of `rank_hops`.
    HopsRow { comm: String, rank: i64, hops: String }
    /// A row of `samples`.
    SampleRow {
        comm: String, ts_ms: i64, host: String, primitive: &'static str, issued_calls: i64, issued_bytes: i64,
        completed_calls: i64, completed_bytes: i64, intra_bytes: Option<i64>,
        inter_bytes: Option<i64>,
    }
    /// A sample of the pace of a job: totals since `since_ms`.
    PaceRow {
        job: String, ts_ms: i64, known_ms: i64, millisteps: i64, own_ms: i64, in_operations_ms: i64, moving_ms: i64,
        since_ms: i64,
    }
    /// A row of `pace_memories`.
    PaceMemoryRow { job: String, memory: String, updated_ns: i64 }
    /// A row of `summation_groups`.
    SummationGroupRow {
        id: String, job: String, session: String, membership_epoch: i64, state: String, n_workers: i64,
        n_servers: i64, asynchronous: i64, model_bytes: i64, started_ns: i64, ended_ns: Option<i64>,
        updated_ns: i64,
    }
    /// A row of `summation_samples`.
    SummationSampleRow {
        group_id: String, ts_ms: i64, host: String, service: String, pushed_bytes: i64, pulled_bytes: i64,
        summed_bytes: Option<i64>, finished_rounds: Option<i64>, share_ppm: i64, optimal_share_ppm: i64,
        spread_ns: Option<i64>,
    }
}
