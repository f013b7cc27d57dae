//! What fires, and the twins that must not.

mod lost;
mod stuck;

use std::collections::BTreeSet;

use ringscope_api::{Condition, Finding, FindingKind, Severity, SummationRole as Role};
use ringscope_model::Model;
use ringscope_model::summation::Place;
use ringscope_samples::cluster::{at, batch, ended};
use ringscope_samples::summing::{Summing, round, wait};
use ringscope_wire::batch::{
    ProcessState, SummationComparison, SummationDifference, SummationMember, SummationRound, SummationState,
};

use crate::Diagnosis;
use crate::standings::Standings;

/// A group at work and what is concluded of it.
struct Stage {
    model: Model,
    diagnosis: Diagnosis,
    summing: Summing,
}

impl Stage {
    /// Three rounds of all tensors a second until second `s`.
    fn at_work(summing: Summing, s: u64) -> Self {
        let mut stage = Self { model: Model::new(), diagnosis: Diagnosis::new(), summing };
        for second in 1..=s {
            stage.tell(second, |_, _| ());
        }
        stage
    }

    fn tell(&mut self, s: u64, change: impl Fn(Place, &mut SummationMember)) -> Vec<Finding> {
        let changes = self.model.apply(&self.summing.batch(s, 3 * s, change), at(s));
        self.diagnosis.update_summations(&self.model, &changes.summations, at(s))
    }

    fn look(&mut self, s: u64) -> Vec<Finding> {
        self.model.tick(at(s));
        let news = self.diagnosis.update(&self.model, None, at(s)).into_iter();
        news.filter(|finding| finding.finding != FindingKind::HostLost).collect()
    }

    /// Without what is said of hosts: between two looks far apart nobody speaks here.
    fn firing(&self) -> Vec<&Finding> {
        self.diagnosis.firing().filter(|finding| finding.finding != FindingKind::HostLost).collect()
    }

    fn only(&self, kind: FindingKind) -> &Finding {
        let firing = self.firing();
        assert!(firing.len() == 1 && firing[0].finding == kind, "{firing:#?}");
        firing[0]
    }
}

/// With other parts owned than best.
fn owning(owned: &[u32]) -> Summing {
    Summing { owned: owned.to_vec(), ..Summing::new() }
}

/// With other arrivals: of ten rounds those in which each is last, and milliseconds after the first.
fn arriving(last: [(u64, u64); 4]) -> Summing {
    Summing { last: last.to_vec(), ..Summing::new() }
}

