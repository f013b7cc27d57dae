//! Processes that really die, or are ended: a rank, the daemon, the agent. Nothing hangs, nothing is lost, nothing counts twice.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use common::stage::Stage;
use common::totals::{completed_bytes, has_ended, said, shown};
use common::{PATIENCE, eventually};
use ringscope_api::clock;
use ringscope_api::{OperationState, RankState};
use ringscope_daemon::client::{Client, ClientError};
use ringscope_daemon::demo::job::Job;
use rustix::process::{Pid, Signal, kill_process};

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

/// Stops rank 3 so that all others wait in the communicator of all. In the smaller ones not everybody waits for rank 3
/// itself, and it has other numbers.
async fn stop_in_the_world(stage: &Stage, job: &Job) {
    let client = stage.client();
    loop {
        kill_process(pid_of(job, 3), Signal::STOP).unwrap();
        let clock = clock::monotonic();
        let mut since = (Vec::new(), clock.elapsed());
        let waiting = eventually("ranks 0, 1 and 2 wait inside an operation", async || {
            let now = in_flight(&client).await.ok()?;
            if now != since.0 {
                since = (now, clock.elapsed());
            }
            let ranks: BTreeSet<u32> =
                since.0.iter().map(|(rank, ..)| *rank).filter(|rank| *rank != 3).collect();
            // The agent has read twice meanwhile, on a busy machine too.
            let stays = clock.elapsed() - since.1 > Duration::from_secs(2);
            (stays && ranks == BTreeSet::from([0, 1, 2])).then(|| since.0.clone())
        })
        .await;
        if waiting.iter().all(|(rank, communicator, _)| *rank == 3 || communicator == "world/0") {
            return;
        }
        let already = completed_bytes(&client, &job.name).await;
        kill_process(pid_of(job, 3), Signal::CONT).unwrap();
        moves_on(stage, job, already).await;
    }
}

