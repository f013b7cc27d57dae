//! Ranks that do other work than those that they are compared with, and since when somebody is slow.

use std::time::Duration;

use ringscope_api::{FindingKind, Severity};
use ringscope_wire::Primitive;

use super::super::measured::Measured;
use super::{FOUR, Stage, at, cost_is_about};

/// As of an evaluator in a job with one communicator: it calls nothing else, but its program is another one.
#[test]
fn a_rank_with_another_program_does_other_work_and_is_no_straggler() {
    let program = |rank| if rank == 2 { "/opt/evaluator" } else { "/opt/trainer" };
    let mut stage = Stage::of_programs(&FOUR, program, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!(
        (finding.finding, finding.severity, finding.rank, &*finding.cause),
        (FindingKind::OtherWork, Severity::Info, Some(2), "other_work")
    );
    assert!(finding.accused.is_empty() && finding.incident.is_empty(), "{finding:#?}");
    assert!(finding.message.contains("it runs evaluator, they run trainer"), "{}", finding.message);
    cost_is_about(&finding, 20.0);
    // It stays so when its first steps are long forgotten.
    for found in (0..400).map(|_| stage.second()) {
        assert_eq!(found.iter().map(|found| found.finding).collect::<Vec<_>>(), [FindingKind::OtherWork]);
    }
}

#[test]
fn a_rank_with_other_calls_does_other_work_and_is_no_straggler() {
    let mut stage = Stage::new(&FOUR, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    stage.also = Some((2, Primitive::Reduce));
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::OtherWork, Some(2)));
    assert!(finding.message.contains("it calls reduce, they do not"), "{}", finding.message);
}

/// A role does not begin in the middle of a job.
#[test]
fn a_rank_with_another_program_that_gets_slow_is_a_straggler() {
    let program = |rank| if rank == 2 { "/opt/evaluator" } else { "/opt/trainer" };
    let own = |rank, step| 40 + if rank == 2 && step >= 200 { 20 } else { 0 };
    let mut stage = Stage::of_programs(&FOUR, program, own);
    let (_, finding) = stage.first(60).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(2)));
    assert!(!finding.message.contains("it is so"), "{}", finding.message);
    // Also when it is long forgotten how it was before.
    for found in (0..400).map(|_| stage.second()) {
        assert_eq!(
            found.iter().map(|found| found.finding).collect::<Vec<_>>(),
            [FindingKind::ComputeStraggler]
        );
    }
}

/// What was long then and is over is not how it was.
#[test]
fn a_rank_that_paused_twice_long_before_it_got_slow_is_a_straggler_all_the_same() {
    let program = |rank| if rank == 2 { "/opt/evaluator" } else { "/opt/trainer" };
    let own = |rank, step| match (rank, step) {
        (2, 100 | 150) => 3000,
        (2, 400..) => 60,
        _ => 40,
    };
    let mut stage = Stage::of_programs(&FOUR, program, own);
    let (_, finding) = stage.first(60).unwrap();
    assert_eq!((finding.finding, finding.rank), (FindingKind::ComputeStraggler, Some(2)));
    assert!(!finding.message.contains("it is so"), "{}", finding.message);
}

/// A slow GPU and a role that shows in nothing look the same.
#[test]
fn a_rank_that_is_slow_from_the_first_step_on_with_the_same_calls_is_a_straggler_of_which_both_is_said() {
    let mut stage = Stage::new(&FOUR, |rank, _| 40 + if rank == 2 { 20 } else { 0 });
    let (_, finding) = stage.first(40).unwrap();
    assert_eq!(
        (finding.finding, finding.severity, finding.rank),
        (FindingKind::ComputeStraggler, Severity::Warning, Some(2))
    );
    let both = "since the first steps of the job: it is slower than they are, or its program gives it more to compute";
    assert!(finding.message.contains(both), "{}", finding.message);
}

/// A job that has gone for some seconds has a past as well: after its first steps, and before what is compared.
#[test]
fn how_it_was_before_is_known_of_a_job_that_became_slow_soon_after_it_began() {
    let own = |rank, step| 40 + if rank == 2 && step >= 60 { 60 } else { 0 };
    let mut stage = Stage::new(&FOUR, own);
    for _ in 0..11 {
        stage.second();
    }
    let (_, job) = stage.model.jobs().next().unwrap();
    let slow = job.processes(&stage.model).find(|process| process.identity().unwrap().global_rank == Some(2));
    let measured = Measured::of(slow.unwrap().pace().unwrap(), at(stage.s)).unwrap();
    let (own, step) = measured.earlier.zip(measured.earlier_step).unwrap();
    assert!((own - 0.8).abs() < 0.05, "{own}");
    assert!(step.abs_diff(Duration::from_millis(50)) < Duration::from_millis(8), "{step:?}");
}

/// It is said of the job's first steps only where they were seen to be so, however long ago they are.
#[test]
fn who_became_slow_soon_after_the_first_steps_was_not_so_from_the_start() {
    let is_slow = |step| (150..6_000).contains(&step) || step >= 6_400;
    let mut stage = Stage::new(&FOUR, move |rank, step| 40 + if rank == 2 && is_slow(step) { 20 } else { 0 });
    stage.first(40).unwrap();
    while !stage.second().is_empty() {}
    let (_, again) = stage.first(60).unwrap();
    assert_eq!((again.finding, again.rank), (FindingKind::ComputeStraggler, Some(2)));
    assert!(!again.message.contains("it is so"), "{}", again.message);
}
