//! How processes, communicators, jobs and hosts stand: gathers what `diagnose::standing` judges.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::Diagnosis;
use crate::job_end::{asked_to_end, first_failure_first, has_ended_well, makes_results_wrong, why_over};
use crate::standing::{
    Calls, Evidence, NOBODY_THERE, Rounds, Watched, condition_of, is_hang, not_judged, of_process, of_whole,
    unseen_there,
};
use ringscope_api::clock::Timestamp;
use ringscope_api::{
    CommunicatorState, Condition, Finding, FindingKind, FindingState, JobState, RankState, Severity, Standing,
};
use ringscope_model::limits::STALE_AFTER;
use ringscope_model::{
    Communicator, CommunicatorId, Exit, Job, LocalState, Model, Name, Process, ProcessState, RankRef,
};
use ringscope_wire::batch::FACT_DESTROYED;
use ringscope_wire::batch::{CollectorState, OperationState};

/// What all standings of one view need of the findings, looked at once.
pub struct Standings<'a> {
    model: &'a Model,
    diagnosis: &'a Diagnosis,
    now: Timestamp,
    /// By whether it was imported, host and number.
    by_process: HashMap<(bool, &'a str, u32), &'a Finding>,
    by_rank: HashMap<(&'a str, u32), &'a Finding>,
    /// By whether it was imported, and host.
    by_host: HashMap<(bool, &'a str), &'a Finding>,
    by_job: HashMap<&'a str, &'a Finding>,
    /// Of jobs, what was told last of those that are over for it: it is resolved, for nobody can do anything about it any more.
    told_last: HashMap<&'a str, &'a Finding>,
    by_comm: HashMap<&'a str, &'a Finding>,
    /// Communicators in which somebody is waited for.
    stuck: HashMap<&'a str, &'a Finding>,
    /// Of the processes that are in a summation group, by key, what its rounds do.
    summing: HashMap<&'a str, Rounds>,
    /// Hosts from which an agent reports.
    looked_after: HashSet<&'a str>,
}

impl<'a> Standings<'a> {
    /// Of everything.
    #[must_use]
    pub fn of(model: &'a Model, diagnosis: &'a Diagnosis, now: Timestamp) -> Self {
        Self::about(model, diagnosis, now, |_| true)
    }

    /// The same without what is found about other jobs.
    pub fn of_job(model: &'a Model, diagnosis: &'a Diagnosis, now: Timestamp, job: &str) -> Self {
        Self::about(model, diagnosis, now, |finding| finding.job.is_empty() || finding.job == job)
    }

    fn about(
        model: &'a Model,
        diagnosis: &'a Diagnosis,
        now: Timestamp,
        counts: impl Fn(&Finding) -> bool,
    ) -> Self {
        let mut all = Self {
            model,
            diagnosis,
            now,
            by_process: HashMap::new(),
            by_rank: HashMap::new(),
            by_host: HashMap::new(),
            by_job: HashMap::new(),
            told_last: HashMap::new(),
            by_comm: HashMap::new(),
            stuck: HashMap::new(),
            summing: HashMap::new(),
            looked_after: model.looked_after(now).collect(),
        };
        for group in model.summations() {
            for (place, member) in group.members() {
                let Some(process) = group.process(place, model) else { continue };
                let rounds = match (member.works(now), member.has_worked()) {
                    (true, _) => Rounds::Move,
                    (false, true) => Rounds::Stand,
                    (false, false) => Rounds::None,
                };
                let known = all.summing.entry(process.key()).or_default();
                *known = rounds.max(*known);
            }
        }
        let firing = diagnosis.firing().filter(|finding| finding.severity >= Severity::Warning);
        firing.filter(|finding| counts(finding)).for_each(|finding| all.note(finding));
        let resolved = diagnosis.findings().filter(|finding| finding.state == FindingState::Resolved);
        let of_jobs = resolved.filter(|one| one.severity == Severity::Critical && !one.job.is_empty());
        for finding in of_jobs.filter(|finding| counts(finding)) {
            let known = all.told_last.entry(&*finding.job).or_insert(finding);
            if finding.resolved_at > known.resolved_at {
                *known = finding;
            }
        }
        all
    }

    fn note(&mut self, finding: &'a Finding) {
        let is_past = finding.imported;
        // A job that has ended holds no host, but says that one is lost.
        let is_of_host = finding.finding == FindingKind::HostLost
            || !is_of_processes(finding) && !self.has_ended(&finding.job);
        for culprit in &finding.accused {
            if let Some(pid) = culprit.pid {
                worst(&mut self.by_process, (is_past, &*culprit.host, pid), finding);
            }
            if is_of_host {
                worst(&mut self.by_host, (is_past, &*culprit.host), finding);
            }
        }
        if let Some(rank) = finding.rank.filter(|_| !finding.comm.is_empty()) {
            worst(&mut self.by_rank, (&*finding.comm, rank), finding);
        }
        let is_of_whole = matches!(
            finding.finding,
            FindingKind::FinalDisagrees | FindingKind::FinalUnexplained | FindingKind::PartlySeen
        );
        if !finding.host.is_empty() && !is_of_whole && is_of_host {
            worst(&mut self.by_host, (is_past, &*finding.host), finding);
        }
        if !finding.job.is_empty() {
            worst(&mut self.by_job, &*finding.job, finding);
        }
        if !finding.comm.is_empty() {
            worst(&mut self.by_comm, &*finding.comm, finding);
            if is_hang(finding.finding) && finding.severity == Severity::Critical {
                worst(&mut self.stuck, &*finding.comm, finding);
            }
        }
    }

    fn has_ended(&self, job: &str) -> bool {
        self.model.job(job).is_some_and(|(_, job)| job.ended(self.model).is_some())
    }

    /// A rank in one communicator.
    pub fn rank(&self, rank: &RankRef<'_>) -> Standing {
        let id = rank.local.communicator();
        let comm = id.as_ref().map_or("", CommunicatorId::as_str);
        let accused = self.by_rank.get(&(comm, rank.rank)).copied();
        let process = self.accused(rank.process);
        let calls = self.calls(rank);
        let waits = self.waits(comm, &calls);
        // What was destroyed before has no part in how the process ended.
        let is_over = rank.facts.state == LocalState::Destroyed;
        let exit = if is_over { Exit { status: Some(0), ..Exit::default() } } else { rank.process.exit() };
        of_process(&Evidence {
            exit,
            calls,
            accused: [accused, process].into_iter().flatten().max_by_key(|finding| weight(finding)),
            waits_for: waits,
            failed: failed(rank),
            lacks: lacks(rank),
            left_open: !rank.facts.state.is_end(),
            files_tell: self.files_tell(rank) == Some(true),
            ..self.evidence(rank.process)
        })
    }

    /// A process, with all its communicators.
    pub fn process(&self, process: &Process) -> Standing {
        let mut evidence = self.evidence(process);
        evidence.accused = self.accused(process);
        evidence.rounds = self.summing.get(process.key()).copied().unwrap_or_default();
        let (mut is_open, mut told) = (false, Vec::new());
        for rank in process.ranks() {
            let id = rank.local.communicator();
            let comm = id.as_ref().map_or("", CommunicatorId::as_str);
            let calls = self.calls(&rank);
            let waits = [evidence.waits_for, self.waits(comm, &calls)];
            evidence.waits_for = waits.into_iter().flatten().max_by_key(|finding| weight(finding));
            evidence.calls.add(&calls);
            evidence.failed = evidence.failed.or_else(|| failed(&rank));
            evidence.lacks = evidence.lacks.or_else(|| lacks(&rank));
            evidence.left_open |= !rank.facts.state.is_end();
            told.extend(self.files_tell(&rank));
            is_open |= !rank.local.in_flight().is_empty();
        }
        evidence.files_tell = !is_open && !told.is_empty() && told.iter().all(|tells| *tells);
        of_process(&evidence)
    }

    /// A communicator.
    pub fn communicator(&self, known: &Communicator) -> Standing {
        let parts = known.ranks(self.model).map(|rank| {
            let standing = self.rank(&rank);
            (move || format!("rank {} on {}", rank.rank, rank.identity.host), standing)
        });
        let (state, _) = known.state(self.model);
        let finding = self.by_comm.get(known.id().as_str()).copied();
        let standing =
            of_whole(parts, "ranks", finding, (Condition::Unknown, "nobody has told of a rank of it"));
        match state {
            // Programs that end without a word take it with them, one process after the other.
            CommunicatorState::Broken if standing.condition == Condition::Healthy => Standing {
                condition: Condition::Unknown,
                reason: "a rank of it ended without destroying it; the others may be about to".to_owned(),
                waits: false,
            },
            _ => standing,
        }
    }

    /// A job: its processes that live, or if none does, all.
    pub fn job(&self, id: &Name, job: &Job) -> Standing {
        let is_over = job_state(self.model, job, self.now) == JobState::Ended;
        let present = || job.present(self.model, self.now);
        // A launcher, or what prepares something: where others called the library, they are the job.
        let took_part =
            |process: &Process| process.has_communicators() || self.summing.contains_key(process.key());
        let has_part = is_over && present().any(took_part);
        let counts = |process: &&Process| match is_over {
            true => !has_part || took_part(process) || !has_ended_well(process),
            false => !has_ended_well(process),
        };
        let mut processes: Vec<&Process> = present().filter(counts).collect();
        if is_over {
            first_failure_first(&mut processes);
        }
        let nothing = (Condition::Unknown, "none of its processes is known");
        let ended_by = if is_over { self.ended_by(id, job) } else { None }.filter(|finding| {
            let by_themselves = || self.of_processes(processes.iter().copied(), None, nothing).condition;
            makes_results_wrong(finding.finding) || by_themselves() != Condition::Healthy
        });
        let finding = self.by_job.get(&**id).copied().or(ended_by.as_ref());
        let standing = self.of_processes(processes.iter().copied(), finding, nothing);
        if let Some(reason) = asked_to_end(&processes).filter(|_| is_over && finding.is_none()) {
            return Standing { condition: Condition::Unknown, reason, waits: false };
        }
        let standing = match why_over(finding, &processes).filter(|_| is_over) {
            Some(reason) => Standing { reason, ..standing },
            None => standing,
        };
        match self.diagnosis.cannot_judge(id) {
            Some(since) if standing.condition <= Condition::Unknown => not_judged(since),
            _ => standing,
        }
    }

    /// What ended a job that is over, as it was told last, as long as the job is there: what was still told a while after its end.
    /// What ends with the job itself was not its reason.
    fn ended_by(&self, id: &Name, job: &Job) -> Option<Finding> {
        let finding = *self.told_last.get(&**id)?;
        let ended = job.processes(self.model).filter_map(Process::ended).max()?;
        let told_for = finding.resolved_at?.since(ended);
        (told_for >= OUTLIVES_JOB).then(|| Finding { state: FindingState::Firing, ..finding.clone() })
    }

    /// A host: its processes that live, and what is found about it; what files tell of it only if nothing else does. It is not
    /// failed by what runs on it, which is the process's failure and the job's, but where it is lost.
    pub fn host(&self, name: &Name, processes: &[&Process]) -> Standing {
        let is_past = is_past(self.model, name, processes);
        let finding = self.by_host.get(&(is_past, &**name)).copied();
        let is_told = |process: &&Process| is_past || process.state() != ProcessState::Imported;
        let living = processes.iter().copied().filter(|process| process.ended().is_none()).filter(is_told);
        let nothing = if self.looked_after.contains(&**name) {
            (Condition::Healthy, "nothing runs on it, and nothing is wrong with it")
        } else {
            (Condition::Unknown, NOBODY_THERE)
        };
        let standing = self.of_processes(living, finding, nothing);
        let is_lost = finding.is_some_and(|finding| finding.finding == FindingKind::HostLost);
        let unseen = self.model.cannot_watch(name).or_else(|| self.queue_pairs_lack(name));
        match unseen {
            _ if standing.condition == Condition::Failed && !is_lost => {
                Standing { condition: Condition::Degraded, ..standing }
            }
            Some(why) if !is_past && standing.condition <= Condition::Unknown => unseen_there(why),
            _ => standing,
        }
    }

    /// Why trouble of a host's connections may be unseen. It says nothing of its processes.
    fn queue_pairs_lack(&self, host: &str) -> Option<&'a str> {
        let hardware = self.model.hardware_of(host).filter(|hardware| hardware.is_fresh(self.now))?;
        Some(&*hardware.queue_pairs_lack).filter(|why| !why.is_empty())
    }

    fn of_processes<'p>(
        &self,
        processes: impl Iterator<Item = &'p Process>,
        finding: Option<&Finding>,
        nothing: (Condition, &str),
    ) -> Standing {
        let parts = processes.map(|process| (move || name(process), self.process(process)));
        of_whole(parts, "processes", finding, nothing)
    }

    fn evidence(&self, process: &Process) -> Evidence<'a> {
        let state = self.model.rank_state(process, self.now);
        let since = process.collector().off_since.map(|since| self.model.ours(process, since));
        let stopped = self.model.unwatched_since(process).map(|since| Watched::AgentStopped { since });
        let watched = stopped.unwrap_or_else(|| match process.collector_state() {
            _ if state == RankState::Stale && self.speaks(process) => Watched::NotTaken,
            CollectorState::Off => Watched::Off { since, by: "its control word".to_owned() },
            CollectorState::Fault => Watched::Fault { since },
            CollectorState::Removed => Watched::SegmentRemoved { since },
            _ if let Some(written) = process.collector().other_version() => {
                Watched::OtherVersion { written, read: self.model.segments_read(process) }
            }
            _ if state == RankState::Imported && has_channels_alone(process) => Watched::LogOnly,
            _ if !process.collector().has_segment && state != RankState::Imported && is_known(process) => {
                Watched::LogOnly
            }
            _ => Watched::Yes,
        });
        let heard = match watched {
            Watched::NotTaken => self.model.last_heard(process),
            _ => self.model.last_word(process),
        };
        Evidence {
            life: state,
            exit: process.exit(),
            silent: self.now.since(heard),
            watched,
            not_watched_there: self.not_watched_there(process),
            has_communicators: process.has_communicators() || self.summing.contains_key(process.key()),
            lacks: is_stopped(process).then(|| STOPPED.to_owned()),
            ..Evidence::default()
        }
    }

    /// Whether its agent speaks, be it in repetition.
    fn speaks(&self, process: &Process) -> bool {
        self.now.since(self.model.last_spoken(process)) < STALE_AFTER
    }

    /// What is not watched on the host of a process without a segment, which may be one of those, and why.
    fn not_watched_there(&self, process: &Process) -> Option<&'a str> {
        let identity = process.identity().filter(|_| !process.collector().has_segment)?;
        self.model.cannot_watch(&identity.host)
    }

    /// Whether files tell enough of a rank: that calls, or the communicator, ended well, and of all ranks. `None`: they
    /// tell neither of calls nor, in a log alone, of channels, or the process is not known from files.
    fn files_tell(&self, rank: &RankRef<'_>) -> Option<bool> {
        if rank.process.state() != ProcessState::Imported {
            return None;
        }
        // What only counts those that ended, as Inspector does, would not tell of those that hang.
        let has_calls = rank.local.last_completed().is_some();
        let ended_well = has_calls || has_channels(rank) && was_destroyed(rank);
        let is_told = ended_well || has_channels(rank) && rank.local.sequence().is_none();
        let id = rank.local.communicator();
        let known = id.and_then(|id| self.model.communicator(id));
        let is_whole = known.is_some_and(|known| known.n_ranks_seen() == known.n_ranks());
        is_told.then_some(ended_well && is_whole && rank.local.in_flight().is_empty())
    }

    fn accused(&self, process: &Process) -> Option<&'a Finding> {
        let identity = process.identity()?;
        let is_past = process.state() == ProcessState::Imported;
        self.by_process.get(&(is_past, &*identity.host, identity.pid)).copied()
    }

    fn waits(&self, comm: &str, calls: &Calls) -> Option<&'a Finding> {
        self.stuck.get(comm).copied().filter(|_| calls.open_for.is_some())
    }

    fn calls(&self, rank: &RankRef<'_>) -> Calls {
        let mut calls = Calls { completion_known: rank.knows_completion(), ..Calls::default() };
        // Of one that has ended nothing is open.
        if rank.ended().is_none() {
            calls.completion_lost = rank.facts.completion_lost.to_string();
        }
        for counted in rank.local.counters().values() {
            calls.issued = calls.issued.saturating_add(counted.totals().issued_calls);
            calls.completed = calls.completed.saturating_add(counted.totals().completed_calls);
        }
        let ago = |ns: u64| self.now.since(self.model.ours(rank.process, Timestamp(ns)));
        let last = rank.local.last_completed().and_then(|last| last.completed_at_ns);
        calls.completed_ago = last.map(ago);
        if rank.ended().is_some() {
            return calls;
        }
        let is_open = |state: i32| {
            let state = OperationState::try_from(state);
            matches!(state, Ok(OperationState::Issued | OperationState::Queued))
        };
        let open = rank.local.in_flight().iter().filter(|one| is_open(one.state));
        calls.open_for = open.map(|one| ago(one.issued_at_ns)).max();
        if rank.facts.state == LocalState::Forming {
            calls.open_for = calls.open_for.max(Some(ago(rank.facts.created.0)));
        }
        calls
    }
}

