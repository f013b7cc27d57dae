//! Ranks that call something else than the others.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::Primitive;

use super::super::Question;
use super::super::scene::{Calls, Operation, Signature};
use super::build::{World, all_reduce, at, found, job, nothing, only};

fn world(n: u32) -> (World, u32) {
    let mut world = job(n);
    let comm = world.comm("c0ffee", "data", &(0..n).collect::<Vec<_>>());
    (world, comm)
}

#[test]
fn the_one_that_differs_is_named_and_how() {
    type Change = fn(&mut Signature);
    let changes: [(&str, Change); 5] = [
        ("primitive", |signature| signature.primitive = Primitive::AllGather),
        ("count", |signature| signature.count = 1025),
        ("datatype", |signature| signature.datatype = 6),
        ("op", |signature| signature.op = Some(2)),
        ("root", |signature| signature.peer = Some(3)),
    ];
    for (cause, change) in changes {
        let (mut world, comm) = world(8);
        for rank in 0..8 {
            let mut call = all_reduce(60, at(0.0));
            if rank == 3 {
                change(&mut call.signature);
            }
            world.call(comm, rank, call);
            world.member(comm, rank).calls = Some(Calls { made: 61, hash: if rank == 3 { 1 } else { 2 } });
        }
        nothing(&world.look(1.0));
        let verdict = world.look(2.0);
        assert_eq!(found(&verdict), [(FindingKind::CallMismatch, Severity::Critical, cause, vec![3])]);
        assert_eq!(only(&verdict).victims, [0, 1, 2, 4, 5, 6, 7]);
    }
}

#[test]
fn the_message_has_both_calls() {
    let (mut world, comm) = world(8);
    for rank in 0..8 {
        let mut call = all_reduce(60, at(0.0));
        call.signature.count = if rank == 3 { 1025 } else { 262_144 };
        world.call(comm, rank, call);
    }
    let verdict = world.until(2);
    assert_eq!(
        only(&verdict).message,
        "rank 3 (host-0, pid 4003) called all_reduce of 1025 float32 (sum) as #60 of c0ffee (data), 7 others all_reduce of \
         262144 float32 (sum) (another count); 7 others wait since 14:00:00 UTC"
    );
    let titles: Vec<_> = only(&verdict).details.iter().map(|detail| detail.title.as_str()).collect();
    assert_eq!(titles, ["Call #60", "Last calls of rank 3", "Last calls of rank 0"]);
}

#[test]
fn the_first_call_that_differs_counts_and_what_comes_after_follows() {
    let (mut world, comm) = world(4);
    for rank in 0..4 {
        let mut odd = all_reduce(60, at(0.0));
        if rank == 2 {
            odd.signature.primitive = Primitive::Broadcast;
        }
        world.call(comm, rank, odd);
        if rank != 2 {
            world.call(comm, rank, all_reduce(61, at(0.1)));
        }
    }
    let verdict = world.until(3);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.cause), (FindingKind::CallMismatch, "primitive"));
    assert!(judgement.message.contains("as #60 of"));
}

#[test]
fn a_missing_rank_beside_a_mismatch_is_named_too() {
    let (mut world, comm) = world(8);
    for rank in 0..7 {
        let mut call = all_reduce(60, at(0.0));
        if rank == 2 {
            call.signature.count = 7;
        }
        world.call(comm, rank, call);
    }
    world.stop(7);
    let verdict = world.until(2);
    let kinds: Vec<_> =
        verdict.judgements.iter().map(|judgement| (judgement.kind, judgement.culprits[0])).collect();
    assert_eq!(kinds, [(FindingKind::CallMismatch, 2), (FindingKind::RankMissing, 7)]);
}

#[test]
fn within_a_group_the_order_means_nothing() {
    let (mut world, comm) = world(2);
    for rank in 0..2 {
        for at_number in 0..2 {
            let mut call = Operation { group: 5, ..all_reduce(60 + at_number, at(0.0)) };
            call.signature.count = if u64::from(rank) == at_number { 100 } else { 200 };
            world.call(comm, rank, call);
        }
        // Hashes do not depend on the order either.
        world.member(comm, rank).calls = Some(Calls { made: 62, hash: 5 });
    }
    nothing(&world.until(4));
    // The same of a group of which only the last call is known.
    for rank in 0..2 {
        world.member(comm, rank).open.to_mut().remove(0);
    }
    nothing(&world.until(6));
    // On its own it differs.
    (0..2).for_each(|rank| world.member(comm, rank).open.to_mut()[0].group = 0);
    assert_eq!(only(&world.until(8)).cause, "count");
}

#[test]
fn a_difference_is_seen_while_nothing_hangs_and_asked_about() {
    let (mut world, comm) = world(4);
    for rank in 0..4 {
        world.mark(comm, rank, 64, 10);
        world.mark(comm, rank, 128, if rank == 1 { 11 } else { 12 });
    }
    nothing(&world.look(1.0));
    let verdict = world.look(2.0);
    assert_eq!(found(&verdict), [(FindingKind::CallMismatch, Severity::Critical, "hash", vec![1])]);
    assert!(only(&verdict).message.contains("made other calls than 3 others between #64 and #127"));
    let (mut again, _) = super::other_calls::world(4);
    for rank in 0..4 {
        again.mark(comm, rank, 64, 10);
        again.mark(comm, rank, 128, if rank == 1 { 11 } else { 12 });
    }
    again.look(1.0);
    let recall = Question::Recall { communicator: comm, first: 64, last: 127 };
    let asked: Vec<u32> =
        verdict.asks.iter().filter(|ask| ask.what == recall).map(|ask| ask.process).collect();
    assert!(asked.is_empty() || asked == [0, 1] || asked == [1, 0]);
    // Once it is told, the call is shown.
    for rank in 0..4 {
        let mut call = all_reduce(100, at(-1.0));
        call.signature.count = if rank == 1 { 5 } else { 6 };
        call.completed_at = Some(at(-0.9));
        world.member(comm, rank).known = Cow::Owned(vec![call]);
    }
    let verdict = world.look(3.0);
    assert_eq!((only(&verdict).cause, only(&verdict).key.as_str()), ("count", "calls"));
    assert!(only(&verdict).message.contains("as #100 of"));
}

