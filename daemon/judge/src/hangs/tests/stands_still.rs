//! All are in, and none completes it.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::Primitive;
use ringscope_wire::batch::Level;

use super::super::scene::{Calls, Link, Member, Pair};
use super::super::{Judge, Verdict};
use super::build::{World, all_reduce, at, found, job, nothing, only, transfer};

fn stalled() -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 0..4);
    for rank in 0..4 {
        let call = &mut world.member(comm, rank).open.to_mut()[0];
        (call.start_known, call.started_at) = (true, Some(at(0.01)));
    }
    (world, comm)
}

#[test]
fn calls_that_may_not_have_started_are_critical_late() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 0..4);
    let stands = |verdict: &Verdict| (only(verdict).kind, only(verdict).severity);
    nothing(&world.until(9));
    assert_eq!(stands(&world.until(11)), (FindingKind::TransferStalled, Severity::Info));
    assert_eq!(stands(&world.look(59.0)), (FindingKind::TransferStalled, Severity::Info));
    assert_eq!(stands(&world.look(61.0)), (FindingKind::TransferStalled, Severity::Critical));
    // It is known of all that their GPUs are at something else.
    for rank in 0..4 {
        world.member(comm, rank).open.to_mut()[0].start_known = true;
    }
    world.judge = Judge::default();
    assert_eq!(stands(&world.until(11)), (FindingKind::DeviceStalled, Severity::Info));
    assert_eq!(stands(&world.look(61.0)), (FindingKind::DeviceStalled, Severity::Critical));
}

#[test]
fn a_call_that_may_be_over_is_not_known_to_stand_still() {
    let stands = |ends_by_order: bool| {
        let mut world = job(4);
        let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
        world.enter(comm, 0..4);
        (0..4).for_each(|rank| world.member(comm, rank).open.to_mut()[0].ends_by_order = ends_by_order);
        // Two are through.
        for rank in 0..2 {
            world.member(comm, rank).open = Cow::Borrowed(&[]);
            world.member(comm, rank).last_completed.as_mut().unwrap().number = Some(60);
        }
        let mut seen = Vec::new();
        for second in [11, 59, 61] {
            let verdict = world.until(second);
            let judgement = only(&verdict);
            assert_eq!((judgement.kind, judgement.culprits.len()), (FindingKind::TransferStalled, 0));
            seen.push(judgement.severity);
        }
        seen
    };
    assert_eq!(stands(false), [Severity::Critical; 3]);
    assert_eq!(stands(true), [Severity::Warning, Severity::Warning, Severity::Critical]);
}

#[test]
fn who_has_sent_is_not_to_blame_for_what_does_not_come() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.call(comm, 1, transfer(Primitive::Recv, 0, at(0.0)));
    // Before the calls by peer are told it looks as if the sender had not come.
    assert_eq!(only(&world.until(3)).culprits, [0]);
    let pair = |is_send, peer| Pair { is_send, peer, calls: 4, bytes: 1_024, hash: 7 };
    world.member(comm, 0).pairs = Cow::Owned(vec![pair(true, 1)]);
    world.member(comm, 1).pairs = Cow::Owned(vec![pair(false, 0)]);
    nothing(&world.look(4.0));
    // The sender may well be in the next call: that is no circle.
    world.call(comm, 0, all_reduce(60, at(3.0)));
    world.look(11.0);
    let verdict = world.look(12.0);
    assert_eq!(
        found(&verdict),
        [(FindingKind::TransferStalled, Severity::Critical, "nothing_moves", vec![])]
    );
    assert_eq!(
        only(&verdict).message,
        "rank 1 is in the transfer from rank 0 to rank 1 of c0ffee since 14:00:00 UTC, and 1 other rank has completed it"
    );
    assert_eq!(only(&verdict).victims, [0, 1]);
}

#[test]
fn calls_that_wait_in_a_queue_do_not_count_as_slow() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    // One ends in each second, and was enqueued half a minute before.
    for step in 0..20_u32 {
        for rank in 0..4 {
            let last = world.member(comm, rank).last_completed.as_mut().unwrap();
            last.issued_at = at(f64::from(step) - 30.0);
            last.completed_at = Some(at(f64::from(step)));
        }
        nothing(&world.look(f64::from(step)));
    }
    for rank in 0..4 {
        let mut call = all_reduce(60, at(20.0));
        (call.start_known, call.started_at) = (true, Some(at(20.0)));
        world.call(comm, rank, call);
    }
    world.look(40.0);
    assert_eq!(only(&world.look(41.0)).severity, Severity::Critical);
}

