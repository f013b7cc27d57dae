//! What was acknowledged survives: a daemon that is killed, a database that goes away.

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};

use ringscope_wire::batch::ProcessState;
use tokio_util::sync::CancellationToken;

use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{scratch, until};

/// Tells the test's own program, started again, that it is to be a daemon on this database.
const CHILD_DATABASE: &str = "RINGSCOPE_TEST_CHILD_DATABASE";

/// Not a test by itself: the daemon that the others kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "a test that starts itself again")]
async fn child_daemon() {
    let Ok(database_url) = std::env::var(CHILD_DATABASE) else { return };
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let server = ringscope_daemon::serve::Server::bind(config(&database_url)).await.unwrap();
    println!("\nlistening {}", server.local_addr());
    server.run(CancellationToken::new()).await.unwrap();
}

/// A daemon in a process of its own, which ends as by kill -9.
pub(crate) struct Killed(pub(crate) Child);

impl Killed {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn child(database_url: &str) -> (Killed, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durability::child_daemon", "--nocapture"])
        .env(CHILD_DATABASE, database_url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let address =
        lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("listening ")?.to_owned()));
    (Killed(child), format!("http://{}", address.expect("the child's address")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_keeps_what_was_acknowledged_before_a_kill() {
    let dir = scratch("kill");
    killed_daemon_loses_nothing(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_what_was_acknowledged_before_a_kill() {
    let postgres = Postgres::start();
    killed_daemon_loses_nothing(&postgres.url()).await;
    assert_eq!(postgres.query("SELECT count(*) FROM ring_hops"), "16");
    assert_eq!(postgres.query("SELECT sum(last_seq) FROM agents"), "40");
}

async fn killed_daemon_loses_nothing(database_url: &str) {
    let (killed, url) = child(database_url);
    let client = reqwest::Client::new();
    for seq in 1..=20 {
        for host in 0..2 {
            let mut batch = SMALL.batch(host, seq, seq, START_NS);
            if (host, seq) == (1, 20) {
                batch.processes.iter_mut().for_each(|process| process.state = ProcessState::Exited.into());
            }
            let batch = prost::Message::encode_to_vec(&batch);
            until("taken", async || {
                let request = client.post(format!("{url}/api/v1/ingest"));
                let request = request.header("content-type", "application/x-protobuf").body(batch.clone());
                request.send().await.unwrap().status() == 200
            })
            .await;
        }
    }
    drop(killed);

    let daemon = Daemon::ready(database_url).await;
    // Of those that ended all is stored; what the others count their agent tells again.
    let issued_bytes = daemon.issued_bytes().await;
    assert!((2 * (20 << 20)..=4 * (20 << 20)).contains(&issued_bytes), "{issued_bytes}");
    let findings = daemon.json("/api/v1/findings?state=firing").await;
    assert!(!findings["items"].as_array().unwrap().is_empty());
    // The agent goes on where it was, and is asked for everything: not all that it has said is stored. A repetition counts once.
    let reply = daemon.take(&SMALL.batch(0, 21, 21, START_NS)).await;
    assert_eq!((reply.seq_number, reply.resend_all), (21, true));
    let reply = daemon.take(&SMALL.batch(0, 20, 20, START_NS)).await;
    assert_eq!((reply.seq_number, reply.resend_all), (21, false));
    daemon.take(&SMALL.batch(0, 21, 21, START_NS)).await;
    assert_eq!(daemon.issued_bytes().await, 2 * (21 << 20) + 2 * (20 << 20));
    let metrics = daemon.get("/metrics").await.text().await.unwrap();
    assert!(metrics.contains("ringscope_ingest_duplicates_total 2"), "{metrics}");
    let mut before = SMALL.batch(0, 20, 20, START_NS);
    before.agent_id = "somebody-new".into();
    assert!(daemon.take(&before).await.resend_all, "an agent of a daemon before this one");
    // Back to the numbers that the caller counts.
    daemon.stop().await;
    reset_agent(database_url).await;
}

/// Leaves the two agents at 20 each.
async fn reset_agent(database_url: &str) {
    use ringscope_store::Store;
    let store = Store::open(&database_url.parse().unwrap()).await.unwrap().unwrap();
    let restored = store.restore().await.unwrap();
    assert_eq!(restored.agents.len(), 3);
    let delete = "DELETE FROM agents WHERE agent_id = 'somebody-new'";
    let set = "UPDATE agents SET last_seq = 20";
    match &store {
        Store::Pg(pool, _) => {
            sqlx::query(delete).execute(pool).await.unwrap();
            sqlx::query(set).execute(pool).await.unwrap();
        }
        Store::Lite { write, .. } => {
            sqlx::query(delete).execute(write).await.unwrap();
            sqlx::query(set).execute(write).await.unwrap();
        }
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_comes_back_gets_what_it_missed() {
    let mut postgres = Postgres::start();
    let daemon = Daemon::ready(&postgres.url()).await;
    daemon.take(&SMALL.batch(0, 1, 1, START_NS)).await;

    postgres.stop();
    problem(daemon.send(&SMALL.batch(1, 1, 2, START_NS)).await, 503, "send it again").await;
    problem(daemon.send(&SMALL.batch(0, 2, 2, START_NS)).await, 503, "send it again").await;
    problem(daemon.get("/readyz").await, 503, "").await;
    // Judged all the same.
    assert_eq!(daemon.issued_bytes().await, 4 * (2 << 20));

    postgres.start_again();
    daemon.until_ready().await;
    // The agents try again what was not acknowledged, and it counts once.
    daemon.take(&SMALL.batch(0, 2, 2, START_NS)).await;
    daemon.take(&SMALL.batch(1, 1, 2, START_NS)).await;
    assert_eq!(daemon.issued_bytes().await, 4 * (2 << 20));
    assert_eq!(postgres.query("SELECT count(*) FROM process_counters"), "4");
    until("the rows for readers", async || {
        postgres.query("SELECT count(*) FROM communicator_ranks WHERE cause <> 'unknown'") == "4"
    })
    .await;
    assert_eq!(postgres.query("SELECT state, base_channels FROM communicators"), "active|2");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_came_before_the_database_joins_what_it_kept() {
    let mut postgres = Postgres::start();
    let daemon = Daemon::ready(&postgres.url()).await;
    daemon.take(&SMALL.batch(0, 1, 5, START_NS)).await;
    daemon.stop().await;
    postgres.stop();

    let daemon = Daemon::start(config(&postgres.url())).await;
    until("away", async || daemon.get("/readyz").await.text().await.unwrap().contains("store-away")).await;
    problem(daemon.send(&SMALL.batch(1, 1, 7, START_NS)).await, 503, "").await;
    postgres.start_again();
    daemon.until_ready().await;
    assert_eq!(daemon.issued_bytes().await, 2 * (5 << 20) + 2 * (7 << 20));
    daemon.take(&SMALL.batch(1, 1, 7, START_NS)).await;
    assert_eq!(postgres.query("SELECT count(*) FROM processes"), "4");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_texts_do_not_stop_the_store() {
    let postgres = Postgres::start();
    let daemon = Daemon::ready(&postgres.url()).await;
    let mut odd = SMALL.batch(0, 1, 1, START_NS);
    for process in &mut odd.processes {
        process.identity.as_mut().unwrap().job = format!("tr\0in {}", "é".repeat(2000));
        process.communicators[0].rings[0].nic = "mlx5\0".into();
    }
    daemon.take(&odd).await;
    daemon.take(&SMALL.batch(1, 1, 1, START_NS)).await;
    until("the rows for readers", async || postgres.query("SELECT count(*) FROM communicators") == "2").await;
    assert_eq!(daemon.get("/readyz").await.status(), 200);
    daemon.stop().await;
}
