//! Two tenants of one daemon: one takes all that it can get, and the other finds what it needs.

use prost::Message as _;
use reqwest::{Method, Response, StatusCode};
use ringscope_api::Role;
use ringscope_daemon::config::{AccessConfig, ServeConfig};
use ringscope_wire::batch::{Batch, ProcessState};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::common::batches::{Job, SMALL, START_NS};
use crate::common::daemon::{Daemon, closed, problem, sqlite};
use crate::common::{eventually, scratch, until};
use crate::tenants::token;

/// A daemon, two tokens of acme's and one of globex's, all of which may do what people on call may.
async fn daemon(dir: &std::path::Path, tenant_share: Option<u8>) -> (Daemon, [String; 2], String, String) {
    let url = sqlite(dir);
    let of = async |tenant| token(&url, Role::Operate, tenant).await;
    let (acme, globex) = ([of("acme").await, of("acme").await], of("globex").await);
    let all = token(&url, Role::Admin, "").await;
    let closed = closed(&url);
    let access = AccessConfig { tenant_share, ..closed.access.clone() };
    let daemon = Daemon::start(ServeConfig { access, ..closed }).await;
    daemon.until_ready().await;
    (daemon, acme, globex, all)
}

/// The daemon's answer to a batch; asked again where it has closed the connection that the client had kept.
async fn send(daemon: &Daemon, token: &str, batch: &Batch) -> Response {
    eventually("an answer", async || {
        let request = daemon.ask(Method::POST, "/api/v1/ingest", token);
        let request = request.header("content-type", "application/x-protobuf").body(batch.encode_to_vec());
        request.send().await.ok()
    })
    .await
}

async fn import(daemon: &Daemon, token: &str) -> Response {
    let request = daemon.ask(Method::POST, "/api/v1/import", token);
    request.header("content-type", "application/octet-stream").body("no log").send().await.unwrap()
}

