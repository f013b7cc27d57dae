//! Every endpoint, and every kind of mistake.

use futures::StreamExt as _;
use serde_json::Value;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, problem};
use crate::common::{PATIENCE, eventually, until};

async fn with_job() -> (Daemon, String) {
    let daemon = Daemon::ready("sqlite::memory:").await;
    for host in 0..2 {
        daemon.take(&SMALL.batch(host, 1, 3, START_NS)).await;
    }
    let list = daemon.json("/api/v1/communicators").await;
    let comm = list["items"][0]["id"].as_str().unwrap().to_owned();
    (daemon, comm)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_model_is_shown() {
    let (daemon, comm) = with_job().await;
    let job = daemon.json("/api/v1/jobs/train").await;
    assert_eq!((&job["n_processes"], &job["issued_bytes"]), (&Value::from(4), &Value::from(12 << 20)));
    let detail = daemon.json(&format!("/api/v1/communicators/{comm}")).await;
    assert_eq!(detail["base"], 2);
    assert_eq!(detail["final_channels"], 4);
    assert_eq!(detail["ranks"].as_array().unwrap().len(), 4);
    assert_eq!(detail["culprits"][0], "node-b");
    let rings = daemon.json(&format!("/api/v1/communicators/{comm}/rings")).await;
    assert_eq!(rings["rings"].as_array().unwrap().len(), 4);
    assert_eq!(rings["rings"][0]["complete"], true);
    let primitives = daemon.json(&format!("/api/v1/communicators/{comm}/primitives")).await;
    assert_eq!(primitives["primitives"][0]["backlog_bytes"], 4 << 20);
    let operations = daemon.json(&format!("/api/v1/communicators/{comm}/operations?state=in_flight")).await;
    assert_eq!(operations["items"].as_array().unwrap().len(), 4);
    let nodes = daemon.json("/api/v1/nodes").await;
    assert_eq!(nodes["items"][1]["degraded"], true);
    assert_eq!(daemon.json("/api/v1/nodes/node-b").await["host"], "node-b");
    let findings = daemon.json(&format!("/api/v1/findings?state=firing&severity=warning&comm={comm}")).await;
    assert!(!findings["items"].as_array().unwrap().is_empty());
    let degraded = daemon.json("/api/v1/communicators?degraded=false").await;
    assert!(degraded["items"].as_array().unwrap().is_empty());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_have_pages() {
    let (daemon, _) = with_job().await;
    let first = daemon.json("/api/v1/nodes?limit=1").await;
    assert_eq!(first["items"][0]["host"], "node-a");
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = daemon.json(&format!("/api/v1/nodes?limit=1&cursor={cursor}")).await;
    assert_eq!(second["items"][0]["host"], "node-b");
    assert!(second["next_cursor"].is_null());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_has_what_was_sampled() {
    let (daemon, comm) = with_job().await;
    let path = format!("/api/v1/series?metric=issued_bytes&comm={comm}&step=1s");
    let newest = |series: &Value| {
        let values = series["lines"][0]["values"].as_array()?;
        values.iter().rev().find_map(Value::as_f64)
    };
    // The first sample may be of one host alone.
    let all = Some(f64::from(12 << 20));
    until("a sample of both hosts", async || newest(&daemon.json(&path).await) == all).await;
    let series = daemon.json(&path).await;
    assert_eq!(series["unit"], "bytes");
    let values = series["lines"][0]["values"].as_array().unwrap();
    assert_eq!(values.len(), series["times_ms"].as_array().unwrap().len());
    let by_host = daemon.json(&format!("{path}&by_host=true")).await;
    assert_eq!(by_host["lines"].as_array().unwrap().len(), 2);
    assert_eq!(by_host["lines"][1]["host"], "node-b");
    let rate = daemon.json("/api/v1/series?metric=completed_calls&rate=true").await;
    assert_eq!(rate["unit"], "calls_per_second");
    for (query, expected) in [("job=train", 1), ("job=nobody", 0), ("by=host", 2), ("by=comm", 1)] {
        let path = format!("/api/v1/series?metric=backlog_bytes&{query}");
        let lines = daemon.json(&path).await["lines"].as_array().unwrap().clone();
        assert_eq!(lines.len(), expected, "{query}");
        for line in lines {
            let last = line["values"].as_array().unwrap().iter().rev().find_map(Value::as_f64);
            assert_eq!(last, Some(f64::from(if query == "by=host" { 2 << 20 } else { 4 << 20 })), "{query}");
            assert_eq!(line["comm"].as_str(), (query == "by=comm").then_some(&*comm), "{query}");
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_hear_of_changes_until_shutdown() {
    let (daemon, _) = with_job().await;
    let response = daemon.get("/api/v1/events").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert!(response.headers().get("content-encoding").is_none());
    let mut stream = response.bytes_stream();
    daemon.take(&SMALL.batch(0, 2, 4, START_NS)).await;
    let mut text = String::new();
    while !text.contains("\"version\"") {
        let chunk = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap();
        text.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
    }
    assert!(text.contains("event: changed"), "{text}");
    daemon.stop().await;
    while let Some(Ok(_)) = stream.next().await {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plots_are_drawn() {
    let (daemon, comm) = with_job().await;
    let svg = daemon.get(&format!("/api/v1/plots/rings.svg?comm={comm}&channel=1&theme=dark")).await;
    assert_eq!(svg.headers()["content-type"], "image/svg+xml");
    assert!(svg.text().await.unwrap().contains("channel 1 of 4"));
    problem(daemon.get(&format!("/api/v1/plots/rings.svg?comm={comm}&channel=9")).await, 404, "channel")
        .await;
    // A rate is known once there was time between two samples.
    let history = format!("/api/v1/series?metric=completed_bytes&comm={comm}&rate=true");
    let mut calls = 3;
    eventually("a rate", async || {
        calls += 1;
        for host in 0..2 {
            daemon.take(&SMALL.batch(host, calls, calls, START_NS)).await;
        }
        let series = daemon.json(&history).await;
        let values = series["lines"][0]["values"].as_array()?.clone();
        values.iter().any(Value::is_f64).then_some(())
    })
    .await;
    for (plot, parts) in [
        (format!("rings?comm={comm}&channel=all"), vec!["4 channels · 4 ranks on 2 hosts"]),
        (format!("channels?comm={comm}"), vec!["train", "⚠ node-b", "node-a", "held back by node-b"]),
        (format!("bandwidth?comm={comm}"), vec!["train · world", "busbw", "all_reduce", "UTC"]),
        ("bandwidth?job=train&height=300".to_owned(), vec!["algbw", "all_reduce"]),
        ("bandwidth?job=nobody".to_owned(), vec!["nobody", "no data in this time"]),
        ("backlog?job=train&step=1s&from=0".to_owned(), vec![]),
        (format!("backlog?comm={comm}&theme=dark"), vec!["issued", "completed", "backlog 4.0 MiB"]),
    ] {
        let (name, query) = plot.split_once('?').unwrap();
        let svg = daemon.get(&format!("/api/v1/plots/{name}.svg?{query}")).await;
        if parts.is_empty() {
            problem(svg, 400, "from").await;
            continue;
        }
        let text = svg.text().await.unwrap();
        for part in parts {
            assert!(text.contains(part), "{plot}: {part}");
        }
        let png = daemon.get(&format!("/api/v1/plots/{name}.png?{query}&width=400&download=true")).await;
        let disposition = format!("attachment; filename=\"ringscope-{name}.png\"");
        assert_eq!(png.headers()["content-disposition"], disposition.as_str(), "{plot}");
        assert_eq!(&png.bytes().await.unwrap()[1..4], b"PNG", "{plot}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_has_every_route_and_describes_it() {
    let daemon = Daemon::ready("none").await;
    let document = daemon.json("/api/v1/openapi.json").await;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "jobs",
        "jobs/{job}",
        "communicators",
        "communicators/{id}",
        "communicators/{id}/rings",
        "communicators/{id}/primitives",
        "communicators/{id}/bandwidth",
        "communicators/{id}/operations",
        "communicators/{id}/trace",
        "nodes",
        "nodes/{host}",
        "findings",
        "series",
        "summation/groups",
        "summation/groups/{id}",
        "summation/groups/{id}/rounds",
        "plots/rings.svg",
        "plots/rings.png",
        "plots/channels.svg",
        "plots/bandwidth.png",
        "plots/backlog.svg",
        "events",
        "ingest",
    ] {
        let item = &paths[&format!("/api/v1/{path}")];
        let operation = item.get("get").or_else(|| item.get("post")).unwrap_or_else(|| panic!("{path}"));
        let summary = operation["summary"].as_str().or(operation["description"].as_str());
        assert!(summary.is_some_and(|text| !text.is_empty()), "{path}");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for schema in ["CommunicatorSummary", "Problem", "Changed", "Hop", "Finding"] {
        assert!(schemas.contains_key(schema), "{schema} in {:?}", schemas.keys());
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_served_for_its_routes_and_guarded() {
    let daemon = Daemon::ready("none").await;
    for path in ["/", "/communicators/123", "/index.html"] {
        let page = daemon.get(path).await;
        assert_eq!(page.status(), 200, "{path}");
        assert!(
            page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'self'")
        );
        assert_eq!(page.headers()["x-content-type-options"], "nosniff");
        let etag = page.headers()["etag"].clone();
        let again = daemon
            .client
            .get(format!("{}{path}", daemon.url))
            .header("if-none-match", etag)
            .send()
            .await
            .unwrap();
        assert_eq!(again.status(), 304, "{path}");
    }
    problem(daemon.get("/assets/nothing.js").await, 404, "no such route").await;
    assert_eq!(daemon.get("/healthz").await.status(), 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mistake_is_a_problem_that_says_what_is_allowed() {
    let (daemon, comm) = with_job().await;
    for (path, status, part) in [
        ("/api/v1/nothing", 404, "openapi.json"),
        ("/api/v1/communicators/0123456789ab", 404, "/api/v1/communicators"),
        ("/api/v1/communicators/x/rings", 404, "communicator"),
        ("/api/v1/communicators/x/primitives", 404, "communicator"),
        ("/api/v1/communicators/x/bandwidth", 404, "communicator"),
        ("/api/v1/communicators/x/operations", 404, "communicator"),
        ("/api/v1/jobs/nobody", 404, "nobody"),
        ("/api/v1/nodes/nowhere", 404, "nowhere"),
        ("/api/v1/jobs?limit=0", 400, "limit is \"0\"; allowed: a number from 1 to 1000"),
        ("/api/v1/jobs?limit=1001", 400, "1000"),
        ("/api/v1/jobs?cursor=xyz", 400, "cursor"),
        ("/api/v1/jobs?colour=red", 400, "colour\"; allowed: state, q, limit, cursor"),
        ("/api/v1/jobs?limit=1&limit=2", 400, "twice"),
        ("/api/v1/communicators?state=gone", 400, "forming, active, broken, ended"),
        ("/api/v1/communicators?degraded=maybe", 400, "true, false"),
        ("/api/v1/findings?severity=bad", 400, "info, warning, critical"),
        ("/api/v1/findings?kind=bad", 400, "channel_shortfall"),
        ("/api/v1/series", 400, "issued_bytes"),
        ("/api/v1/series?metric=happiness", 400, "issued_bytes"),
        ("/api/v1/series?metric=issued_bytes&from=yesterday", 400, "RFC 3339"),
        (
            "/api/v1/series?metric=issued_bytes&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
            400,
            "before",
        ),
        ("/api/v1/series?metric=issued_bytes&step=1ms", 400, "step"),
        ("/api/v1/series?metric=issued_bytes&primitive=dance", 400, "all_reduce"),
        ("/api/v1/series?metric=backlog_bytes&rate=true", 400, "allowed of backlog_bytes: false"),
        ("/api/v1/series?metric=issued_bytes&by=rack", 400, "primitive, host, comm"),
        ("/api/v1/plots/rings.svg", 400, "comm"),
        ("/api/v1/plots/channels.png", 400, "comm"),
        ("/api/v1/plots/channels.png?comm=x", 404, "communicator"),
        ("/api/v1/plots/rings.svg?comm=x&channel=every", 400, "0 to 1023"),
        ("/api/v1/plots/bandwidth.svg?height=9", 400, "240 to 2400"),
        ("/api/v1/plots/backlog.svg?metric=x", 400, "allowed: job, comm"),
        ("/api/v1/plots/rings.svg?comm=x", 404, "communicator"),
    ] {
        let problem = problem(daemon.get(path).await, status, part).await;
        assert!(problem.kind.starts_with("about:blank#"), "{path}");
    }
    problem(daemon.get(&format!("/api/v1/plots/rings.png?comm={comm}&width=9")).await, 400, "400 to 2400")
        .await;
    problem(
        daemon.get(&format!("/api/v1/communicators/{comm}/operations?state=done")).await,
        400,
        "in_flight",
    )
    .await;
    let post = daemon.client.post(format!("{}/api/v1/jobs", daemon.url)).send().await.unwrap();
    assert_eq!(post.headers()["allow"], "GET,HEAD");
    problem(post, 405, "Allow").await;
    daemon.stop().await;
}
