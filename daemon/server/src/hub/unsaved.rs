//! What the store has not got yet. Only names are kept: the rows are made from the model when they are written, so
//! that a database that is away for an hour costs no memory, and then gets the newest of everything.
//!
//! Facts are written before their batch is answered. Counters are absolute, and after a restart every agent is asked to tell
//! all that it knows: they are written at an interval, or with the facts of their process, such as that it ended.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use prost::Message as _;
use ringscope_api as api;
use ringscope_api::clock::Timestamp;
use ringscope_model::summation::GroupId;
use ringscope_model::{Changes, CommunicatorId, Name};
use ringscope_store::{
    CountersRow, PaceMemoryRow, PaceRow, ProcessRow, SampleRow, SummationSampleRow, Turn, WriteSet,
};

use super::turns::Turns;
use super::{State, relational};

/// Names of what changed and was not written.
#[derive(Debug, Default)]
pub struct Unsaved {
    /// The number of the newest batch of each that was applied.
    agents: Turns<String, u64>,
    /// The same of those that told facts.
    agents_of_facts: BTreeMap<String, u64>,
    facts: BTreeSet<String>,
    counters: Turns<String, ()>,
    communicators: Turns<CommunicatorId, ()>,
    /// With their hosts.
    jobs: BTreeSet<Name>,
    pub(super) summations: BTreeSet<GroupId>,
    findings: BTreeMap<String, api::Finding>,
    incidents: BTreeMap<String, api::Incident>,
    /// In their order.
    turns: VecDeque<Turn>,
    samples: VecDeque<SampleRow>,
    summation_samples: VecDeque<SummationSampleRow>,
    paces: VecDeque<PaceRow>,
    /// By job.
    pace_memories: BTreeMap<String, PaceMemoryRow>,
    /// Samples that did not fit: history lost while the database was away.
    dropped_samples: u64,
}

impl Unsaved {
    /// This batch of an agent was applied.
    pub(super) fn agent(&mut self, agent_id: &str, last_seq: u64, has_facts: bool) {
        match has_facts {
            true => drop(self.agents_of_facts.insert(agent_id.to_owned(), last_seq)),
            false => self.agents.put(agent_id, last_seq),
        }
    }

    /// Of these processes all is to be stored before their batch is answered.
    pub(super) fn facts(&mut self, keys: Vec<String>) {
        self.facts.extend(keys);
    }

    /// Rows of these are not as they are now.
    pub(super) fn communicators(&mut self, ids: BTreeSet<CommunicatorId>) {
        ids.iter().for_each(|id| self.communicators.put(id, ()));
    }

    /// The same of these jobs and their hosts.
    pub(super) fn jobs(&mut self, jobs: BTreeSet<Name>) {
        self.jobs.extend(jobs);
    }

    pub(super) fn processes(&mut self, changes: Changes) {
        self.facts.extend(changes.facts);
        changes.counters.iter().for_each(|key| self.counters.put(&**key, ()));
    }

    /// Takes all facts and what was found. Of counters and agents the next `n_counters` each, and of what is only for readers
    /// of the database the rows of `n_communicators`, and all the rest if there are any.
    pub(super) fn take(&mut self, n_counters: usize, n_communicators: usize) -> Self {
        let mut taken = Self {
            agents: self.agents.take(n_counters),
            agents_of_facts: std::mem::take(&mut self.agents_of_facts),
            facts: std::mem::take(&mut self.facts),
            counters: self.counters.take(n_counters),
            communicators: self.communicators.take(n_communicators),
            findings: std::mem::take(&mut self.findings),
            incidents: std::mem::take(&mut self.incidents),
            turns: std::mem::take(&mut self.turns),
            dropped_samples: std::mem::take(&mut self.dropped_samples),
            ..Self::default()
        };
        if n_communicators > 0 {
            taken.jobs = std::mem::take(&mut self.jobs);
            taken.summations = std::mem::take(&mut self.summations);
            taken.samples = std::mem::take(&mut self.samples);
            taken.summation_samples = std::mem::take(&mut self.summation_samples);
            taken.paces = std::mem::take(&mut self.paces);
            taken.pace_memories = std::mem::take(&mut self.pace_memories);
        }
        taken
    }

