//! Somebody does not come: stopped, elsewhere, gone from the communicator, or not to be seen.

use std::borrow::Cow;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::batch;

use super::super::Question;
use super::super::scene::{Activity, Collector, MemberState};
use super::build::{all_reduce, at, found, job, nothing, only, seconds};

#[test]
fn a_stopped_rank_is_named_at_the_second_look() {
    let mut world = job(6);
    let comm = world.comm("c0ffee", "tensor", &[0, 1, 2, 3, 4, 5]);
    world.enter(comm, 0..5);
    world.stop(5);
    nothing(&world.look(1.0));
    let verdict = world.look(2.0);
    let judgement = only(&verdict);
    assert_eq!(
        judgement.message,
        "rank 5 (host-0, pid 4005) is stopped (SIGSTOP); 5 others wait for it in all_reduce #60 of c0ffee (tensor) since \
         14:00:00 UTC"
    );
    assert_eq!(judgement.kind, FindingKind::RankMissing);
    assert_eq!(judgement.severity, Severity::Critical);
    assert_eq!(judgement.victims, [0, 1, 2, 3, 4]);
    assert_eq!(judgement.began_at, Some(at(0.0)));
    assert_eq!((judgement.host, judgement.rank), (Some(0), Some(5)));
    assert_eq!(judgement.accused[0].doing, "is stopped (SIGSTOP)");
    assert!(judgement.advice.contains("kill -CONT 4005"));
    assert!(verdict.asks.iter().any(|ask| ask.process == 5 && ask.what == Question::Look));
    assert!(!world.look(3.0).asks.iter().any(|ask| ask.what == Question::Look), "it is asked once");
    // Let go, all is over at once.
    world.stop(5);
    world.process(5).activity = Some(Activity { state: 'R', since: None, cores: Some(1.0) });
    for rank in 0..5 {
        world.member(comm, rank).open = Cow::Borrowed(&[]);
    }
    nothing(&world.look(4.0));
}

#[test]
fn the_number_of_a_container_is_said_to_be_one() {
    let mut world = job(6);
    let comm = world.comm("c0ffee", "tensor", &[0, 1, 2, 3, 4, 5]);
    world.enter(comm, 0..5);
    world.stop(5);
    world.process(5).in_container = true;
    let verdict = world.until(2);
    let advice = &only(&verdict).advice;
    assert!(advice.starts_with("On host-0, inside its container: `kill -CONT 4005`"), "{advice}");
}

#[test]
fn a_stopped_rank_that_has_called_stalls_the_transfer() {
    let mut world = job(6);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3, 4, 5]);
    world.enter(comm, 0..6);
    world.stop(3);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::TransferStalled, Severity::Critical, "stopped", vec![3])]);
    assert_eq!(only(&verdict).victims, [0, 1, 2, 4, 5]);
}

#[test]
fn a_stopped_rank_for_whom_nobody_waits_is_none_of_our_business() {
    let mut world = job(4);
    world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.stop(3);
    nothing(&world.until(10));
}

#[test]
fn a_rank_that_is_merely_elsewhere_is_info_first_and_critical_later() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 1..4);
    nothing(&world.look(1.0));
    let verdict = world.look(2.0);
    assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Info, "asleep", vec![0])]);
    assert_eq!(
        only(&verdict).message,
        "rank 0 (host-0, pid 4000) is asleep in no call; its last one returned 3.1 s ago; 3 others wait for it in all_reduce \
         #60 of c0ffee (data) since 14:00:00 UTC"
    );
    assert_eq!(world.look(29.0).judgements[0].severity, Severity::Info);
    let verdict = world.look(30.0);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "asleep", vec![0])]);
}

#[test]
fn a_wait_that_goes_on_stays_critical() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 1..4);
    world.until(30);
    for second in 31..=200 {
        let verdict = world.look(f64::from(second));
        assert_eq!(only(&verdict).severity, Severity::Critical, "after {second} s");
    }
    assert_eq!(world.judge.longest_wait(), seconds(0));
}

#[test]
fn a_wait_that_ended_well_makes_the_next_one_as_long_healthy() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 1..4);
    world.until(29);
    for rank in 1..4 {
        world.member(comm, rank).open = Cow::Borrowed(&[]);
        world.member(comm, rank).last_completed.as_mut().unwrap().number = Some(60);
    }
    nothing(&world.look(30.0));
    assert_eq!(world.judge.longest_wait(), seconds(29));
    for rank in 1..4 {
        world.call(comm, rank, all_reduce(61, at(100.0)));
    }
    assert_eq!(found(&world.look(150.0)), [(FindingKind::Waiting, Severity::Info, "asleep", vec![0])]);
    assert_eq!(world.look(159.0).judgements[0].severity, Severity::Critical);
}

