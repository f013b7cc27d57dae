//! Members that are lost, and what comes after.

use ringscope_api::Condition;
use ringscope_wire::batch::{Batch, Process};

use super::*;
use crate::standings::Standings;

#[test]
fn a_lost_server_is_named_until_the_session_goes_on_and_can_be_seen() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let first = stage.summing.clone();
    stage.tell(6, fail(5));
    let finding = stage.only(FindingKind::SumServerLost).clone();
    assert_eq!((&*finding.host, finding.rank, &*finding.cause), ("sum-1", Some(5), "server_lost"));
    assert!(finding.message.starts_with("Server 1 (sum-1) was lost at 2027-"), "{}", finding.message);
    assert!(finding.message.contains("no word for 800 ms"), "{}", finding.message);
    let shares = vec![40, 15, 15, 15, 15];
    stage.summing = Summing { epoch: 2, n_servers: 1, owned: shares.clone(), optimal: shares, ..first };
    stage.tell(7, |_, member| member.state = SummationState::Starting.into());
    stage.look(8);
    stage.only(FindingKind::SumServerLost);
    stage.tell(9, |_, _| ());
    stage.look(10);
    let mended = stage.only(FindingKind::SumServerLost);
    assert_eq!((&mended.id, mended.severity), (&finding.id, Severity::Warning));
    assert!(
        mended.message.ends_with("no word for 800 ms; the session goes on without it"),
        "{}",
        mended.message
    );
    let news = stage.look(40);
    let resolved: BTreeSet<&str> = news.iter().map(|finding| finding.id.as_str()).collect();
    assert!(stage.firing().is_empty() && resolved.contains(finding.id.as_str()), "{news:#?}");
}

#[test]
fn a_lost_worker_is_named_as_such_and_not_for_ever() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, fail(2));
    let finding = stage.only(FindingKind::RankDead);
    assert_eq!((&*finding.host, &*finding.cause), ("train-2", "worker_lost"));
    let words = "Worker 2 (train-2, rank 12) was lost at 2027-01-15 08:00:06 UTC: no word for 800 ms; the others cannot go on";
    assert_eq!(finding.message, words);
    stage.look(500);
    stage.only(FindingKind::RankDead);
    stage.look(700);
    assert!(stage.firing().is_empty());
}

#[test]
fn who_leaves_or_is_stopped_with_all_others_is_not_lost() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, |place, member| {
        if place == (Role::Server, 1) {
            member.state = SummationState::Suspended.into();
            member.ended_at_ns = Some(at(6).0);
        }
    });
    stage.look(30);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
    let mut stage = Stage::at_work(Summing::new(), 5);
    let summing = stage.summing.clone();
    let killed = summing
        .places()
        .into_iter()
        .map(|place| ended(summing.process(place, summing.member(place, 15)), ProcessState::Killed, 6));
    stage.model.apply(&batch(7, 6, killed.collect()), at(6));
    stage.look(30);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
}

/// How the job of the workers stands.
fn of_job(stage: &Stage, s: u64) -> (Condition, String) {
    let (id, job) = stage.model.job("train").unwrap();
    let standing = Standings::of(&stage.model, &stage.diagnosis, at(s)).job(id, job);
    (standing.condition, standing.reason)
}

/// How a host stands.
fn of_host(stage: &Stage, name: &str, s: u64) -> Condition {
    let (name, processes) = stage.model.host(name).unwrap();
    let standings = Standings::of(&stage.model, &stage.diagnosis, at(s));
    standings.host(name, &processes.collect::<Vec<_>>()).condition
}

/// Worker 2 has closed its connections, and all others give up.
fn left(place: Place, member: &mut SummationMember) {
    fail(2)(place, member);
    member.failure =
        "summation on comm 0x7f00e0001234: rank 2 (train-2, 10.0.0.2) closed the connection".into();
}

/// All processes end at this second, each in good order but who fails.
fn end(stage: &mut Stage, s: u64) {
    let summing = stage.summing.clone();
    let ends = summing.places().into_iter().map(|place| {
        let mut member = summing.member(place, 15);
        left(place, &mut member);
        ended(summing.process(place, member), ProcessState::Exited, s)
    });
    stage.model.apply(&batch(100 + s, s, ends.collect()), at(s));
}

