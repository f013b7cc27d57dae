//! Batches in, findings out.

mod stage;

use ringscope_api::clock::Timestamp;
use ringscope_api::{Condition, FindingKind, Severity, Standing};
use ringscope_wire::batch::{self, CommunicatorState, Primitive, ProcessState};

use self::stage::{SUM, Stage};
use crate::Want;
use crate::standings::Standings;

/// All but one rank.
fn others(stage: &Stage, rank: usize) -> Vec<usize> {
    (0..stage.ranks.len()).filter(|other| *other != rank).collect()
}

/// Two hosts of four ranks that have trained for some seconds.
fn job() -> Stage {
    let mut stage = Stage::new(2, 4);
    stage.train(20);
    assert_eq!(stage.firing(), [], "healthy so far");
    stage
}

/// The same, with one rank that does not make the next call.
fn without(rank: usize) -> Stage {
    let mut stage = job();
    let (others, world) = (others(&stage, rank), stage.world());
    stage.call(others, world, SUM);
    stage
}

/// How the job stands.
fn of_job(stage: &Stage) -> Standing {
    let (id, job) = stage.model.jobs().find(|(id, _)| &***id == "train").unwrap();
    Standings::of(&stage.model, &stage.diagnosis, stage.now).job(id, job)
}

/// How a host stands.
fn of_host(stage: &Stage, name: &str) -> Standing {
    let (name, processes) = stage.model.host(name).unwrap();
    Standings::of(&stage.model, &stage.diagnosis, stage.now).host(name, &processes.collect::<Vec<_>>())
}

#[test]
fn healthy_work_has_no_findings_and_stands_well() {
    let mut stage = job();
    stage.train(40);
    assert_eq!(stage.firing(), []);
    let standing = of_job(&stage);
    assert_eq!(standing.condition, Condition::Healthy, "{}", standing.reason);
    assert!(stage.diagnosis.take_wanted().is_empty(), "nobody is asked anything in peace");
}

/// A look that panics says nothing of its job, and is told; the next one may.
#[test]
fn a_job_that_the_judge_fails_at_is_unknown_and_not_healthy() {
    let mut stage = job();
    let later = Timestamp(stage.now.0 + 1_000_000_000);
    let panics = |_: &_| panic!("facts that the judge cannot bear");
    let looks = stage.diagnosis.jobs.look_at_all(&stage.model, &panics, later);
    assert!(looks.is_empty());
    let standing = of_job(&stage);
    assert_eq!(standing.condition, Condition::Unknown);
    assert!(standing.reason.contains("an error of ringscope's own"), "{}", standing.reason);
    assert_eq!(stage.diagnosis.dropped().get("judge_panic"), Some(&1));
    stage.train(30);
    assert_eq!(of_job(&stage).condition, Condition::Unknown, "the next look is likely to end the same way");
    stage.train(300);
    let standing = of_job(&stage);
    assert_eq!(standing.condition, Condition::Healthy, "{}", standing.reason);
}

#[test]
fn only_very_large_jobs_are_left_alone_for_seconds_while_nothing_is_wrong() {
    let pause_ms = |n_processes| super::calm_pause(n_processes).as_millis();
    assert_eq!([1_000, 25_000, 50_000, 100_000, 1_000_000].map(pause_ms), [36, 900, 1_800, 3_600, 3_600]);
}

#[test]
fn a_stopped_rank_is_named_within_two_seconds_and_looked_at() {
    let mut stage = without(5);
    stage.ranks[5].activity = "T";
    let began = stage.now;
    stage.step(3_000);
    let found = stage.one(FindingKind::RankMissing);
    assert_eq!((found.severity, found.rank), (Severity::Critical, Some(5)), "{}", found.message);
    assert_eq!((&*found.host, &*found.job), ("host-1", "train"));
    assert_eq!(found.comm, stage.clusters[0].0.id().to_string(), "of its judgement");
    assert_eq!((found.accused.len(), found.n_victims), (1, 7));
    assert_eq!(found.accused[0].rank, Some(5));
    assert!(found.began_at.is_some_and(|at| at <= Timestamp(began.0 + 1_000_000)), "{:?}", found.began_at);
    assert!(found.first_seen <= Timestamp(began.0 + 1_000_000), "as long as it truly goes on");
    let comm = stage.clusters[0].0.id();
    assert!(
        stage.diagnosis.firing_of(comm).any(|other| other.id == found.id),
        "it is the communicator's too"
    );
    let standing = of_job(&stage);
    assert_eq!(standing.condition, Condition::Hung, "{}", standing.reason);
    // Its twin: it goes on, and the finding ends.
    stage.ranks[5].activity = "S";
    let world = stage.world();
    stage.call([5], world, SUM);
    stage.complete(world);
    stage.step(2_000);
    stage.train(8);
    assert_eq!(stage.firing(), []);
}

