//! Ends: deaths, lost hosts, inits and teardowns that do not end, errors, and what the kernel says.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::batch::{KernelMessage, KernelMessageKind};

use super::super::Question;
use super::super::scene::{Collector, CommError, Life, MemberState, Warning};
use super::build::{World, all_reduce, at, found, job, nothing, only};

const ALL: [u32; 4] = [0, 1, 2, 3];

#[test]
fn a_killed_rank_is_named_though_nobody_waits_yet() {
    let mut world = job(4);
    world.comm("c0ffee", "data", &ALL);
    world.kill(2, 0.5);
    nothing(&world.look(1.0));
    let verdict = world.look(2.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::RankDead, Severity::Critical));
    assert_eq!(
        judgement.message,
        "rank 2 (host-0, pid 4002) was killed or has crashed at 14:00:00 UTC; others still use c0ffee (data) with it"
    );
    assert_eq!(judgement.began_at, Some(at(0.5)));
}

#[test]
fn those_who_wait_for_the_dead_are_counted() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &ALL);
    world.enter(comm, [0, 1, 3]);
    world.kill(2, 0.5);
    let verdict = world.until(2);
    assert_eq!(only(&verdict).victims, [0, 1, 3]);
    assert!(only(&verdict).message.ends_with("3 others wait for it in all_reduce #60 of c0ffee (data)"));
}

#[test]
fn a_rank_that_died_inside_the_call_is_waited_for_too() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &ALL);
    world.enter(comm, ALL);
    world.kill(2, 0.5);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::RankDead, Severity::Critical, "killed", vec![2])]);
    assert_eq!(only(&verdict).victims, [0, 1, 3]);
}

#[test]
fn a_host_that_dies_is_one_finding() {
    let mut world = job(16);
    let comm = world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.enter(comm, 0..8);
    for process in 8..16 {
        world.kill(process, 0.1);
    }
    let verdict = world.until(2);
    assert_eq!(only(&verdict).culprits, (8..16).collect::<Vec<_>>());
    assert!(
        only(&verdict).message.contains(" UTC; 7 more processes of host-1 ended too; "),
        "{}",
        only(&verdict).message
    );
}

#[test]
fn exits_one_after_the_other_at_the_end_are_healthy() {
    let mut world = job(4);
    world.comm("c0ffee", "", &ALL);
    for rank in 0..4 {
        let process = world.process(rank);
        process.life = Life::Exited;
        process.ended_at = Some(at(f64::from(rank)));
        nothing(&world.look(f64::from(rank) * 20.0 + 1.0));
    }
}

#[test]
fn a_rank_that_exits_while_others_wait_for_it_is_dead() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.enter(comm, 0..3);
    world.process(3).life = Life::Exited;
    world.process(3).ended_at = Some(at(0.2));
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::RankDead, Severity::Critical, "exited", vec![3])]);
}

#[test]
fn who_is_left_behind_by_an_elastic_restart_is_not_accused() {
    let mut world = job(4);
    let old = world.comm("c0ffee", "", &ALL);
    world.kill(3, 0.0);
    for rank in 0..3 {
        world.end(old, rank, MemberState::Aborted);
    }
    world.comm("beef", "", &[0, 1, 2]);
    nothing(&world.until(5));
}

#[test]
fn a_job_that_is_all_dead_is_no_hang() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.enter(comm, 0..2);
    for rank in ALL {
        world.kill(rank, 0.5);
    }
    nothing(&world.until(5));
}

#[test]
fn a_silent_host_is_lost_where_others_wait_for_it() {
    let mut world = job(16);
    let comm = world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.enter(comm, 0..8);
    world.silent = (8..16).collect();
    let verdict = world.until(20);
    let root = &verdict.judgements[0];
    assert_eq!((root.kind, root.severity), (FindingKind::HostLost, Severity::Critical));
    assert!(root.message.starts_with(
        "host-1 is not heard since 14:00:00 UTC; it has 8 ranks of this job, and 8 others wait"
    ));
    let rest: Vec<_> = verdict.judgements[1..].iter().map(|judgement| judgement.follows_from).collect();
    assert_eq!(rest, [Some(0)]);
}

#[test]
fn an_agent_that_stands_still_kills_nobody() {
    let mut world = job(16);
    let comm = world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.silent = (8..16).collect();
    for second in 1..=30 {
        for rank in 0..8 {
            world.member(comm, rank).last_completed.as_mut().unwrap().completed_at =
                Some(at(f64::from(second) - 0.1));
        }
        nothing(&world.look(f64::from(second)));
    }
    // One that said goodbye neither.
    let mut world = job(16);
    world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.silent = (8..16).collect();
    world.scene.hosts[1].agent_ended = true;
    nothing(&world.until(30));
}