#[test]
fn a_wait_that_was_given_up_teaches_nothing() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 1..4);
    world.until(29);
    for rank in 1..4 {
        world.member(comm, rank).open = Cow::Borrowed(&[]);
    }
    nothing(&world.look(30.0));
    assert_eq!(world.judge.longest_wait(), seconds(0), "no rank was seen to complete the call");
}

#[test]
fn a_wait_that_somebody_had_to_free_teaches_no_more_than_its_limit() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    world.enter(comm, 1..4);
    world.until(300);
    for rank in 1..4 {
        world.member(comm, rank).open = Cow::Borrowed(&[]);
        world.member(comm, rank).last_completed.as_mut().unwrap().number = Some(60);
    }
    nothing(&world.look(301.0));
    assert_eq!(world.judge.longest_wait(), seconds(30));
}

#[test]
fn a_first_step_may_take_minutes() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    for rank in 0..4 {
        world.member(comm, rank).last_completed = None;
    }
    world.enter(comm, 1..4);
    assert_eq!(world.look(200.0).judgements[0].severity, Severity::Info);
    assert_eq!(world.look(301.0).judgements[0].severity, Severity::Critical);
}

#[test]
fn calls_that_usually_take_long_are_not_told_early() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    for step in 0..20 {
        for rank in 0..4 {
            let last = world.member(comm, rank).last_completed.as_mut().unwrap();
            last.issued_at = at(f64::from(step));
            last.completed_at = Some(at(f64::from(step) + 0.7));
        }
        nothing(&world.look(f64::from(step) + 1.0));
    }
    for rank in 1..4 {
        world.call(comm, rank, all_reduce(60, at(20.0)));
    }
    nothing(&world.look(27.0));
    assert_eq!(world.look(32.0).judgements.len(), 1);
}

#[test]
fn those_behind_are_named_however_many() {
    let mut world = job(32);
    let comm = world.comm("c0ffee", "", &(0..32).collect::<Vec<_>>());
    world.enter(comm, [7, 9]);
    let verdict = world.until(2);
    let judgement = only(&verdict);
    assert_eq!(judgement.culprits.len(), 30);
    assert_eq!(judgement.accused.len(), 16);
    assert_eq!(judgement.victims, [7, 9]);
    assert!(judgement.message.starts_with("ranks 0, 1, 2, 3 and 26 more have not come to all_reduce #60"));
}

#[test]
fn two_that_are_missing_are_both_named_each_in_its_manner() {
    let mut world = job(8);
    let comm = world.comm("c0ffee", "", &(0..8).collect::<Vec<_>>());
    world.enter(comm, 0..6);
    world.stop(6);
    let verdict = world.until(3);
    assert_eq!(
        found(&verdict),
        [
            (FindingKind::RankMissing, Severity::Critical, "stopped", vec![6]),
            (FindingKind::Waiting, Severity::Info, "asleep", vec![7]),
        ]
    );
    assert!(verdict.judgements.iter().all(|judgement| judgement.follows_from.is_none()));
}

#[test]
fn the_oldest_open_call_counts_and_not_the_newest() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    for (rank, ahead) in [(0, 315), (1, 317), (2, 317)] {
        for number in [60, 61, ahead] {
            world.call(comm, rank, all_reduce(number, at(0.0)));
        }
    }
    let verdict = world.until(3);
    let judgement = only(&verdict);
    assert_eq!(judgement.culprits, [3]);
    assert!(judgement.message.contains("all_reduce #60"), "{}", judgement.message);
}

#[test]
fn a_pipeline_of_enqueued_calls_that_goes_on_is_no_wait() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    for rank in 0..2 {
        for number in 60..70 {
            world.call(comm, rank, all_reduce(number, at(-20.0)));
        }
        // The call before them ended just now: the oldest has only begun to be first.
        world.member(comm, rank).last_completed.as_mut().unwrap().completed_at = Some(at(1.8));
    }
    nothing(&world.look(2.0));
}

#[test]
fn a_rank_that_works_in_another_communicator_is_named_with_it() {
    let mut world = job(4);
    let all = world.comm("c0ffee", "data", &[0, 1, 2, 3]);
    let pair = world.comm("beef", "eval", &[2, 3]);
    world.enter(all, 0..2);
    for second in 1..=3 {
        for rank in 0..2 {
            let call = all_reduce(60 + second, at(second as f64 - 0.2));
            world.member(pair, rank).open = Cow::Owned(vec![call]);
            world.member(pair, rank).calls.as_mut().unwrap().made = 61 + second;
        }
        world.look(second as f64);
    }
    let verdict = world.look(3.1);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.cause), (FindingKind::Waiting, "elsewhere"));
    assert_eq!(judgement.culprits, [2, 3]);
    assert!(
        judgement.message.contains("is in all_reduce #63 of beef (eval) since 14:00:02 UTC"),
        "{}",
        judgement.message
    );
}

