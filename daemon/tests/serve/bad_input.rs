//! What must not be taken, and what must not stop the daemon from starting.

use std::os::unix::fs::PermissionsExt as _;

use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::{ServeError, Server};
use ringscope_store::{Store, StoreError};

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{scratch, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_that_will_never_be_taken_are_refused() {
    let daemon = Daemon::ready("none").await;
    let mut newer = SMALL.batch(0, 1, 1, START_NS);
    newer.format_version += 1;
    problem(daemon.send(&newer).await, 422, "version 2").await;
    problem(daemon.send_bytes(b"\xff\xff\xff".to_vec()).await, 400, "not a ringscope batch").await;
    let mut nameless = SMALL.batch(0, 1, 1, START_NS);
    nameless.agent_id.clear();
    problem(daemon.send(&nameless).await, 400, "agent_id").await;
    let url = format!("{}/api/v1/ingest", daemon.url);
    let json =
        daemon.client.post(&url).header("content-type", "application/json").body("{").send().await.unwrap();
    problem(json, 415, "application/x-protobuf").await;
    problem(daemon.send_bytes(b"{\"processes\": [".to_vec()).await, 400, "not a ringscope batch").await;
    let coded = daemon
        .client
        .post(&url)
        .header("content-type", "application/x-protobuf")
        .header("content-encoding", "rot13")
        .body("x");
    problem(coded.send().await.unwrap(), 415, "gzip").await;
    let garbled = daemon
        .client
        .post(&url)
        .header("content-type", "application/x-protobuf")
        .header("content-encoding", "gzip")
        .body("not gzip");
    problem(garbled.send().await.unwrap(), 400, "unpacked").await;
    problem(daemon.get("/api/v1/ingest").await, 405, "Allow").await;
    assert_eq!(daemon.get("/healthz").await.status(), 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_is_too_large_is_refused_and_not_kept() {
    let daemon = Daemon::ready("none").await;
    let before = resident_bytes();
    // One block a hundred times: what is sent costs no memory here either.
    let block = bytes_of(1 << 20);
    let stream = futures::stream::iter((0..100).map(move |_| Ok::<_, std::io::Error>(block.clone())));
    let request = daemon.client.post(format!("{}/api/v1/ingest", daemon.url));
    let chunked = request
        .header("content-type", "application/x-protobuf")
        .body(reqwest::Body::wrap_stream(stream))
        .send()
        .await
        .unwrap();
    problem(chunked, 413, "1048576").await;
    problem(daemon.send_bytes(vec![0; 100 << 20]).await, 413, "--body-limit").await;
    let grown = resident_bytes().saturating_sub(before);
    // The second request's own copy is 100 MiB; the daemon's would be another.
    assert!(grown < 180 << 20, "{grown}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = Server::bind(ServeConfig { listen: address, ..config("none") }).await.err().unwrap();
    assert!(matches!(error, ServeError::Listen { .. }));
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("--listen"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_database_the_daemon_lives_and_says_why() {
    let dir = scratch("unfit");
    let file = dir.join("file");
    std::fs::write(&file, "not a database, but long enough to be read as a header of one").unwrap();
    let unwritable = format!("sqlite:{}/db", file.display());
    let not_ours = format!("sqlite:{}", file.display());
    for (url, part) in [
        ("postgres://u:s3cret@127.0.0.1:1/ring", "postgres://u@127.0.0.1:1/ring"),
        (unwritable.as_str(), "--database-url"),
        (not_ours.as_str(), "not ringscope's"),
    ] {
        let daemon = Daemon::start(config(url)).await;
        until("not ready, and why", async || {
            daemon.get("/readyz").await.text().await.unwrap().contains("store-away")
        })
        .await;
        problem(daemon.get("/readyz").await, 503, "log says why").await;
        let health = daemon.json("/api/v1/health").await;
        assert_eq!(health["level"], "unknown", "{health}");
        let said = health["sentence"].as_str().unwrap();
        assert!(said.starts_with("The database is away since ") && said.contains(part), "{said}");
        // It judges what it hears, and says that it could not keep it.
        let refused = daemon.send(&SMALL.batch(0, 1, 3, START_NS)).await;
        assert_eq!(refused.headers()["retry-after"], "2");
        problem(refused, 503, "send it again").await;
        assert_eq!(daemon.json("/api/v1/jobs").await["items"][0]["id"], "train");
        assert!(daemon.get("/metrics").await.text().await.unwrap().contains("ringscope_store_up 0"));
        let unread = problem(daemon.get("/api/v1/series?metric=issued_bytes").await, 503, part).await;
        assert!(!unread.detail.contains("s3cret"), "{unread:?}");
        assert_eq!(daemon.get("/").await.status(), 200);
        daemon.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_left_alone() {
    let dir = scratch("newer");
    let postgres = Postgres::start();
    for text in [sqlite(&dir), postgres.url()] {
        let url = text.parse().unwrap();
        let store = Store::open(&url).await.unwrap().unwrap();
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     VALUES (999, 'later', true, '', 0)";
        match &store {
            Store::Pg(pool, _) => drop(sqlx::query(newer).execute(pool).await.unwrap()),
            Store::Lite { write, .. } => drop(sqlx::query(newer).execute(write).await.unwrap()),
        }
        store.close().await;
        let error = Store::open(&url).await.err().unwrap();
        assert!(matches!(error, StoreError::SchemaNewer { found: 999, .. }), "{error}");
        // Nor is anything served from it.
        let error = Server::bind(config(&text)).await.err().expect("refused");
        assert!(matches!(error, ServeError::Unfit(StoreError::SchemaNewer { found: 999, .. })), "{error}");
        assert!(error.to_string().contains("start the newer ringscope"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_someone_else_is_left_alone() {
    let postgres = Postgres::start();
    postgres.query("CREATE TABLE jobs (salary int)");
    let error = Store::open(&postgres.url().parse().unwrap()).await.err().unwrap();
    assert!(matches!(error, StoreError::NotOurs { .. }), "{error}");
    assert_eq!(
        postgres.query("SELECT count(*) FROM information_schema.columns WHERE table_name = 'jobs'"),
        "1"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_said_to_be_damaged() {
    let dir = scratch("damaged");
    let file = dir.join("test.db");
    Daemon::ready(&sqlite(&dir)).await.stop().await;
    let mut bytes = std::fs::read(&file).unwrap();
    // The first page behind its header: what tables there are.
    bytes[100..4096].fill(0xff);
    std::fs::write(&file, bytes).unwrap();
    let daemon = Daemon::start(config(&sqlite(&dir))).await;
    until("away", async || daemon.get("/readyz").await.text().await.unwrap().contains("store-away")).await;
    let health = daemon.json("/api/v1/health").await;
    let said = health["sentence"].as_str().unwrap();
    for part in ["test.db is damaged: ", "malformed", "put a backup in its place", "-wal and -shm"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_file_comes_into_a_directory_that_is_made() {
    let dir = scratch("made");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    let daemon = Daemon::ready(&sqlite(&dir.join("a/b"))).await;
    daemon.stop().await;
    assert!(dir.join("a/b/test.db").exists());
}

fn bytes_of(len: usize) -> axum::body::Bytes {
    vec![0; len].into()
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
