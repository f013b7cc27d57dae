//! An agent that is ended in good order: what is shown of its host until the next one there speaks.

use ringscope_wire::batch::Batch;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, sqlite};

async fn standing(daemon: &Daemon) -> (String, String) {
    let host = daemon.json("/api/v1/nodes/node-a").await;
    let of_rank = &host["ranks"][0]["standing"];
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    assert!(word(&host["standing"]["reason"]).contains(&word(&of_rank["reason"])), "{host}");
    (word(&of_rank["condition"]), word(&of_rank["reason"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_not_watched_from_its_goodbye_to_the_next_hello() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::ready(&sqlite(dir.path())).await;
    daemon.take(&SMALL.batch(0, 1, 3, START_NS)).await;
    let (_, before) = standing(&daemon).await;
    assert!(!before.contains("not watched"), "{before}");
    let goodbye = Batch { ending: true, processes: Vec::new(), ..SMALL.batch(0, 2, 3, START_NS) };
    daemon.take(&goodbye).await;
    let (condition, reason) = standing(&daemon).await;
    assert_eq!(condition, "unknown");
    assert!(reason.starts_with("not watched since 2026-01-31 12:00:00 UTC: the agent"), "{reason}");
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    assert!(!metrics.contains(r#"agent_heard_timestamp_seconds{host="node-a"}"#), "its silence is no news");

    // The daemon starts again: the store has it.
    daemon.stop().await;
    let daemon = Daemon::ready(&sqlite(dir.path())).await;
    assert_eq!(standing(&daemon).await.1, reason);
    let hello = Batch { agent_id: "next".to_owned(), ..SMALL.batch(0, 1, 3, START_NS + 1_000_000_000) };
    daemon.take(&hello).await;
    let (_, after) = standing(&daemon).await;
    assert!(!after.contains("not watched"), "{after}");
    daemon.stop().await;
}
