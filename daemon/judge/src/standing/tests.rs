use super::*;

/// Seconds.
fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A process that lives and is watched, and completed a call two seconds ago.
fn well() -> Evidence<'static> {
    let calls = Calls {
        issued: 9,
        completed: 9,
        completion_known: true,
        completed_ago: Some(s(2)),
        ..Calls::default()
    };
    Evidence { has_communicators: true, calls, ..Evidence::default() }
}

#[track_caller]
fn check(evidence: &Evidence<'_>, condition: Condition, words: &str) {
    let standing = of_process(evidence);
    assert!(standing.condition == condition && standing.reason.contains(words), "{words:?}: {standing:?}");
    assert!(!standing.reason.is_empty());
}

fn finding(kind: FindingKind, severity: Severity, n_victims: u32) -> Finding {
    Finding {
        finding: kind,
        severity,
        n_victims,
        message: "rank 5 stands".into(),
        ..ringscope_samples::objects::finding("a", "host-1", 1)
    }
}

#[test]
fn green_needs_evidence() {
    check(&well(), Condition::Healthy, "completed 2.0 s ago");
    let calls = |change: fn(&mut Calls)| {
        let mut evidence = well();
        change(&mut evidence.calls);
        evidence
    };
    check(&calls(|calls| *calls = Calls::default()), Condition::Healthy, "nothing was asked");
    let rounds = |rounds| Evidence { rounds, ..calls(|calls| *calls = Calls::default()) };
    check(&rounds(Rounds::Move), Condition::Healthy, "its summation rounds go on");
    check(&rounds(Rounds::Stand), Condition::Healthy, "none goes on now");
    let also = Evidence { rounds: Rounds::Move, ..calls(|calls| calls.completion_known = false) };
    check(&also, Condition::Unknown, "profiler interface");
    let idle = "it completed 9 calls, and none was asked for since 2 h 00 min";
    check(&calls(|calls| calls.completed_ago = Some(s(7200))), Condition::Healthy, idle);
    let uncounted = |calls: &mut Calls| (calls.completed, calls.completed_ago) = (8, Some(s(7200)));
    check(&calls(uncounted), Condition::Healthy, "no call is open; its last one completed 2 h 00 min ago");
    check(&calls(|calls| calls.completion_known = false), Condition::Unknown, "profiler interface");
    let never = |calls: &mut Calls| {
        (calls.completed, calls.completed_ago, calls.open_for) = (0, None, Some(Duration::from_secs(3)));
    };
    check(&calls(never), Condition::Unknown, "none has completed yet");
    let stands = |calls: &mut Calls| {
        (calls.completed_ago, calls.open_for) =
            (Some(Duration::from_secs(90)), Some(Duration::from_secs(91)));
    };
    check(&calls(stands), Condition::Unknown, "none has completed for 90 s");
    let busy = |calls: &mut Calls| calls.open_for = Some(Duration::from_secs(600));
    check(&calls(busy), Condition::Healthy, "completed 2.0 s ago");
    let init = |calls: &mut Calls| {
        *calls = Calls { open_for: Some(Duration::from_secs(40)), ..Calls::default() };
    };
    check(&calls(init), Condition::Unknown, "its init has been open for 40 s");
}

#[test]
fn a_call_is_not_well_because_another_communicator_goes_on() {
    let of = |completed_ago, open_for| Calls {
        issued: 9,
        completed: 8,
        completion_known: true,
        completed_ago: Some(s(completed_ago)),
        open_for,
        ..Calls::default()
    };
    let both = |calls: Calls| {
        let mut sum = Calls::default();
        sum.add(&calls);
        sum.add(&of(1, None));
        Evidence { calls: sum, ..well() }
    };
    check(&both(of(3_600, Some(s(3_600)))), Condition::Unknown, "a call has been open for 60 min");
    check(&both(of(59, Some(s(59)))), Condition::Healthy, "completed 1.0 s ago");
    check(&both(of(2, Some(s(600)))), Condition::Healthy, "completed 1.0 s ago");
}

#[test]
fn a_call_whose_end_the_collector_lost_is_not_in_flight_for_ever() {
    let mut lost = well();
    lost.calls.issued = 10;
    lost.calls.completion_lost = "no CUDA event could be recorded behind one".to_owned();
    lost.calls.stands_for = Some(s(3_600));
    let words = "whether they are over, because no CUDA event could be recorded behind one: a call made later settles it";
    check(&lost, Condition::Unknown, words);
    lost.calls.open_for = Some(s(3_600));
    check(&lost, Condition::Unknown, "; the oldest that may be open was made 60 min ago");
}

#[test]
fn a_process_that_found_no_room_says_so_and_not_that_it_calls_nothing() {
    let why = "2 processes are not watched, because /scratch lies on a disk: set RINGSCOPE_DIR";
    let refused = |watched| Evidence {
        watched,
        not_watched_there: Some(why),
        has_communicators: false,
        calls: Calls::default(),
        ..well()
    };
    check(
        &refused(Watched::Yes),
        Condition::Unknown,
        "no call of it is seen; on its host 2 processes are not watched, because",
    );
    check(
        &refused(Watched::LogOnly),
        Condition::Unknown,
        "tells of no call; on its host 2 processes are not watched, because",
    );
}

