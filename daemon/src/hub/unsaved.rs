//! What the store has not got yet. Only names are kept: the rows are made from the model when they are written, so
//! that a database that is away for an hour costs no memory, and then gets the newest of everything.
//!
//! Facts are written before their batch is answered. Counters are absolute, and after a restart every agent is asked to tell
//! all that it knows: they are written at an interval, or with the facts of their process, such as that it ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use prost::Message as _;

use super::{State, relational};
use crate::api;
use crate::clock::Timestamp;
use crate::model::summation::GroupId;
use crate::model::{Changes, CommunicatorId};
use crate::store::{CountersRow, ProcessRow, SampleRow, SummationSampleRow, WriteSet};

/// Names of what changed and was not written.
#[derive(Debug, Default)]
pub struct Unsaved {
    agents: BTreeSet<String>,
    facts: BTreeSet<String>,
    counters: BTreeSet<String>,
    pub(super) communicators: BTreeSet<CommunicatorId>,
    pub(super) summations: BTreeSet<GroupId>,
    findings: BTreeMap<String, api::Finding>,
    incidents: BTreeMap<String, api::Incident>,
    samples: VecDeque<SampleRow>,
    summation_samples: VecDeque<SummationSampleRow>,
    /// Samples that did not fit: history lost while the database was away.
    dropped_samples: u64,
}

impl Unsaved {
    pub(super) fn agent(&mut self, agent_id: &str) {
        if !self.agents.contains(agent_id) {
            self.agents.insert(agent_id.to_owned());
        }
    }

    pub(super) fn processes(&mut self, changes: Changes) {
        self.facts.extend(changes.facts);
        self.counters.extend(changes.counters);
    }

    /// Takes everything but what is written at an interval.
    pub(super) fn take_urgent(&mut self) -> Self {
        let (agents, counters) = (std::mem::take(&mut self.agents), std::mem::take(&mut self.counters));
        std::mem::replace(self, Self { agents, counters, ..Self::default() })
    }

    /// Until when counters may wait that are written now: the more, the longer.
    pub(super) fn counters_wait(&self, interval: Duration) -> Duration {
        interval.max(Duration::from_secs((self.counters.len() / COUNTER_ROWS_PER_S_MAX) as u64))
    }

    pub(super) fn findings(&mut self, findings: Vec<api::Finding>) {
        self.findings.extend(findings.into_iter().map(|finding| (finding.id.clone(), finding)));
    }

    pub(super) fn incidents(&mut self, incidents: Vec<api::Incident>) {
        self.incidents.extend(incidents.into_iter().map(|incident| (incident.id.clone(), incident)));
    }

    pub(super) fn samples(&mut self, samples: impl Iterator<Item = SampleRow>) {
        self.dropped_samples += keep(&mut self.samples, samples);
    }

    pub(super) fn summation_samples(&mut self, samples: impl Iterator<Item = SummationSampleRow>) {
        self.dropped_samples += keep(&mut self.summation_samples, samples);
    }

    /// Joins what could not be written with what has come since, which is newer.
    pub(super) fn give_back(&mut self, older: Self) {
        self.agents.extend(older.agents);
        self.facts.extend(older.facts);
        self.counters.extend(older.counters);
        self.communicators.extend(older.communicators);
        self.summations.extend(older.summations);
        for (id, finding) in older.findings {
            self.findings.entry(id).or_insert(finding);
        }
        for (id, incident) in older.incidents {
            self.incidents.entry(id).or_insert(incident);
        }
        let newer = std::mem::replace(&mut self.samples, older.samples);
        self.dropped_samples += older.dropped_samples;
        self.samples(newer.into_iter());
        let newer = std::mem::replace(&mut self.summation_samples, older.summation_samples);
        self.summation_samples(newer.into_iter());
    }

