//! What a scrape says of each job: whether it runs, and when it was last heard of.

use std::collections::{BTreeMap, BTreeSet};

use ringscope_api::clock::Timestamp;
use ringscope_api::{JobState, RankState};
use ringscope_model::{Job, Model};
use ringscope_view as view;

use super::findings::Fired;
use super::room::{Candidate, Choice, Memory};

/// One job.
pub(super) struct JobSeen {
    pub(super) job: String,
    pub(super) state: JobState,
    /// Processes that have not been seen to end, by host and by whether they are silent.
    pub(super) processes: BTreeMap<(String, &'static str), u32>,
    /// When counters of a process that lives came last; before the first, when the first such process started. Absent:
    /// none lives.
    pub(super) heard: Option<Timestamp>,
}

/// Every job of the model, by id: bounded as the model is, which forgets what has ended after an hour.
pub(super) fn take(model: &Model, now: Timestamp) -> Vec<JobSeen> {
    model.jobs().map(|(id, job)| seen(model, now, id, job)).collect()
}

/// Leaves the jobs that there is room for: those that have ended go first.
pub(super) fn fit(
    jobs: &mut Vec<JobSeen>,
    findings: &[Fired],
    memory: &mut Memory<String>,
    room: usize,
    now: Timestamp,
) -> Choice<String> {
    let bad: BTreeSet<&str> = findings.iter().filter(|one| one.is_bad()).map(|one| &*one.job).collect();
    let candidate = |seen: &JobSeen| Candidate {
        key: seen.job.clone(),
        unhealthy: seen.state == JobState::Stale || bad.contains(&*seen.job),
        size: if seen.state == JobState::Ended {
            0
        } else {
            1 + u64::from(seen.processes.values().sum::<u32>())
        },
        whole: JOB_SERIES,
        detail: 0,
    };
    let candidates: Vec<Candidate<String>> = jobs.iter().map(candidate).collect();
    let choice = memory.choose(&candidates, room, 100, now);
    jobs.retain(|seen| choice.level(&seen.job).is_some());
    choice
}

fn seen(model: &Model, now: Timestamp, id: &str, job: &Job) -> JobSeen {
    let mut seen = JobSeen {
        job: id.to_owned(),
        state: view::job_state(model, job, now),
        processes: BTreeMap::new(),
        heard: None,
    };
    let mut started: Option<Timestamp> = None;
    for process in job.processes(model) {
        let state = match model.rank_state(process, now) {
            RankState::Running => "running",
            RankState::Stale => "stale",
            RankState::Exited | RankState::Killed | RankState::Gone | RankState::Imported => continue,
        };
        let Some(identity) = process.identity() else { continue };
        *seen.processes.entry((identity.host.to_string(), state)).or_default() += 1;
        seen.heard = seen.heard.max(process.counters_heard());
        started = Some(started.map_or(identity.started, |first| first.min(identity.started)));
    }
    seen.heard = seen.heard.or(started);
    seen
}

/// Its state, and when it was heard.
const JOB_SERIES: usize = 2;

#[cfg(test)]
mod tests {
    use ringscope_wire::batch::{Batch, Counters, Identity, Primitive, Process, ProcessState};

    use super::*;

    fn at(s: u64) -> Timestamp {
        Timestamp(s * 1_000_000_000)
    }

    fn batch(seq_number: u64, state: ProcessState, calls: u64) -> Batch {
        let counters = Counters {
            local_id: 1,
            primitive: Primitive::AllReduce.into(),
            issued_calls: calls,
            ..Counters::default()
        };
        let process = Process {
            key: "node-a/7/100".into(),
            identity: Some(Identity {
                host: "node-a".into(),
                job: "train".into(),
                start_time_ns: at(100).0,
                ..Identity::default()
            }),
            state: state.into(),
            ended_at_ns: (state == ProcessState::Exited).then_some(at(200).0),
            counters: if calls > 0 { vec![counters] } else { Vec::new() },
            ..Process::default()
        };
        Batch { agent_id: "a".into(), seq_number, processes: vec![process], ..Batch::default() }
    }

    /// State of the job and of its one process.
    fn seen(model: &Model, now: Timestamp) -> (&'static str, Option<&'static str>, Option<Timestamp>) {
        let seen = take(model, now).remove(0);
        let process = seen.processes.into_keys().next();
        (seen.state.label(), process.map(|(_, state)| state), seen.heard)
    }

    #[test]
    fn a_job_is_heard_goes_silent_and_ends() {
        let mut model = Model::new();
        model.apply(&batch(1, ProcessState::Running, 0), at(120));
        assert_eq!(seen(&model, at(120)), ("running", Some("running"), Some(at(100))), "no counters yet");
        model.apply(&batch(2, ProcessState::Running, 5), at(130));
        assert_eq!(seen(&model, at(131)), ("running", Some("running"), Some(at(130))));
        assert_eq!(seen(&model, at(190)), ("stale", Some("stale"), Some(at(130))), "its agent is away");
        model.apply(&batch(3, ProcessState::Exited, 6), at(200));
        assert_eq!(seen(&model, at(900)), ("ended", None, None), "nobody waits for it");
    }
}
