//! How everything stood at a moment of the past: on both databases, after all of it has left the daemon's memory.

use ringscope_api::clock::{self, Timestamp};
use ringscope_api::{Finding, FindingState};
use ringscope_store::{
    CommunicatorRow, HopsRow, JobRow, ProcessRow, RankRow, SampleRow, Store, Told, Turn, WriteSet,
};
use serde_json::{Value, json};

use super::stores::{communicator, finding, sample};
use crate::common::daemon::{Daemon, problem, sqlite};
use crate::common::postgres::Postgres;
use crate::common::scratch;

const MINUTE_NS: i64 = 60_000_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file() {
    let dir = scratch("past");
    suite(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let postgres = Postgres::start();
    suite(&postgres.url()).await;
}

/// A job of two hosts that ran three hours ago for an hour; for ten minutes of that something was found on the second.
async fn suite(url: &str) {
    let began_ns = clock::now().0.cast_signed() / MINUTE_NS * MINUTE_NS - 180 * MINUTE_NS;
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    store.write(&rows(began_ns)).await.unwrap();
    store.close().await;
    let daemon = Daemon::ready(url).await;
    let at = |minute: i64| async move { began_ns + minute * MINUTE_NS };
    let told = async |minute: i64| {
        let ms = at(minute).await / 1_000_000;
        daemon.json(&format!("/api/v1/past?at={ms}")).await
    };

    let well = told(10).await;
    assert_eq!(conditions(&well), json!([["h1", "healthy", 2], ["h2", "healthy", 2]]), "{well}");
    assert_eq!((&well["level"], &well["findings"]), (&json!("ok"), &json!([])));
    let rate = well["hosts"][0]["completed_bytes_per_s"].as_f64().unwrap();
    assert!((900.0..1100.0).contains(&rate), "{rate}");
    assert_eq!(
        (&well["hosts"][1]["init_channels"], &well["communicators"][0]["n_hosts"]),
        (&json!(2), &json!(2))
    );

    let bad = told(25).await;
    assert_eq!(conditions(&bad), json!([["h1", "healthy", 2], ["h2", "degraded", 2]]), "{bad}");
    assert_eq!((&bad["level"], bad["findings"].as_array().unwrap().len()), (&json!("critical"), 1));
    // To the millisecond at which it began, as marks in charts lead there; and no more when it was over.
    assert_eq!(told(20).await["findings"].as_array().unwrap().len(), 1);
    assert_eq!(told(30).await["findings"], json!([]));
    // In the words of then, and not while it paused.
    for (minute, words) in [
        (19, None),
        (24, Some("at first")),
        (25, Some("later")),
        (29, Some("later")),
        (31, None),
        (33, Some("again")),
        (35, None),
    ] {
        let of_then = told(minute).await;
        assert_eq!(of_then["findings"][0]["message"].as_str(), words, "minute {minute}");
        assert!(!of_then["lacks"].to_string().contains("latest words"), "{of_then}");
    }

    // Nothing was recorded from the 40th minute on: that is no proof of health.
    let silent = told(50).await;
    assert_eq!(conditions(&silent), json!([["h1", "unknown", 2], ["h2", "unknown", 2]]), "{silent}");
    assert_eq!(
        (&silent["level"], &silent["hosts"][0]["completed_bytes_per_s"]),
        (&json!("unknown"), &Value::Null)
    );

    let after = told(70).await;
    assert_eq!((&after["hosts"], &after["communicators"]), (&json!([]), &json!([])), "{after}");
    let before = told(-600).await;
    assert!(before["lacks"][0].as_str().unwrap().contains("What is kept begins at"), "{before}");
    let other = daemon.json(&format!("/api/v1/past?at={}&job=other", at(10).await / 1_000_000)).await;
    assert_eq!(other["hosts"], json!([]));

    let rings = daemon.json("/api/v1/communicators/c1/rings").await;
    let order: Vec<_> =
        rings["rings"][0]["order"].as_array().unwrap().iter().map(|hop| &hop["rank"]).collect();
    assert_eq!(
        (order, &rings["rings"][0]["complete"]),
        (vec![&json!(0), &json!(1), &json!(2), &json!(3)], &json!(true))
    );
    assert_eq!(
        (&rings["rings"][0]["order"][1]["nic"], &rings["rings"][0]["order"][1]["host"]),
        (&json!("mlx5_0"), &json!("h1"))
    );
    problem(daemon.get("/api/v1/communicators/c2/rings").await, 404, "c2").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_told_says_why() {
    let daemon = Daemon::ready("none").await;
    problem(daemon.get("/api/v1/past?at=0").await, 503, "without a database").await;
    problem(daemon.get("/api/v1/past").await, 400, "at is missing").await;
    problem(daemon.get("/api/v1/past?at=2200-01-01T00:00:00Z").await, 400, "to come").await;
    problem(daemon.get("/api/v1/past?at=yesterday").await, 400, "RFC 3339").await;
    daemon.stop().await;
}

/// Of each host its name, its condition, and its processes.
fn conditions(past: &Value) -> Value {
    let hosts = past["hosts"].as_array().unwrap();
    hosts.iter().map(|one| json!([one["host"], one["standing"]["condition"], one["n_processes"]])).collect()
}

fn rows(began_ns: i64) -> WriteSet {
    let ended_ns = began_ns + 60 * MINUTE_NS;
    let time = |minute: i64| Timestamp((began_ns + minute * MINUTE_NS).cast_unsigned());
    let found = Finding {
        job: "j1".into(),
        host: "h2".into(),
        first_seen: time(20),
        last_seen: time(30),
        resolved_at: Some(time(30)),
        began_at: None,
        ..finding(FindingState::Resolved)
    };
    WriteSet {
        jobs: vec![JobRow {
            id: "j1".into(),
            state: "ended".into(),
            n_processes: 4,
            first_seen_ns: began_ns,
            last_seen_ns: ended_ns,
            updated_ns: ended_ns,
            ..JobRow::default()
        }],
        processes: (0..4).map(|rank| process(rank, began_ns, ended_ns)).collect(),
        communicators: vec![CommunicatorRow {
            n_ranks: 4,
            base_channels: Some(2),
            final_channels: Some(2),
            created_ns: began_ns,
            ended_ns: Some(ended_ns),
            updated_ns: ended_ns,
            ..communicator("c1")
        }],
        ranks: (0..4).map(rank).collect(),
        hops: (0..4).map(hops).collect(),
        turns: turns(&found),
        samples: samples(began_ns),
        ..WriteSet::default()
    }
}

/// It held from the 20th minute to the 30th, in other words from the 25th on; and from the 33rd to the 35th again.
fn turns(found: &Finding) -> Vec<Turn> {
    let began = found.first_seen.0;
    let turn = |minute: u64, message: &str, state: FindingState| {
        let at = Timestamp(began + (minute - 20) * MINUTE_NS.unsigned_abs());
        let of = Finding { message: message.into(), state, ..found.clone() };
        Turn { of: Told::Finding(of), at }
    };
    vec![
        turn(20, "at first", FindingState::Firing),
        turn(25, "later", FindingState::Firing),
        turn(30, "later", FindingState::Resolved),
        turn(33, "again", FindingState::Firing),
        turn(35, "again", FindingState::Resolved),
    ]
}

fn process(rank: i64, began_ns: i64, ended_ns: i64) -> ProcessRow {
    let host = host(rank);
    ProcessRow {
        key: format!("{host}/{rank}/1"),
        job: "j1".into(),
        host: host.into(),
        started_ns: began_ns,
        ended_ns: Some(ended_ns),
        updated_ns: ended_ns,
        ..ProcessRow::default()
    }
}

fn rank(rank: i64) -> RankRow {
    RankRow {
        comm: "c1".into(),
        rank,
        host: host(rank).into(),
        init_channels: Some(if rank < 2 { 8 } else { 2 }),
        final_channels: Some(2),
        ..RankRow::default()
    }
}

fn hops(rank: i64) -> HopsRow {
    let nic = if rank % 2 == 1 { Some("mlx5_0") } else { None };
    let hops = json!([[0, (rank + 3) % 4, (rank + 1) % 4, "NET/IB", nic]]);
    HopsRow { comm: "c1".into(), rank, hops: hops.to_string() }
}

/// A thousand bytes a second on each host, for forty minutes.
fn samples(began_ns: i64) -> Vec<SampleRow> {
    let began_ms = began_ns / 1_000_000;
    let of = |host: &'static str| (0..480).map(move |i| sample("c1", host, began_ms + i * 5_000, i * 5_000));
    of("h1").chain(of("h2")).collect()
}

fn host(rank: i64) -> &'static str {
    if rank < 2 { "h1" } else { "h2" }
}