    pub(super) fn findings(&mut self, findings: Vec<api::Finding>) {
        self.findings.extend(findings.into_iter().map(|finding| (finding.id.clone(), finding)));
    }

    pub(super) fn incidents(&mut self, incidents: Vec<api::Incident>) {
        self.incidents.extend(incidents.into_iter().map(|incident| (incident.id.clone(), incident)));
    }

    pub(super) fn turns(&mut self, turns: impl Iterator<Item = Turn>) {
        self.dropped_samples += keep(&mut self.turns, turns);
    }

    pub(super) fn samples(&mut self, samples: impl Iterator<Item = SampleRow>) {
        self.dropped_samples += keep(&mut self.samples, samples);
    }

    pub(super) fn summation_samples(&mut self, samples: impl Iterator<Item = SummationSampleRow>) {
        self.dropped_samples += keep(&mut self.summation_samples, samples);
    }

    pub(super) fn paces(&mut self, samples: impl Iterator<Item = PaceRow>) {
        self.dropped_samples += keep(&mut self.paces, samples);
    }

    pub(super) fn pace_memories(&mut self, rows: impl Iterator<Item = PaceMemoryRow>) {
        self.pace_memories.extend(rows.map(|row| (row.job.clone(), row)));
    }

    /// Joins what could not be written with what has come since, which is newer.
    pub(super) fn give_back(&mut self, older: Self) {
        self.agents.give_back(older.agents);
        for (id, last_seq) in older.agents_of_facts {
            self.agents_of_facts.entry(id).or_insert(last_seq);
        }
        self.facts.extend(older.facts);
        self.counters.give_back(older.counters);
        self.communicators.give_back(older.communicators);
        self.jobs.extend(older.jobs);
        self.summations.extend(older.summations);
        for (id, finding) in older.findings {
            self.findings.entry(id).or_insert(finding);
        }
        for (id, incident) in older.incidents {
            self.incidents.entry(id).or_insert(incident);
        }
        let newer = std::mem::replace(&mut self.turns, older.turns);
        self.turns(newer.into_iter());
        let newer = std::mem::replace(&mut self.samples, older.samples);
        self.dropped_samples += older.dropped_samples;
        self.samples(newer.into_iter());
        let newer = std::mem::replace(&mut self.summation_samples, older.summation_samples);
        self.summation_samples(newer.into_iter());
        let newer = std::mem::replace(&mut self.paces, older.paces);
        self.paces(newer.into_iter());
        for (job, memory) in older.pace_memories {
            self.pace_memories.entry(job).or_insert(memory);
        }
    }

    /// Communicators whose rows are to be written.
    pub(super) fn its_communicators(&self) -> impl Iterator<Item = &CommunicatorId> {
        self.communicators.names()
    }

    /// Whether the store has everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty()
            && self.agents_of_facts.is_empty()
            && self.facts.is_empty()
            && self.counters.is_empty()
            && self.communicators.is_empty()
            && self.jobs.is_empty()
            && self.summations.is_empty()
            && self.findings.is_empty()
            && self.incidents.is_empty()
            && self.turns.is_empty()
            && self.samples.is_empty()
            && self.summation_samples.is_empty()
            && self.paces.is_empty()
            && self.pace_memories.is_empty()
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
        let counters: BTreeSet<&String> = self.counters.names().chain(&self.facts).collect();
        let counters = counters.into_iter().cloned().collect();
        Batched {
            agents: {
                // Both are true; the newer one is what counts.
                let mut agents = self.agents_of_facts.clone();
                for (id, last_seq) in self.agents.all() {
                    let known = agents.entry(id.clone()).or_default();
                    *known = (*known).max(*last_seq);
                }
                agents.into_iter().collect()
            },
            facts,
            counters,
            communicators: self.communicators.names().map(|id| (*id, 0)).collect(),
            jobs: self.jobs.clone(),
            summations: self.summations.iter().copied().collect(),
            findings: self.findings.values().cloned().collect(),
            incidents: self.incidents.values().cloned().collect(),
            turns: self.turns.iter().cloned().collect(),
            samples: self.samples.iter().cloned().collect(),
            summation_samples: self.summation_samples.iter().cloned().collect(),
            paces: self.paces.iter().cloned().collect(),
            pace_memories: self.pace_memories.values().cloned().collect(),
            started: false,
        }
    }
}