#[test]
fn who_has_no_connection_is_to_blame_for_what_does_not_move() {
    let (mut world, _) = stalled();
    world.process(3).failed_connection = "make a queue pair: no room";
    world.look(10.0);
    let verdict = world.look(11.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.cause, &judgement.culprits[..]), ("failed_connection", &[3][..]));
    assert_eq!((judgement.accused[0].pid, &judgement.victims[..]), (Some(4003), &[0, 1, 2][..]));
    let expected = "rank 3 (host-0, pid 4003) has an RDMA connection that failed: make a queue pair: no room; all 4 ranks are in \
                    all_reduce #60 of c0ffee (data) with the same call since 14:00:00 UTC, and none has completed it";
    assert_eq!(judgement.message, expected);
    // Two of them.
    let (mut world, _) = stalled();
    for rank in [1, 3] {
        world.process(rank).failed_connection = "make a queue pair: no room";
    }
    world.look(10.0);
    let verdict = world.look(11.0);
    let found = only(&verdict);
    assert!(found.message.contains("no room, and so has 1 other rank; all 4"), "{}", found.message);
}

#[test]
fn an_honest_negative_is_told_and_the_level_is_raised() {
    let (mut world, _) = stalled();
    nothing(&world.until(9));
    world.look(10.0);
    let verdict = world.look(11.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::TransferStalled, Severity::Critical));
    assert!(
        judgement.message.starts_with(
            "all 4 ranks are in all_reduce #60 of c0ffee (data) with the same call since 14:00:00 UTC, and \
             none has completed it"
        ),
        "{}",
        judgement.message
    );
    assert!(judgement.message.ends_with("at which hop is not known, for the level is below `steps`"));
    assert_eq!(judgement.victims.len(), 4);
    assert!(verdict.raise);
    let level = judgement.details.iter().find(|detail| detail.title == "Level").unwrap();
    assert!(level.lines[0].contains("Of this call nothing more is told"), "{}", level.lines[0]);
    // It falls back when the call has ended.
    (0..4).for_each(|rank| world.member(0, rank).open = Cow::Borrowed(&[]));
    assert!(!world.look(12.0).raise);
}

/// What rank 0 to 3 have sent to the next one so far.
fn send(world: &mut World, comm: u32, sent: [u64; 4]) {
    for (rank, bytes) in (0_u32..).zip(sent) {
        let link = Link { peer: (rank + 1) % 4, sent_bytes: bytes, sent_in_calls: bytes };
        world.member(comm, rank).links = Cow::Owned(vec![link]);
    }
}

/// Four ranks at the level `steps`, out of calls after 50 and after 60 calls of 4 MB; their collectors were asked for the
/// network's steps one after the other.
fn at_steps() -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    (0..4).for_each(|rank| world.process(rank).level = Level::Steps);
    let made = |member: &mut Member<'_>, made| member.calls = Some(Calls { made, hash: made });
    for (calls, second, bytes) in [(50, -2.0, 0), (60, -1.0, 40_000_000)] {
        (0..4).for_each(|rank| made(world.member(comm, rank), calls));
        send(&mut world, comm, [100, 99, 90, 10].map(|before| before * 4_000_000 + bytes));
        nothing(&world.look(second));
    }
    (world, comm)
}

#[test]
fn the_hop_that_has_carried_least_of_the_call_is_named() {
    let (mut world, comm) = at_steps();
    world.enter(comm, 0..4);
    // Rank 3 has sent least of all time, for it was asked last; of this call rank 2 has.
    send(&mut world, comm, [442_900_000, 437_200_000, 401_100_000, 82_800_000]);
    let verdict = world.until(14);
    let judgement = only(&verdict);
    assert_eq!((judgement.cause, &judgement.culprits[..]), ("hop", &[2, 3][..]));
    assert!(
        judgement
            .message
            .starts_with("rank 2 (host-0, pid 4002) to rank 3 (host-0, pid 4003): progress ends on the way"),
        "{}",
        judgement.message
    );
    let sent =
        judgement.details.iter().find(|detail| detail.title.starts_with("Sent since all ranks")).unwrap();
    assert!(sent.lines[0].starts_with("rank 2 to rank 3: 1."), "{}", sent.lines[0]);
    assert!(!verdict.raise);
}