#[test]
fn a_worker_that_leaves_without_a_word_is_told_so_without_addresses_and_with_what_to_do() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, left);
    let finding = stage.only(FindingKind::RankDead);
    let words = "Worker 2 (train-2, rank 12) left the job at 2027-01-15 08:00:06 UTC without saying why; the others cannot go on";
    assert_eq!(finding.message, words);
    assert!(
        finding.advice.starts_with("Look at what it wrote last; `ringscope launch` prints it."),
        "{}",
        finding.advice
    );
    assert_eq!((finding.severity, finding.accused[0].pid), (Severity::Critical, Some(102)));
    let lost = stage.model.summations().next().unwrap().lost(&stage.model, at(6)).unwrap();
    assert_eq!(lost.why, "rank 2 (train-2, 10.0.0.2) closed the connection");
}

#[test]
fn a_worker_whose_exit_status_is_known_is_told_with_it() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, left);
    let summing = stage.summing.clone();
    let mut member = summing.member((Role::Worker, 2), 15);
    left((Role::Worker, 2), &mut member);
    let process = ended(summing.process((Role::Worker, 2), member), ProcessState::Exited, 6);
    stage.model.apply(&batch(107, 7, vec![Process { exit_status: Some(3), ..process }]), at(7));
    stage.look(8);
    let finding = stage.only(FindingKind::RankDead);
    let words = "exited with status 3 at 2027-01-15 08:00:06 UTC; the others cannot go on";
    assert!(finding.message.ends_with(words), "{}", finding.message);
    assert_eq!(finding.accused[0].doing, "has exited with status 3");
}

#[test]
fn a_host_does_not_fail_with_what_runs_on_it() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, left);
    assert_eq!(
        (of_job(&stage, 6).0, of_host(&stage, "train-2", 6)),
        (Condition::Failed, Condition::Degraded)
    );
    end(&mut stage, 7);
    stage.look(8);
    assert_eq!(of_job(&stage, 8).0, Condition::Failed);
    for host in ["train-2", "train-1", "sum-0"] {
        assert!(of_host(&stage, host, 8) <= Condition::Unknown, "{host}");
    }
}

/// The same job with its workers in newer processes and another session.
fn again(first: &Summing) -> Summing {
    Summing { session: first.session + 1, started: 20, ..first.clone() }
}

#[test]
fn a_loss_is_history_once_the_job_was_started_again() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, left);
    stage.diagnosis.gather(&stage.model, true, at(6));
    let (first, lost) = (stage.summing.clone(), stage.only(FindingKind::RankDead).clone());
    end(&mut stage, 7);
    stage.look(8);
    assert_eq!(of_job(&stage, 8), (Condition::Failed, lost.message.clone()));
    stage.summing = again(&first);
    // It has begun, and nothing has been summed so far.
    stage.model.apply(&stage.summing.batch(21, 0, |_, member| member.finished_rounds = 0), at(21));
    stage.look(21);
    assert_eq!(stage.only(FindingKind::RankDead).severity, Severity::Critical);
    stage.tell(22, |_, _| ());
    stage.look(23);
    let told = stage.only(FindingKind::RankDead);
    assert_eq!((&told.id, told.severity), (&lost.id, Severity::Info));
    assert!(told.message.contains("; the job was started again at 2027-01-15 08:00:"), "{}", told.message);
    assert_eq!(of_job(&stage, 23).0, Condition::Healthy, "{:?}", of_job(&stage, 23));
    let words = told.message.clone();
    stage.diagnosis.gather(&stage.model, true, at(23));
    let incident = stage.diagnosis.incidents().all().next().unwrap();
    let told: Vec<&str> = incident.timeline.iter().rev().take(2).map(|event| &*event.text).collect();
    assert_eq!((&incident.sentence, &*told), (&words, &["It is over.", &*words][..]));
    for second in 24..=60 {
        stage.tell(second, |_, _| ());
    }
    let news = stage.look(60);
    assert!(stage.firing().is_empty(), "{:#?}", stage.firing());
    let known = stage.diagnosis.findings().find(|finding| finding.id == lost.id).unwrap();
    assert!(known.message.contains("the job was started again"), "{news:#?}");
    assert_eq!(of_job(&stage, 60).0, Condition::Healthy);
}