/// [`Unsaved`] on its way into rows.
#[derive(Debug)]
pub struct Batched {
    agents: Vec<(String, u64)>,
    facts: Vec<String>,
    counters: Vec<String>,
    /// With the rank to go on with.
    communicators: Vec<(CommunicatorId, u32)>,
    jobs: BTreeSet<Name>,
    summations: Vec<GroupId>,
    findings: Vec<api::Finding>,
    incidents: Vec<api::Incident>,
    turns: Vec<Turn>,
    samples: Vec<SampleRow>,
    summation_samples: Vec<SummationSampleRow>,
    paces: Vec<PaceRow>,
    pace_memories: Vec<PaceMemoryRow>,
    started: bool,
}

impl Batched {
    /// The next rows; the agents' numbers come with the last ones, for they promise all the others.
    pub(super) fn next(&mut self, state: &mut State, now: Timestamp) -> Option<WriteSet> {
        let done = self.facts.is_empty() && self.counters.is_empty() && self.communicators.is_empty();
        if done && self.started && self.agents.is_empty() {
            return None;
        }
        let mut set = WriteSet::default();
        if !self.started {
            self.started = true;
            set.findings = std::mem::take(&mut self.findings);
            set.incidents = std::mem::take(&mut self.incidents);
            set.turns = std::mem::take(&mut self.turns);
            set.samples = std::mem::take(&mut self.samples);
            set.summation_samples = std::mem::take(&mut self.summation_samples);
            set.paces = std::mem::take(&mut self.paces);
            set.pace_memories = std::mem::take(&mut self.pace_memories);
            set.summation_groups = relational::of_groups(state, &self.summations, now);
            relational::of_jobs_and_hosts(state, &self.jobs, now, &mut set);
        }
        let updated_ns = now.0.cast_signed();
        for key in split_off(&mut self.facts) {
            if let Some(process) = state.model.process_facts(&key) {
                set.processes.push(process_row(key, &process, updated_ns));
            }
        }
        for key in split_off(&mut self.counters) {
            if let Some(process) = state.model.process_counters(&key) {
                set.counters.push(CountersRow { key, counters: process.encode_to_vec(), updated_ns });
            }
        }
        self.add_communicators(state, now, &mut set);
        if self.facts.is_empty() && self.counters.is_empty() && self.communicators.is_empty() {
            let rows = self.agents.drain(..).filter_map(|(id, last_seq)| state.agents.row(&id, last_seq));
            set.agents = rows.collect();
        }
        Some(set)
    }

    /// The next communicators, or the next ranks of a large one.
    fn add_communicators(&mut self, state: &mut State, now: Timestamp, set: &mut WriteSet) {
        let mut n_ranks = RANKS_AT_ONCE;
        while n_ranks > 0
            && let Some((id, from)) = self.communicators.pop()
        {
            let Some(known) = state.model.communicator(id) else { continue };
            if from == 0 {
                set.communicators.push(relational::of_communicator(state, known, now));
            }
            let State { model, diagnosis, rank_rows, .. } = &mut *state;
            let Some(known) = model.communicator(id) else { continue };
            let channels = diagnosis.judged_channels(known, model);
            let next = rank_rows.add((model, known, &channels), (from, n_ranks), now, set);
            match next {
                Some(next) => {
                    self.communicators.push((id, next));
                    n_ranks = 0;
                }
                None => n_ranks = n_ranks.saturating_sub(known.n_ranks_seen() as usize),
            }
        }
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
/// Ranks of communicators whose rows are looked at under one hold of the lock, and written in one transaction.
const RANKS_AT_ONCE: usize = 1_024;
/// Processes encoded under one hold of the lock: some milliseconds.
const PROCESSES_AT_ONCE: usize = 64;
