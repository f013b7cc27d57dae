//! Jobs that are known from files alone.

use ringscope_api::clock::Timestamp;
use ringscope_api::{FindingKind, Severity};

use super::super::scene::{Life, MemberState, NOT_TOLD};
use super::build::{World, all_reduce, at, found, job, nothing, only};

const ALL: [u32; 4] = [0, 1, 2, 3];

/// A job of four of which files tell until 600 s after the start.
fn files() -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "dp", &ALL);
    for rank in ALL {
        let process = world.process(rank);
        process.life = Life::Imported;
        process.read_at = Timestamp(0);
        process.heard_at = at(600.0);
        process.activity = None;
        process.segment_version = 0;
    }
    (world, comm)
}

#[test]
fn who_has_not_come_is_named_with_how_far_apart_the_files_end() {
    let (mut world, comm) = files();
    world.enter(comm, 0..3);
    world.process(3).heard_at = at(590.0);
    let verdict = world.look(600.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::RankMissing, Severity::Critical));
    assert_eq!(
        judgement.message,
        "rank 3 (host-0, pid 4003) has not come; 3 others wait for it in all_reduce #60 of c0ffee (dp) since \
         14:00:00 UTC"
    );
    let files = judgement.details.iter().find(|detail| detail.title == "The files").unwrap();
    assert!(files.lines[0].contains("14:09:50 UTC (rank 3) and 14:10:00 UTC"), "{files:?}");
    assert!(!judgement.advice.contains("py-spy"), "{}", judgement.advice);
}

#[test]
fn a_file_that_ends_before_the_others_wait_accuses_nobody() {
    let (mut world, comm) = files();
    world.enter(comm, 0..3);
    world.process(3).heard_at = at(0.5);
    let verdict = world.look(600.0);
    assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Warning, "earlier", vec![3])]);
    assert!(
        only(&verdict).message.contains("is told of until 14:00:00 UTC only"),
        "{}",
        only(&verdict).message
    );
}

#[test]
fn an_older_file_shows_calls_as_open_that_have_ended_since() {
    let (mut world, comm) = files();
    world.enter(comm, [3]);
    world.process(3).heard_at = at(2.0);
    for rank in 0..3 {
        let mut last = all_reduce(60, at(0.0));
        last.completed_at = Some(at(3.0));
        last.state = super::super::scene::OperationState::Completed;
        world.member(comm, rank).last_completed = Some(last);
        world.member(comm, rank).calls = world.member(comm, rank).calls.map(|mut calls| {
            (calls.made, calls.hash) = (61, 61);
            calls
        });
    }
    nothing(&world.look(600.0));
}

#[test]
fn a_rank_without_a_file_is_not_known() {
    let (mut world, comm) = files();
    world.enter(comm, 0..3);
    world.scene.communicators[comm as usize].members.truncate(3);
    world.scene.processes.truncate(3);
    let verdict = world.look(600.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::Waiting, Severity::Warning));
    assert!(
        judgement.message.starts_with("no file tells of rank 3, so nobody knows"),
        "{}",
        judgement.message
    );
    assert!(judgement.culprits.is_empty());
}

#[test]
fn all_are_in_and_nothing_moves() {
    let (mut world, comm) = files();
    world.enter(comm, ALL);
    let verdict = world.look(600.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::TransferStalled, Severity::Critical));
    assert!(
        judgement.message.starts_with(
            "all 4 ranks are in all_reduce #60 of c0ffee (dp) with the same call since 14:00:00 UTC, and none has completed"
        ),
        "{}",
        judgement.message
    );
    assert!(!judgement.message.contains("level"), "nobody can raise it: {}", judgement.message);
}

#[test]
fn calls_that_have_ended_are_compared_too() {
    let (mut world, comm) = files();
    for rank in ALL {
        let mut call = all_reduce(42, at(-9.0));
        call.state = super::super::scene::OperationState::Completed;
        call.signature.op = None;
        call.signature.count = if rank == 2 { 7 } else { 1024 };
        world.member(comm, rank).known.to_mut().push(call);
    }
    let verdict = world.look(600.0);
    assert_eq!(found(&verdict), [(FindingKind::CallMismatch, Severity::Critical, "count", vec![2])]);
}

#[test]
fn what_dumps_do_not_tell_differs_from_nothing_and_is_not_said() {
    let (mut world, comm) = files();
    for rank in ALL {
        let mut call = all_reduce(60, at(0.0));
        call.signature.primitive = ringscope_wire::Primitive::AllToAll;
        if rank == 1 {
            call.signature.primitive = ringscope_wire::Primitive::AllGather;
        }
        (call.signature.count, call.signature.datatype, call.signature.op) = (0, NOT_TOLD, None);
        world.call(comm, rank, call);
    }
    let verdict = world.look(600.0);
    assert_eq!(
        only(&verdict).message,
        "rank 1 (host-0, pid 4001) called all_gather as #60 of c0ffee (dp), 3 others all_to_all (another primitive); 3 others \
         wait since 14:00:00 UTC"
    );
}

#[test]
fn who_did_not_answer_is_named_as_its_peers_say() {
    let (mut world, comm) = files();
    world.process(2).told_by_peers = "is missing: its peers consider it dead";
    world.member(comm, 2).calls = None;
    let verdict = world.look(600.0);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "unanswered", vec![2])]);
    assert_eq!(
        only(&verdict).message,
        "rank 2 (host-0, pid 4002) is missing: its peers consider it dead; 3 others use c0ffee (dp) with it"
    );
    // Where somebody waits for it that is said instead.
    world.enter(comm, [0, 1, 3]);
    let verdict = world.look(601.0);
    assert_eq!(only(&verdict).culprits, [2]);
    assert_eq!(only(&verdict).severity, Severity::Critical);
    assert!(only(&verdict).message.contains("3 others wait for it"), "{}", only(&verdict).message);
}

#[test]
fn nobody_knows_since_when_so_it_is_a_warning() {
    let (mut world, comm) = files();
    for rank in 0..3 {
        world.call(comm, rank, all_reduce(60, Timestamp(0)));
        world.member(comm, rank).last_completed = None;
    }
    let verdict = world.look(600.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::Waiting, Severity::Warning));
    assert_eq!(judgement.began_at, None);
    assert!(judgement.message.ends_with("in all_reduce #60 of c0ffee (dp)"), "{}", judgement.message);
}

#[test]
fn an_init_without_an_end_may_be_a_cut_log() {
    let (mut world, comm) = files();
    let member = world.member(comm, 1);
    (member.state, member.calls, member.last_completed) = (MemberState::Forming, None, None);
    let verdict = world.look(600.0);
    assert_eq!(found(&verdict), [(FindingKind::InitStuck, Severity::Warning, "no_end", vec![1])]);
    assert_eq!(
        only(&verdict).message,
        "rank 1 (host-0, pid 4001): the init of c0ffee (dp) has no end: it failed, hangs, or the log is cut"
    );
    assert!(only(&verdict).evidence.is_empty());
}