    /// Whether the store has everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
            && self.facts.is_empty()
            && self.counters.is_empty()
            && self.communicators.is_empty()
            && self.summations.is_empty()
            && self.findings.is_empty()
            && self.incidents.is_empty()
            && self.samples.is_empty()
            && self.summation_samples.is_empty()
    }

    /// Samples lost since the last call because the database was away for too long.
    pub fn take_dropped_samples(&mut self) -> u64 {
        std::mem::take(&mut self.dropped_samples)
    }

    /// The same, to be made into rows piece by piece.
    #[must_use]
    pub fn batched(&self) -> Batched {
        let facts: Vec<String> = self.facts.iter().cloned().collect();
        // A row of counters for every process: retention goes by it.
        let counters = self.counters.union(&self.facts).cloned().collect();
        Batched {
            agents: self.agents.iter().cloned().collect(),
            facts,
            counters,
            communicators: self.communicators.iter().copied().collect(),
            summations: self.summations.iter().copied().collect(),
            findings: self.findings.values().cloned().collect(),
            incidents: self.incidents.values().cloned().collect(),
            samples: self.samples.iter().cloned().collect(),
            summation_samples: self.summation_samples.iter().cloned().collect(),
            started: false,
        }
    }
}

/// [`Unsaved`] on its way into rows.
#[derive(Debug)]
pub struct Batched {
    agents: Vec<String>,
    facts: Vec<String>,
    counters: Vec<String>,
    communicators: Vec<CommunicatorId>,
    summations: Vec<GroupId>,
    findings: Vec<api::Finding>,
    incidents: Vec<api::Incident>,
    samples: Vec<SampleRow>,
    summation_samples: Vec<SummationSampleRow>,
    started: bool,
}

impl Batched {
    /// The next rows; the agents' numbers come with the last ones, for they promise all the others.
    pub(super) fn next(&mut self, state: &State, now: Timestamp) -> Option<WriteSet> {
        let done = self.facts.is_empty() && self.counters.is_empty() && self.communicators.is_empty();
        if done && self.started && self.agents.is_empty() {
            return None;
        }
        let mut set = WriteSet::default();
        if !self.started {
            self.started = true;
            set.findings = std::mem::take(&mut self.findings);
            set.incidents = std::mem::take(&mut self.incidents);
            set.samples = std::mem::take(&mut self.samples);
            set.summation_samples = std::mem::take(&mut self.summation_samples);
            set.summation_groups = relational::of_groups(state, &self.summations, now);
            relational::of_jobs_and_hosts(state, &self.communicators, now, &mut set);
        }
        let updated_ns = now.0.cast_signed();
        for key in split_off(&mut self.facts) {
            if let Some(process) = state.model.process_facts(&key) {
                relational::of_process(&state.model, &process, updated_ns, &mut set);
                set.processes.push(process_row(key, &process, updated_ns));
            }
        }
        for key in split_off(&mut self.counters) {
            if let Some(process) = state.model.process_counters(&key) {
                set.counters.push(CountersRow { key, counters: process.encode_to_vec(), updated_ns });
            }
        }
        if let Some(comm) = self.communicators.pop() {
            relational::of_communicator(state, comm, now, &mut set);
        }
        if self.facts.is_empty() && self.counters.is_empty() && self.communicators.is_empty() {
            set.agents = self.agents.drain(..).filter_map(|id| state.agents.row(&id)).collect();
        }
        Some(set)
    }
}

/// Adds what is newer; what is then too much goes from the front. Returns how many that are.
fn keep<T>(kept: &mut VecDeque<T>, newer: impl Iterator<Item = T>) -> u64 {
    kept.extend(newer);
    let excess = kept.len().saturating_sub(SAMPLES_MAX);
    kept.drain(..excess);
    excess as u64
}

fn split_off(keys: &mut Vec<String>) -> Vec<String> {
    keys.split_off(keys.len().saturating_sub(PROCESSES_AT_ONCE))
}

fn process_row(key: String, process: &ringscope_wire::batch::Process, updated_ns: i64) -> ProcessRow {
    let identity = process.identity.clone().unwrap_or_default();
    ProcessRow {
        key,
        job: identity.job,
        host: identity.host,
        pid: i64::from(identity.pid),
        started_ns: identity.start_time_ns.cast_signed(),
        ended_ns: process.ended_at_ns.map(u64::cast_signed),
        facts: process.encode_to_vec(),
        updated_ns,
    }
}

/// Samples that wait while the database is away, of communicators and of summation groups: 20 s at the highest rate, minutes in a small job.
const SAMPLES_MAX: usize = 20_000;
/// Rows of counters written per second: 5 GB a day of SQLite at most.
const COUNTER_ROWS_PER_S_MAX: usize = 50;
/// Processes encoded under one hold of the lock: some milliseconds.
const PROCESSES_AT_ONCE: usize = 64;
