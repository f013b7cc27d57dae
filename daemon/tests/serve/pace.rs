//! The pace of a job over time, and a daemon that is started again in the middle of a job that became slower.

use std::time::Duration;

use ringscope_api::clock::{self, Timestamp};
use ringscope_wire::batch::OwnTime;
use serde_json::Value;

use crate::common::batches::SMALL;
use crate::common::daemon::{Daemon, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{eventually_within, scratch};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file() {
    let dir = scratch("pace");
    restarted(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let postgres = Postgres::start();
    restarted(&postgres.url()).await;
}

async fn restarted(url: &str) {
    let mut job = Job::new();
    let daemon = Daemon::ready(url).await;
    // Twenty seconds of which the pace is known are enough to learn what is usual.
    eventually_within(MINUTES, "how long a step usually takes", async || {
        job.tell(&daemon).await;
        let known = steps(&daemon, job.began).await;
        (known.len() >= 20).then(|| assert!(known.iter().all(|s| near(*s, 0.1)), "{known:?}"))
    })
    .await;
    let usual_at = clock::now();
    assert!(slowdown(&daemon).await.is_none());

    job.in_collectives_ms = 120;
    let before = eventually_within(MINUTES, "that it is slower", async || {
        job.tell(&daemon).await;
        slowdown(&daemon).await
    })
    .await;
    daemon.stop().await;
    let stopped = clock::now();

    let daemon = Daemon::ready(url).await;
    let restarted = clock::now();
    // Longer than what a daemon needs to be sure without its past, and than it takes to learn what is usual.
    eventually_within(MINUTES, "how long a step takes after the restart", async || {
        job.tell(&daemon).await;
        let now = slowdown(&daemon).await.expect("it goes on");
        for since in ["began_at", "first_seen"] {
            assert_eq!(now[since], before[since], "{now}");
        }
        let known = steps(&daemon, restarted).await;
        (known.len() >= 35).then(|| assert!(known.iter().all(|s| near(*s, 0.16)), "{known:?}"))
    })
    .await;

    // What was found is told of the time in which it held, by both daemons.
    // It begins with the last step that was usual, a moment before the first that was not.
    let times =
        [(usual_at.unix_ms() - 5_000, false), (stopped.unix_ms(), true), (clock::now().unix_ms(), true)];
    for (at, holds) in times {
        let past = daemon.json(&format!("/api/v1/past?at={at}&job=train")).await;
        let found = past["findings"].as_array().unwrap().iter().any(|one| one["finding"] == "slowdown");
        assert_eq!(found, holds, "{past}");
    }
    // The pace of then, on either side of the restart.
    let past = daemon.json(&format!("/api/v1/past?at={}&job=train", usual_at.unix_ms() - 15_000)).await;
    let pace = &past["paces"][0];
    assert!(pace["job"] == "train" && near(pace["step_seconds"].as_f64().unwrap(), 0.1), "{pace}");
    assert!(near(pace["own_seconds"].as_f64().unwrap(), 0.04), "{pace}");
    assert!(near(pace["in_operations_share"].as_f64().unwrap(), 0.6), "{pace}");
    // Long before, nothing was heard of it: that is no pace.
    let long_ago = daemon.json(&format!("/api/v1/past?at={}", job.began.unix_ms() - 600_000)).await;
    assert_eq!(long_ago["paces"], Value::Array(Vec::new()), "{long_ago}");
    let other = daemon.json("/api/v1/jobs/other/pace/series").await;
    assert!(other["step_seconds"].as_array().unwrap().iter().all(Value::is_null), "{other}");
    daemon.stop().await;
}

/// Four ranks in lock step by the clock of this machine.
struct Job {
    began: Timestamp,
    told: Timestamp,
    /// Of each step, beside 40 ms that are its own.
    in_collectives_ms: u64,
    seq_number: u64,
    /// Millionths.
    steps: u64,
}

impl Job {
    fn new() -> Self {
        let now = clock::now();
        Self { began: now, told: now, in_collectives_ms: 60, seq_number: 0, steps: 0 }
    }

    /// Goes on until now; the agents of both hosts tell of it.
    async fn tell(&mut self, daemon: &Daemon) {
        let now = clock::now();
        let passed_ns = now.0 - std::mem::replace(&mut self.told, now).0;
        self.steps += passed_ns / (40 + self.in_collectives_ms);
        self.seq_number += 1;
        let operations = self.steps * 4 / 1_000_000;
        for host in 0..SMALL.hosts.len() {
            let mut batch = SMALL.batch(host, self.seq_number, operations, now.0);
            for process in &mut batch.processes {
                process.in_flight.clear();
                process.own_time = Some(OwnTime {
                    covered_ns: now.0 - self.began.0,
                    own_ns: self.steps * 40,
                    operations,
                    operations_per_step: 4,
                    ..OwnTime::default()
                });
            }
            daemon.take(&batch).await;
        }
    }
}

/// Seconds that a step took since then, second by second, where it is known.
async fn steps(daemon: &Daemon, since: Timestamp) -> Vec<f64> {
    let path = format!("/api/v1/jobs/train/pace/series?from={}&step=1s", since.unix_ms());
    let series = daemon.json(&path).await;
    series["step_seconds"].as_array().unwrap().iter().filter_map(Value::as_f64).collect()
}

async fn slowdown(daemon: &Daemon) -> Option<Value> {
    let found = daemon.json("/api/v1/findings?state=firing&job=train").await;
    found["items"].as_array().unwrap().iter().find(|one| one["finding"] == "slowdown").cloned()
}

fn near(s: f64, expected: f64) -> bool {
    (s - expected).abs() < 0.1 * expected
}

/// What is usual is learned in half a minute, and what is slow is found as fast.
const MINUTES: Duration = Duration::from_secs(180);