#[test]
fn a_loss_in_one_communicator_leaves_the_others_known() {
    let calls = |issued: u64, completion_lost: bool| Calls {
        issued,
        completed: issued,
        completion_known: !completion_lost,
        completion_lost: if completion_lost { "a record is gone".to_owned() } else { String::new() },
        completed_ago: Some(s(2)),
        open_for: completion_lost.then(|| s(3_600)),
        ..Calls::default()
    };
    let of = |parts: &[&Calls]| {
        let mut sum = Calls::default();
        parts.iter().for_each(|part| sum.add(part));
        Evidence { calls: sum, ..well() }
    };
    let (lost, known, unused) = (calls(9, true), calls(5, false), calls(0, false));
    for parts in [[&lost, &known, &unused], [&known, &unused, &lost]] {
        let evidence = of(&parts);
        assert_eq!((evidence.calls.issued, evidence.calls.open_for), (5, None), "those that are known");
        check(&evidence, Condition::Healthy, "completed 2.0 s ago; of some calls on another communicator");
    }
    check(&of(&[&lost, &lost]), Condition::Unknown, "because a record is gone");
    check(&of(&[&unused, &lost, &unused]), Condition::Unknown, "because a record is gone");
    let waits = Calls { completed_ago: Some(s(90)), open_for: Some(s(91)), ..known.clone() };
    check(&of(&[&lost, &waits]), Condition::Unknown, "none has completed for 90 s");
}

#[test]
fn what_nobody_watches_is_unknown_and_says_what_is_needed() {
    let silent = Evidence { life: RankState::Stale, silent: s(840), ..well() };
    check(&silent, Condition::Unknown, "nothing heard of it for 14 min");
    let at = Timestamp(1_800_000_000_000_000_000);
    let off = Watched::Off { since: Some(at), by: "ann".into() };
    check(
        &Evidence { watched: off, ..well() },
        Condition::Unknown,
        "not watched since 2027-01-15 08:00:00 UTC, by ann: its collector is switched off",
    );
    let unsaid = Watched::Off { since: None, by: String::new() };
    check(&Evidence { watched: unsaid, ..well() }, Condition::Unknown, "not watched, by somebody:");
    let fault = Watched::Fault { since: Some(at) };
    check(
        &Evidence { watched: fault, ..well() },
        Condition::Unknown,
        "not watched since 2027-01-15 08:00:00 UTC: its collector switched itself off after a fault",
    );
    let removed = Watched::SegmentRemoved { since: Some(at) };
    check(
        &Evidence { watched: removed, ..well() },
        Condition::Unknown,
        "not watched since 2027-01-15 08:00:00 UTC: its segment was removed",
    );
    // Also while it is silent for too short a time to be stale, and after.
    for life in [RankState::Running, RankState::Stale] {
        let stopped = Evidence { life, watched: Watched::AgentStopped { since: at }, ..well() };
        check(
            &stopped,
            Condition::Unknown,
            "not watched since 2027-01-15 08:00:00 UTC: the agent on its host was stopped",
        );
    }
    check(&Evidence { watched: Watched::LogOnly, ..well() }, Condition::Unknown, "ringscope run");
    for (read, words) in [
        (Some(6), "segments of version 5, the agent of its host reads 6; restart the job"),
        (Some(4), "segments of version 5, the older agent of its host reads 4; install on that host"),
        (None, "segments of version 5, which the agent of its host does not read; install one release"),
    ] {
        let watched = Watched::OtherVersion { written: 5, read };
        check(&Evidence { watched, has_communicators: false, ..well() }, Condition::Unknown, words);
    }
    let gloo = Evidence { has_communicators: false, calls: Calls::default(), ..well() };
    check(&gloo, Condition::Unknown, "no call of NCCL so far");
    check(
        &Evidence { life: RankState::Imported, ..well() },
        Condition::Unknown,
        "read from files, which do not",
    );
    let logged = Evidence { life: RankState::Imported, watched: Watched::LogOnly, ..well() };
    check(&logged, Condition::Unknown, "not whether its calls end: add Flight Recorder dumps");
    check(&Evidence { files_tell: true, ..logged }, Condition::Healthy, "nothing wrong");
    let told = Evidence { life: RankState::Imported, files_tell: true, ..well() };
    check(&told, Condition::Healthy, "nothing wrong");
    check(&Evidence { lacks: Some("no end".into()), ..told }, Condition::Degraded, "no end");
}