/// Six ranks of which some have called the init.
fn forming(world: &mut World, ranks: &[u32], n_ranks: u32) -> u32 {
    let comm = world.comm("c0ffee", "", ranks);
    world.scene.communicators[comm as usize].n_ranks = n_ranks;
    for (place, rank) in ranks.iter().enumerate() {
        let member = &mut world.scene.communicators[comm as usize].members[place];
        member.rank = *rank;
        member.state = MemberState::Forming;
        member.created_at = at(0.0);
        member.last_completed = None;
        member.calls = None;
        world.open(*rank, "ncclCommInitRank", comm);
    }
    comm
}

#[test]
fn who_has_not_called_init_is_named() {
    let mut world = job(4);
    forming(&mut world, &[0, 1, 3], 4);
    let verdict = world.until(3);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::InitStuck, Severity::Info));
    assert_eq!(
        judgement.message,
        "global rank 2 (host-0, pid 4002) has not called ncclCommInitRank: it is asleep in no call; its last one returned 4.1 \
         s ago; 3 others wait for it in the init of c0ffee since 14:00:00 UTC"
    );
    assert_eq!(world.look(40.0).judgements[0].severity, Severity::Warning);
    assert_eq!(world.look(121.0).judgements[0].severity, Severity::Critical);
}

#[test]
fn a_stopped_rank_in_init_is_sure() {
    let mut world = job(4);
    forming(&mut world, &[0, 1, 3], 4);
    world.stop(2);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::InitStuck, Severity::Critical, "stopped", vec![2])]);
    // The same, when it stopped inside.
    let mut world = job(4);
    forming(&mut world, &ALL, 4);
    world.stop(1);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::InitStuck, Severity::Critical, "stopped", vec![1])]);
}

#[test]
fn ranks_of_an_init_that_nobody_has_seen_are_counted() {
    let mut world = job(3);
    forming(&mut world, &[0, 1, 2], 8);
    let verdict = world.look(40.0);
    assert_eq!(
        only(&verdict).message,
        "ranks 3 to 7 have not called ncclCommInitRank; 3 others wait for them in the init of c0ffee since 14:00:00 UTC"
    );
    assert!(only(&verdict).advice.starts_with("See whether all 8 ranks were started"));
    // A fourth one runs, whichever rank it would be.
    let mut world = job(4);
    for process in 0..4 {
        world.process(process).global_rank = None;
    }
    forming(&mut world, &[0, 1, 2], 8);
    let verdict = world.look(40.0);
    let who = only(&verdict).details.iter().find(|detail| detail.title == "Who is where").unwrap();
    assert!(who.lines[1].starts_with("not in it: pid 4003 on host-0 is asleep in no call"), "{who:?}");
}

#[test]
fn a_launched_rank_that_never_calls_init_is_critical_in_the_end() {
    let mut world = job(4);
    forming(&mut world, &[0, 1, 3], 4);
    let late = world.process(2);
    (late.launched, late.collector, late.segment_version) = (true, Collector::Absent, 0);
    (late.calls_seen, late.last_returned_at) = (false, None);
    let verdict = world.look(40.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.severity, judgement.cause), (Severity::Warning, "never_called"));
    assert_eq!(
        judgement.message,
        "global rank 2 (host-0, pid 4002) has not called ncclCommInitRank, nor anything else of the library; 3 others wait for \
         it in the init of c0ffee since 14:00:00 UTC"
    );
    assert!(judgement.advice.contains("py-spy dump --pid 4002"), "{}", judgement.advice);
    assert_eq!(world.look(121.0).judgements[0].severity, Severity::Critical);
    // One that may call past us proves nothing.
    world.process(2).launched = false;
    let verdict = world.look(122.0);
    assert_eq!((only(&verdict).severity, only(&verdict).cause), (Severity::Warning, "not_watched"));
}

#[test]
fn who_disagrees_on_the_number_of_ranks_is_named() {
    let mut world = job(4);
    let most = forming(&mut world, &[0, 1, 3], 4);
    let odd = forming(&mut world, &[2], 5);
    world.scene.communicators[odd as usize].id = "c0ffe5";
    world.scene.communicators[odd as usize].hash = world.scene.communicators[most as usize].hash;
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::InitStuck, Severity::Critical, "n_ranks_differ", vec![2])]);
    assert!(
        only(&verdict)
            .message
            .starts_with("rank 2 (host-0, pid 4002) called the init of c0ffee with 5 ranks, 3 others with 4"),
        "{}",
        only(&verdict).message
    );
}

