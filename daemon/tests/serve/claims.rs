//! One daemon a database: another is refused by name, and has it as soon as the first is gone.

use ringscope_api::Role;
use ringscope_daemon::serve::{ServeError, Server};
use ringscope_wire::batch::ProcessState;

use super::durability::child;
use crate::common::batches::{SMALL, START_NS};
use crate::common::cut::Cut;
use crate::common::daemon::{Daemon, closed, config, problem, sqlite, tokens};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_one_database_whatever_it_is_called() {
    let dir = scratch("claim-link");
    let first = Daemon::ready(&sqlite(&dir)).await;
    std::os::unix::fs::symlink(dir.join("test.db"), dir.join("other.db")).unwrap();
    let refused = Server::bind(config(&format!("sqlite:{}", dir.join("other.db").display()))).await.err();
    assert!(matches!(refused, Some(ServeError::InUse(_))), "{refused:?}");
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_taken_away_is_missed() {
    let dir = scratch("claim-gone");
    let daemon = Daemon::ready(&sqlite(&dir)).await;
    daemon.take(&SMALL.batch(0, 1, 1, START_NS)).await;
    std::fs::rename(dir.join("test.db"), dir.join("aside.db")).unwrap();
    until("not ready", async || daemon.get("/readyz").await.status() == 503).await;
    problem(daemon.send(&SMALL.batch(1, 1, 1, START_NS)).await, 503, "put it back").await;
    std::fs::rename(dir.join("aside.db"), dir.join("test.db")).unwrap();
    daemon.until_ready().await;
    daemon.take(&SMALL.batch(1, 1, 1, START_NS)).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_read_only_is_away() {
    let postgres = Postgres::start();
    let daemon = Daemon::ready(&postgres.url()).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'ringscope%'";
    postgres.query("ALTER DATABASE postgres SET default_transaction_read_only = on");
    postgres.query(end);
    until("not ready", async || daemon.get("/readyz").await.status() == 503).await;
    let batch = SMALL.batch(0, 1, 1, START_NS);
    until("said why", async || daemon.send(&batch).await.text().await.unwrap().contains("read-only")).await;
    postgres.query("BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT");
    daemon.until_ready().await;
    postgres.query(end);
    daemon.until_ready().await;
    until("taken", async || daemon.send(&batch).await.status() == 200).await;
    daemon.stop().await;
}

/// The machine of the database is gone while it is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_falls_silent_is_asked_again() {
    let postgres = Postgres::start();
    let [secret] = tokens(&postgres.url(), [Role::Admin]).await;
    for words in ["FROM communicators", "FROM tokens"] {
        let cut = Cut::before(postgres.port(), words).await;
        cut.arm();
        let daemon = Daemon::start(closed(&postgres.url_at(cut.port))).await;
        until("cut", async || cut.n_cuts() == 1).await;
        daemon.until_ready().await;
        until("let in", async || daemon.get_as("/api/v1/health", &secret).await.status() == 200).await;
        daemon.stop().await;
    }
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
    until("said why", async || {
        let answer = daemon.send(&batch).await;
        assert_eq!(answer.status(), 503);
        answer.text().await.unwrap().contains("another daemon")
    })
    .await;
    assert_eq!(daemon.get("/healthz").await.status(), 200);
    assert_eq!(daemon.issued_bytes().await, 2 * (2 << 20), "judged all the same");
    other.close().await.unwrap();
    daemon.until_ready().await;
    daemon.take(&batch).await;
    daemon.stop().await;
}
