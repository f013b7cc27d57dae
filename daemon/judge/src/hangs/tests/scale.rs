//! 10 000 ranks: the same answers, and no cost that grows with the square of the ranks (which would not end here). What
//! a look costs is measured elsewhere, for nothing reads a clock in this room.

use std::borrow::Cow;

use super::build::{World, all_reduce, at, job, nothing, only};

/// 10 000 ranks in three dimensions: one communicator of all, 1 250 of eight, and eight of 1 250.
fn large() -> (World, u32) {
    let mut world = job(10_000);
    let all = world.comm("all", "world", &(0..10_000).collect::<Vec<_>>());
    for group in 0..1_250_u32 {
        let id = super::build::leak(format!("t{group}"));
        world.comm(id, "tensor", &(0..8).map(|rank| group * 8 + rank).collect::<Vec<_>>());
    }
    for group in 0..8_u32 {
        let id = super::build::leak(format!("d{group}"));
        world.comm(id, "data", &(0..1_250).map(|rank| rank * 8 + group).collect::<Vec<_>>());
    }
    (world, all)
}

#[test]
fn peace_of_10_000_ranks_is_peace() {
    let (mut world, _) = large();
    world.look(1.0);
    nothing(&world.look(2.0));
}

#[test]
fn one_missing_of_10_000_is_named() {
    let (mut world, all) = large();
    for rank in 0..9_999 {
        let calls: Vec<_> = (60..76).map(|number| all_reduce(number, at(0.0))).collect();
        let member = &mut world.scene.communicators[all as usize].members[rank];
        member.calls.as_mut().unwrap().made = 76;
        member.open = Cow::Owned(calls);
    }
    world.stop(9_999);
    world.look(1.0);
    let verdict = world.look(2.0);
    assert_eq!(only(&verdict).culprits, [9_999]);
    assert_eq!(only(&verdict).victims.len(), 9_999);
}

#[test]
fn half_of_10_000_that_die_at_once_are_told_of_by_host_and_the_rest_is_counted() {
    let (mut world, all) = large();
    for rank in 0..10_000 {
        let member = &mut world.scene.communicators[all as usize].members[rank];
        member.calls.as_mut().unwrap().made = 61;
        member.open = Cow::Owned(vec![all_reduce(60, at(0.0))]);
    }
    (5_000..10_000).for_each(|rank| world.kill(rank, 0.5));
    world.look(1.0);
    let verdict = world.look(2.0);
    assert_eq!(verdict.judgements.len(), 64);
    assert!(verdict.judgements.iter().all(|one| one.culprits.len() == 8 && one.victims.len() == 5_000));
    assert_eq!(verdict.left_out, [("judgement_limit", 625 - 64)]);
}

#[test]
fn ranks_that_stand_at_as_many_numbers_do_not_square_the_cost() {
    let (mut world, all) = large();
    for rank in 1..10_000_usize {
        let number = 60 + rank as u64;
        let member = &mut world.scene.communicators[all as usize].members[rank];
        member.calls.as_mut().unwrap().made = number + 1;
        member.open = Cow::Owned(vec![all_reduce(number, at(0.0))]);
    }
    world.stop(0);
    world.look(1.0);
    let verdict = world.look(2.0);
    assert!(verdict.judgements.iter().any(|one| one.culprits == [0] && one.victims.len() == 9_999));
}