#[test]
fn calls_of_one_group_that_have_ended_are_compared_as_a_set() {
    for is_group in [true, false] {
        let mut stage = job();
        let world = stage.world();
        let (large, small) = ((Primitive::AllReduce, 4_096), (Primitive::AllReduce, 8));
        for (rank, calls) in [(0, [large, small]), (1, [small, large])] {
            calls.into_iter().for_each(|call| stage.call([rank], world, call));
        }
        for rank in 2..8 {
            stage.call([rank], world, large);
            stage.call([rank], world, small);
        }
        (0..8).for_each(|rank| stage.part(rank, world).group = if is_group { 20..22 } else { 0..0 });
        stage.step(250);
        stage.complete(world);
        // Somebody waits, so it is looked at closely.
        stage.call(0..7, world, SUM);
        stage.step(4_000);
        let differs = stage.firing().iter().any(|(kind, ..)| *kind == FindingKind::CallMismatch);
        assert_eq!(differs, !is_group, "{:?}", stage.hangs());
    }
}

#[test]
fn the_culprit_is_looked_at_once() {
    let mut stage = without(5);
    stage.ranks[5].activity = "T";
    let mut asked = Vec::new();
    for _ in 0..40 {
        stage.step(250);
        asked.extend(stage.diagnosis.take_wanted());
    }
    let looks: Vec<&str> =
        asked.iter().filter(|asked| asked.what == Want::Look).map(|asked| &*asked.process).collect();
    assert_eq!(looks, [stage.clusters[0].0.key(5)]);

    let mut without_looks = without(5);
    without_looks.diagnosis.set_look(false);
    without_looks.ranks[5].activity = "T";
    for _ in 0..20 {
        without_looks.step(250);
        assert!(without_looks.diagnosis.take_wanted().iter().all(|asked| asked.what != Want::Look));
    }
}

#[test]
fn a_killed_rank_is_named_and_its_victims_are_not() {
    let mut stage = without(2);
    stage.ranks[2].ended = Some((ProcessState::Killed, stage.now));
    stage.step(2_500);
    let found = stage.one(FindingKind::RankDead);
    assert_eq!((found.severity, found.rank), (Severity::Critical, Some(2)), "{}", found.message);
    assert!(found.accused.iter().all(|culprit| culprit.rank == Some(2)));
    // All are killed then, as a launcher does; what is about them ends.
    for rank in 0..8 {
        stage.ranks[rank].ended = Some((ProcessState::Killed, stage.now));
    }
    stage.step(300_000);
    assert_eq!(stage.firing(), [], "a finding ends with the processes that it is about");
}

