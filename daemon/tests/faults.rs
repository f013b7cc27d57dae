//! Processes that really die: a rank, the daemon, the agent. Nothing hangs, nothing is lost, nothing counts twice.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use ringscope_daemon::api::{OperationState, RankState};
use ringscope_daemon::clock;
use ringscope_daemon::demo::job::Job;
use rustix::process::{Pid, Signal, kill_process};

use common::stage::Stage;
use common::totals::{completed_bytes, has_ended, said, shown};
use common::{PATIENCE, eventually};

/// Waits until the daemon shows more completed bytes of the job than `already`.
async fn moves_on(stage: &Stage, job: &Job, already: u64) -> u64 {
    eventually(&format!("{} moves on; {}", job.name, stage.words()), || async {
        let bytes = completed_bytes(&stage.client(), &job.name).await;
        Some(bytes).filter(|bytes| *bytes > already)
    })
    .await
}

/// Ends the job and holds what the daemon shows against what the ranks say they did.
async fn ends_with_exact_totals(stage: &Stage, job: &mut Job) {
    job.stop(PATIENCE).await.unwrap_or_else(|error| panic!("{error}\n{}", stage.words()));
    let client = stage.client();
    eventually("the daemon knows the end of the job", || async {
        has_ended(&client, &job.name).await.then_some(())
    })
    .await;
    let (issued, completed) = shown(&client, &job.name).await.unwrap();
    let said = said(job).unwrap();
    assert!(!said.is_empty());
    assert_eq!(issued, said, "issued; {}", stage.words());
    assert_eq!(completed, said, "completed; {}", stage.words());
}

fn pid_of(job: &Job, rank: usize) -> Pid {
    let pid = i32::try_from(job.ranks[rank].id().unwrap()).unwrap();
    Pid::from_raw(pid).unwrap()
}

#[tokio::test]
async fn a_killed_rank_is_named_and_every_rank_shows_its_operation() {
    let stage = Stage::new("killed-rank");
    let _serve = stage.serve(true);
    let mut job = stage.job("killed", &stage.hosts(2), 2);
    moves_on(&stage, &job, 0).await;
    let client = stage.client();

    // Stopped first: the others are then inside an operation that cannot end.
    kill_process(pid_of(&job, 3), Signal::STOP).unwrap();
    let world = eventually("the world communicator", || async {
        let all = client.communicators().await.ok()?;
        all.into_iter().find(|one| one.name.as_deref() == Some("world/0")).map(|one| one.id)
    })
    .await;
    let waiting = eventually("ranks 0, 1 and 2 wait inside an operation", || async {
        let in_flight = client.list("communicators?job=killed").await.ok()?;
        let mut ranks = BTreeSet::new();
        for one in in_flight as Vec<ringscope_daemon::api::CommunicatorSummary> {
            let detail = client.communicator(&one.id).await.ok()?;
            for rank in detail.ranks {
                let operation =
                    rank.operation.filter(|operation| operation.state == OperationState::InFlight);
                ranks.extend(operation.and(rank.global_rank).filter(|rank| *rank != 3));
            }
        }
        Some(ranks).filter(|ranks| ranks.len() == 3)
    })
    .await;
    assert_eq!(waiting, BTreeSet::from([0, 1, 2]));

    kill_process(pid_of(&job, 3), Signal::KILL).unwrap();
    let clock = clock::monotonic();
    for rank in [0, 1, 2] {
        let status = tokio::time::timeout(Duration::from_secs(5), job.ranks[rank].wait()).await;
        let status = status.unwrap_or_else(|_| panic!("rank {rank} hangs: {}", stage.words())).unwrap();
        assert!(!status.success(), "rank {rank} did not notice");
    }
    assert!(clock.elapsed() < Duration::from_secs(5), "{:?}", clock.elapsed());
    for rank in [0, 1, 2] {
        let path = stage.dir.0.join(format!("jobs/killed/rank-{rank}.json"));
        let log = std::fs::read_to_string(path).unwrap();
        assert!(log.contains("rank 3"), "rank {rank} must name rank 3: {log}");
    }

    let detail = eventually("rank 3 is known to be killed", || async {
        let detail = client.communicator(&world).await.ok()?;
        (detail.ranks.get(3)?.state == RankState::Killed).then_some(detail)
    })
    .await;
    for rank in &detail.ranks {
        assert!(rank.operation.is_some(), "rank {} shows no operation", rank.rank);
    }
}

#[tokio::test]
async fn a_killed_daemon_loses_and_doubles_nothing() {
    let stage = Stage::new("killed-daemon");
    let mut serve = stage.serve(false);
    let _agent = stage.agent();
    let mut job = stage.job("train", &stage.hosts(2), 1);
    let before = moves_on(&stage, &job, 0).await;
    serve.kill();
    let _serve = stage.serve(false);
    moves_on(&stage, &job, before).await;
    ends_with_exact_totals(&stage, &mut job).await;
}

#[tokio::test]
async fn a_daemon_that_is_away_while_the_job_ends_is_told_afterwards() {
    let stage = Stage::new("away-daemon");
    let mut serve = stage.serve(false);
    let _agent = stage.agent();
    let mut job = stage.job("train", &stage.hosts(2), 1);
    moves_on(&stage, &job, 0).await;
    let status = serve.terminate(Duration::from_secs(5));
    assert!(status.success(), "{status}; {}", stage.words());
    job.stop(PATIENCE).await.unwrap();
    let _serve = stage.serve(false);
    ends_with_exact_totals(&stage, &mut job).await;
}

#[tokio::test]
async fn a_killed_agent_loses_and_doubles_nothing() {
    let stage = Stage::new("killed-agent");
    let _serve = stage.serve(false);
    let mut agent = stage.agent();
    let mut job = stage.job("train", &stage.hosts(2), 1);
    let before = moves_on(&stage, &job, 0).await;
    agent.kill();
    let _agent = stage.agent();
    moves_on(&stage, &job, before).await;
    ends_with_exact_totals(&stage, &mut job).await;
}