#[test]
fn an_init_in_which_all_are_is_not_the_program() {
    let mut world = job(4);
    forming(&mut world, &ALL, 4);
    nothing(&world.until(20));
    let verdict = world.look(31.0);
    assert!(only(&verdict).message.contains("all 4 ranks are in the init of c0ffee since 14:00:00 UTC"));
}

#[test]
fn a_destroy_in_which_all_are_is_told_and_one_that_ends_is_not() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.open(0, "ncclCommDestroy", comm);
    world.open(1, "ncclCommDestroy", comm);
    nothing(&world.until(4));
    let verdict = world.look(31.0);
    assert_eq!(found(&verdict), [(FindingKind::TeardownStuck, Severity::Warning, "all_in", vec![0, 1])]);
    assert_eq!(world.look(121.0).judgements[0].severity, Severity::Critical);
    world.process(0).open_calls = Cow::Borrowed(&[]);
    world.process(1).open_calls = Cow::Borrowed(&[]);
    nothing(&world.look(122.0));
}

#[test]
fn a_destroy_waits_for_who_does_not_come_and_an_abort_for_nobody() {
    let mut world = job(3);
    let comm = world.comm("c0ffee", "", &[0, 1, 2]);
    world.open(0, "ncclCommDestroy", comm);
    world.open(1, "ncclCommDestroy", comm);
    let verdict = world.look(125.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, &judgement.culprits[..]), (FindingKind::TeardownStuck, &[2][..]));
    let mut world = job(3);
    let comm = world.comm("c0ffee", "", &[0, 1, 2]);
    world.open(1, "ncclCommAbort", comm);
    let verdict = world.look(31.0);
    assert_eq!(found(&verdict), [(FindingKind::TeardownStuck, Severity::Warning, "abort", vec![1])]);
}

/// Three ranks wait for one that sleeps until their watchdogs abort, and these aborts do not end.
#[test]
fn who_is_given_up_is_named_and_not_those_who_abort() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.enter(comm, 0..3);
    assert_eq!(only(&world.until(3)).severity, Severity::Info);
    (0..3).for_each(|rank| world.open(rank, "ncclCommAbort", comm));
    let verdict = world.look(12.0);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "asleep", vec![3])]);
    assert!(only(&verdict).message.ends_with("; 3 of them have given up and abort it"));
    // The library takes what was under way as failed.
    for rank in 0..3 {
        world.end(comm, rank, MemberState::Aborted);
        world.member(comm, rank).open = Cow::Borrowed(&[]);
    }
    world.look(13.0);
    let verdict = world.look(14.0);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "given_up", vec![3])]);
    let message = &only(&verdict).message;
    assert!(message.contains(" has not come to call #60 of c0ffee: it is asleep"), "{message}");
    assert!(message.ends_with(" UTC, have given up and abort"), "{message}");
    // The sleeper's own watchdog aborts too.
    world.open(3, "ncclCommAbort", comm);
    let verdict = world.look(40.0);
    assert_eq!((only(&verdict).cause, &only(&verdict).culprits[..]), ("given_up", &[3][..]));
    // Where all have come, nobody is given up.
    world.member(comm, 3).calls = world.member(comm, 0).calls;
    let verdict = world.look(41.0);
    assert!(verdict.judgements.iter().all(|one| one.kind == FindingKind::TeardownStuck), "{verdict:#?}");
}

#[test]
fn the_error_that_is_not_an_echo_is_named() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    for (rank, code) in [(0, 6), (1, 6), (2, 2), (3, 6)] {
        let error = CommError {
            code,
            function: Cow::Borrowed("ncclCommGetAsyncError"),
            at: Some(at(f64::from(rank))),
        };
        world.member(comm, rank).error = Some(error);
    }
    world.member(comm, 2).warnings = vec![Warning { file: "/log", line: 7, text: "connection refused" }];
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::AsyncError, Severity::Critical, "system_error", vec![2])]);
    assert_eq!(only(&verdict).evidence[0].text, "connection refused");
    // In progress is none.
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.member(comm, 0).error = Some(CommError { code: 7, ..CommError::default() });
    nothing(&world.until(3));
}

