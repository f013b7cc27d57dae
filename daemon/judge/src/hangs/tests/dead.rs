//! Who was told that a peer is gone is its victim; who was told long before it ended is not.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};

use super::super::scene::{CommError, Life, MemberState};
use super::build::{World, at, found, job, nothing, only};

const ALL: [u32; 4] = [0, 1, 2, 3];

/// The library tells a rank that a peer is gone.
fn tell(world: &mut World, comm: u32, rank: u32, seconds: f64) {
    let function = Cow::Borrowed("ncclCommGetAsyncError");
    world.member(comm, rank).error = Some(CommError { code: 6, function, at: Some(at(seconds)) });
}

fn exit(world: &mut World, process: u32, seconds: f64) {
    world.process(process).life = Life::Exited;
    world.process(process).ended_at = Some(at(seconds));
}

/// Ranks 1 and 2 die. Whether rank 1 was told of rank 2 the caller says.
fn two_dead() -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.enter(comm, [0, 3]);
    world.kill(2, 0.5);
    world.kill(1, 0.7);
    (world, comm)
}

#[test]
fn who_is_told_that_a_peer_is_gone_and_ends_is_its_victim() {
    // Told after it, and a little before its end was seen.
    for told_s in [0.6, -2.0] {
        let (mut world, comm) = two_dead();
        tell(&mut world, comm, 1, told_s);
        let verdict = world.until(2);
        assert_eq!(found(&verdict), [(FindingKind::RankDead, Severity::Critical, "killed", vec![2])]);
    }
}

#[test]
fn what_it_was_told_long_before_excuses_nobody() {
    let (mut world, comm) = two_dead();
    tell(&mut world, comm, 1, -60.0);
    assert_eq!(world.until(2).judgements[0].culprits, [1, 2]);
    let (mut world, _) = two_dead();
    // Just now, but by ranks who are all there.
    let other = world.comm("beef", "", &[0, 1]);
    tell(&mut world, other, 1, 0.6);
    assert_eq!(world.until(2).judgements[0].culprits, [1, 2]);
}

#[test]
fn victims_of_victims_are_victims() {
    let mut world = job(4);
    let one = world.comm("c0ffee", "", &[0, 1, 3]);
    let other = world.comm("beef", "", &[1, 2, 3]);
    world.kill(0, 0.5);
    tell(&mut world, one, 1, 0.6);
    exit(&mut world, 1, 0.8);
    tell(&mut world, other, 1, 0.9);
    world.kill(2, 1.1);
    assert_eq!(found(&world.until(3))[0], (FindingKind::RankDead, Severity::Critical, "killed", vec![0]));
}

#[test]
fn where_each_was_told_of_the_other_both_are_named() {
    let (mut world, comm) = two_dead();
    tell(&mut world, comm, 1, 0.5);
    tell(&mut world, comm, 2, 0.4);
    assert_eq!(only(&world.until(2)).culprits, [1, 2]);
}

#[test]
fn whoever_is_told_of_an_abort_is_not_the_one_to_blame() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    world.enter(comm, [0]);
    world.end(comm, 3, MemberState::Aborted);
    for rank in [1, 2] {
        tell(&mut world, comm, rank, 0.1);
        world.kill(rank, 0.3);
    }
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "aborted", vec![3])]);
}

#[test]
fn one_that_exits_quietly_is_named_where_all_others_were_told() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &ALL);
    exit(&mut world, 3, 0.0);
    nothing(&world.until(2));
    for rank in [1, 2] {
        tell(&mut world, comm, rank, 2.0);
        world.kill(rank, 2.2);
    }
    world.look(3.0);
    assert_eq!(found(&world.look(4.0)), [(FindingKind::RankDead, Severity::Critical, "exited", vec![3])]);
}

#[test]
fn who_is_killed_after_a_host_was_lost_is_not_accused() {
    let mut world = job(16);
    world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.silent = (8..16).collect();
    nothing(&world.until(10));
    for process in 0..8 {
        world.kill(process, 10.5);
    }
    nothing(&world.look(11.0));
    nothing(&world.look(12.0));
    let verdict = world.look(20.0);
    let expected = (FindingKind::HostLost, Severity::Warning, "unheard", (8..16).collect::<Vec<_>>());
    assert_eq!(found(&verdict), [expected], "those who are not heard use nothing");
    // Where some are left who wait, the lost host is the cause.
    let mut world = job(16);
    let comm = world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.enter(comm, 0..8);
    world.silent = (8..16).collect();
    world.kill(3, 2.0);
    let verdict = world.until(20);
    let told: Vec<_> = verdict.judgements.iter().map(|one| (one.kind, one.follows_from)).collect();
    assert_eq!(told[0], (FindingKind::HostLost, None), "{told:?}");
    assert!(told.contains(&(FindingKind::RankDead, Some(0))), "{told:?}");
}

#[test]
fn survivors_who_go_on_without_the_dead_end_the_finding() {
    let mut world = job(4);
    world.comm("c0ffee", "", &ALL);
    world.kill(2, 0.5);
    only(&world.until(2));
    // They make another one, and keep the old one.
    let comm = world.comm("beef", "", &[0, 1, 3]);
    for rank in 0..3 {
        world.member(comm, rank).created_at = at(3.0);
        world.member(comm, rank).last_completed = None;
    }
    only(&world.look(4.0));
    for rank in 0..3 {
        world.member(comm, rank).last_completed = world.member(0, 0).last_completed;
        let verdict = world.look(f64::from(rank) + 5.0);
        assert_eq!(verdict.judgements.len(), usize::from(rank < 2), "rank {rank}");
    }
    world.enter(0, [1]);
    world.look(8.0);
    let told = world.look(9.0).judgements;
    assert!(
        told.iter().any(|one| one.kind == FindingKind::RankDead),
        "who calls in the old one needs the dead"
    );
}