#[test]
fn who_gives_up_after_a_long_wait_is_not_to_blame() {
    let mut stage = without(5);
    stage.ranks[5].activity = "T";
    stage.step(12_000);
    let hang = stage.one(FindingKind::RankMissing).clone();
    let id = stage.incident().id;
    // Watchdogs end the others, one after the other, and the launcher ends the one that they waited for.
    for rank in [0, 1, 2, 3, 4, 6, 7] {
        stage.ranks[rank].ended = Some((ProcessState::Killed, stage.now));
        stage.step(1_000);
        assert_eq!(stage.firing(), [(FindingKind::RankMissing, Severity::Critical, Some(5))], "{rank}");
        stage.incident();
    }
    let told = stage.one(FindingKind::RankMissing);
    assert_eq!((&told.id, told.began_at), (&hang.id, hang.began_at));
    assert!(told.message.starts_with(&hang.message) && told.message.contains("; those who waited ended at "));
    assert!(told.advice.contains("kill -CONT"), "{}", told.advice);
    let texts = stage.incident().timeline.into_iter().map(|event| event.text);
    let ended: Vec<String> = texts.filter(|text| text.starts_with("Ended after they had waited: ")).collect();
    assert!(ended.len() == 1 && ended[0].matches("(pid ").count() == 7, "{ended:#?}");
    stage.ranks[5].ended = Some((ProcessState::Killed, stage.now));
    stage.step(5_000);
    assert_eq!(stage.firing(), [(FindingKind::RankMissing, Severity::Critical, Some(5))]);
    // Whoever has its number now is not to be touched.
    let told = stage.one(FindingKind::RankMissing).clone();
    assert!(told.message.starts_with("Until its end at ") && told.message.contains(&hang.message));
    assert!(told.advice.starts_with("It has ended: nothing can be done to it"), "{}", told.advice);
    let incident = stage.incident();
    assert_eq!((incident.id, incident.sentence, incident.advice), (id, told.message, told.advice));
    let ended_at = incident.job_ended_at;
    assert_eq!(of_host(&stage, "host-1").condition, Condition::Healthy, "an ended job holds no host");
    assert!(incident.resolved_at.is_none() && ended_at.is_some_and(|at| at <= stage.now), "{ended_at:?}");
    stage.step(30_000);
    assert_eq!(stage.firing(), [], "it is over, and nobody who gave up is to blame instead");
    let incident = stage.incident();
    assert!(incident.resolved_at.is_some() && incident.job_ended_at == ended_at, "{incident:#?}");
    assert_eq!(incident.timeline.last().unwrap().text, "It ended with its job.");
    assert!(incident.timeline.iter().any(|event| event.text.contains(&hang.message)), "{incident:#?}");
    stage.step(300_000);
    assert_eq!(stage.firing(), [], "a job that is over is told of for a while");
}

#[test]
fn what_was_to_be_done_to_a_process_is_not_advised_once_it_is_over() {
    let mut stage = without(5);
    stage.ranks[5].activity = "T";
    stage.step(5_000);
    assert!(stage.incident().advice.contains("kill -CONT 1005"));
    // It goes on, and so do all.
    stage.ranks[5].activity = "S";
    let world = stage.world();
    stage.call([5], world, SUM);
    stage.complete(world);
    stage.step(3_000);
    let incident = stage.incident();
    assert!(incident.resolved_at.is_some() && !incident.advice.contains("1005"), "{incident:#?}");
    assert_eq!(incident.job_ended_at, None);
}

#[test]
fn ranks_that_end_after_their_work_are_no_deaths() {
    let mut stage = job();
    for rank in 0..8 {
        let world = stage.world();
        stage.part(rank, world).state = Some(CommunicatorState::Destroyed);
        stage.step(500);
        stage.ranks[rank].ended = Some((ProcessState::Exited, stage.now));
        stage.step(500);
    }
    stage.step(10_000);
    assert_eq!(stage.firing(), []);
}

#[test]
fn another_primitive_is_a_mismatch() {
    let mut stage = without(3);
    let world = stage.world();
    stage.call([3], world, (Primitive::AllGather, 1_024));
    stage.step(3_000);
    let found = stage.one(FindingKind::CallMismatch);
    assert_eq!((found.severity, found.rank), (Severity::Critical, Some(3)), "{}", found.message);
}

#[test]
fn another_count_is_a_mismatch_also_while_nothing_hangs() {
    let mut stage = without(3);
    let world = stage.world();
    stage.call([3], world, (SUM.0, 2_048));
    stage.complete(world);
    stage.step(3_000);
    let found = stage.one(FindingKind::CallMismatch);
    assert_eq!(found.rank, Some(3), "{}", found.message);
}

#[test]
fn an_init_that_lacks_a_rank_says_which() {
    let mut stage = job();
    let late = stage.clusters[0].0.again(0xdef, 9, 106);
    stage.with(&late, (0..8).collect());
    // Only the ones that have come are known.
    let place = stage.clusters.len() - 1;
    stage.clusters[place].1.retain(|rank| *rank != 6);
    stage.clusters[place].1.insert(6, u32::MAX);
    let now = stage.now;
    for rank in others(&stage, 6) {
        stage.part(rank, 9).state = Some(CommunicatorState::Forming);
        stage.ranks[rank].open = vec![("ncclCommInitRank", Some(9), now)];
    }
    stage.ranks[6].parts.remove(&9);
    stage.step(14_000);
    let found = stage.one(FindingKind::InitStuck);
    assert!(found.message.contains('6'), "{}", found.message);
    assert_eq!(found.comm, late.id().to_string());
}