#[test]
fn who_left_the_communicator_is_named() {
    for (state, cause) in [(MemberState::Destroyed, "left"), (MemberState::Aborted, "aborted")] {
        let mut world = job(4);
        let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
        world.enter(comm, 0..3);
        world.end(comm, 3, state);
        let verdict = world.until(2);
        assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, cause, vec![3])]);
    }
}

#[test]
fn who_is_in_destroy_while_others_call_is_named() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.enter(comm, 0..3);
    world.open(3, "ncclCommDestroy", comm);
    let verdict = world.until(2);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "left", vec![3])]);
    assert!(only(&verdict).message.contains("is in ncclCommDestroy since 14:00:00 UTC"));
}

#[test]
fn who_cannot_be_heard_is_unheard_and_not_dead() {
    let mut world = job(16);
    let comm = world.comm("c0ffee", "", &(0..16).collect::<Vec<_>>());
    world.silent = vec![15];
    world.enter(comm, 0..15);
    let verdict = world.until(12);
    assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Info, "unheard", vec![15])]);
    assert_ne!(world.look(100.0).judgements[0].severity, Severity::Critical);
}

#[test]
fn absence_proves_nothing_where_nobody_would_have_told() {
    for cause in ["not_watched", "events_lost"] {
        let mut world = job(4);
        let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
        world.enter(comm, 0..3);
        match cause {
            "not_watched" => world.process(3).collector = Collector::Off(None),
            _ => world.process(3).lost_events = true,
        }
        let verdict = world.look(100.0);
        assert_eq!(found(&verdict), [(FindingKind::Waiting, Severity::Warning, cause, vec![3])]);
    }
}

#[test]
fn who_is_late_does_not_hide_who_is_not_watched() {
    let mut world = job(4);
    let comm = world.comm("c0ffee", "", &[0, 1, 2, 3]);
    world.enter(comm, 0..2);
    world.process(3).collector = Collector::Off(None);
    let verdict = world.look(100.0);
    assert_eq!(
        found(&verdict),
        [
            (FindingKind::RankMissing, Severity::Critical, "asleep", vec![2]),
            (FindingKind::Waiting, Severity::Info, "not_watched", vec![3]),
        ]
    );
    // Who is stopped explains it alone.
    world.stop(2);
    let verdict = world.until(102);
    assert_eq!(found(&verdict), [(FindingKind::RankMissing, Severity::Critical, "stopped", vec![2])]);
}

#[test]
fn ranks_that_nobody_sees_are_said_to_be_unseen() {
    let mut world = job(3);
    let comm = world.comm("c0ffee", "", &[0, 1, 2]);
    world.scene.communicators[comm as usize].n_ranks = 8;
    world.enter(comm, 0..3);
    let verdict = world.look(100.0);
    let judgement = only(&verdict);
    assert_eq!((judgement.kind, judgement.severity), (FindingKind::Waiting, Severity::Warning));
    assert!(judgement.message.starts_with("ranks 3 to 7 of all_reduce #60"), "{}", judgement.message);
}

#[test]
fn what_a_look_has_shown_is_told() {
    let mut world = job(2);
    let comm = world.comm("c0ffee", "", &[0, 1]);
    world.enter(comm, 0..1);
    let thread = batch::Thread {
        name: "MainThread".to_owned(),
        // What Python's own library does for the program says less.
        python: vec![
            "python3.11/gzip.py:301 GzipFile.read".to_owned(),
            "dataloader.py:214 __next__".to_owned(),
            "train.py:40 main".to_owned(),
        ],
        syscall: "read".to_owned(),
        subject: "/mnt/nfs/x".to_owned(),
        ..batch::Thread::default()
    };
    let look = batch::Look { at_ns: at(2.0).0, threads: vec![thread], ..batch::Look::default() };
    world.process(1).look = Some(Box::leak(Box::new(look)));
    let verdict = world.until(3);
    let judgement = only(&verdict);
    assert!(
        judgement
            .message
            .contains("is in dataloader.py:214 __next__, blocked reading /mnt/nfs/x; its last call returned"),
        "{}",
        judgement.message
    );
    assert!(judgement.details.iter().any(|detail| detail.lines[0].contains("dataloader.py:214")));
    assert_eq!(
        judgement.advice,
        "See why /mnt/nfs/x gives nothing: its disk or file system, as host-0 sees it."
    );
}