#[test]
fn what_is_wrong_goes_before_what_is_not_known() {
    let missing = finding(FindingKind::RankMissing, Severity::Critical, 7);
    let silent = Evidence { life: RankState::Stale, ..well() };
    check(&Evidence { accused: Some(&missing), ..silent.clone() }, Condition::Hung, "rank 5 stands");
    check(&Evidence { waits_for: Some(&missing), ..silent }, Condition::Hung, "it waits: rank 5 stands");
    let dead = finding(FindingKind::RankDead, Severity::Critical, 7);
    check(&Evidence { accused: Some(&dead), ..well() }, Condition::Failed, "rank 5 stands");
    let with = |status| Exit { status, ..Exit::default() };
    let killed = |status| Evidence { life: RankState::Killed, exit: with(status), ..well() };
    check(&killed(None), Condition::Failed, "killed, or crashed");
    check(&killed(Some(1)), Condition::Failed, "while it ended with exit status 1");
    let exited = |status| Evidence { life: RankState::Exited, exit: with(status), ..well() };
    check(&exited(Some(0)), Condition::Healthy, "ended by itself");
    check(&exited(Some(1)), Condition::Failed, "ended with exit status 1;");
    check(&exited(None), Condition::Unknown, "exit status is not known");
    let told = |life, why| Evidence {
        life,
        exit: Exit { told: Some(why), signal: Some(15), ..with(None) },
        ..well()
    };
    check(
        &told(RankState::Killed, ToldToEnd::Failure),
        Condition::Unknown,
        "another process of the job had failed",
    );
    check(&told(RankState::Gone, ToldToEnd::Signal(2)), Condition::Unknown, "the launch was sent SIGINT");
    check(&told(RankState::Killed, ToldToEnd::WorkersDone), Condition::Healthy, "all workers were done");
    check(&told(RankState::Running, ToldToEnd::Failure), Condition::Healthy, "completed");
    let by_signal =
        Evidence { life: RankState::Killed, exit: Exit { signal: Some(11), ..with(None) }, ..well() };
    check(&by_signal, Condition::Failed, "it was ended by SIGSEGV (it crashed)");
    let gone = Evidence { life: RankState::Gone, ..well() };
    check(&Evidence { exit: with(Some(1)), ..gone.clone() }, Condition::Failed, "exit status 1");
    check(&gone, Condition::Healthy, "by _exit, exec or a signal, which is not known");
    check(&Evidence { left_open: true, ..gone.clone() }, Condition::Unknown, "which is not known");
    check(&Evidence { accused: Some(&dead), ..gone }, Condition::Failed, "rank 5 stands");
    check(
        &Evidence { failed: Some("the init failed".into()), ..well() },
        Condition::Failed,
        "the init failed",
    );
    let info = finding(FindingKind::Waiting, Severity::Info, 7);
    check(&Evidence { accused: Some(&info), ..well() }, Condition::Healthy, "2.0 s ago");
    let slow = finding(FindingKind::NicDegraded, Severity::Critical, 0);
    check(&Evidence { accused: Some(&slow), ..well() }, Condition::Degraded, "rank 5 stands");
    let wrong = finding(FindingKind::CallMismatch, Severity::Critical, 0);
    check(&Evidence { accused: Some(&wrong), ..well() }, Condition::Failed, "rank 5 stands");
}

#[test]
fn a_whole_is_as_its_worst_part_and_says_how_many_are() {
    let part = |condition, reason: &str| Standing { condition, reason: reason.to_owned(), waits: false };
    let well = part(Condition::Healthy, "completed");
    let grey = part(Condition::Unknown, "nothing heard");
    let of = |parts: &[&Standing], worst: Option<&Finding>| {
        let parts =
            parts.iter().enumerate().map(|(rank, part)| (move || format!("rank {rank}"), (*part).clone()));
        let whole = of_whole(parts, "processes", worst, (Condition::Healthy, "nothing runs"));
        (whole.condition, whole.reason)
    };
    assert_eq!(of(&[], None), (Condition::Healthy, "nothing runs".into()));
    assert_eq!(of(&[&well, &well], None), (Condition::Healthy, "all 2 processes: completed".into()));
    assert_eq!(of(&[&well, &grey], None), (Condition::Unknown, "rank 1: nothing heard".into()));
    assert_eq!(
        of(&[&grey, &well, &grey], None),
        (Condition::Unknown, "2 of 3 processes unknown: rank 0: nothing heard".into())
    );
    let slow = finding(FindingKind::ChannelShortfall, Severity::Critical, 0);
    assert_eq!(of(&[&grey], Some(&slow)), (Condition::Degraded, "rank 5 stands".into()));
    let info = finding(FindingKind::ChannelShortfall, Severity::Info, 0);
    assert_eq!(of(&[&well], Some(&info)).0, Condition::Healthy);
    let hung = part(Condition::Hung, "is stopped");
    let waits = Standing { waits: true, ..part(Condition::Hung, "it waits") };
    assert_eq!(
        of(&[&waits, &hung], None),
        (Condition::Hung, "2 of 2 processes hung: rank 1: is stopped".into())
    );
    let whole = |parts: Vec<Standing>| {
        of_whole(
            parts.into_iter().map(|part| (String::new, part)),
            "processes",
            None,
            (Condition::Unknown, ""),
        )
        .waits
    };
    assert!(whole(vec![well.clone(), waits.clone()]));
    assert!(!whole(vec![waits.clone(), hung, waits]));
}
