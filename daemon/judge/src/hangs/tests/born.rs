//! Communicators that are made of others, and windows: calls that all ranks of a communicator have to make.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};

use super::super::scene::{Forming, MemberState};
use super::build::{World, all_reduce, at, found, job, nothing, only};

const ALL: [u32; 4] = [0, 1, 2, 3];

/// Four ranks in one communicator.
fn in_one() -> (World, u32) {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "world", &ALL);
    (world, comm)
}

/// Lets processes split or shrink a communicator. `n_ranks`: of the one that it makes, as far as the call says it.
fn split(world: &mut World, function: &'static str, parent: u32, processes: &[u32], n_ranks: Option<u32>) {
    for process in processes {
        let function = Cow::Borrowed(function);
        let forming = Forming { function, parent: Some(parent), rank: None, n_ranks, since: at(0.0) };
        world.process(*process).forming.to_mut().push(forming);
    }
}

#[test]
fn who_has_not_come_to_a_split_is_named() {
    let (mut world, parent) = in_one();
    split(&mut world, "ncclCommSplit", parent, &[0, 1, 3], None);
    let verdict = world.until(3);
    assert_eq!(found(&verdict), [(FindingKind::InitStuck, Severity::Info, "asleep", vec![2])]);
    assert!(
        only(&verdict)
            .message
            .ends_with("3 others wait for it in the split of c0ffee (world) since 14:00:00 UTC"),
        "{}",
        only(&verdict).message
    );
    assert_eq!(world.look(40.0).judgements[0].severity, Severity::Warning);
    assert_eq!(world.look(121.0).judgements[0].severity, Severity::Critical);
}

#[test]
fn who_has_come_out_of_a_split_is_not_waited_for() {
    let (mut world, parent) = in_one();
    split(&mut world, "ncclCommSplit", parent, &[2, 3], None);
    let child = world.comm("beef", "", &[0, 1]);
    world.scene.communicators[child as usize].parent_hash =
        Some(world.scene.communicators[parent as usize].hash);
    for rank in 0..2 {
        world.member(child, rank).created_at = at(0.1);
    }
    nothing(&world.until(20));
    let verdict = world.look(31.0);
    let message = &only(&verdict).message;
    assert!(message.starts_with("2 of 4 ranks are in the split of c0ffee (world) since"), "{message}");
    // A child of an earlier split says nothing of this one.
    for rank in 0..2 {
        world.member(child, rank).created_at = at(-60.0);
    }
    assert_eq!(only(&world.look(32.0)).culprits, [0, 1]);
}

#[test]
fn who_may_have_come_out_of_a_split_is_neither_accused_nor_in_a_circle() {
    let (mut world, parent) = in_one();
    split(&mut world, "ncclCommSplit", parent, &[2, 3], None);
    // Rank 0 came first and has its part, rank 1 gets none: both are out, and in the next call.
    let child = world.comm("beef", "", &[0]);
    world.scene.communicators[child as usize].parent_hash =
        Some(world.scene.communicators[parent as usize].hash);
    world.member(child, 0).created_at = at(-0.5);
    for rank in 0..2 {
        world.process(rank).last_returned_at = Some(at(0.1));
        world.call(parent, rank, all_reduce(60, at(0.05)));
    }
    nothing(&world.until(20));
    assert_eq!(found(&world.look(31.0)), [(FindingKind::InitStuck, Severity::Warning, "all_in", vec![])]);
}

#[test]
fn a_shrink_does_not_wait_for_those_whom_it_leaves_out() {
    let (mut world, parent) = in_one();
    split(&mut world, "ncclCommShrink", parent, &[0, 1, 2], Some(3));
    nothing(&world.until(20));
    // One of those who stay has not come, and who is left out is gone.
    let (mut world, parent) = in_one();
    split(&mut world, "ncclCommShrink", parent, &[0, 1], Some(3));
    world.kill(3, -60.0);
    world.end(parent, 3, MemberState::Aborted);
    let verdict = world.until(3);
    assert_eq!(found(&verdict), [(FindingKind::InitStuck, Severity::Info, "asleep", vec![2])]);
}

#[test]
fn a_window_waits_for_who_does_not_register_it() {
    let (mut world, comm) = in_one();
    for process in 0..3 {
        world.open(process, "ncclCommWindowRegister", comm);
    }
    let verdict = world.until(3);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Info, "asleep", vec![3])]);
    assert!(only(&verdict).message.contains("in the registration of a window of c0ffee (world)"));
    assert_eq!(world.look(121.0).judgements[0].severity, Severity::Critical);
    world.open(3, "ncclCommWindowRegister", comm);
    let verdict = world.look(122.0);
    assert!(
        only(&verdict)
            .message
            .starts_with("all 4 ranks are in the registration of a window of c0ffee (world)")
    );
}