#[test]
fn a_hop_is_not_named_where_what_was_sent_before_cannot_be_told_apart() {
    // Nobody has seen the ranks out of calls.
    let (mut world, comm) = stalled();
    (0..4).for_each(|rank| world.process(rank).level = Level::Steps);
    send(&mut world, comm, [88_900_000, 40_600_000, 38_500_000, 63_700_000]);
    let verdict = world.until(14);
    assert_eq!((only(&verdict).cause, &only(&verdict).culprits[..]), ("nothing_moves", &[][..]));
    assert!(only(&verdict).message.contains("cannot be told from what it had sent before"));
    // The hops of a tree carry unlike in every call.
    let (mut world, comm) = at_steps();
    send(&mut world, comm, [500_000_000, 500_000_000, 500_000_000, 80_000_100]);
    (0..4).for_each(|rank| world.member(comm, rank).calls = Some(Calls { made: 61, hash: 61 }));
    nothing(&world.look(0.0));
    (0..4).for_each(|rank| world.call(comm, rank, all_reduce(61, at(0.0))));
    assert_eq!(only(&world.until(14)).cause, "nothing_moves");
}

#[test]
fn a_transfer_has_one_hop() {
    let (mut world, comm) = at_steps();
    world.call(comm, 0, transfer(Primitive::Send, 1, at(0.0)));
    world.call(comm, 1, transfer(Primitive::Recv, 0, at(0.0)));
    send(&mut world, comm, [442_900_000, 437_200_000, 401_100_000, 82_800_000]);
    let verdict = world.until(14);
    assert_eq!((only(&verdict).cause, &only(&verdict).victims[..]), ("nothing_moves", &[0, 1][..]));
    assert!(only(&verdict).message.ends_with("and none has completed it"), "{}", only(&verdict).message);
}

#[test]
fn a_slow_transfer_that_moves_is_no_hang() {
    let (mut world, comm) = stalled();
    for second in 1..=30_u32 {
        send(&mut world, comm, [0, 1, 2, 3].map(|rank| u64::from(second * 1_000) + rank));
        nothing(&world.look(f64::from(second)));
    }
}

#[test]
fn who_has_not_started_is_named() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    for rank in 0..4 {
        let mut call = all_reduce(60, at(0.0));
        call.start_known = true;
        call.started_at = (rank != 1).then(|| at(0.01));
        world.call(comm, rank, call);
    }
    world.until(10);
    let verdict = world.look(11.0);
    assert_eq!(found(&verdict), [(FindingKind::DeviceStalled, Severity::Warning, "not_started", vec![1])]);
    assert_eq!(only(&world.look(61.0)).severity, Severity::Critical);
    assert!(only(&verdict).message.contains("its GPU is busy with something else"));
}

#[test]
fn who_behind_another_call_of_its_stream_has_not_started_is_no_device_fault() {
    let mut world = job(4);
    let pair = world.comm("beef", "", &[2, 3]);
    let all = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    // Rank 2 waits for rank 3 in the pair; its call for all is behind that.
    world.call(pair, 0, all_reduce(60, at(0.0)));
    for rank in 0..4 {
        let mut call = all_reduce(60, at(0.1));
        call.start_known = true;
        call.started_at = (rank != 2).then(|| at(0.2));
        world.call(all, rank, call);
    }
    world.member(all, 3).open = Cow::Borrowed(&[]);
    world.member(all, 3).calls.as_mut().unwrap().made = 60;
    let verdict = world.until(3);
    assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Info, "asleep", vec![3])]);
    assert_eq!(only(&verdict).victims, [0, 1, 2]);
}

#[test]
fn calls_of_which_no_end_is_told_do_not_hang() {
    let (mut world, comm) = stalled();
    for rank in 0..4 {
        world.member(comm, rank).completion_known = false;
    }
    let verdict = world.look(1000.0);
    nothing(&verdict);
}