#[test]
fn a_healthy_group_has_no_findings() {
    let mut stage = Stage::at_work(Summing::new(), 70);
    stage.look(71);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

#[test]
fn rounds_that_go_on_are_evidence_of_work() {
    let stage = Stage::at_work(Summing::new(), 5);
    let stands = |s: u64| {
        let standings = Standings::of(&stage.model, &stage.diagnosis, at(s));
        let (_, job) = stage.model.job("train").unwrap();
        let all = job.processes(&stage.model).map(|process| standings.process(process));
        all.map(|standing| (standing.condition, standing.reason)).collect::<Vec<_>>()
    };
    for (condition, reason) in stands(5) {
        assert_eq!((condition, &*reason), (Condition::Healthy, "its summation rounds go on"));
    }
    let mut idle = Stage::at_work(Summing::new(), 0);
    idle.model.apply(&idle.summing.batch(1, 0, |_, _| ()), at(1));
    let standings = Standings::of(&idle.model, &idle.diagnosis, at(1));
    let (_, job) = idle.model.job("train").unwrap();
    for process in job.processes(&idle.model) {
        assert_eq!(standings.process(process).reason, "nothing was asked of the library yet");
    }
}

#[test]
fn a_service_that_owns_too_much_is_named() {
    let stage = Stage::at_work(owning(&[36, 24, 10, 10, 10, 10]), 3);
    let finding = stage.only(FindingKind::SumShareImbalance);
    assert_eq!((&*finding.host, finding.rank, finding.severity), ("sum-0", Some(4), Severity::Warning));
    assert_eq!(finding.group.as_deref(), Some(stage.summing.id().as_str()));
    assert_eq!((&*finding.job, &*finding.comm, &*finding.cause), ("train", "", "uneven_placement"));
    let words = "the service of server 0 (sum-0) owns 36.0 % of all bytes where 30.0 % is best: every round waits for it";
    assert_eq!(finding.message, words);
}

#[test]
fn a_tenth_more_than_its_share_is_no_imbalance() {
    let stage = Stage::at_work(owning(&[33, 27, 10, 10, 10, 10]), 3);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

#[test]
fn what_costs_no_time_is_no_imbalance() {
    for (model_bytes, n_findings) in [(4_000_000, 0), (5_000_000, 1)] {
        let mut stage = Stage::at_work(owning(&[36, 24, 10, 10, 10, 10]), 0);
        stage.tell(1, |_, member| member.model_bytes = model_bytes);
        assert_eq!(stage.firing().len(), n_findings, "{model_bytes}: {:#?}", stage.firing());
    }
}

#[test]
fn what_one_part_makes_uneven_is_only_said() {
    let mut stage = Stage::at_work(owning(&[30, 30, 12, 8, 10, 10]), 2);
    assert_eq!(stage.only(FindingKind::SumShareImbalance).severity, Severity::Warning, "two parts too many");
    stage.summing.owned = vec![30, 29, 12, 9, 10, 10];
    stage.summing.optimal = vec![30, 30, 11, 9, 10, 10];
    stage.summing.epoch = 1;
    stage.tell(3, |_, member| member.partition_bytes *= 4);
    let still: Vec<Severity> = stage.firing().iter().map(|finding| finding.severity).collect();
    assert!(still.is_empty(), "one of eleven is less than a tenth: {still:?}");
    stage.summing.optimal = vec![30, 30, 10, 10, 10, 10];
    stage.tell(4, |_, member| member.partition_bytes *= 4);
    let finding = stage.only(FindingKind::SumShareImbalance);
    assert_eq!((&*finding.cause, finding.severity), ("coarse_parts", Severity::Info));
}

#[test]
fn a_service_that_gets_more_than_it_owns_is_named() {
    let mut stage = Stage::at_work(Summing::new(), 1);
    for second in 2..=20 {
        // Half of what server 1 owns is pushed twice as often.
        stage.tell(second, |_, member| {
            for traffic in &mut member.services[1].traffic {
                traffic.push_completed_bytes = traffic.push_completed_bytes * 3 / 2;
            }
        });
    }
    let finding = stage.only(FindingKind::SumShareImbalance);
    assert_eq!((&*finding.host, &*finding.cause), ("sum-1", "uneven_use"));
}

#[test]
fn who_comes_last_and_late_is_a_straggler() {
    // A round of all tensors takes a third of a second.
    let stage = Stage::at_work(arriving([(1, 1), (1, 1), (8, 80), (0, 0)]), 40);
    let finding = stage.only(FindingKind::SumStraggler);
    assert_eq!((&*finding.host, finding.rank, finding.severity), ("train-2", Some(2), Severity::Warning));
    let words = "worker 2 (train-2, rank 12) comes last in 8 of 10 rounds, costing each about 20 % of its time: it \
                 begins its pushes later than the others";
    assert_eq!((&*finding.message, &*finding.cause), (words, "late_start"));
}

#[test]
fn a_straggler_whose_pushes_are_slow_is_told_so() {
    let mut stage = Stage::at_work(arriving([(1, 1), (1, 1), (8, 80), (0, 0)]), 1);
    for second in 2..=40 {
        stage.tell(second, |place, member| {
            if place == (Role::Worker, 2) {
                member.stages[1].worked_ns *= 5;
            }
        });
    }
    assert_eq!(stage.only(FindingKind::SumStraggler).cause, "slow_push");
}

#[test]
fn parts_that_lie_idle_do_not_make_a_straggler_cheap() {
    // Half of the parts are summed, three times a second as before.
    let mut stage = Stage::at_work(arriving([(1, 1), (1, 1), (8, 80), (0, 0)]), 0);
    for second in 1..=40 {
        stage.tell(second, |place, member| {
            for contributor in &mut member.contributors {
                contributor.contributions /= 2;
                contributor.last_arrivals /= 2;
                contributor.late_ns /= 2;
            }
            if place == (Role::Server, 0) {
                let made = |number: u64| {
                    (0..15).map(move |key| SummationRound {
                        at_ns: at(0).0 + number * 1_000_000_000 / 3,
                        ..round(key, number, number, true)
                    })
                };
                member.rounds = (3 * second - 2..=3 * second).flat_map(made).collect();
            }
        });
    }
    let message = &stage.only(FindingKind::SumStraggler).message;
    assert!(message.contains("costing each about 20 % of its time"), "{message}");
}

#[test]
fn who_begins_late_is_told_so_however_long_its_pushes_take() {
    let mut stage = Stage::at_work(arriving([(1, 1), (1, 1), (8, 80), (0, 0)]), 1);
    for second in 2..=40 {
        stage.tell(second, |place, member| match place {
            // Beside what the others do at that moment, which they have behind them.
            (Role::Worker, 2) => member.stages[1].worked_ns *= 5,
            // They wait for its contributions.
            (Role::Worker, _) => member.stages[2].worked_ns += 100 * 3 * second * 70_000_000,
            _ => {}
        });
    }
    assert_eq!(stage.only(FindingKind::SumStraggler).cause, "late_start");
}

#[test]
fn coming_last_by_little_or_in_turn_is_no_straggling() {
    for last in [
        // Always the last, by a fiftieth of the round.
        [(0, 0), (0, 0), (10, 7), (0, 0)],
        // Late, but all by the same.
        [(0, 80), (0, 80), (10, 85), (0, 0)],
        // In turn.
        [(3, 80), (2, 80), (5, 80), (0, 0)],
    ] {
        let stage = Stage::at_work(arriving(last), 40);
        assert!(stage.firing().is_empty(), "{last:?}: {:#?}", stage.firing());
    }
}

#[test]
fn asynchronous_workers_may_be_as_late_as_they_like() {
    let mut stage = Stage::at_work(arriving([(1, 1), (1, 1), (8, 80), (0, 0)]), 1);
    for second in 2..=40 {
        stage.tell(second, |_, member| member.asynchronous = true);
    }
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

#[test]
fn different_sums_are_told_with_who_has_which() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let odd = |place: Place, member: &mut SummationMember| {
        let (role, index) = place;
        match (role, index) {
            (Role::Server, 0) => member.rounds = vec![round(3, 9, 0xaa, true)],
            (Role::Worker, 2) => member.rounds = vec![round(3, 9, 0xbb, false)],
            (Role::Worker, _) => member.rounds = vec![round(3, 9, 0xaa, false)],
            _ => {}
        }
    };
    stage.tell(6, odd);
    let finding = stage.only(FindingKind::SumFingerprintMismatch);
    assert_eq!((&*finding.host, finding.rank, finding.severity), ("train-2", Some(2), Severity::Critical));
    assert!(finding.message.contains("part 3 in round 9"), "{}", finding.message);
    assert!(
        finding.message.contains("worker 2 (train-2, rank 12) has 0x00000000000000bb"),
        "{}",
        finding.message
    );
    // What was wrong stays wrong, until the group is left.
    stage.tell(7, |_, _| ());
    stage.only(FindingKind::SumFingerprintMismatch);
    stage.summing.state = SummationState::Left;
    stage.tell(8, |_, member| member.ended_at_ns = Some(at(8).0));
    assert!(stage.firing().is_empty());
}

#[test]
fn same_sums_and_asynchronous_ones_are_no_mismatch() {
    for is_asynchronous in [false, true] {
        let mut stage = Stage::at_work(Summing::new(), 2);
        stage.tell(3, |(role, index), member| {
            let differs = u64::from(is_asynchronous && role == Role::Worker) * u64::from(index);
            member.asynchronous = is_asynchronous;
            member.rounds = vec![round(3, 9, 0xaa + differs, role == Role::Server)];
        });
        assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
    }
}

/// What a worker says of comparisons every two steps: after step 4 these hashes of a parameter, if there are any.
fn compared(count: u64, hashes: &[u64]) -> SummationComparison {
    let difference = SummationDifference {
        steps: 4,
        at_ns: at(5).0,
        parameter: "layers.1.bias".to_owned(),
        hashes: hashes.to_vec(),
    };
    let is_different = !hashes.is_empty();
    SummationComparison {
        count,
        every: 2,
        steps: 2 * (count - 1),
        at_ns: at(5).0,
        n_parameters: 40,
        n_different: if is_different { 23 } else { 0 },
        equal_steps: Some(2),
        difference: is_different.then_some(difference),
    }
}

fn comparing(count: u64, hashes: &[u64]) -> impl Fn(Place, &mut SummationMember) {
    move |(role, _), member| {
        member.comparison = (role == Role::Worker).then(|| compared(count, hashes));
    }
}

#[test]
fn a_worker_with_another_parameter_than_most_is_told_until_all_are_the_same() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, comparing(3, &[7, 7, 9, 7]));
    let finding = stage.only(FindingKind::SumParametersDiffer);
    assert_eq!((&*finding.host, finding.rank, finding.severity), ("train-2", Some(2), Severity::Critical));
    assert_eq!((&*finding.cause, finding.began_at), ("differs_from_most", Some(at(5))));
    let words = format!(
        "parameter layers.1.bias of worker 2 (train-2, rank 12) is another one than that of the other 3 workers (found \
         after 4 steps, at {}; it became so in steps 3 to 4); at least 20 of 40 parameters differ in all",
        at(5)
    );
    assert_eq!(finding.message, words);
    assert!(finding.advice.contains("broadcast_parameters"), "{}", finding.advice);
    // One worker's later word is enough: all have compared the same table.
    stage.tell(7, |place, member| {
        let (count, hashes): (u64, &[u64]) =
            if place == (Role::Worker, 0) { (4, &[]) } else { (3, &[7, 7, 9, 7]) };
        comparing(count, hashes)(place, member);
    });
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

#[test]
fn where_no_more_than_half_have_the_same_parameter_nobody_is_accused() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, comparing(3, &[7, 9, 9, 7]));
    let finding = stage.only(FindingKind::SumParametersDiffer);
    assert_eq!((&*finding.host, finding.rank, &*finding.cause), ("", None, "no_majority"));
    assert!(
        finding.message.starts_with(
            "parameter layers.1.bias of worker 0 (train-0, rank 10) and worker 3 (train-3, rank 13) is another one than \
             that of worker 1 (train-1, rank 11) and worker 2 (train-2, rank 12): no more than half have the same, so \
             nobody knows whose is right"
        ),
        "{}",
        finding.message
    );
}

