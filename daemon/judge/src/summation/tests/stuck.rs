//! Rounds that wait, and where the waiting begins.

use ringscope_api::{FindingState, RankState};
use ringscope_wire::batch::{Activity, Look, Process, SummationWait, Thread};

use super::*;
use crate::Want;
use crate::standings::Standings;

#[test]
fn a_round_that_waits_for_long_names_the_worker() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, |place, member| {
        if place == (Role::Server, 0) {
            member.rounds = (0..50).map(|number| round(3, number, number, true)).collect();
            member.waits = vec![wait(50, &[2], 1_200)];
        }
    });
    let finding = stage.only(FindingKind::SumRoundStuck);
    assert_eq!((&*finding.host, finding.rank, finding.severity), ("train-2", Some(2), Severity::Critical));
    let words = "round 50 of gradient.fc (part 3) has waited for the contribution of worker 2 (train-2, rank 12) for \
                 at least 1.0 s: its program has not submitted it";
    assert_eq!((&*finding.message, &*finding.cause), (words, "not_submitted"));
    // Time alone makes it older, and the next round is no longer stuck.
    stage.look(20);
    assert!(stage.only(FindingKind::SumRoundStuck).message.contains("at least 10 s"));
    let news = stage.tell(21, |_, _| ());
    assert!(news.iter().any(|finding| finding.state == FindingState::Resolved), "{news:#?}");
}

#[test]
fn a_stuck_round_says_where_it_is_held() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let stuck = |place: Place, member: &mut SummationMember| {
        if place == (Role::Server, 0) {
            member.waits = vec![wait(50, &[1], 5_000)];
        }
        if place == (Role::Worker, 1) {
            member.stages[1].running_parts = 2;
        }
    };
    stage.tell(6, stuck);
    let finding = stage.only(FindingKind::SumRoundStuck);
    assert_eq!(finding.cause, "in_pipeline");
    assert!(finding.message.ends_with("it has 2 parts in its stage push"), "{}", finding.message);
    stage.tell(7, |place, member| {
        stuck(place, member);
        member.waits.iter_mut().for_each(|wait| wait.for_push = false);
    });
    let finding = stage.only(FindingKind::SumRoundStuck);
    assert!(
        finding.message.contains("for worker 1 (train-1, rank 11) to take its answer"),
        "{}",
        finding.message
    );
    assert_eq!(finding.cause, "not_taken");
}

#[test]
fn only_what_is_held_at_the_push_is_the_networks() {
    for (stage_held, begin) in [
        (0, "See what keeps its CPUs busy (`top -H -p 101` on train-1"),
        (1, "Look at the network between train-1"),
    ] {
        let mut stage = Stage::at_work(Summing::new(), 5);
        stage.tell(6, |place, member| match place {
            (Role::Server, 0) => member.waits = vec![wait(50, &[1], 5_000)],
            (Role::Worker, 1) => member.stages[stage_held].running_parts = 2,
            _ => {}
        });
        let finding = stage.only(FindingKind::SumRoundStuck);
        assert!(finding.advice.starts_with(begin), "{}", finding.advice);
    }
}

#[test]
fn rounds_that_always_take_long_are_not_stuck() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, |place, member| {
        if place == (Role::Server, 0) {
            let slow = |number| SummationRound { took_ns: 700_000_000, ..round(3, number, number, true) };
            member.rounds = (0..50).map(slow).collect();
            member.waits = vec![wait(50, &[2], 6_000)];
        }
    });
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

/// What all say at this second, and their agents of their processes.
fn tell(
    stage: &mut Stage,
    s: u64,
    change: impl Fn(Place, &mut SummationMember),
    of_process: impl Fn(Place, &mut Process),
) {
    let mut batch = stage.summing.batch(s, 3 * s, change);
    for (place, process) in stage.summing.places().into_iter().zip(&mut batch.processes) {
        of_process(place, process);
    }
    let changes = stage.model.apply(&batch, at(s));
    stage.diagnosis.update_summations(&stage.model, &changes.summations, at(s));
}

/// The process of worker 1 is stopped.
fn stopped(place: Place, process: &mut Process) {
    let state = if place == (Role::Worker, 1) { "T" } else { "S" };
    process.activity = Some(Activity { state: state.to_owned(), cpu_ns: 1, read_at_ns: at(6).0 });
}

#[test]
fn a_worker_that_has_exited_is_told_with_its_status() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let waits = |place: Place, member: &mut SummationMember| {
        if place == (Role::Server, 0) {
            member.waits = vec![wait(50, &[1], 5_000)];
        }
    };
    let exited = |place: Place, process: &mut Process| {
        if place == (Role::Worker, 1) {
            *process = Process { exit_status: Some(3), ..ended(process.clone(), ProcessState::Exited, 6) };
        }
    };
    tell(&mut stage, 6, waits, exited);
    let finding = stage.only(FindingKind::SumRoundStuck);
    assert!(finding.message.ends_with(": its process has exited with status 3"), "{}", finding.message);
}

/// Workers 0 and 1 share a host, of which worker 0 sums parts first: server 0 waits for worker 0, which waits for worker 1.
fn by_host((role, index): Place, member: &mut SummationMember) {
    match (role, index) {
        // More than are told of all services together, and older.
        (Role::Server, 0) => {
            let of = |key| SummationWait { key, ..wait(50, &[0], 9_000) };
            member.waits = (0..64).map(of).collect();
        }
        (Role::Worker, 0) => {
            let of = |key| SummationWait { key, ..wait(50, &[1], 400 + 100 * u64::from(key)) };
            member.waits = (0..64).map(of).collect();
            member.stages[2].running_parts = 64;
        }
        _ => {}
    }
}

