//! One daemon a database: another is refused by name, and has it as soon as the first is gone.

use ringscope_daemon::serve::{ServeError, Server};
use ringscope_wire::batch::ProcessState;

use super::durability::child;
use crate::common::batches::{SMALL, START_NS};
use crate::common::daemon::{Daemon, config, problem, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{scratch, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_on_a_file_is_refused() {
    let dir = scratch("claim");
    one_after_the_other(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_daemon_on_postgres_is_refused() {
    let postgres = Postgres::start();
    one_after_the_other(&postgres.url()).await;
}

/// Two real daemons, the first in a process of its own.
async fn one_after_the_other(url: &str) {
    let (first, _) = child(url);
    let refused = Server::bind(config(url)).await.err().expect("refused");
    assert!(matches!(refused, ServeError::InUse(_)), "{refused}");
    let (machine, pid) = (machine(), first.id());
    for part in [
        &*format!("another daemon (host {machine}"),
        &*format!("pid {pid}"),
        "since 20",
        "uses this database",
        "--database-url",
    ] {
        assert!(refused.to_string().contains(part), "{part:?} in {refused}");
    }
    // As kill -9 does.
    drop(first);
    let second = Daemon::ready(url).await;
    assert!(Server::bind(config(url)).await.is_err());
    second.stop().await;
    Daemon::ready(url).await.stop().await;
}

/// The name as the server keeps it: what is longer is cut off.
fn machine() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().chars().take(30).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lock_is_taken_again_or_said_to_be_anothers() {
    use sqlx::Connection as _;
    let postgres = Postgres::start();
    let daemon = Daemon::ready(&postgres.url()).await;
    daemon.take(&SMALL.batch(0, 1, 1, START_NS)).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'ringscope daemon%'";
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
    assert_eq!(postgres.query(held), "1");
    assert_eq!(postgres.query(end), "t");
    until("locked again", async || postgres.query(held) == "1").await;
    daemon.until_ready().await;

    // Another one is faster: nothing is stored beside it, and the daemon goes on.
    let mut other = sqlx::postgres::PgConnection::connect(&postgres.url()).await.unwrap();
    let lock = "SELECT pg_advisory_lock(8244241983474986864)";
    assert_eq!(postgres.query(end), "t");
    sqlx::query(lock).execute(&mut other).await.unwrap();
    until("not ready", async || daemon.get("/readyz").await.status() == 503).await;
    let mut batch = SMALL.batch(0, 2, 2, START_NS);
    batch.processes.iter_mut().for_each(|process| process.state = ProcessState::Exited.into());
    problem(daemon.send(&batch).await, 503, "another daemon").await;
    assert_eq!(daemon.get("/healthz").await.status(), 200);
    assert_eq!(daemon.issued_bytes().await, 2 * (2 << 20), "judged all the same");
    other.close().await.unwrap();
    daemon.until_ready().await;
    daemon.take(&batch).await;
    daemon.stop().await;
}
