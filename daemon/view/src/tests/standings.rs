//! How processes, jobs and hosts are shown to stand.

use ringscope_api::Condition;
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_samples::cluster::{Cluster, at, batch, hardware, nic};
use ringscope_wire::Primitive;
use ringscope_wire::batch::{Activity, Batch, HostHardware, OpenCall, Process, ProcessState};

use super::super::{CommunicatorFilter, communicators, hosts, jobs};

/// Rank 0 has lost events of one of its two communicators, on which a call seems to be in flight.
#[test]
fn only_the_communicator_whose_events_are_lost_is_unknown() {
    let (lossy, other) = {
        let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
        (cluster.clone(), cluster.again(0xdef, 8, 1))
    };
    let processes = (0..2).map(|rank| {
        let mut process = lossy.process(rank);
        process.communicators.extend(other.process(rank).communicators);
        let calls = |cluster: &Cluster, completed| cluster.counters(Primitive::AllReduce, 9, completed, 8);
        process.counters = vec![calls(&lossy, if rank == 0 { 8 } else { 9 }), calls(&other, 9)];
        if rank == 0 {
            process.communicators[0].completion_lost = "events could not be followed".to_owned();
            process.in_flight = vec![lossy.operation(5, 3, None)];
        }
        process
    });
    let mut model = Model::new();
    model.apply(&batch(1, 99, processes.collect()), at(99));
    let (diagnosis, now) = (Diagnosis::new(), at(100));
    let found = communicators(&model, &diagnosis, now, &CommunicatorFilter::default());
    let standing = |cluster: &Cluster| {
        let found = found.iter().find(|one| one.id == cluster.id().as_str()).unwrap();
        (found.standing.condition, found.standing.reason.clone())
    };
    let (condition, reason) = standing(&lossy);
    assert!(
        condition == Condition::Unknown && reason.contains("because events could not be followed"),
        "{reason}"
    );
    assert_eq!(standing(&other).0, Condition::Healthy);
    let job = &jobs(&model, &diagnosis, now)[0].standing;
    assert_eq!(job.condition, Condition::Healthy, "{job:?}");
}

#[test]
fn one_that_went_on_and_ended_is_not_stopped_any_more() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 1);
    let (mut model, diagnosis) = (Model::new(), Diagnosis::new());
    let mut tell = |seq: u64, state: ProcessState| {
        let mut process = cluster.process(0);
        process.state = state.into();
        process.exit_status = (state == ProcessState::Exited).then_some(0);
        // The agent reads the state of a process now and then: it may have gone on and ended before the next time.
        process.activity =
            Some(Activity { state: "T".to_owned(), read_at_ns: at(1).0, ..Activity::default() });
        model.apply(&batch(seq, seq, vec![process]), at(seq));
        let job = jobs(&model, &diagnosis, at(seq)).remove(0);
        (job.standing.condition, job.standing.reason)
    };
    let (condition, reason) = tell(1, ProcessState::Running);
    assert!(condition == Condition::Degraded && reason.contains("SIGSTOP"), "{reason}");
    let (condition, reason) = tell(2, ProcessState::Exited);
    assert_eq!(condition, Condition::Healthy, "{reason}");
}

#[test]
fn a_job_is_judged_by_how_its_processes_ended() {
    let cluster = Cluster::new(&[("host-0", 3, 2)], 2);
    let standing = |statuses: [Option<Option<u32>>; 3]| {
        let processes = (0..).zip(statuses).map(|(rank, ended)| {
            let mut process = cluster.process(rank);
            if let Some(exit_status) = ended {
                process.state = ProcessState::Exited.into();
                process.exit_status = exit_status;
            }
            if rank == 2 {
                // A launcher.
                process.communicators.clear();
                (process.has_segment, process.launched) = (false, true);
            }
            process
        });
        let mut model = Model::new();
        model.apply(&batch(1, 1, processes.collect()), at(1));
        let standing = jobs(&model, &Diagnosis::new(), at(2)).remove(0).standing;
        (standing.condition, standing.reason)
    };
    let (well, unknown) = (Some(Some(0)), Some(None));
    assert_eq!(standing([well, well, unknown]).0, Condition::Healthy);
    assert_eq!(standing([well, unknown, unknown]).0, Condition::Unknown);
    for others in [well, None] {
        let (condition, reason) = standing([others, Some(Some(3)), unknown]);
        assert!(condition == Condition::Failed && reason.contains("exit status 3"), "{reason}");
    }
}

#[test]
fn a_job_whose_processes_were_all_killed_accuses_none_of_them() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let killed = |rank| Process {
        state: ProcessState::Killed.into(),
        open_calls: vec![OpenCall { function: "ncclAllReduce".to_owned(), ..OpenCall::default() }],
        ..cluster.process(rank)
    };
    let mut model = Model::new();
    model.apply(&batch(1, 1, vec![killed(0), killed(1)]), at(1));
    let standing = jobs(&model, &Diagnosis::new(), at(2)).remove(0).standing;
    assert_eq!(standing.condition, Condition::Failed, "{standing:?}");
    assert!(standing.reason.starts_with("all 2 processes were killed, or crashed: somebody"), "{standing:?}");
}