#[test]
fn a_circle_of_communicators_is_one_deadlock() {
    let mut stage = job();
    stage.pair(20, [0, 1]);
    stage.pair(21, [1, 2]);
    stage.pair(22, [2, 0]);
    stage.step(1_000);
    // Each waits in another one first.
    stage.call([0], 20, SUM);
    stage.call([1], 21, SUM);
    stage.call([2], 22, SUM);
    stage.step(4_000);
    let found = stage.one(FindingKind::OrderDeadlock);
    assert_eq!(found.severity, Severity::Critical, "{}", found.message);
    assert!(
        !stage.firing().iter().any(|(kind, ..)| *kind == FindingKind::RankMissing),
        "{:?}",
        stage.firing()
    );
}

#[test]
fn without_a_launcher_the_communicator_of_all_gives_the_ranks_of_the_job() {
    let mut stage = Stage::new(2, 2);
    stage.unnumbered = true;
    stage.train(20);
    stage.pair(20, [2, 3]);
    stage.step(1_000);
    stage.call([2], 20, SUM);
    stage.ranks[3].activity = "T";
    stage.step(4_000);
    let found = stage.one(FindingKind::RankMissing);
    assert!(found.message.starts_with("Rank 1 (host-1, pid 1003, global rank 3) "), "{}", found.message);
    assert_eq!((found.accused[0].rank, found.accused[0].global_rank), (Some(1), Some(3)));
}

#[test]
fn a_receive_without_its_send_is_unmatched() {
    let mut stage = job();
    let (world, now) = (stage.world(), stage.now);
    stage.part(1, world).open_pairs = vec![(Primitive::Recv, 0, now)];
    stage.part(1, world).pairs = vec![(Primitive::Recv, 0, 4)];
    stage.part(0, world).pairs = vec![(Primitive::Send, 1, 3)];
    stage.ranks[0].activity = "T";
    stage.step(5_000);
    let kinds: Vec<FindingKind> = stage.firing().into_iter().map(|(kind, ..)| kind).collect();
    assert!(
        kinds.contains(&FindingKind::P2pUnmatched) || kinds.contains(&FindingKind::RankMissing),
        "{:#?}",
        stage.hangs()
    );
    assert!(stage.hangs().iter().all(|found| found.accused.iter().all(|culprit| culprit.rank == Some(0))));
}

#[test]
fn a_pause_of_all_is_no_hang_and_a_wait_for_one_is_information_first() {
    let mut stage = job();
    stage.step(60_000);
    assert_eq!(stage.firing(), [], "nobody calls: nothing is open");
    let (others, world) = (others(&stage, 4), stage.world());
    stage.call(others, world, SUM);
    stage.step(6_000);
    let firing = stage.firing();
    assert!(firing.iter().all(|(.., severity, _)| *severity < Severity::Critical), "{firing:?}");
    stage.call([4], world, SUM);
    stage.complete(world);
    stage.step(3_000);
    assert_eq!(stage.firing(), []);
}

#[test]
fn absence_needs_coverage() {
    let mut stage = job();
    stage.silent = vec!["host-1".to_owned()];
    let world = stage.world();
    stage.step(500);
    // All call; the agent of half of them stands still and does not tell.
    stage.call(0..8, world, SUM);
    stage.step(10_000);
    assert!(
        !stage.firing().iter().any(|(kind, ..)| *kind == FindingKind::RankMissing),
        "{:#?}",
        stage.hangs()
    );
}

/// All ranks of the other host wait in a call, and nothing is heard of host-1 any more.
fn silent_host(goodbye: bool) -> Stage {
    let mut stage = job();
    let world = stage.world();
    stage.call(0..4, world, SUM);
    stage.step(500);
    stage.silent = vec!["host-1".to_owned()];
    if goodbye {
        let batch = batch::Batch {
            agent_id: format!("{}-host-1", stage.agents),
            seq_number: 1_000_000,
            agent_host: "host-1".to_owned(),
            sent_at_ns: stage.now.0,
            ending: true,
            ..batch::Batch::default()
        };
        stage.model.apply(&batch, stage.now);
    }
    stage.step(20_000);
    stage
}