#[test]
fn another_job_or_other_ranks_at_work_end_no_loss() {
    for (job, rank) in [("other", 10), ("train", 20)] {
        let mut stage = Stage::at_work(Summing::new(), 5);
        stage.tell(6, left);
        let other = again(&stage.summing.clone());
        let mut batch = other.batch(22, 60, |_, _| ());
        for identity in batch.processes.iter_mut().filter_map(|process| process.identity.as_mut()) {
            identity.job = job.to_owned();
            identity.global_rank = identity.global_rank.map(|known| known - 10 + rank);
        }
        stage.model.apply(&batch, at(22));
        stage.look(23);
        assert_eq!(stage.only(FindingKind::RankDead).severity, Severity::Critical, "{job} {rank}");
    }
}

#[test]
fn a_second_run_under_the_same_name_ends_no_loss_of_the_first() {
    // It has begun before the first one lost anybody: another run, or a child that has inherited the variables.
    for (other_began, is_again) in [(3, false), (20, true)] {
        let mut stage = Stage::at_work(Summing::new(), 5);
        let first = stage.summing.clone();
        stage.tell(12, left);
        end(&mut stage, 13);
        stage.summing = Summing { started: other_began, ..again(&first) };
        stage.tell(22, |_, _| ());
        stage.look(23);
        let severity = if is_again { Severity::Info } else { Severity::Critical };
        assert_eq!(stage.only(FindingKind::RankDead).severity, severity, "{other_began}");
    }
}

#[test]
fn parameters_that_differ_are_told_of_a_job_beside_another_of_its_name() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let beside = again(&stage.summing);
    stage.model.apply(&beside.batch(22, 60, |_, _| ()), at(22));
    stage.tell(24, comparing(3, &[7, 7, 9, 7]));
    stage.look(25);
    stage.only(FindingKind::SumParametersDiffer);
}

#[test]
fn a_job_whose_host_is_silent_may_have_been_started_again_elsewhere() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, left);
    stage.summing = Summing { started: 60, ..again(&stage.summing) };
    // Of the first one nobody has told an end.
    let told = stage.summing.batch(65, 60, |_, _| ());
    stage.model.apply(&Batch { agent_id: "elsewhere".to_owned(), ..told }, at(65));
    stage.look(66);
    assert_eq!(stage.only(FindingKind::RankDead).severity, Severity::Info);
}

#[test]
fn a_job_that_is_over_keeps_what_ended_it() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, left);
    end(&mut stage, 7);
    stage.look(8);
    let told = of_job(&stage, 8);
    assert_eq!(told.0, Condition::Failed, "{}", told.1);
    stage.look(700);
    assert!(stage.firing().is_empty());
    assert_eq!(of_job(&stage, 700), told);
    // What ends with the job was not its reason.
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(6, |place, member| {
        if place == (Role::Server, 0) {
            member.waits = vec![wait(50, &[1], 5_000)];
        }
    });
    stage.only(FindingKind::SumRoundStuck);
    stage.summing.state = SummationState::Left;
    let summing = stage.summing.clone();
    let ends = summing.places().into_iter().map(|place| {
        let member = SummationMember { ended_at_ns: Some(at(7).0), ..summing.member(place, 15) };
        let process = ended(summing.process(place, member), ProcessState::Exited, 7);
        Process { exit_status: Some(0), ..process }
    });
    stage.model.apply(&batch(100, 7, ends.collect()), at(7));
    stage.look(8);
    stage.look(700);
    assert_eq!(of_job(&stage, 700).0, Condition::Healthy);
}

#[test]
fn who_ends_after_a_long_wait_for_another_is_no_culprit() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let waits = |seconds: u64, place: Place, member: &mut SummationMember| {
        if place == (Role::Server, 0) {
            member.waits = vec![wait(50, &[1], 1_000 * seconds)];
        }
    };
    for second in 6..=25 {
        stage.tell(second, |place, member| waits(second - 5, place, member));
    }
    let stuck = stage.only(FindingKind::SumRoundStuck).clone();
    // Somebody ends the job: one is the first, and the others name it; or none has the time to name anybody.
    stage.tell(26, |place, member| {
        waits(21, place, member);
        left(place, member);
        member.ended_at_ns = Some(at(26).0);
    });
    assert_eq!(stage.only(FindingKind::SumRoundStuck).id, stuck.id);
    let summing = stage.summing.clone();
    let ends = summing.places().into_iter().map(|place| {
        let mut member = summing.member(place, 15);
        waits(21, place, &mut member);
        ended(summing.process(place, member), ProcessState::Killed, 27)
    });
    stage.model.apply(&batch(100, 27, ends.collect()), at(27));
    stage.look(28);
    let told = stage.only(FindingKind::SumRoundStuck);
    let words = "Until its summation ended at 2027-01-15 08:00:27 UTC: round 50 of gradient.fc (part 3) has waited for the \
                 contribution of worker 1 (train-1, rank 11)";
    assert!(told.message.starts_with(words), "{}", told.message);
    assert!(told.advice.starts_with("It has ended"), "{}", told.advice);
    let (id, message) = (told.id.clone(), told.message.clone());
    stage.look(60);
    assert_eq!(stage.only(FindingKind::SumRoundStuck).id, id);
    assert_eq!((id, of_job(&stage, 28)), (stuck.id, (Condition::Failed, message.clone())));
    stage.look(700);
    assert_eq!((stage.firing().len(), of_job(&stage, 700)), (0, (Condition::Failed, message)));
}

