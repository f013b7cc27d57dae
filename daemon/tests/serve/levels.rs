//! Wishes for a level: what is taken, what is refused, and which agents hear of them.

use reqwest::Response;
use ringscope_api::{JobLevel, LevelChoice};
use ringscope_wire::batch::{Batch, Level, Wish};

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, problem};

async fn put(daemon: &Daemon, job: &str, body: &str) -> Response {
    let url = format!("{}/api/v1/jobs/{job}/level", daemon.url);
    daemon
        .client
        .put(url)
        .header("content-type", "application/json")
        .body(body.to_owned())
        .send()
        .await
        .unwrap()
}

async fn level(daemon: &Daemon) -> JobLevel {
    serde_json::from_value(daemon.json("/api/v1/jobs/train/level").await).unwrap()
}

/// A batch whose collectors have not said their level.
fn silent(host: usize, seq_number: u64, calls: u64) -> Batch {
    let mut batch = SMALL.batch(host, seq_number, calls, START_NS);
    batch.processes.iter_mut().for_each(|process| process.set_level(Level::Unspecified));
    batch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_is_kept_and_told_to_the_agents_of_its_job() {
    let daemon = Daemon::ready("none").await;
    let other = Job { name: "other", hosts: &["node-c", "node-d"], ..SMALL };
    for host in 0..2 {
        assert_eq!(daemon.take(&silent(host, 1, 3)).await.wishes, []);
        assert_eq!(daemon.take(&other.batch(host, 1, 3, START_NS)).await.wishes, []);
    }
    let before = level(&daemon).await;
    assert_eq!((before.wish, before.processes.len(), before.processes[0].level), (None, 4, None));

    let answer = put(&daemon, "train", r#"{"level": "steps"}"#).await;
    assert_eq!(answer.status(), 200);
    let wished: JobLevel = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(wished.wish, Some(LevelChoice::Steps));
    assert!(wished.wished_at.is_some());

    // The answer to a batch without processes carries it too, and only where the job is.
    let mut heartbeat = SMALL.batch(0, 2, 3, START_NS);
    heartbeat.processes.clear();
    let steps = Wish { job: "train".into(), level: Level::Steps.into(), off: false, user: None };
    assert_eq!(daemon.take(&heartbeat).await.wishes, std::slice::from_ref(&steps));
    assert_eq!(daemon.take(&other.batch(0, 2, 4, START_NS)).await.wishes, []);
    // Of an agent that spoke to another daemon before, nobody knows which jobs it has.
    let mut stranger = other.batch(1, 7, 4, START_NS);
    stranger.agent_id = "stranger".into();
    assert_eq!(daemon.take(&stranger).await.wishes, std::slice::from_ref(&steps));

    let mut batch = silent(0, 3, 4);
    batch.processes[0].set_level(Level::Steps);
    daemon.take(&batch).await;
    let after = level(&daemon).await;
    let levels: Vec<_> = after.processes.iter().map(|one| (one.global_rank, one.level)).collect();
    assert_eq!(levels[..2], [(Some(0), Some(LevelChoice::Steps)), (Some(1), None)]);

    assert_eq!(put(&daemon, "train", r#"{"level": "off"}"#).await.status(), 200);
    let off = Wish { job: "train".into(), level: Level::Unspecified.into(), off: true, user: None };
    assert_eq!(daemon.take(&SMALL.batch(1, 2, 4, START_NS)).await.wishes, [off]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_wish_is_refused_with_what_is() {
    let daemon = Daemon::ready("none").await;
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    let all = "counters, channels, steps, events, default, off";
    problem(put(&daemon, "train", r#"{"level": "all"}"#).await, 422, all).await;
    problem(put(&daemon, "train", r#"{"level": ""}"#).await, 422, all).await;
    problem(put(&daemon, "nobody", r#"{"level": "steps"}"#).await, 404, "nobody").await;
    problem(daemon.get("/api/v1/jobs/nobody/level").await, 404, "nobody").await;
    for body in ["", "steps", "{}", r#"{"level": 3}"#, r#"{"level": "steps", "job": "x"}"#] {
        problem(put(&daemon, "train", body).await, 400, r#"{"level": "steps"}"#).await;
    }
    problem(daemon.get("/api/v1/jobs/train/level?x=1").await, 400, "allowed: none").await;
    assert_eq!(level(&daemon).await.wish, None);
    let document = daemon.json("/api/v1/openapi.json").await;
    let path = &document["paths"]["/api/v1/jobs/{job}/level"];
    assert!(path["put"].is_object() && path["get"].is_object(), "{path}");
    daemon.stop().await;
}