/// Of a process that makes no call because of it, whether anybody waits for it or not.
const STOPPED: &str = "it is stopped (SIGSTOP)";

/// Of one that has ended its state is what was read before that.
fn is_stopped(process: &Process) -> bool {
    process.is_living() && process.activity().is_some_and(|known| known.state == 'T')
}

/// Whether a host is known from files alone.
pub fn is_past(model: &Model, name: &Name, processes: &[&Process]) -> bool {
    let mut states = processes.iter().map(|process| process.state());
    !processes.is_empty()
        && model.hardware_of(name).is_none()
        && states.all(|state| state == ProcessState::Imported)
}

fn has_channels(rank: &RankRef<'_>) -> bool {
    rank.facts.init_channels.is_some() && rank.facts.final_channels.is_some()
}

/// Whether its log says that it was destroyed in good order.
fn was_destroyed(rank: &RankRef<'_>) -> bool {
    rank.facts.evidence.iter().any(|line| &*line.fact == FACT_DESTROYED)
}

/// Whether of a process from files its channels are known, and nothing of its calls.
fn has_channels_alone(process: &Process) -> bool {
    let has_calls = |rank: RankRef<'_>| rank.local.sequence().is_some() || !rank.local.counters().is_empty();
    process.ranks().any(|rank| has_channels(&rank)) && !process.ranks().any(has_calls)
}

