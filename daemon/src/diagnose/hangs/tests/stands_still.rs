//! All are in, and nothing moves.

use std::borrow::Cow;

use ringscope_wire::batch::Level;

use super::super::Question;
use super::super::scene::Link;
use super::build::{World, all_reduce, at, found, job, nothing, only};
use crate::api::{FindingKind, Severity};

fn stalled() -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 0..4);
    (world, comm)
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
             nothing moves: not the program"
        ),
        "{}",
        judgement.message
    );
    assert!(judgement.message.contains("it is raised now"));
    assert_eq!(judgement.victims.len(), 4);
    assert!(verdict.asks.iter().any(|ask| ask.what == Question::Raise));
}

#[test]
fn the_hop_that_has_carried_least_is_named() {
    let (mut world, comm) = stalled();
    for rank in 0..4 {
        world.process(rank).level = Level::Steps;
        let sent_bytes = [88_900_000, 40_600_000, 38_500_000, 63_700_000][rank as usize];
        let link = Link { peer: (rank + 1) % 4, sent_bytes, sent_steps: 10 };
        world.member(comm, rank).links = Cow::Owned(vec![link]);
    }
    for second in 1..=13 {
        world.look(f64::from(second));
    }
    let verdict = world.look(14.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.cause, &judgement.culprits[..]), ("hop", &[2, 3][..]));
    assert!(
        judgement
            .message
            .starts_with("rank 2 (host-0, pid 4002) to rank 3 (host-0, pid 4003): progress ends on the way"),
        "{}",
        judgement.message
    );
}

#[test]
fn a_slow_transfer_that_moves_is_no_hang() {
    let (mut world, comm) = stalled();
    for second in 1..=30_u32 {
        for rank in 0..4 {
            let link =
                Link { peer: (rank + 1) % 4, sent_bytes: u64::from(second * 1_000 + rank), sent_steps: 10 };
            world.member(comm, rank).links = Cow::Owned(vec![link]);
        }
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
    assert_eq!(found(&verdict), [(FindingKind::DeviceStalled, Severity::Critical, "not_started", vec![1])]);
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
