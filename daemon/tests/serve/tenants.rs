//! Two tenants with the same names: neither ever sees anything of the other's.

use futures::StreamExt as _;
use prost::Message as _;
use reqwest::Method;
use ringscope_daemon::api::{Role, TokenWish};
use ringscope_daemon::config::{AccessConfig, ServeConfig};
use ringscope_daemon::store::Store;
use ringscope_daemon::{clock, gate};
use ringscope_wire::batch::{Batch, IngestReply};
use serde_json::{Value, json};

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem, sqlite};
use crate::common::{PATIENCE, scratch, until};

const TENANTS: [&str; 2] = ["acme", "globex"];

/// A token of this role for this tenant; empty: for all.
async fn token(url: &str, role: Role, tenant: &str) -> String {
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let tenant = Some(tenant.to_owned()).filter(|tenant| !tenant.is_empty());
    let wish = TokenWish { name: "a token".to_owned(), role, tenant, expires_in_s: None };
    let (made, row) = gate::made(&wish, "test", clock::now()).unwrap();
    assert!(store.add_token(&row).await.unwrap());
    store.close().await;
    made.secret
}

/// What the agents of a tenant send: the names of all are the same, but that of the communicator.
fn batch(tenant: &str, host: usize, seq_number: u64) -> Batch {
    let mut batch = SMALL.batch(host, seq_number, 2 + seq_number, START_NS);
    for communicator in batch.processes.iter_mut().flat_map(|process| &mut process.communicators) {
        communicator.name = format!("secret-of-{tenant}");
    }
    batch
}

async fn send(daemon: &Daemon, token: &str, batch: &Batch) -> IngestReply {
    let request = daemon.client.post(format!("{}/api/v1/ingest", daemon.url)).bearer_auth(token);
    let request = request.header("content-type", "application/x-protobuf").body(batch.encode_to_vec());
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    IngestReply::decode(answer.bytes().await.unwrap()).unwrap()
}

async fn get(daemon: &Daemon, token: &str, path: &str) -> reqwest::Response {
    daemon.client.get(format!("{}{path}", daemon.url)).bearer_auth(token).send().await.unwrap()
}

async fn json_of(daemon: &Daemon, token: &str, path: &str) -> Value {
    let answer = get(daemon, token, path).await;
    assert_eq!(answer.status(), 200, "{path}");
    answer.json().await.unwrap()
}

/// A daemon to which both have sent, with a token each to see their own, and one to see all.
async fn both(dir: &std::path::Path) -> (Daemon, [String; 2], [String; 2], String) {
    let url = sqlite(dir);
    let agents = [token(&url, Role::Ingest, "acme").await, token(&url, Role::Ingest, "globex").await];
    let readers = [token(&url, Role::Operate, "acme").await, token(&url, Role::Operate, "globex").await];
    let all = token(&url, Role::Admin, "").await;
    let daemon = Daemon::start(closed(&url)).await;
    daemon.until_ready().await;
    for (tenant, agent) in TENANTS.iter().zip(&agents) {
        for host in 0..2 {
            send(&daemon, agent, &batch(tenant, host, 1)).await;
        }
    }
    (daemon, agents, readers, all)
}

fn closed(url: &str) -> ServeConfig {
    ServeConfig { access: AccessConfig { require_tokens: true, ..AccessConfig::default() }, ..config(url) }
}