/// Begins a request with a long body of which so many bytes come, and no more.
async fn stalled(
    daemon: &Daemon,
    token: &str,
    (path, kind): (&str, &str),
    bytes: usize,
) -> Option<TcpStream> {
    let address = daemon.url.trim_start_matches("http://");
    let mut upload = TcpStream::connect(address).await.ok()?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: {kind}\r\n\
         content-length: 1000000\r\n\r\n"
    );
    upload.write_all(head.as_bytes()).await.ok()?;
    upload.write_all(&vec![0; bytes]).await.ok()?;
    Some(upload)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_of_one_tenant_leave_others_theirs() {
    let dir = scratch("shares-streams");
    let (daemon, acme, globex, all) = daemon(&dir, None).await;
    let listen = async |token: &str| daemon.get_as("/api/v1/events", token).await;
    let mut streams = Vec::new();
    let refused = loop {
        let answer = listen(&acme[0]).await;
        if answer.status() != StatusCode::OK {
            break answer;
        }
        streams.push(answer);
        assert!(streams.len() <= 128, "there is a bound");
    };
    assert_eq!(streams.len(), 128);
    assert!(refused.headers().contains_key("retry-after"));
    problem(refused, 429, "128 of the 256 clients that may listen are the tenant acme").await;
    problem(listen(&acme[1]).await, 429, "acme").await;
    for token in [&globex, &all] {
        assert_eq!(listen(token).await.status(), StatusCode::OK);
    }
    drop(streams);
    until("room for another", async || listen(&acme[1]).await.status() == StatusCode::OK).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_one_tenant_leave_others_theirs() {
    let dir = scratch("shares-imports");
    let (daemon, acme, globex, _) = daemon(&dir, None).await;
    let mut slow = Vec::new();
    eventually("acme has its share, and globex has not", async || {
        let route = ("/api/v1/import", "application/octet-stream");
        slow.push(stalled(&daemon, &acme[0], route, 10).await?);
        let refused = import(&daemon, &acme[1]).await;
        if slow.len() < 4 || refused.status() != StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        problem(refused, 429, "4 files of the tenant acme").await;
        problem(import(&daemon, &globex).await, 422, "the file").await;
        Some(())
    })
    .await;
    drop(slow);
    until("room", async || import(&daemon, &acme[0]).await.status() == StatusCode::UNPROCESSABLE_ENTITY)
        .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_of_one_tenant_leave_others_room() {
    let dir = scratch("shares-uploads");
    let (daemon, acme, globex, _) = daemon(&dir, None).await;
    let (mut slow, mut seq_number) = (Vec::new(), 0);
    eventually("acme holds all that it can, and globex sends", async || {
        let route = ("/api/v1/ingest", "application/x-protobuf");
        slow.push(stalled(&daemon, &acme[slow.len() % 2], route, 900_000).await?);
        seq_number += 1;
        // Twenty-eight of some MiB each are all that one may hold.
        if slow.len() < 28 {
            return None;
        }
        let refused = send(&daemon, &acme[0], &large(seq_number)).await;
        if refused.status() != StatusCode::TOO_MANY_REQUESTS {
            return None;
        }
        problem(refused, 429, "28 MiB are held").await;
        let sent = send(&daemon, &globex, &SMALL.batch(0, seq_number, 3, START_NS)).await;
        assert_eq!(sent.status(), StatusCode::OK);
        assert_eq!(import(&daemon, &globex).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
        Some(())
    })
    .await;
    drop(slow);
    until("room", async || send(&daemon, &acme[0], &large(1_000)).await.status() == StatusCode::OK).await;
    daemon.stop().await;
}

/// A batch of some hundred KiB.
fn large(seq_number: u64) -> Batch {
    Batch { cannot_watch: "x".repeat(900_000), ..SMALL.batch(0, seq_number, 3, START_NS) }
}

/// A host with this many processes, each of a job of its own.
fn jobs(host: &str, seq_number: u64, calls: u64, jobs: std::ops::Range<usize>) -> Batch {
    let mut processes = Vec::new();
    for n in jobs {
        let name = format!("job-{n}");
        let job = Job { name: &name, hosts: &[host], ranks_per_host: 1, init: &[4], last: 4 };
        let mut told = job.batch(0, 1, calls, START_NS).processes.remove(0);
        told.key = format!("{host}/{n}/{START_NS}");
        told.identity.as_mut().unwrap().pid = u32::try_from(n).unwrap();
        processes.push(told);
    }
    let agent_id = format!("agent-{host}");
    Batch { agent_id, seq_number, processes, agent_host: host.to_owned(), ..SMALL.batch(0, 1, 1, START_NS) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_has_its_share_is_refused_more_and_it_is_said() {
    let dir = scratch("shares-model");
    // Two percent: 200 jobs, and 100 of one token.
    let (daemon, acme, globex, all) = daemon(&dir, Some(2)).await;
    let json = async |token: &str, path: &str| -> Value {
        let answer = daemon.get_as(path, token).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.json().await.unwrap()
    };
    let n_jobs =
        async |token: &str| json(token, "/api/v1/jobs?limit=1000").await["items"].as_array().unwrap().len();
    assert_eq!(send(&daemon, &globex, &jobs("node-g", 1, 3, 0..10)).await.status(), StatusCode::OK);
    let taken = async |token: &str, batch: &Batch| {
        assert_eq!(send(&daemon, token, batch).await.status(), StatusCode::OK);
    };
    taken(&acme[0], &jobs("node-a", 1, 3, 0..150)).await;
    taken(&acme[1], &jobs("node-b", 1, 3, 200..350)).await;
    // Files are sent once: who sends them is told.
    let mut files = jobs("node-f", 1, 3, 700..750);
    files.processes.iter_mut().for_each(|process| process.state = ProcessState::Imported.into());
    let refused = send(&daemon, &acme[1], &files).await;
    let said = problem(refused, 413, "acme has told of 200 jobs, which is the most for one tenant").await;
    for part in ["what is known goes on", "new jobs are refused", "--tenant-share"] {
        assert!(said.detail.contains(part), "{part} in {}", said.detail);
    }
    assert_eq!((n_jobs(&acme[0]).await, n_jobs(&globex).await, n_jobs(&all).await), (200, 10, 210));
    // What is known goes on, in the same batch as what is refused; and others send on.
    taken(&acme[0], &jobs("node-a", 2, 7, 50..150)).await;
    let job = json(&acme[0], "/api/v1/jobs/acme::job-60").await;
    assert_eq!(job["issued_bytes"], 7 << 20, "{job}");
    assert_eq!(send(&daemon, &acme[0], &jobs("node-a", 3, 8, 0..100)).await.status(), StatusCode::OK);
    assert_eq!(send(&daemon, &globex, &jobs("node-g", 2, 4, 0..20)).await.status(), StatusCode::OK);
    assert_eq!(n_jobs(&globex).await, 20);
    // Whom it concerns is told, and sees no green.
    for token in [&acme[0], &all] {
        let health = json(token, "/api/v1/health").await;
        let unknown = health["unknown"].to_string();
        assert!(unknown.contains("of acme has told of 100 jobs") && unknown.contains("refused"), "{health}");
        assert_ne!(health["level"], "ok");
    }
    let others = json(&globex, "/api/v1/health").await;
    assert!(!others.to_string().contains("acme"), "{others}");
    let metrics = daemon.get_as("/metrics", &all).await.text().await.unwrap();
    assert!(metrics.contains("share_limit"), "{metrics}");
    // What was taken of refused batches is kept as well.
    daemon.stop().await;
    let closed = closed(&sqlite(&dir));
    let access = AccessConfig { tenant_share: Some(2), ..closed.access.clone() };
    let daemon = Daemon::start(ServeConfig { access, ..closed }).await;
    daemon.until_ready().await;
    assert_eq!(send(&daemon, &acme[0], &jobs("node-a", 9, 9, 400..401)).await.status(), StatusCode::OK);
    let answer = daemon.get_as("/api/v1/jobs/acme::job-400", &acme[0]).await;
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    daemon.stop().await;
}