/// Whether enough is known of it to say that it has no segment.
fn is_known(process: &Process) -> bool {
    process.identity().is_some() && process.ranks().next().is_some()
}

fn failed(rank: &RankRef<'_>) -> Option<String> {
    (rank.facts.state == LocalState::Failed)
        .then(|| format!("the init of communicator {:#x} failed", rank.facts.comm_hash))
}

/// In files an init without an end is all that is known of it.
fn lacks(rank: &RankRef<'_>) -> Option<String> {
    let is_open = rank.process.state() == ProcessState::Imported && rank.facts.state == LocalState::Forming;
    is_open.then(|| {
        format!(
            "the init of communicator {:#x} has no end: it failed, hangs, or the log is cut",
            rank.facts.comm_hash
        )
    })
}

fn name(process: &Process) -> String {
    let Some(identity) = process.identity() else { return process.key().to_owned() };
    match identity.global_rank {
        Some(rank) => format!("rank {rank} on {}", identity.host),
        None => format!("process {} on {}", identity.pid, identity.host),
    }
}

/// Keeps the worst finding under a key; of equally bad ones that which began first.
fn worst<'a, K: std::hash::Hash + Eq>(map: &mut HashMap<K, &'a Finding>, key: K, finding: &'a Finding) {
    let known = map.entry(key).or_insert(finding);
    if weight(finding) > weight(known) {
        *known = finding;
    }
}

