//! Filters of lists, search, and what is found by them.

use serde_json::Value;

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, problem};

const OTHER: Job<'static> = Job { name: "eval", hosts: &["node-b", "node-c"], ..SMALL };

/// Two jobs that share node-b.
async fn with_jobs() -> Daemon {
    let daemon = Daemon::ready("none").await;
    for job in [SMALL, OTHER] {
        for host in 0..2 {
            daemon.take(&job.batch(host, 1, 3, START_NS)).await;
        }
    }
    daemon
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list["items"].as_array().or(list.as_array()).unwrap();
    items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_show_what_is_asked_for() {
    let daemon = with_jobs().await;
    for (path, field, expected) in [
        ("jobs", "id", ["eval", "train"].as_slice()),
        ("jobs?q=TRA", "id", &["train"]),
        ("jobs?state=running", "id", &["eval", "train"]),
        ("jobs?state=ended", "id", &[]),
        ("nodes?job=train", "host", &["node-a", "node-b"]),
        ("nodes?job=nobody", "host", &[]),
        ("nodes?q=E-C", "host", &["node-c"]),
        ("nodes?job=train&degraded=true", "host", &["node-b"]),
        ("communicators?q=eva", "job", &["eval"]),
        ("communicators?q=0X9F3B&job=train", "job", &["train"]),
        ("communicators?q=nothing", "job", &[]),
        ("findings?nic=mlx5_9", "host", &[]),
        ("findings?kind=channel_shortfall&job=train&from=0", "host", &["node-b"]),
        ("findings?kind=channel_shortfall&job=train&to=2001-01-01T00:00:00Z", "host", &[]),
    ] {
        let list = daemon.json(&format!("/api/v1/{path}")).await;
        assert_eq!(texts(&list, field), expected, "{path}");
    }
    let long = "x".repeat(201);
    for (path, part) in [
        ("jobs?state=asleep", "running, stale, ended, imported"),
        (&*format!("jobs?q={long}"), "200"),
        ("nodes?degraded=perhaps", "true, false"),
        ("findings?from=yesterday", "RFC 3339"),
        ("search?q=a&limit=101", "1 to 100"),
        ("runbook?finding=all", "allowed: none"),
    ] {
        problem(daemon.get(&format!("/api/v1/{path}")).await, 400, part).await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_tells_of_all_its_communicators() {
    let daemon = with_jobs().await;
    let channels = daemon.json("/api/v1/nodes/node-b/channels").await;
    let items = channels["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{channels}");
    let of = |job: &str| items.iter().find(|item| item["job"] == job).unwrap();
    assert_eq!((&of("train")["init_channels"], &of("train")["base"]), (&Value::from(2), &Value::from(2)));
    assert_eq!((&of("eval")["init_channels"], &of("eval")["base"]), (&Value::from(8), &Value::from(2)));
    assert_eq!((&of("eval")["n_ranks"], &of("eval")["n_ranks_here"]), (&Value::from(4), &Value::from(2)));
    assert_eq!(of("eval")["name"], "world");
    let first = daemon.json("/api/v1/nodes/node-b/channels?limit=1").await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = daemon.json(&format!("/api/v1/nodes/node-b/channels?limit=1&cursor={cursor}")).await;
    assert_eq!([&first["items"][0], &second["items"][0]], [&items[0], &items[1]]);
    problem(daemon.get("/api/v1/nodes/nowhere/channels").await, 404, "nowhere").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_found_by_a_part_of_its_name() {
    let daemon = with_jobs().await;
    for (wanted, kinds, titles) in [
        ("eva", ["job"].as_slice(), ["eval"].as_slice()),
        ("NODE-", &["host"; 3], &["node-a", "node-b", "node-c"]),
        ("0x9f3b5c6d7e8f9a0b", &["communicator"; 2], &["world", "world"]),
        ("rank%203", &["rank"; 2], &["rank 3 of world", "rank 3 of world"]),
        ("rank%203%20of%20world%20eval", &["rank"], &["rank 3 of world"]),
        ("mlx5_0%40node-c", &["nic"], &["mlx5_0@node-c"]),
        ("", &[], &[]),
    ] {
        let hits = daemon.json(&format!("/api/v1/search?q={wanted}")).await;
        assert_eq!((texts(&hits, "kind"), texts(&hits, "title")), (owned(kinds), owned(titles)), "{wanted}");
    }
    assert_eq!(daemon.json("/api/v1/search?q=node&limit=2").await.as_array().unwrap().len(), 2);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runbook_has_an_entry_for_what_fires() {
    let daemon = with_jobs().await;
    let runbook = daemon.json("/api/v1/runbook").await;
    let entries = texts(&runbook, "finding");
    for finding in texts(&daemon.json("/api/v1/findings").await, "finding") {
        assert!(entries.contains(&finding), "{finding} in {entries:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_communicator_says_what_it_is_for() {
    let daemon = with_jobs().await;
    let list = daemon.json("/api/v1/communicators").await;
    let world = serde_json::json!({ "dimension": "world", "named": true });
    assert!(list["items"].as_array().unwrap().iter().all(|known| known["purpose"] == world), "{list}");
    daemon.stop().await;
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