#[test]
fn a_host_whose_agent_said_goodbye_is_not_lost() {
    let is_lost = |stage: &Stage| stage.firing().iter().any(|(kind, ..)| *kind == FindingKind::HostLost);
    assert!(is_lost(&silent_host(false)));
    let mut stage = silent_host(true);
    assert!(!is_lost(&stage), "{:#?}", stage.hangs());
    // The next agent there: from now on its silence counts again.
    stage.agents = "next";
    (4..8).for_each(|rank| stage.forget_told(rank));
    stage.silent.clear();
    stage.step(2_000);
    stage.silent = vec!["host-1".to_owned()];
    stage.step(20_000);
    assert!(is_lost(&stage), "{:#?}", stage.hangs());
}

fn lost_host(stage: &Stage) -> Option<String> {
    let lost = stage.hangs().into_iter().find(|finding| finding.finding == FindingKind::HostLost);
    lost.map(|finding| finding.message.clone())
}

#[test]
fn a_host_whose_agent_says_the_same_again_and_again_is_not_lost_nor_well() {
    let mut stage = job();
    stage.silent = vec!["host-1".to_owned()];
    for _ in 0..60 {
        stage.step(1_000);
        stage.model.hear_again("agent-host-1", stage.now);
    }
    assert_eq!(lost_host(&stage), None);
    let standing = of_host(&stage, "host-1");
    assert_eq!(standing.condition, Condition::Unknown, "{}", standing.reason);
    assert!(standing.reason.contains("sends the same again and again"), "{}", standing.reason);
    stage.step(20_000);
    assert!(lost_host(&stage).is_some(), "and its silence counts");
}

#[test]
fn no_host_is_lost_while_nobody_is_heard() {
    let mut stage = job();
    stage.silent = vec!["host-0".to_owned(), "host-1".to_owned()];
    for _ in 0..60 {
        stage.step(1_000);
        assert_eq!(lost_host(&stage), None);
    }
    stage.silent.remove(0);
    stage.step(1_000);
    assert!(lost_host(&stage).unwrap().starts_with("host-1 is not heard since "));
}

#[test]
fn a_host_that_is_lost_after_a_restart_was_heard_before_it() {
    let mut stage = job();
    let before = stage.now;
    stage.now = Timestamp(before.0 + 600_000_000_000);
    stage.restart();
    stage.agents = "again";
    (0..4).for_each(|rank| stage.forget_told(rank));
    stage.model.restore_heard([("host-0", before), ("host-1", before), ("host-9", before)].into_iter());
    stage.silent = vec!["host-1".to_owned()];
    for _ in 0..14 {
        stage.step(1_000);
        assert_eq!(lost_host(&stage), None, "its agent has some time to come back");
    }
    stage.step(3_000);
    let since = &ringscope_api::words::clock(before)[11..];
    assert!(lost_host(&stage).unwrap().starts_with(&format!("host-1 is not heard since {since};")));
}

/// How the wait for rank 5 ended, in its finding.
fn ends_well(stage: &Stage) -> bool {
    let ended = stage.diagnosis.findings().find(|one| one.finding == FindingKind::Waiting).unwrap();
    assert!(ended.resolved_at.is_some(), "{ended:?}");
    ended.details.iter().any(|detail| detail.title == "How it ended")
}

#[test]
fn a_wait_that_ended_well_is_known_after_a_restart() {
    let mut stage = without(5);
    stage.step(25_000);
    let world = stage.world();
    stage.call([5], world, SUM);
    stage.complete(world);
    stage.step(2_000);
    assert!(ends_well(&stage));
    stage.restart();
    stage.agents = "again";
    (0..8).for_each(|rank| stage.forget_told(rank));
    stage.train(8);
    let others = others(&stage, 5);
    stage.call(others, world, SUM);
    // Without it this would be critical by now.
    stage.step(40_000);
    assert_eq!(stage.firing(), [(FindingKind::Waiting, Severity::Info, Some(5))]);
    stage.step(15_000);
    assert_eq!(stage.firing(), [(FindingKind::RankMissing, Severity::Critical, Some(5))]);
}