/// Operations in flight: rank in the job, communicator, sequence number.
async fn in_flight(client: &Client) -> Result<Vec<(u32, String, u64)>, ClientError> {
    let mut found = Vec::new();
    for one in client.communicators().await? {
        for rank in client.communicator(&one.id).await?.ranks {
            let operation = rank.operation.filter(|operation| operation.state == OperationState::InFlight);
            let seq_number = operation.map(|operation| operation.seq_number);
            found.extend(
                rank.global_rank
                    .zip(seq_number)
                    .map(|(rank, seq)| (rank, one.name.clone().unwrap_or_default(), seq)),
            );
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_killed_rank_is_named_and_every_rank_shows_its_operation() {
    let stage = Stage::new("killed-rank");
    let _serve = stage.serve(true);
    // Outside the faithful mode: its ranks are told.
    let mut job = stage.job_as("off", "killed", &stage.hosts(2), 2);
    moves_on(&stage, &job, 0).await;
    let client = stage.client();

    let world = eventually("the world communicator", async || {
        let all = client.communicators().await.ok()?;
        all.into_iter().find(|one| one.name.as_deref() == Some("world/0")).map(|one| one.id)
    })
    .await;
    stop_in_the_world(&stage, &job).await;

    kill_process(pid_of(&job, 3), Signal::KILL).unwrap();
    for rank in [0, 1, 2] {
        let status = tokio::time::timeout(PATIENCE, job.ranks[rank].wait()).await;
        let status = status.unwrap_or_else(|_| panic!("rank {rank} hangs: {}", stage.words())).unwrap();
        assert!(!status.success(), "rank {rank} did not notice");
    }
    for rank in [0, 1, 2] {
        let path = stage.dir.0.join(format!("jobs/killed/rank-{rank}.json"));
        let log = std::fs::read_to_string(path).unwrap();
        assert!(log.contains("rank 3 ("), "rank {rank} must name rank 3: {log}");
    }

    let detail = eventually("rank 3 is known to be killed", || async {
        let detail = client.communicator(&world).await.ok()?;
        (detail.ranks.get(3)?.state == RankState::Killed).then_some(detail)
    })
    .await;
    for rank in &detail.ranks {
        assert!(rank.operation.is_some(), "rank {} shows no operation", rank.rank);
    }
    shows_all_that_the_segment_holds(&stage, detail.ranks[3].pid).await;
}

/// Of a killed rank the segment is left, and the daemon shows what it says to the last call.
async fn shows_all_that_the_segment_holds(stage: &Stage, pid: u32) {
    let mut segments = std::fs::read_dir(&stage.segment_dir.0).unwrap().map(|entry| entry.unwrap().path());
    let of_pid = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{pid}-")) && name.ends_with(".seg")
    };
    let bytes = std::fs::read(segments.find(of_pid).unwrap()).unwrap();
    let snapshot = ringscope_wire::segment::read::snapshot(&mut bytes.as_slice()).unwrap();
    let counters = snapshot.communicators.iter().flat_map(|one| &one.counters);
    let left: u64 = counters.map(|(_, counters)| counters.issued_calls).sum();
    assert!(left > 0);
    let client = stage.client();
    eventually(&format!("{left} calls of the killed rank are shown"), async || {
        let (issued, _) = shown(&client, "killed").await.ok()?;
        let calls: u64 =
            issued.iter().filter(|((rank, ..), _)| *rank == 3).map(|(_, called)| called.calls).sum();
        (calls == left).then_some(())
    })
    .await;
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
    let status = serve.terminate(PATIENCE);
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

#[tokio::test]
async fn an_agent_that_is_ended_says_so_and_the_next_one_takes_over() {
    let stage = Stage::new("ended-agent");
    let _serve = stage.serve(false);
    let mut agent = stage.agent();
    let mut job = stage.job("train", &stage.hosts(2), 1);
    let before = moves_on(&stage, &job, 0).await;
    let status = agent.terminate(PATIENCE);
    assert!(status.success(), "{status}; {}", stage.words());
    let client = stage.client();
    let reasons = async || -> Option<Vec<String>> {
        let jobs = client.jobs().await.ok()?;
        let hosts = client.hosts().await.ok()?;
        // The machine itself is a host too, on which nothing runs.
        let hosts = hosts.into_iter().filter(|host| host.n_processes > 0).map(|host| host.standing);
        let standings = jobs.into_iter().map(|job| job.standing).chain(hosts);
        Some(standings.map(|standing| standing.reason).collect())
    };
    let is_unwatched = |reason: &String| {
        reason.contains("not watched since") && reason.contains("the agent on its host was stopped")
    };
    // At once: nothing was silent for long enough to be missed.
    let told = reasons().await.unwrap();
    assert!(told.len() == 3 && told.iter().all(is_unwatched), "{told:?}; {}", stage.words());
    let _agent = stage.agent();
    moves_on(&stage, &job, before).await;
    eventually(&format!("the next one watches; {}", stage.words()), async || {
        let told = reasons().await?;
        (!told.iter().any(is_unwatched)).then_some(())
    })
    .await;
    ends_with_exact_totals(&stage, &mut job).await;
}

#[tokio::test]
async fn corrupt_segments_among_good_ones_are_counted_named_and_left() {
    let stage = Stage::new("corrupt");
    let bad = |name: &str, bytes: &[u8]| {
        let path = stage.segment_dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let empty = bad("empty.seg", b"");
    let garbled = bad("garbled.seg", &vec![0xa5; 4 << 20]);
    let _serve = stage.serve(true);
    let mut job = stage.job("train", &stage.hosts(2), 1);
    let before = moves_on(&stage, &job, 0).await;
    // One more comes while the job runs: the beginning of a good one.
    let good = std::fs::read_dir(&*stage.segment_dir).unwrap().map(|entry| entry.unwrap().path());
    let good = good.into_iter().find(|path| is_segment(path) && *path != empty && *path != garbled).unwrap();
    let whole = std::fs::read(good).unwrap();
    let cut = bad("cut.seg", &whole[..5000]);
    eventually(&format!("three are counted; {}", stage.words()), async || {
        let metrics = reqwest::get(format!("{}/metrics", stage.url())).await.ok()?.text().await.ok()?;
        metrics.contains("ringscope_dropped_events_total{reason=\"segment_unreadable\"} 3").then_some(())
    })
    .await;
    let log = std::fs::read_to_string(stage.dir.join("serve.log")).unwrap();
    for path in [&empty, &garbled, &cut] {
        let named = log.lines().filter(|line| line.contains("cannot read a segment"));
        assert_eq!(named.filter(|line| line.contains(&path.display().to_string())).count(), 1, "{log}");
        assert!(path.exists(), "not the agent's to delete");
    }
    moves_on(&stage, &job, before).await;
    ends_with_exact_totals(&stage, &mut job).await;
}

fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "seg")
}