/// Every route that is read, with the ids that a tenant sees, and those that the other one does.
async fn routes(daemon: &Daemon, readers: &[String; 2]) -> Vec<String> {
    let document = daemon.json("/api/v1/openapi.json").await;
    let mut comms = Vec::new();
    let mut incidents = vec!["none".to_owned()];
    for reader in readers {
        let list = json_of(daemon, reader, "/api/v1/communicators").await;
        comms.extend(
            list["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
        let list = json_of(daemon, reader, "/api/v1/incidents").await;
        incidents.extend(
            list["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(comms.len(), 2, "each has one");
    let mut found = vec!["/metrics".to_owned()];
    for (path, item) in document["paths"].as_object().unwrap() {
        // A stream is read by itself; a PNG is made of what its SVG is, and has no text.
        let is_stream = path.ends_with("/events") || path.ends_with(".png");
        if item.get("get").is_none() || is_stream || path.contains("/tokens") || path.contains("/audit") {
            continue;
        }
        for tenant in TENANTS {
            let path = path
                .replace("{job}", &format!("{tenant}::train"))
                .replace("{host}", &format!("{tenant}::node-a"));
            let ids = if path.contains("/incidents/") { &incidents } else { &comms };
            let ids: Vec<&str> =
                if path.contains("{id}") { ids.iter().map(String::as_str).collect() } else { vec![""] };
            for id in ids {
                let path = path.replace("{id}", id);
                found.push(path.clone());
                for query in [
                    format!("job={tenant}::train"),
                    format!("host={tenant}::node-a"),
                    format!("q={tenant}"),
                    "q=secret".to_owned(),
                    "metric=issued_bytes&by=comm".to_owned(),
                    format!("metric=issued_bytes&by=host&job={tenant}::train"),
                    format!("comm={}", comms[0]),
                    format!("comm={}&format=chrome", comms[1]),
                    format!("comm={}", comms[1]),
                ] {
                    found.push(format!("{path}?{query}"));
                }
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_sees_anything_of_the_other_at_any_route() {
    let dir = scratch("tenants");
    let (daemon, agents, readers, all) = both(&dir).await;
    let has_history = async |reader: &String| {
        let series = json_of(&daemon, reader, "/api/v1/series?metric=issued_bytes&by=comm").await;
        series["lines"].as_array().unwrap().len() == 1
    };
    for reader in &readers {
        until("history", async || has_history(reader).await).await;
    }
    let paths = routes(&daemon, &readers).await;
    let (mut n_own, mut n_of_others) = (0, 0);
    for (mine, (tenant, reader)) in TENANTS.iter().zip(&readers).enumerate() {
        let other = TENANTS[1 - mine];
        for path in &paths {
            let answer = get(&daemon, reader, path).await;
            let status = answer.status().as_u16();
            assert!(status < 500 && status != 401 && status != 403, "{path}: {status}");
            let body = answer.bytes().await.unwrap();
            let text = String::from_utf8_lossy(&body);
            // What was asked for is repeated where it is not known, or is wrong.
            let is_told = status == 200 && !(path.contains("plots/") && path.contains(other));
            assert!(!is_told || !text.contains(other), "{tenant} sees of {other} at {path}: {text}");
            assert!(!text.contains(&format!("secret-of-{other}")), "{tenant} at {path}: {text}");
            n_own += usize::from(text.contains(&format!("secret-of-{tenant}")));
        }
    }
    for path in &paths {
        let text = get(&daemon, &all, path).await.text().await.unwrap();
        n_of_others +=
            usize::from(TENANTS.iter().all(|tenant| text.contains(&format!("secret-of-{tenant}"))));
    }
    assert!(n_own > 20, "{n_own}: each sees its own");
    assert!(n_of_others > 4, "{n_of_others}: what was asked for shows both to who may see them");
    hears_of_its_own(&daemon, &agents, &readers).await;
    let jobs = json_of(&daemon, &all, "/api/v1/jobs").await;
    let ids: Vec<&str> =
        jobs["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["acme::train", "globex::train"], "who is of no tenant sees all, and two jobs");
    daemon.stop().await;
}

/// Events name communicators too.
async fn hears_of_its_own(daemon: &Daemon, agents: &[String; 2], readers: &[String; 2]) {
    let comm = async |reader: &String| {
        let list = json_of(daemon, reader, "/api/v1/communicators").await;
        list["items"][0]["id"].as_str().unwrap().to_owned()
    };
    let (mine, others) = (comm(&readers[0]).await, comm(&readers[1]).await);
    let mut stream = get(daemon, &readers[0], "/api/v1/events").await.bytes_stream();
    let (mut text, mut seq_number) = (String::new(), 10);
    while !text.contains(&mine) {
        for (tenant, agent) in TENANTS.iter().zip(agents).rev() {
            send(daemon, agent, &batch(tenant, 0, seq_number)).await;
        }
        seq_number += 1;
        let chunk = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap();
        text.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
    }
    assert!(!text.contains(&others), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tenant_says_reaches_its_own_jobs_alone() {
    let dir = scratch("tenants-say");
    let (daemon, agents, readers, all) = both(&dir).await;
    let level = |token: &str, job: &str| {
        let request = daemon.client.request(Method::PUT, format!("{}/api/v1/jobs/{job}/level", daemon.url));
        request.bearer_auth(token).json(&json!({ "level": "steps" })).send()
    };
    problem(level(&readers[0], "globex::train").await.unwrap(), 404, "no job").await;
    assert_eq!(level(&readers[0], "acme::train").await.unwrap().status(), 200);
    let told = send(&daemon, &agents[0], &batch("acme", 0, 2)).await;
    let jobs: Vec<&str> = told.wishes.iter().map(|wish| wish.job.as_str()).collect();
    assert_eq!(jobs, ["train"], "the agent knows its job by its own name");
    assert!(send(&daemon, &agents[1], &batch("globex", 0, 2)).await.wishes.is_empty());
    let seen = json_of(&daemon, &all, "/api/v1/jobs/acme::train/level").await;
    assert_eq!(seen["wish"], "steps");
    daemon.stop().await;
    // What was kept is each one's own again.
    let daemon = Daemon::start(closed(&sqlite(&dir))).await;
    daemon.until_ready().await;
    for (tenant, reader) in TENANTS.iter().zip(&readers) {
        let jobs = json_of(&daemon, reader, "/api/v1/jobs").await;
        let ids: Vec<&str> =
            jobs["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [format!("{tenant}::train")]);
    }
    let who = json_of(&daemon, &readers[0], "/api/v1/session").await;
    assert_eq!((&who["tenant"], &who["role"]), (&json!("acme"), &json!("operate")));
    daemon.stop().await;
}