#[test]
fn a_wait_that_was_given_up_has_not_ended_well() {
    let mut stage = without(5);
    stage.step(25_000);
    let world = stage.world();
    (0..8).for_each(|rank| stage.part(rank, world).state = Some(CommunicatorState::Aborted));
    stage.step(2_000);
    assert!(!ends_well(&stage));
}

#[test]
fn after_a_restart_the_finding_is_there_with_its_true_beginning() {
    let mut stage = without(5);
    stage.ranks[5].activity = "T";
    stage.step(5_000);
    let before = stage.one(FindingKind::RankMissing).clone();
    stage.restart();
    stage.agents = "again";
    let silent = ["host-0".to_owned(), "host-1".to_owned()];
    stage.silent = silent.to_vec();
    // Its agents have not spoken yet: nothing is known, so nothing ends.
    for _ in 0..4 {
        stage.step(1_000);
        assert_eq!(stage.one(FindingKind::RankMissing).first_seen, before.first_seen);
    }
    stage.silent.clear();
    for _ in 0..4 {
        stage.step(1_000);
        let found = stage.one(FindingKind::RankMissing);
        assert_eq!((&found.id, found.began_at), (&before.id, before.began_at));
        assert_eq!(found.first_seen, before.first_seen);
    }
    // And it ends where it has ended meanwhile.
    stage.ranks[5].activity = "S";
    let world = stage.world();
    stage.call([5], world, SUM);
    stage.complete(world);
    stage.step(3_000);
    assert_eq!(stage.firing(), []);
}

#[test]
fn a_restart_without_what_the_store_kept_finds_it_anew() {
    let mut stage = without(5);
    stage.ranks[5].activity = "T";
    let began = stage.now;
    stage.step(5_000);
    stage.model = ringscope_model::Model::new();
    stage.diagnosis = crate::Diagnosis::new();
    for rank in 0..8 {
        stage.forget_told(rank);
    }
    stage.step(3_000);
    let found = stage.one(FindingKind::RankMissing);
    assert!(found.first_seen <= Timestamp(began.0 + 1_000_000), "its true beginning");
}

#[test]
fn a_collector_that_is_off_is_unknown() {
    let mut stage = job();
    let mut told = batch::Process { key: stage.clusters[0].0.key(1), ..batch::Process::default() };
    told.collector_state = batch::CollectorState::Off.into();
    told.collector_off_since_ns = Some(stage.now.0);
    told.segment_version = 5;
    told.has_segment = true;
    let batch = batch::Batch {
        agent_id: "by-hand".to_owned(),
        seq_number: 1,
        agent_host: "host-0".to_owned(),
        sent_at_ns: stage.now.0 + 1,
        processes: vec![told],
        ..batch::Batch::default()
    };
    stage.model.apply(&batch, stage.now);
    stage.diagnosis.update(&stage.model, None, stage.now);
    let standing = of_job(&stage);
    assert_eq!(standing.condition, Condition::Unknown, "{}", standing.reason);
}

#[test]
fn a_thousand_ranks_are_judged() {
    let mut stage = Stage::new(125, 8);
    stage.read_every_ms = 1_000;
    let (all, world) = (0..1_000, stage.world());
    stage.call(all, world, SUM);
    stage.complete(world);
    stage.step(1_000);
    assert_eq!(stage.firing(), []);
    let others = others(&stage, 471);
    stage.call(others, world, SUM);
    stage.ranks[471].activity = "T";
    stage.step(3_000);
    let found = stage.one(FindingKind::RankMissing);
    assert_eq!((found.rank, found.n_victims), (Some(471), 999), "{}", found.message);
}

#[test]
fn a_hang_goes_on_while_those_who_wait_are_not_heard() {
    let mut stage = Stage::new(2, 1);
    stage.train(20);
    stage.call([0], stage.world(), SUM);
    stage.ranks[1].activity = "T";
    stage.step(3_000);
    let id = stage.one(FindingKind::RankMissing).id.clone();
    stage.silent = vec!["host-0".to_owned()];
    for second in 1..=40 {
        stage.step(1_000);
        let found = stage.one(FindingKind::RankMissing);
        assert_eq!(found.id, id, "after {second} s");
        assert_eq!(found.severity, Severity::Critical);
    }
    assert!(stage.one(FindingKind::RankMissing).details.iter().any(|detail| detail.title == "As last known"));
    // The agent is back, and nothing has changed.
    stage.silent.clear();
    for _ in 0..8 {
        stage.step(1_000);
        assert_eq!(stage.one(FindingKind::RankMissing).id, id);
    }
    // It has ended meanwhile, and an agent that is back again says so.
    stage.silent = vec!["host-0".to_owned()];
    stage.step(12_000);
    stage.ranks[1].activity = "S";
    stage.call([1], stage.world(), SUM);
    stage.complete(stage.world());
    stage.silent.clear();
    stage.step(8_000);
    assert_eq!(stage.firing(), []);
}