#[test]
fn a_job_that_ends_by_different_parameters_is_told_of_for_a_while() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, comparing(3, &[7, 7, 9, 7]));
    stage.summing.state = SummationState::Left;
    stage.tell(7, |place, member| {
        comparing(3, &[7, 7, 9, 7])(place, member);
        member.ended_at_ns = Some(at(7).0);
    });
    stage.look(500);
    stage.only(FindingKind::SumParametersDiffer);
    stage.look(700);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

#[test]
fn workers_that_are_lost_when_parameters_were_found_to_differ_are_lost_by_that() {
    for (second, cause, words) in [
        (7, "parameters_differ", ", after it had found that parameters differ; "),
        (30, "worker_lost", " without saying why; "),
    ] {
        let mut stage = Stage::at_work(Summing::new(), 5);
        stage.tell(second, |place, member| {
            comparing(3, &[7, 7, 9, 7])(place, member);
            fail(0)(place, member);
            member.failure = "rank 0 (train-0, 10.0.0.1) closed the connection".into();
            member.ended_at_ns = Some(at(second).0);
        });
        let firing = stage.firing();
        let lost = firing.iter().find(|finding| finding.finding == FindingKind::RankDead).unwrap();
        assert_eq!((firing.len(), &*lost.cause), (2, cause));
        assert!(lost.message.contains(words), "{}", lost.message);
    }
}

