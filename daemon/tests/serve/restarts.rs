//! A restart: what lives is there at once, what ended comes back while the daemon serves, and what is not there yet is said.

use prost::Message as _;
use ringscope_api::clock::{self, Timestamp};
use ringscope_store::{CountersRow, ProcessRow, Store, WriteSet};
use ringscope_wire::batch::{Batch, LaunchEnd, Process, ProcessState, launch_end::Cause};

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{scratch, until};

/// Jobs that ended ten minutes ago, of a rank each.
const N_ENDED: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file() {
    let dir = scratch("restart");
    restarted(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let postgres = Postgres::start();
    restarted(&postgres.url()).await;
}

async fn restarted(url: &str) {
    fill(url).await;
    let daemon = Daemon::start(config(url)).await;
    // Sent from the first moment on, and none of what is acknowledged is lost.
    let mut acknowledged = Vec::new();
    for number in 0..100 {
        if daemon.send(&newcomer(number)).await.status() == 200 {
            acknowledged.push(number);
        }
    }
    daemon.until_ready().await;
    // A job that runs is there with the rank that ended hours ago.
    let job = daemon.json("/api/v1/jobs/runs").await;
    assert_eq!(job["n_processes"], 2, "{job}");
    // What is not there yet is not said to be unknown.
    until("all that ended", async || {
        let first = daemon.get("/api/v1/jobs/ended-0").await;
        let (status, text) = (first.status(), first.text().await.unwrap());
        let left = daemon.json("/readyz").await["unrestored_processes"].as_u64().unwrap();
        assert!(status == 200 || status == 503 && text.contains("being read back"), "{status} {text}");
        let health = daemon.json("/api/v1/health").await;
        let notice = health["notices"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|notice| notice.to_string().contains("read back"));
        // It may have come to an end between two answers.
        assert!(notice || daemon.json("/readyz").await["unrestored_processes"] == 0, "{left} {health}");
        left == 0
    })
    .await;
    for number in [0, 1, N_ENDED / 2, N_ENDED - 1] {
        let job = daemon.json(&format!("/api/v1/jobs/ended-{number}")).await;
        assert_eq!(job["state"], "ended", "{job}");
    }
    // Of what ended longer ago than the model remembers nothing is read.
    assert_eq!(daemon.get("/api/v1/jobs/long-ago").await.status(), 404);
    assert!(daemon.get("/metrics").await.text().await.unwrap().contains("ringscope_unrestored_processes 0"));
    for number in acknowledged {
        let job = daemon.json(&format!("/api/v1/jobs/new-{number}")).await;
        assert_eq!(job["n_processes"], 2, "{job}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_processes_ended_is_known_after_a_restart() {
    let dir = scratch("restart-ends");
    let url = sqlite(&dir);
    let daemon = Daemon::start(config(&url)).await;
    daemon.until_ready().await;
    let told = LaunchEnd { cause: Cause::Signal.into(), signal: 2 };
    for (number, signal, told) in [(0, 11, None), (1, 15, Some(told))] {
        let mut batch = newcomer(number);
        for process in &mut batch.processes {
            (process.state, process.ended_at_ns) = (ProcessState::Killed.into(), Some(clock::now().0));
            (process.exit_signal, process.launch_end) = (Some(signal), told);
        }
        assert_eq!(daemon.send(&batch).await.status(), 200);
    }
    daemon.stop().await;
    let daemon = Daemon::start(config(&url)).await;
    daemon.until_ready().await;
    until("all that ended", async || daemon.json("/readyz").await["unrestored_processes"] == 0).await;
    for (job, words) in [
        ("new-0", "it was ended by SIGSEGV (it crashed)"),
        ("new-1", "its launch ended it: the launch was sent SIGINT"),
    ] {
        let job = daemon.json(&format!("/api/v1/jobs/{job}")).await;
        assert!(job["standing"]["reason"].as_str().unwrap().contains(words), "{job}");
    }
    daemon.stop().await;
}

/// The first batch of an agent, with a job of its own.
fn newcomer(number: u32) -> Batch {
    let mut batch = SMALL.batch(0, 1, 1, START_NS);
    let host = format!("new-{number}");
    (batch.agent_id, batch.agent_host) = (host.clone(), host.clone());
    for process in &mut batch.processes {
        process.key = format!("{host}/{}", process.key);
        let identity = process.identity.as_mut().unwrap();
        (identity.job, identity.host) = (host.clone(), host.clone());
    }
    batch
}

async fn fill(url: &str) {
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let now = clock::now();
    let ago = |minutes: u64| Timestamp(now.0 - minutes * 60_000_000_000);
    let mut set = WriteSet::default();
    let mut add = |key: String, job: String, ended: Option<Timestamp>| {
        let mut process = SMALL.batch(0, 1, 1, START_NS).processes.remove(0);
        process.key.clone_from(&key);
        let identity = process.identity.as_mut().unwrap();
        (identity.job, identity.host) = (job.clone(), key.clone());
        process.ended_at_ns = ended.map(|at| at.0);
        if ended.is_some() {
            process.state = ProcessState::Exited.into();
        }
        let counters = Process { key: key.clone(), ..Process::default() }.encode_to_vec();
        set.processes.push(ProcessRow {
            job,
            host: key.clone(),
            facts: process.encode_to_vec(),
            ended_ns: ended.map(|at| at.0.cast_signed()),
            updated_ns: now.0.cast_signed(),
            key: key.clone(),
            ..ProcessRow::default()
        });
        set.counters.push(CountersRow { key, counters, updated_ns: now.0.cast_signed() });
    };
    add("lives".into(), "runs".into(), None);
    add("ended".into(), "runs".into(), Some(ago(180)));
    add("long".into(), "long-ago".into(), Some(ago(180)));
    for number in 0..N_ENDED {
        // The later, the higher the number.
        let ended = Timestamp(ago(10).0 + number);
        add(format!("ended-{number}"), format!("ended-{number}"), Some(ended));
    }
    store.write(&set).await.unwrap();
    store.close().await;
}