#[test]
fn who_crashed_first_is_told_whatever_the_clocks_of_the_hosts_say() {
    for ahead_s in [0, 2, -200] {
        for culprit in [2, 5] {
            let mut stage = Stage::new(2, 4);
            stage.ahead_s.insert("host-1".to_owned(), ahead_s);
            stage.train(20);
            assert_eq!(stage.firing(), [], "{ahead_s} s ahead");
            let (others, world) = (others(&stage, culprit), stage.world());
            stage.call(others.clone(), world, SUM);
            stage.step(500);
            stage.ranks[culprit].ended = Some((ProcessState::Killed, stage.now));
            stage.step(1_000);
            for rank in others {
                stage.ranks[rank].ended = Some((ProcessState::Killed, stage.now));
            }
            stage.step(3_000);
            let ranks: Vec<_> = stage.one(FindingKind::RankDead).accused.iter().map(|one| one.rank).collect();
            assert_eq!(ranks, [u32::try_from(culprit).ok()], "{ahead_s} s ahead");
        }
    }
}

#[test]
fn a_clock_that_is_wrong_makes_nobody_well_or_unknown() {
    for ahead_s in [3_600, -70] {
        let mut stage = Stage::new(2, 4);
        stage.ahead_s.insert("host-1".to_owned(), ahead_s);
        stage.train(20);
        let (all, world) = (0..8, stage.world());
        let mut call = |idle_ms| {
            stage.step(idle_ms);
            stage.call(all.clone(), world, SUM);
            stage.step(500);
            let standing = of_host(&stage, "host-1");
            stage.complete(world);
            (standing.condition, standing.reason)
        };
        let (condition, reason) = call(250);
        assert_eq!(condition, Condition::Healthy, "{ahead_s}: {reason}");
        let (condition, reason) = call(90_000);
        assert_eq!(condition, Condition::Unknown, "{ahead_s}: {reason}");
        assert!(reason.contains("has been open for 0.5 s, and none has completed for 9"), "{reason}");
    }
}

#[test]
fn after_a_restart_a_hang_fires_on_while_those_who_wait_are_not_heard() {
    let mut stage = Stage::new(2, 1);
    stage.train(20);
    stage.call([0], stage.world(), SUM);
    stage.ranks[1].activity = "T";
    stage.step(3_000);
    let id = stage.one(FindingKind::RankMissing).id.clone();
    stage.restart();
    stage.agents = "again";
    stage.forget_told(1);
    stage.silent = vec!["host-0".to_owned()];
    for second in 1..=60 {
        stage.step(1_000);
        assert_eq!(stage.one(FindingKind::RankMissing).id, id, "after {second} s");
    }
    // Nobody comes back: then only the host is lost.
    stage.step(300_000);
    assert!(stage.firing().iter().all(|(kind, ..)| *kind == FindingKind::HostLost), "{:#?}", stage.hangs());
}

#[test]
fn a_hang_has_not_ended_because_the_daemon_has_looked_once_since_it_started() {
    let mut stage = Stage::new(2, 1);
    stage.train(20);
    stage.call([0], stage.world(), SUM);
    stage.ranks[1].activity = "T";
    stage.step(3_000);
    stage.restart();
    for quarter in 1..=40 {
        stage.step(250);
        let firing = stage.firing();
        assert!(
            firing.iter().any(|(kind, ..)| *kind == FindingKind::RankMissing),
            "at {quarter}: {firing:?}"
        );
    }
    // What ended meanwhile is over soon.
    stage.restart();
    stage.ranks[1].activity = "S";
    stage.call([1], stage.world(), SUM);
    stage.complete(stage.world());
    stage.step(1_000);
    stage.step(6_000);
    assert!(stage.firing().is_empty(), "{:?}", stage.firing());
}