#[test]
fn same_parameters_those_that_nobody_compares_and_asynchronous_ones_are_no_difference() {
    for hashes in [None, Some(&[][..]), Some(&[7, 7, 9, 7])] {
        let mut stage = Stage::at_work(Summing::new(), 5);
        stage.tell(6, |place, member| {
            hashes.iter().for_each(|hashes| comparing(3, hashes)(place, member));
            member.asynchronous = hashes.is_some_and(|hashes| !hashes.is_empty());
        });
        assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
    }
}

#[test]
fn a_session_that_goes_on_begins_from_one_workers_parameters() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, comparing(3, &[7, 7, 9, 7]));
    let first = stage.summing.clone();
    stage.summing.state = SummationState::Suspended;
    stage.tell(7, |place, member| {
        comparing(3, &[7, 7, 9, 7])(place, member);
        member.ended_at_ns = Some(at(7).0);
    });
    stage.only(FindingKind::SumParametersDiffer);
    stage.summing = Summing { epoch: 2, ..first };
    stage.tell(8, |_, _| ());
    stage.look(9);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

fn fail(lost: u32) -> impl Fn(Place, &mut SummationMember) {
    move |_, member| {
        member.state = SummationState::Failed.into();
        member.lost_rank = Some(lost);
        member.failure = "no word for 800 ms".to_owned();
        member.ended_at_ns = Some(at(6).0);
    }
}

#[test]
fn findings_survive_a_restart() {
    let mut stage = Stage::at_work(owning(&[36, 24, 10, 10, 10, 10]), 3);
    let kept = stage.only(FindingKind::SumShareImbalance).clone();
    stage.diagnosis = Diagnosis::new();
    stage.diagnosis.restore(vec![kept.clone()]);
    stage.look(4);
    assert_eq!(stage.only(FindingKind::SumShareImbalance).first_seen, kept.first_seen);
    stage.model = Model::new();
    stage.look(5);
    assert!(stage.firing().is_empty(), "its group is not known any more");
}
