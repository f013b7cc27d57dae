//! Hosts whose clocks differ by more than anything that is judged takes.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::batch::{Look, Thread};

use super::super::scene::{CommError, Signature};
use super::build::{World, all_reduce, at, found, job, only};

/// Two hosts of which the second one's clock is a hundred seconds ahead.
fn two_hosts() -> World {
    let mut world = job(16);
    world.ahead.insert(1, 100);
    world
}

#[test]
fn a_circle_began_when_the_last_of_it_came() {
    let mut world = two_hosts();
    let one = world.comm("one", "", &[0, 8]);
    let other = world.comm("other", "", &[0, 8]);
    // Rank 1's host says that it called at 98.5 s, which was a second and a half before the start.
    for (comm, rank, seconds) in [(one, 0, 0.0), (other, 0, 0.2), (other, 1, 98.5), (one, 1, 98.6)] {
        world.call(comm, rank, all_reduce(60, at(seconds)));
    }
    let verdict = world.until(3);
    assert_eq!((only(&verdict).kind, only(&verdict).began_at), (FindingKind::OrderDeadlock, Some(at(0.0))));
}

#[test]
fn the_first_call_that_differs_began_when_the_first_rank_made_it() {
    let mut world = two_hosts();
    let comm = world.comm("c0ffee", "", &[0, 1, 8]);
    for (rank, seconds) in [(0, 0.0), (1, 0.1), (2, 99.0)] {
        let mut call = all_reduce(60, at(seconds));
        call.signature = Signature { count: if rank == 1 { 7 } else { 8 }, ..call.signature };
        world.call(comm, rank, call);
    }
    let verdict = world.until(3);
    assert_eq!((only(&verdict).cause, only(&verdict).began_at), ("count", Some(at(-1.0))));
}

#[test]
fn what_a_host_tells_is_said_by_our_clock() {
    let mut world = two_hosts();
    let comm = world.comm("c0ffee", "", &[0, 8]);
    let error = CommError { code: 2, function: Cow::Borrowed(""), at: Some(at(107.0)) };
    world.member(comm, 1).error = Some(error);
    let verdict = world.until(8);
    assert!(only(&verdict).message.contains(" at 14:00:07 UTC"), "{}", only(&verdict).message);
    let mut world = two_hosts();
    world.comm("c0ffee", "", &[0, 8]);
    world.kill(8, 100.5);
    let verdict = world.until(3);
    assert!(only(&verdict).message.contains(" at 14:00:00 UTC"), "{}", only(&verdict).message);
    assert_eq!(only(&verdict).began_at, Some(at(0.5)));
}

#[test]
fn what_was_seen_of_a_rank_is_of_this_wait_whatever_its_clock_says() {
    for (host, seen_at, is_told) in
        [(0_u32, 3.0, true), (0, -60.0, false), (1, 103.0, true), (1, 60.0, false)]
    {
        let mut world = two_hosts();
        let comm = world.comm("c0ffee", "", &[0, 8]);
        let waits = u32::from(host == 0);
        let since = if waits == 1 { 100.0 } else { 0.0 };
        world.call(comm, waits, all_reduce(60, at(since)));
        let thread =
            Thread { name: "main".to_owned(), python: vec!["train.py:7 f".to_owned()], ..Thread::default() };
        let look = Look { at_ns: at(seen_at).0, threads: vec![thread], ..Look::default() };
        world.process(host * 8).look = Some(Box::leak(Box::new(look)));
        let verdict = world.until(4);
        assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Info, "asleep", vec![host * 8])]);
        assert_eq!(only(&verdict).message.contains("train.py:7"), is_told, "{}", only(&verdict).message);
    }
}