#[test]
fn ranks_that_go_on_are_compared_where_all_have_passed() {
    let (mut world, comm) = world(4);
    for rank in 0..4 {
        world.mark(comm, rank, 64, if rank == 1 { 11 } else { 10 });
        // Each has been read after another number of calls, and none stands still.
        let made = 70 + u64::from(rank);
        world.member(comm, rank).calls = Some(Calls { made, hash: 100 + made });
    }
    nothing(&world.look(1.0));
    let verdict = world.look(2.0);
    assert_eq!(found(&verdict), [(FindingKind::CallMismatch, Severity::Critical, "hash", vec![1])]);
    assert!(only(&verdict).message.contains("between #0 and #63"), "{}", only(&verdict).message);
}

#[test]
fn who_does_not_get_out_of_a_call_that_others_have_behind_them_is_asked_what_it_called_before() {
    let (mut world, comm) = world(8);
    // A broadcast from another root has ended for all; the next call only for the others, who are two further.
    world.call(comm, 3, all_reduce(61, at(0.0)));
    for rank in [0, 1, 2, 4, 5, 6, 7] {
        world.call(comm, rank, all_reduce(63, at(0.0)));
    }
    let recall = Question::Recall { communicator: comm, first: 0, last: 61 };
    let asked = world.look(1.5).asks;
    let asked: Vec<u32> = asked.iter().filter(|ask| ask.what == recall).map(|ask| ask.process).collect();
    assert_eq!(asked, [3, 0, 1, 2, 4, 5]);
    // Without an answer it is said as it is.
    world.look(11.0);
    let verdict = world.look(12.0);
    assert!(
        only(&verdict).message.starts_with(
            "rank 3 is in all_reduce #61 of c0ffee (data) since 14:00:00 UTC, and 7 other ranks have completed it"
        ),
        "{}",
        only(&verdict).message
    );
    for rank in asked {
        let mut call = all_reduce(60, at(-0.1));
        call.signature.primitive = Primitive::Broadcast;
        call.signature.peer = Some(u32::from(rank == 3));
        call.state = super::super::scene::OperationState::Completed;
        world.member(comm, rank).known = Cow::Owned(vec![call]);
    }
    world.look(13.0);
    let verdict = world.look(14.0);
    assert_eq!(found(&verdict), [(FindingKind::CallMismatch, Severity::Critical, "root", vec![3])]);
    assert_eq!(only(&verdict).victims.len(), 7);
}

#[test]
fn of_two_that_differ_nobody_is_odd_before_the_others_have_told() {
    let (mut world, comm) = world(4);
    world.mark(comm, 0, 64, 11);
    world.mark(comm, 2, 64, 10);
    nothing(&world.until(3));
    for rank in [1, 3] {
        world.mark(comm, rank, 64, 10);
    }
    world.look(4.0);
    let verdict = world.look(5.0);
    assert_eq!(only(&verdict).culprits, [0]);
    // In two there are no others.
    let mut pair = job(2);
    let comm = pair.comm("beef", "", &[0, 1]);
    for rank in 0..2 {
        pair.mark(comm, rank, 64, u64::from(rank));
    }
    assert_eq!(only(&pair.until(2)).kind, FindingKind::CallMismatch);
}

#[test]
fn who_made_the_call_too_is_asked_before_two_are_accused_of_one_mistake() {
    for is_answered in [true, false] {
        let (mut world, comm) = world(4);
        for rank in 0..2 {
            let mut call = all_reduce(60, at(0.0));
            call.signature.peer = Some(rank);
            world.call(comm, rank, call);
        }
        for rank in 0..4 {
            world.member(comm, rank).calls = Some(Calls { made: 61, hash: 0 });
            world.process(rank).open_calls = Cow::Borrowed(&[]);
        }
        let looks = [world.look(1.0), world.look(1.5)];
        looks.iter().for_each(nothing);
        let what = Question::Recall { communicator: comm, first: 60, last: 60 };
        let asks = looks.iter().flat_map(|look| &look.asks).filter(|ask| ask.what == what);
        assert_eq!(asks.map(|ask| ask.process).collect::<Vec<_>>(), [2, 3]);
        if is_answered {
            let mut call = all_reduce(60, at(0.0));
            call.signature.peer = Some(0);
            world.member(comm, 2).known = Cow::Owned(vec![call]);
        }
        let culprits = if is_answered { vec![1] } else { vec![0, 1] };
        world.look(4.0);
        assert_eq!(only(&world.look(5.0)).culprits, culprits, "{is_answered}");
    }
}

#[test]
fn ranks_that_are_at_other_numbers_do_not_differ() {
    let (mut world, comm) = world(4);
    for rank in 0..4 {
        for mark in 1..=u64::from(rank) + 1 {
            world.mark(comm, rank, mark * 64, mark);
        }
    }
    nothing(&world.until(3));
}

#[test]
fn a_reduction_that_one_does_not_tell_is_no_difference() {
    let (mut world, comm) = world(4);
    for rank in 0..4 {
        let mut call = all_reduce(60, at(0.0));
        if rank == 1 {
            call.signature.op = None;
        }
        world.call(comm, rank, call);
    }
    nothing(&world.until(4));
}
