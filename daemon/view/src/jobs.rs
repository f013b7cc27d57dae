//! Jobs.

use std::collections::{BTreeSet, HashMap};

use ringscope_api::clock::Timestamp;
use ringscope_api::{self as api, CommunicatorState, Dropped, Finding, JobState};
use ringscope_judge::Diagnosis;
use ringscope_judge::coverage::JobCoverage;
use ringscope_model::{Identity, Job, Model, Name, Process};

use super::bandwidth::{self, Bytes};
use super::findings::{count, firing_by};
use ringscope_judge::standings::{Standings, with};

/// Every job, by id.
#[must_use]
pub fn jobs(model: &Model, diagnosis: &Diagnosis, now: Timestamp) -> Vec<api::Job> {
    let firing = firing_by(diagnosis, |finding| &finding.job);
    let standings = Standings::of(model, diagnosis, now);
    model.jobs().map(|(id, job)| fill(model, diagnosis, (&firing, &standings), now, id, job)).collect()
}

/// The same without what its communicators say, coverage and bytes among it: how they stand costs half without them.
pub(super) fn jobs_as_they_stand(
    model: &Model,
    diagnosis: &Diagnosis,
    standings: &Standings<'_>,
    now: Timestamp,
) -> Vec<api::Job> {
    let firing = firing_by(diagnosis, |finding| &finding.job);
    let stand = |(id, job): (&Name, &Job)| {
        let of_processes = OfProcesses::of(model, now, job);
        as_it_stands((&firing, standings), &of_processes, id, job)
    };
    model.jobs().map(stand).collect()
}

/// One job.
#[must_use]
pub fn job(model: &Model, diagnosis: &Diagnosis, now: Timestamp, id: &str) -> Option<api::Job> {
    let (id, job) = model.job(id)?;
    let firing = firing_by(diagnosis, |finding| &finding.job);
    let standings = Standings::of(model, diagnosis, now);
    Some(fill(model, diagnosis, (&firing, &standings), now, id, job))
}

fn fill(
    model: &Model,
    diagnosis: &Diagnosis,
    (firing, standings): (&HashMap<&str, Vec<&Finding>>, &Standings<'_>),
    now: Timestamp,
    id: &Name,
    job: &Job,
) -> api::Job {
    let of_processes = OfProcesses::of(model, now, job);
    let forgotten = job.forgotten();
    let mut filled = as_it_stands((firing, standings), &of_processes, id, job);
    filled.n_communicators = forgotten.n_communicators;
    let mut bytes =
        Bytes { issued: forgotten.issued_bytes, completed: forgotten.completed_bytes, completed_per_s: 0.0 };
    let mut coverage = JobCoverage::default();
    for communicator in job.communicators(model) {
        filled.n_communicators += 1;
        let state = communicator.state(model).0;
        // Files tell of the past.
        filled.active_communicators +=
            u32::from(state == CommunicatorState::Active && of_processes.state != JobState::Imported);
        if matches!(state, CommunicatorState::Active | CommunicatorState::Broken) {
            coverage.add(&diagnosis.judged_channels(communicator, model).coverage);
        }
        for rank in communicator.ranks(model) {
            bytes.add(&bandwidth::bytes(&rank, now));
        }
    }
    filled.coverage = coverage.to_api(filled.n_communicators > 0);
    filled.issued_bytes = bytes.issued;
    filled.completed_bytes = bytes.completed;
    filled.completed_bytes_per_s = bytes.completed_per_s;
    filled
}

/// What is known of a job without a look at its communicators.
fn as_it_stands(
    (firing, standings): (&HashMap<&str, Vec<&Finding>>, &Standings<'_>),
    of_processes: &OfProcesses<'_>,
    id: &Name,
    job: &Job,
) -> api::Job {
    let forgotten = job.forgotten();
    api::Job {
        id: id.to_string(),
        state: of_processes.state,
        standing: standings.job(id, job),
        first_seen: of_processes.first_seen.unwrap_or_default(),
        last_seen: of_processes.last_seen,
        ended_at: of_processes.ended_at.filter(|_| of_processes.state == JobState::Ended),
        world_size: of_processes.world_size,
        n_processes: of_processes.n_processes + forgotten.n_processes,
        n_killed: of_processes.n_killed + forgotten.n_killed,
        scheduled: of_processes.newest_scheduled.and_then(|identity| identity.scheduled.job()),
        hosts: of_processes.hosts.iter().map(ToString::to_string).collect(),
        active_communicators: 0,
        n_communicators: 0,
        findings: count(firing.get(&**id).into_iter().flatten().copied()),
        coverage: JobCoverage::default().to_api(false),
        issued_bytes: 0,
        completed_bytes: 0,
        completed_bytes_per_s: 0.0,
        dropped: of_processes.dropped.clone(),
    }
}

/// What a job's processes say together.
struct OfProcesses<'a> {
    state: JobState,
    first_seen: Option<Timestamp>,
    last_seen: Timestamp,
    /// When the last one of those that have ended did.
    ended_at: Option<Timestamp>,
    world_size: Option<u32>,
    n_processes: u32,
    n_killed: u32,
    hosts: BTreeSet<&'a Name>,
    /// Of the processes that a scheduler placed the one that started last: what was requeued says so.
    newest_scheduled: Option<&'a Identity>,
    dropped: Dropped,
}

impl<'a> OfProcesses<'a> {
    fn of(model: &'a Model, now: Timestamp, job: &'a Job) -> Self {
        let mut sum = Self {
            state: JobState::Ended,
            first_seen: None,
            last_seen: Timestamp::default(),
            ended_at: None,
            world_size: None,
            n_processes: 0,
            n_killed: 0,
            hosts: BTreeSet::new(),
            newest_scheduled: None,
            dropped: Dropped::new(),
        };
        for process in job.processes(model) {
            sum.add(model, now, process);
        }
        for process in job.present(model, now) {
            sum.n_processes += 1;
            sum.n_killed += u32::from(process.was_killed());
        }
        sum
    }

    fn add(&mut self, model: &Model, now: Timestamp, process: &'a Process) {
        self.state = with(self.state, model.rank_state(process, now));
        self.last_seen = self.last_seen.max(model.last_heard(process));
        self.ended_at = self.ended_at.max(process.ended());
        for (reason, events) in process.dropped() {
            let sum = self.dropped.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*events);
        }
        let Some(identity) = process.identity() else { return };
        let started = Some(identity.started);
        self.first_seen = [self.first_seen, started].into_iter().flatten().min();
        self.world_size = self.world_size.max(identity.world_size);
        self.hosts.insert(&identity.host);
        let is_newest = self.newest_scheduled.is_none_or(|newest| newest.started < identity.started);
        if is_newest && identity.scheduled.is_placed() {
            self.newest_scheduled = Some(identity);
        }
    }
}