#[test]
fn a_call_that_was_refused_is_over_once_a_later_one_has_ended() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    let function = Cow::Borrowed("ncclAllReduce");
    world.member(comm, 1).error = Some(CommError { code: 4, function, at: Some(at(0.0)) });
    let refused = |severity| [(FindingKind::AsyncError, severity, "invalid_argument", vec![1])];
    assert_eq!(found(&world.until(2)), refused(Severity::Warning));
    // Nothing has ended for long: it was not handled.
    assert_eq!(found(&world.look(31.0)), refused(Severity::Critical));
    let last = world.member(comm, 1).last_completed.as_mut().unwrap();
    (last.issued_at, last.completed_at) = (at(31.1), Some(at(31.2)));
    nothing(&world.look(32.0));
}

#[test]
fn errors_that_a_death_leaves_follow_from_it() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.enter(comm, ALL);
    world.kill(2, 0.5);
    world.member(comm, 0).error = Some(CommError { code: 6, ..CommError::default() });
    let verdict = world.until(2);
    let kinds: Vec<_> =
        verdict.judgements.iter().map(|judgement| (judgement.kind, judgement.follows_from)).collect();
    assert_eq!(kinds, [(FindingKind::RankDead, None), (FindingKind::AsyncError, Some(0))]);
}

fn kernel(world: &mut World, message: KernelMessage) {
    world.scene.hosts[0].kernel.push(Box::leak(Box::new(message)));
}

#[test]
fn the_kernel_explains_a_death() {
    let mut world = job(4);
    world.comm("c0ffee", "", &ALL);
    world.kill(2, 0.5);
    kernel(
        &mut world,
        KernelMessage {
            kind: KernelMessageKind::OutOfMemory.into(),
            pid: Some(4002),
            at_ns: at(0.4).0,
            text: "Out of memory: Killed process 4002 (python3)".to_owned(),
            ..KernelMessage::default()
        },
    );
    let verdict = world.until(2);
    let kinds: Vec<_> =
        verdict.judgements.iter().map(|judgement| (judgement.kind, judgement.cause)).collect();
    assert_eq!(
        kinds,
        [(FindingKind::KernelFault, "out_of_memory"), (FindingKind::RankDead, "out_of_memory")]
    );
    assert_eq!(verdict.judgements[1].follows_from, Some(0));
    assert!(verdict.judgements[1].message.contains("(Out of memory: Killed process 4002 (python3))"));
}

#[test]
fn an_xid_of_anothers_gpu_explains_no_death() {
    for (gpu, cause) in [("3b:00.0", "xid"), ("5e:00.0", "killed")] {
        let mut world = job(4);
        let comm = world.comm("c0ffee", "", &ALL);
        world.member(comm, 2).gpu = gpu;
        world.member(comm, 3).gpu = "3b:00.0";
        world.kill(2, 0.5);
        let pci = "0000:3b:00.0".to_owned();
        let kind = KernelMessageKind::GpuXid.into();
        kernel(
            &mut world,
            KernelMessage { kind, pci, xid: Some(79), at_ns: at(0.4).0, ..KernelMessage::default() },
        );
        let verdict = world.until(2);
        let death = verdict.judgements.iter().find(|one| one.kind == FindingKind::RankDead).unwrap();
        assert_eq!(death.cause, cause);
    }
}

#[test]
fn an_xid_is_joined_to_the_rank_of_its_gpu() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.member(comm, 3).gpu = "3b:00.0";
    kernel(
        &mut world,
        KernelMessage {
            kind: KernelMessageKind::GpuXid.into(),
            pci: "0000:3B:00.0".to_owned(),
            meaning: "GPU has fallen off the bus (Xid 79)".to_owned(),
            xid: Some(79),
            at_ns: at(0.4).0,
            ..KernelMessage::default()
        },
    );
    let verdict = world.look(1.0);
    assert_eq!(found(&verdict), [(FindingKind::KernelFault, Severity::Critical, "xid", vec![3])]);
    assert_eq!(
        only(&verdict).message,
        "host-0: GPU has fallen off the bus (Xid 79) at 0000:3B:00.0, at 14:00:00 UTC; it hits rank 3 (host-0, pid 4003)"
    );
}

#[test]
fn imported_files_are_judged_at_once() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    for rank in ALL {
        let process = world.process(rank);
        process.life = Life::Imported;
        process.read_at = at(-1e6);
        process.read_at.0 = 0;
        process.heard_at = at(1800.0);
        process.activity = None;
    }
    for rank in 0..3 {
        world.call(comm, rank, all_reduce(60, at(0.0)));
    }
    let verdict = world.look(1800.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::RankMissing, Severity::Critical));
    assert_eq!(judgement.culprits, [3]);
    assert!(!verdict.asks.iter().any(|ask| ask.what == Question::Look), "nobody is there to look");
}