#[test]
fn a_job_that_somebody_ended_has_not_failed() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let standing = |signals: [u32; 2]| {
        let killed = |rank: u32| Process {
            state: ProcessState::Killed.into(),
            exit_signal: Some(signals[rank as usize]),
            ..cluster.process(rank)
        };
        let mut model = Model::new();
        model.apply(&batch(1, 1, vec![killed(0), killed(1)]), at(1));
        jobs(&model, &Diagnosis::new(), at(2)).remove(0).standing
    };
    let asked = standing([15, 15]);
    assert_eq!(asked.condition, Condition::Unknown, "{asked:?}");
    assert_eq!(asked.reason, "somebody ended it: 2 of its processes were sent SIGTERM");
    let killed = standing([15, 9]);
    assert!(killed.condition == Condition::Failed && killed.reason.contains("SIGKILL"), "{killed:?}");
}

#[test]
fn a_later_crash_is_not_told_before_the_first_failure() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let reason = |later_ms: u64| {
        let failed = Process {
            state: ProcessState::Exited.into(),
            exit_status: Some(3),
            ended_at_ns: Some(at(1).0),
            ..cluster.process(0)
        };
        let crashed = Process {
            state: ProcessState::Killed.into(),
            exit_signal: Some(11),
            ended_at_ns: Some(at(1).0 + later_ms * 1_000_000),
            ..cluster.process(1)
        };
        let mut model = Model::new();
        model.apply(&batch(3, 3, vec![failed, crashed]), at(3));
        jobs(&model, &Diagnosis::new(), at(4)).remove(0).standing.reason
    };
    assert!(reason(100).contains("SIGSEGV"), "{}", reason(100));
    assert!(reason(900).contains("exit status 3"), "{}", reason(900));
}

#[test]
fn the_agents_reason_is_the_one_that_all_give() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let mut refused = cluster.process(1);
    refused.communicators.clear();
    (refused.has_segment, refused.calls_seen) = (false, false);
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 1, vec![cluster.process(0), refused]), at(1));
    diagnosis.update(&model, None, at(1));
    let why = "1 process is not watched, because the segments in /x have as many bytes as they may have";
    let told = Batch { not_watched: why.to_owned(), ..batch(2, 2, Vec::new()) };
    let changes = model.apply(&told, at(2));
    assert!(changes.communicators.contains(&cluster.id()), "what is lacking of it is another thing now");
    diagnosis.update(&model, Some(&changes.communicators), at(2));
    let job = jobs(&model, &diagnosis, at(2)).remove(0);
    assert_eq!(job.standing.condition, Condition::Unknown);
    assert!(job.standing.reason.ends_with(why), "{}", job.standing.reason);
    let lacks = job.coverage.lacks;
    assert!(lacks.iter().any(|lack| lack.contains(why)), "{lacks:?}");
    assert!(!lacks.iter().any(|lack| lack.contains("ringscope agent")), "{lacks:?}");
}

#[test]
fn queue_pairs_that_are_not_read_are_their_hosts_and_no_reason_of_a_process() {
    let cluster = Cluster::new(&[("host-0", 2, 2)], 2);
    let mut log_only = cluster.process(1);
    (log_only.has_segment, log_only.calls_seen) = (false, false);
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    model.apply(&batch(1, 1, vec![cluster.process(0), log_only]), at(1));
    diagnosis.update(&model, None, at(1));
    let without = jobs(&model, &diagnosis, at(1)).remove(0);
    assert!(without.standing.reason.contains("`ringscope run`"), "{}", without.standing.reason);
    let why = "queue pairs not read: mlx5_0: the kernel takes too long to answer";
    let told =
        HostHardware { queue_pairs_lack: why.to_owned(), ..hardware("host-0", 2, vec![nic("mlx5_0")]) };
    let changes = model.apply(&Batch { hardware: vec![told], ..batch(2, 2, Vec::new()) }, at(2));
    assert!(changes.hardware && changes.communicators.is_empty(), "nothing is lacking of them");
    diagnosis.update(&model, None, at(2));
    let job = jobs(&model, &diagnosis, at(2)).remove(0);
    assert_eq!(job.standing.reason, without.standing.reason);
    assert_eq!(job.coverage.lacks, without.coverage.lacks);
    // A host on which nothing else is wrong is not told to be healthy, until all is read again.
    let host_with = |why: &str, seq: u64| {
        let (mut model, diagnosis) = (Model::new(), Diagnosis::new());
        let told = hardware("host-0", seq, vec![nic("mlx5_0")]);
        let told = HostHardware { queue_pairs_lack: why.to_owned(), ..told };
        let processes = Cluster::new(&[("host-0", 2, 2)], 2).processes();
        model.apply(&Batch { hardware: vec![told], ..batch(seq, seq, processes) }, at(seq));
        let standing = hosts(&model, &diagnosis, at(seq), |_, _| true).remove(0).standing;
        (standing.condition, standing.reason)
    };
    assert_eq!(host_with(why, 3), (Condition::Unknown, why.to_owned()));
    assert_eq!(host_with("", 4).0, Condition::Healthy);
}
