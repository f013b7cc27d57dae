//! Incidents and the one sentence, as their users meet them: over HTTP, across a restart.

use axum::http::StatusCode;
use futures::StreamExt as _;
use prost::Message as _;
use reqwest::{Method, Response};
use ringscope_api::clock;
use serde_json::{Value, json};

use super::access::with_tokens;
use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, problem, sqlite};
use crate::common::{scratch, until};

/// The second host holds the first back; or it has been mended.
async fn send(daemon: &Daemon, seq_number: u64, mended: bool) {
    let job = if mended { Job { init: &[8, 8], last: 8, ..SMALL } } else { SMALL };
    for host in 0..2 {
        daemon.take(&job.batch(host, seq_number, 3, START_NS)).await;
    }
}

async fn post(daemon: &Daemon, path: &str, body: Value) -> Response {
    daemon.client.post(format!("{}/api/v1/incidents/{path}", daemon.url)).json(&body).send().await.unwrap()
}

/// The only open incident.
async fn open(daemon: &Daemon) -> Value {
    let page = daemon.json("/api/v1/incidents?state=firing").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    page["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_and_words_agree_wherever_they_are_asked_for() {
    let daemon = Daemon::ready("none").await;
    let health = daemon.json("/api/v1/health").await;
    assert_eq!((health["level"].as_str(), health["sentence"].as_str()), (Some("empty"), Some("No job yet")));
    send(&daemon, 1, false).await;

    let incident = open(&daemon).await;
    let health = daemon.json("/api/v1/health").await;
    assert_eq!(health["incidents"], json!({ "critical": 1, "warning": 0, "info": 0 }));
    assert_eq!(health["level"], "critical");
    let (sentence, said) = (incident["sentence"].as_str().unwrap(), health["sentence"].as_str().unwrap());
    let words = sentence.trim_end_matches('.');
    assert!(said.to_lowercase().starts_with(&words.to_lowercase()), "{said} is not {words}");
    assert_eq!(health["since"], incident["began_at"]);
    assert_eq!((incident["host"].as_str(), incident["job"].as_str()), (Some("node-b"), Some("train")));

    // Each firing finding that somebody should look at is in it; and what it explains too.
    let findings = daemon.json("/api/v1/findings?state=firing").await;
    let findings = findings["items"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["finding"] == "capped_by_peer"), "{findings:?}");
    for finding in findings {
        if finding["severity"] == "info" && finding["finding"] != "capped_by_peer" {
            continue;
        }
        assert_eq!(finding["incident"], incident["id"], "{finding}");
        assert!(incident["findings"].as_array().unwrap().contains(&finding["id"]), "{finding}");
    }
    let whole = daemon.json(&format!("/api/v1/incidents/{}", incident["id"].as_str().unwrap())).await;
    assert_eq!(whole["members"][0]["id"], incident["findings"][0], "the root first");
    assert_eq!(whole["members"].as_array().unwrap().len(), incident["findings"].as_array().unwrap().len());

    // The same in the metrics.
    let text = daemon.get("/metrics").await.text().await.unwrap();
    let of = |name: &str| text.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
    let incidents = of("ringscope_incident{");
    let id = format!("incident=\"{}\"", incident["id"].as_str().unwrap());
    assert!(
        incidents.len() == 1 && incidents[0].contains(&id) && incidents[0].ends_with(" 1"),
        "{incidents:?}"
    );
    assert!(
        of("ringscope_finding{").iter().any(|line| line.contains(&id) && line.contains("capped_by_peer"))
    );
    assert_eq!(of("ringscope_health{level=\"critical\"}"), ["ringscope_health{level=\"critical\"} 1"]);
    let degraded = health["hosts"]["degraded"].as_u64().unwrap();
    let line = format!("ringscope_hosts{{condition=\"degraded\"}} {degraded}");
    assert_eq!(of("ringscope_hosts{condition=\"degraded\"}"), [line]);

    // And the standing of each says it in the same words.
    let host = daemon.json("/api/v1/nodes/node-b").await;
    assert_eq!(host["standing"], json!({ "condition": "degraded", "reason": incident["sentence"] }));
    for path in ["jobs", "communicators", "nodes"] {
        for item in daemon.json(&format!("/api/v1/{path}")).await["items"].as_array().unwrap() {
            assert!(!item["standing"]["reason"].as_str().unwrap().is_empty(), "{path}: {item}");
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_of_one_job_or_host_is_only_of_that() {
    let daemon = Daemon::ready("none").await;
    send(&daemon, 1, false).await;
    let well = Job { name: "well", hosts: &["node-c", "node-d"], init: &[4, 4], last: 8, ..SMALL };
    for host in 0..2 {
        daemon.take(&well.batch(host, 1, 3, clock::now().0)).await;
    }
    for (query, level, healthy) in [
        ("", "critical", 2),
        ("?job=train", "critical", 0),
        ("?job=well", "ok", 2),
        ("?host=node-c", "ok", 1),
    ] {
        let health = daemon.json(&format!("/api/v1/health{query}")).await;
        assert_eq!(health["level"], level, "{query}: {health}");
        assert_eq!(health["hosts"]["healthy"], healthy, "{query}: {health}");
    }
    let health = daemon.json("/api/v1/health?job=well").await;
    assert_eq!(health["sentence"], "All 2 hosts healthy");
    problem(daemon.get("/api/v1/health?jobs=well").await, 400, "no parameter").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_acknowledge_silence_and_write_and_everybody_hears_of_it() {
    let daemon = Daemon::ready("none").await;
    send(&daemon, 1, false).await;
    let id = open(&daemon).await["id"].as_str().unwrap().to_owned();
    let mut events = daemon.get("/api/v1/events").await.bytes_stream();
    let spoken = post(&daemon, &format!("{id}/acknowledge"), json!({ "by": " ann " })).await;
    assert_eq!(spoken.status(), StatusCode::OK);
    let spoken: Value = spoken.json().await.unwrap();
    assert_eq!(spoken["acknowledged"]["by"], "ann");
    let mut told = String::new();
    while !told.contains("\"incidents\":true") {
        told += &String::from_utf8_lossy(&events.next().await.unwrap().unwrap());
    }
    post(&daemon, &format!("{id}/notes"), json!({ "by": "ann", "text": "I look." })).await;
    let until: Value = post(&daemon, &format!("{id}/silence"), json!({ "by": "ann", "for_s": 60 }))
        .await
        .json()
        .await
        .unwrap();
    assert!(until["silenced_until"].is_string(), "{until}");
    let incident = open(&daemon).await;
    assert_eq!(incident["notes"][0]["text"], "I look.");
    let timeline = incident["timeline"].to_string();
    assert!(
        timeline.contains("ann looks after it.") && timeline.contains("ann silenced it until"),
        "{timeline}"
    );
    let health = daemon.json("/api/v1/health").await;
    assert_eq!(health["level"], "critical", "it is still there");
    assert!(
        health["sentence"].as_str().unwrap().contains("(ann looks after it) (silenced until"),
        "{health}"
    );
    // The incident and its findings are 0 while it is silenced, so that no alert on one of these begins.
    let of_incident = format!("incident=\"{id}\"");
    let all_are = async |ending: &str| {
        let text = daemon.get("/metrics").await.text().await.unwrap();
        for name in ["ringscope_incident{", "ringscope_finding{"] {
            let mut lines =
                text.lines().filter(|line| line.starts_with(name) && line.contains(&of_incident)).peekable();
            assert!(lines.peek().is_some(), "{name}");
            assert!(lines.all(|line| line.ends_with(ending)), "{ending} in {text}");
        }
    };
    all_are(" 0").await;
    post(&daemon, &format!("{id}/unsilence"), json!({ "by": "ann" })).await;
    all_are(" 1").await;

    let long = "x".repeat(2001);
    let soon = clock::now().to_string();
    for (path, body, status, part) in [
        ("nobody/acknowledge".to_owned(), json!({ "by": "ann" }), 404, "no incident \"nobody\""),
        (format!("{id}/acknowledge"), json!({}), 400, "{\"by\": \"ann\"}"),
        (format!("{id}/acknowledge"), json!({ "by": "  " }), 422, "by is empty"),
        (format!("{id}/acknowledge"), json!({ "by": "ann", "until": 1 }), 400, "unknown field"),
        (format!("{id}/acknowledge"), json!({ "by": "a".repeat(101) }), 422, "at most 100"),
        (format!("{id}/notes"), json!({ "by": "ann", "text": long }), 422, "at most 2000"),
        (format!("{id}/notes"), json!({ "by": "ann", "text": "\u{200b}\u{202e}" }), 422, "text is empty"),
        (format!("{id}/notes"), json!({ "by": "ann", "text": "a\u{1b}[2J" }), 422, "control characters"),
        (format!("{id}/silence"), json!({ "by": "ann" }), 422, "one of until and for_s"),
        (format!("{id}/silence"), json!({ "by": "ann", "until": soon }), 422, "is over"),
        (format!("{id}/silence"), json!({ "by": "ann", "for_s": u64::MAX }), 422, "at most 30 days"),
    ] {
        problem(post(&daemon, &path, body).await, status, part).await;
    }
    // As a form of another origin would send it.
    let form = daemon.client.post(format!("{}/api/v1/incidents/{id}/acknowledge", daemon.url));
    problem(form.body("{\"by\": \"eve\"}").send().await.unwrap(), 415, "application/json").await;
    problem(daemon.get("/api/v1/incidents/nobody").await, 404, "/api/v1/incidents has those").await;
    problem(daemon.get("/api/v1/incidents?state=open").await, 400, "firing, resolved").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_signed_in_says_it_and_whom_they_name_stands_beside() {
    let dir = scratch("incident-by");
    let (daemon, [ingest, _, operate, admin]) = with_tokens(&dir).await;
    let other = SMALL.batch(1, 1, 3, START_NS).encode_to_vec();
    let sent = daemon.ask(Method::POST, "/api/v1/ingest", &ingest);
    let sent = sent.header("content-type", "application/x-protobuf").body(other).send().await.unwrap();
    assert_eq!(sent.status(), StatusCode::OK);
    let open: Value = daemon.get_as("/api/v1/incidents", &operate).await.json().await.unwrap();
    let id = open["items"][0]["id"].as_str().unwrap();
    let say = async |what: &str, body: Value| {
        let path = format!("/api/v1/incidents/{id}/{what}");
        let said = daemon.ask(Method::POST, &path, &operate).json(&body).send().await.unwrap();
        said.json::<Value>().await.unwrap()
    };
    let said = say("acknowledge", json!({ "by": "ann" })).await;
    assert_eq!(said["acknowledged"]["by"], "the operate (for ann)");
    assert!(said["timeline"].to_string().contains("the operate (for ann) looks after it."), "{said}");
    let said = say("acknowledge", json!({ "by": " the operate " })).await;
    assert_eq!(said["acknowledged"]["by"], "the operate");
    let said = say("notes", json!({ "by": "the admin", "text": "I look." })).await;
    assert_eq!(said["notes"][0]["by"], "the operate (for the admin)", "nobody speaks as somebody else");
    let trail: Value = daemon.get_as("/api/v1/audit?action=note", &admin).await.json().await.unwrap();
    assert_eq!(trail["items"][0]["who"], "the operate");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_keeps_an_incident_with_its_beginning_and_its_notes() {
    let dir = scratch("incidents");
    let daemon = Daemon::ready(&sqlite(&dir)).await;
    send(&daemon, 1, false).await;
    let before = open(&daemon).await;
    let id = before["id"].as_str().unwrap();
    post(&daemon, &format!("{id}/acknowledge"), json!({ "by": "ann" })).await;
    post(&daemon, &format!("{id}/notes"), json!({ "by": "ann", "text": "I look." })).await;
    daemon.stop().await;

    let daemon = Daemon::ready(&sqlite(&dir)).await;
    let after = open(&daemon).await;
    for field in ["id", "began_at", "first_seen", "findings", "sentence", "severity"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(
        (after["acknowledged"]["by"].as_str(), after["notes"][0]["text"].as_str()),
        (Some("ann"), Some("I look."))
    );
    send(&daemon, 2, true).await;
    until("it is over", async || {
        let open = daemon.json("/api/v1/incidents?state=firing").await;
        open["items"].as_array().unwrap().is_empty()
    })
    .await;
    let over =
        daemon.json("/api/v1/incidents?state=resolved&job=train&host=node-b").await["items"][0].clone();
    assert_eq!((over["id"].as_str(), over["state"].as_str()), (Some(id), Some("resolved")));
    assert!(
        over["resolved_at"].is_string() && over["timeline"].to_string().contains("It is over."),
        "{over}"
    );
    problem(
        post(&daemon, &format!("{id}/silence"), json!({ "by": "ann", "for_s": 60 })).await,
        409,
        "it is over",
    )
    .await;
    daemon.stop().await;
}
