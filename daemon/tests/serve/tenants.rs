//! Two tenants with the same names: neither ever sees anything of the other's.

use futures::StreamExt as _;
use prost::Message as _;
use reqwest::Method;
use ringscope_api::clock;
use ringscope_api::{Role, TokenWish};
use ringscope_server::gate;
use ringscope_store::Store;
use ringscope_wire::batch::{Batch, IngestReply};
use serde_json::{Value, json};

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, closed, problem, sqlite};
use crate::common::{PATIENCE, scratch};

const TENANTS: [&str; 2] = ["acme", "globex"];

/// A token of this role for this tenant; empty: for all.
pub(super) async fn token(url: &str, role: Role, tenant: &str) -> String {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hears_of_its_own_and_who_sees_all_has_both() {
    let dir = scratch("tenants");
    let (daemon, agents, readers, all) = both(&dir).await;
    hears_of_its_own(&daemon, &agents, &readers).await;
    let jobs = json_of(&daemon, &all, "/api/v1/jobs").await;
    let ids: Vec<&str> =
        jobs["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["acme::train", "globex::train"], "who is of no tenant sees all, and two jobs");
    // A tenant's metrics are of its jobs, and of nothing that the daemon is.
    let of_acme = get(&daemon, &readers[0], "/metrics").await.text().await.unwrap();
    let of_all = get(&daemon, &all, "/metrics").await.text().await.unwrap();
    for name in ["ringscope_ingest_batches_total", "ringscope_store_up", "ringscope_build_info"] {
        assert!(of_all.contains(name) && !of_acme.contains(name), "{name} in {of_acme}");
    }
    assert!(!of_acme.contains("process_") && of_acme.contains("ringscope_issued_bytes_total{"), "{of_acme}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_two_tenants_on_one_host_are_counted_once_each() {
    let dir = scratch("tenants-once");
    let (daemon, agents, readers, all) = both(&dir).await;
    let issued = async |token: &str| {
        let jobs = json_of(&daemon, token, "/api/v1/jobs").await;
        let jobs = jobs["items"].as_array().unwrap().clone();
        jobs.iter().map(|job| job["issued_bytes"].as_u64().unwrap()).sum::<u64>()
    };
    let once = issued(&readers[0]).await;
    assert!(once > 0);
    // Both have an agent of that name on that host, and the answers to their batches were lost.
    for (tenant, agent) in TENANTS.iter().zip(&agents) {
        let told = send(&daemon, agent, &batch(tenant, 0, 1)).await;
        assert_eq!((told.seq_number, told.resend_all), (1, false), "{tenant}: taken before");
    }
    for (tenant, agent) in TENANTS.iter().zip(&agents) {
        assert_eq!(send(&daemon, agent, &batch(tenant, 0, 2)).await.seq_number, 2, "{tenant}: not yet");
    }
    assert_eq!(issued(&readers[0]).await, issued(&readers[1]).await);
    assert_eq!(issued(&all).await, 2 * issued(&readers[0]).await);
    let hosts = json_of(&daemon, &all, "/api/v1/nodes").await;
    assert_eq!(hosts["items"].as_array().unwrap().len(), 4, "a host of each tenant's is its own");
    let metrics = get(&daemon, &all, "/metrics").await.text().await.unwrap();
    assert!(metrics.contains("\nringscope_ingest_duplicates_total 2\n"), "{metrics}");
    // An agent that is given another tenant's token is another one's from then on, and says everything once more.
    let moved = send(&daemon, &agents[1], &Batch { agent_id: "moved".into(), ..batch("acme", 0, 7) }).await;
    assert!(moved.resend_all && moved.seq_number == 7, "{moved:?}");
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
    let trail = json_of(&daemon, &all, "/api/v1/audit?action=level").await;
    let (done, id) = (&trail["items"][0], readers[0].split('_').nth(1).unwrap());
    assert_eq!(
        (&done["tenant"], &done["token"], &done["who"]),
        (&json!("acme"), &json!(id), &json!("a token")),
        "tokens of one name are told apart"
    );
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