#[test]
fn who_sums_for_its_host_is_no_culprit_where_it_waits_for_another_there() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, by_host);
    let finding = stage.only(FindingKind::SumRoundStuck);
    assert_eq!((finding.rank, &*finding.cause, finding.n_victims), (Some(1), "not_submitted", 3));
    assert!(
        finding.message.contains("the contribution of worker 1 (train-1, rank 11)"),
        "{}",
        finding.message
    );
    // It has not come itself either.
    stage.tell(7, |place, member| {
        by_host(place, member);
        if place == (Role::Worker, 0) {
            member.stages[2].running_parts = 0;
            member.waits.iter_mut().for_each(|wait| wait.workers = vec![0, 1]);
        }
    });
    let ranks: BTreeSet<Option<u32>> = stage.firing().iter().map(|finding| finding.rank).collect();
    assert_eq!(ranks, BTreeSet::from([Some(0), Some(1)]));
}

#[test]
fn the_owner_of_a_part_that_sums_it_for_its_own_host_too_is_no_culprit() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, |place, member| {
        if place == (Role::Worker, 0) {
            member.waits = vec![wait(50, &[0], 5_000), wait(50, &[1], 4_000)];
        }
    });
    assert_eq!(stage.only(FindingKind::SumRoundStuck).rank, Some(1));
}

#[test]
fn who_has_parts_that_wait_for_somebody_else_is_no_culprit() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, |(role, index), member| match (role, index) {
        (Role::Server, 0) => member.waits = vec![wait(50, &[0, 1, 3], 5_000), wait(49, &[2], 4_000)],
        // Its program waits for the sum of another part, or its parts for credits.
        (Role::Worker, 0) => member.stages[2].running_parts = 1,
        (Role::Worker, 1 | 3) => member.stages[1].waiting_parts = 2,
        _ => {}
    });
    assert_eq!(stage.only(FindingKind::SumRoundStuck).rank, Some(2));
}

#[test]
fn a_worker_that_is_stopped_is_named_and_how_to_let_it_go_on() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let last_word = |place, member: &mut SummationMember| {
        by_host(place, member);
        if place == (Role::Worker, 1) {
            member.stages[1].running_parts = 3;
        }
    };
    tell(&mut stage, 6, last_word, stopped);
    let finding = stage.only(FindingKind::SumRoundStuck);
    assert_eq!((finding.rank, &*finding.cause), (Some(1), "stopped"));
    assert!(finding.message.ends_with(": it is stopped (SIGSTOP)"), "{}", finding.message);
    assert!(finding.advice.contains("`kill -CONT 101` lets it go on"), "{}", finding.advice);
    let accused: Vec<_> = finding.accused.iter().map(|one| (&*one.host, one.pid, one.global_rank)).collect();
    assert_eq!(accused, [("train-1", Some(101), Some(11))]);
    let standings = Standings::of(&stage.model, &stage.diagnosis, at(6));
    let (_, processes) = stage.model.host("train-1").unwrap();
    let process = processes.last().unwrap();
    assert_eq!(stage.model.rank_state(process, at(6)), RankState::Running);
    assert_eq!(standings.process(process).reason, finding.message);
}

#[test]
fn a_worker_that_is_waited_for_is_looked_at_once_and_told_with_where_it_is() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let asked = |stage: &mut Stage| -> Vec<String> {
        let wanted = stage.diagnosis.take_wanted().into_iter();
        wanted.filter(|one| one.what == Want::Look).map(|one| one.process.to_string()).collect()
    };
    stage.tell(6, by_host);
    assert_eq!(asked(&mut stage), [stage.summing.key((Role::Worker, 1))]);
    stage.tell(7, by_host);
    assert_eq!(asked(&mut stage), [""; 0], "once");
    let seen = |s: u64| {
        move |place: Place, process: &mut Process| {
            let thread = Thread {
                name: "python".to_owned(),
                python: vec!["train.py:42 step".to_owned()],
                syscall: "read".to_owned(),
                subject: "/mnt/nfs/x".to_owned(),
                ..Thread::default()
            };
            let look = Look { at_ns: at(s).0, threads: vec![thread], ..Look::default() };
            process.look = (place == (Role::Worker, 1)).then_some(look);
        }
    };
    tell(&mut stage, 8, by_host, seen(8));
    let finding = stage.only(FindingKind::SumRoundStuck);
    let words = ": its program has not submitted it, and is in train.py:42 step, blocked reading /mnt/nfs/x";
    assert!(finding.message.ends_with(words), "{}", finding.message);
    assert!(finding.advice.starts_with("See why /mnt/nfs/x gives nothing"), "{}", finding.advice);
    let details: Vec<_> = finding.details.iter().map(|detail| (&*detail.title, detail.lines.len())).collect();
    assert_eq!(details, [("worker 1 (train-1, rank 11)", 1)]);
    stage.diagnosis.gather(&stage.model, true, at(8));
    let incident = stage.diagnosis.incidents().open().next().unwrap();
    let told: Vec<&str> = incident.timeline.iter().map(|event| &*event.text).collect();
    assert!(told.iter().any(|text| text.starts_with("Looked: Worker 1 (train-1, rank 11)")), "{told:?}");
    // The round goes on, and another one waits: what was seen before is over, and it is looked at again.
    stage.tell(9, |_, _| ());
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
    for second in 10..20 {
        stage.tell(second, |_, _| ());
    }
    stage.tell(20, by_host);
    assert_eq!(asked(&mut stage), [stage.summing.key((Role::Worker, 1))]);
    assert!(stage.only(FindingKind::SumRoundStuck).details.is_empty());
}