#[test]
fn who_is_lost_while_a_round_waits_for_it_is_the_culprit() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(26, |place, member| {
        if place == (Role::Server, 0) {
            member.waits = vec![wait(50, &[2], 21_000)];
        }
        left(place, member);
    });
    assert!(stage.firing().iter().any(|finding| finding.finding == FindingKind::RankDead));
}

/// All that is told, by its kind and rank in the group.
fn told(stage: &Stage) -> BTreeSet<(FindingKind, Option<u32>)> {
    stage.firing().iter().map(|finding| (finding.finding, finding.rank)).collect()
}

/// Rounds had waited for worker 1 when the others lost `lost`, and from then on.
fn waiting_and_lost(lost: u32, s: u64) -> impl Fn(Place, &mut SummationMember) {
    move |place, member| {
        if place != (Role::Worker, 1) && member_rank(place) != lost {
            fail(lost)(place, member);
            member.failure = format!("rank {lost} closed the connection");
            member.ended_at_ns = Some(at(s).0);
        }
        if place == (Role::Server, 1) {
            member.waits = vec![wait(50, &[1], 12_000)];
        }
    }
}

fn member_rank((role, index): Place) -> u32 {
    if role == Role::Server { 4 + index } else { index }
}

/// A stage of which `lost` ends so at second 26 and the other workers by their errors two seconds later; looked at until 40.
fn lost_while_waiting(lost: u32, end_of_lost: Option<ProcessState>) -> Stage {
    let mut stage = Stage::at_work(Summing::new(), 5);
    let summing = stage.summing.clone();
    for second in [26, 28] {
        let processes = summing.places().into_iter().map(|place| {
            let mut member = summing.member(place, 15);
            waiting_and_lost(lost, 26)(place, &mut member);
            let process = summing.process(place, member);
            match (member_rank(place) == lost, place) {
                (true, _) => end_of_lost.map_or(process.clone(), |how| ended(process, how, 26)),
                (false, (Role::Worker, 0 | 2 | 3)) if second == 28 => {
                    ended(process, ProcessState::Exited, 28)
                }
                _ => process,
            }
        });
        stage.model.apply(&batch(100 + second, second, processes.collect()), at(second));
        stage.look(second);
    }
    stage.look(40);
    stage
}

#[test]
fn who_is_killed_while_rounds_wait_for_another_is_told_beside_it() {
    let stuck = (FindingKind::SumRoundStuck, Some(1));
    for (lost, how, kind) in [
        (4, Some(ProcessState::Killed), Some(FindingKind::SumServerLost)),
        (4, None, Some(FindingKind::SumServerLost)),
        (3, Some(ProcessState::Killed), Some(FindingKind::RankDead)),
        (3, Some(ProcessState::Exited), None),
        (3, None, None),
    ] {
        let expected = kind.map(|kind| (kind, Some(lost))).into_iter().chain([stuck]).collect();
        assert_eq!(told(&lost_while_waiting(lost, how)), expected, "{lost} {how:?}");
    }
}

#[test]
fn who_is_lost_while_nobody_knows_for_whom_rounds_wait_is_told() {
    let mut stage = Stage::at_work(Summing::new(), 5);
    stage.tell(26, |place, member| {
        waiting_and_lost(3, 26)(place, member);
        if place == (Role::Worker, 1) {
            member.stages[1].running_parts = 2;
        }
    });
    let expected = [(FindingKind::SumRoundStuck, Some(1)), (FindingKind::RankDead, Some(3))];
    assert_eq!(told(&stage), expected.into_iter().collect());
}