fn weight(finding: &Finding) -> impl Ord + '_ {
    let began = finding.began_at.unwrap_or(finding.first_seen);
    (condition_of(finding), finding.severity, std::cmp::Reverse((began, &finding.id)))
}

/// Whether it tells of processes that have failed, and nothing of the machine that they are on.
fn is_of_processes(finding: &Finding) -> bool {
    let is_of_one = matches!(
        finding.finding,
        FindingKind::RankDead
            | FindingKind::AsyncError
            | FindingKind::CallMismatch
            | FindingKind::SumServerLost
            | FindingKind::SumParametersDiffer
    );
    is_of_one && condition_of(finding) == Some(Condition::Failed)
}

/// So long after a job's end findings are told that say why it ended, and none that ends with it: a look comes each second.
const OUTLIVES_JOB: Duration = Duration::from_secs(10);

/// Whether a job runs.
#[must_use]
pub fn job_state(model: &Model, job: &Job, now: Timestamp) -> JobState {
    job.processes(model).fold(JobState::Ended, |state, process| with(state, model.rank_state(process, now)))
}

/// The state of a job that has one more process.
pub const fn with(job: JobState, process: RankState) -> JobState {
    match (job, process) {
        (_, RankState::Running) | (JobState::Running, _) => JobState::Running,
        (_, RankState::Stale) | (JobState::Stale, _) => JobState::Stale,
        (_, RankState::Imported) | (JobState::Imported, _) => JobState::Imported,
        (JobState::Ended, RankState::Exited | RankState::Killed | RankState::Gone) => JobState::Ended,
    }
}
