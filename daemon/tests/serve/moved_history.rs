//! The history of an older ringscope is moved while the daemon runs: it is killed in the middle and begins again, and nothing is
//! lost or comes twice.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock;
use ringscope_store::{Metric, SamplePoint, SeriesQuery, Store};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgPool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::durability::child;
use super::rollups::lines;
use super::upgrades::migrations_up_to;
use crate::common::daemon::{Daemon, problem, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{scratch, until};

const MINUTE_MS: i64 = 60_000;
/// The last version that had a row a sample.
const OLD: usize = 9;
const N_COMMUNICATORS: usize = 400;
/// Of each communicator, five seconds apart.
const N_SAMPLES: i64 = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file() {
    let dir = scratch("moved");
    let options = SqliteConnectOptions::new().filename(dir.join("test.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    migrations_up_to("sqlite", OLD).await.run(&pool).await.unwrap();
    let start_ms = start_ms();
    let mut tx = pool.begin().await.unwrap();
    for statement in rows(start_ms) {
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    pool.close().await;
    moved(&sqlite(&dir), start_ms).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let postgres = Postgres::start();
    let pool = PgPool::connect(&postgres.url()).await.unwrap();
    migrations_up_to("postgres", OLD).await.run(&pool).await.unwrap();
    let start_ms = start_ms();
    let mut tx = pool.begin().await.unwrap();
    for statement in rows(start_ms) {
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    pool.close().await;
    moved(&postgres.url(), start_ms).await;
}

async fn moved(url: &str, start_ms: i64) {
    let mut n_cut = 0;
    // Cut off anywhere, ever later.
    for patience_ms in std::iter::successors(Some(20), |ms| Some(ms + 20 + ms / 4)).take(5) {
        let store = open(url).await;
        if n_left(&store).await == 0 {
            break;
        }
        let is_cut = tokio::time::timeout(Duration::from_millis(patience_ms), store.roll_up(clock::now()))
            .await
            .is_err();
        n_cut += u32::from(is_cut);
        store.close().await;
    }
    assert!(n_cut > 0);
    // And a daemon that is killed: what it had to say meanwhile is that history is on its way.
    let store = open(url).await;
    let before = progress(&store).await;
    if !before.is_empty() {
        let (killed, _) = child(url);
        until("something is moved", async || progress(&store).await != before).await;
        drop(killed);
    }
    store.close().await;
    let daemon = Daemon::ready(url).await;
    let path = format!(
        "/api/v1/series?metric=issued_bytes&from={start_ms}&to={}&step=5s",
        start_ms + 10 * MINUTE_MS
    );
    until("history is moved", async || {
        let answer = daemon.get(&path).await;
        if answer.status() == 503 {
            problem(answer, 503, "is being moved").await;
            return false;
        }
        answer.status() == 200
    })
    .await;
    daemon.stop().await;

    let store = open(url).await;
    assert_eq!(n_left(&store).await, 0);
    // As it was: every sample, and every minute.
    let samples = read(&store, start_ms, 1_000).await;
    assert_eq!(samples.len(), N_COMMUNICATORS);
    for (comm, points) in &samples {
        let expected: Vec<(i64, i64)> = (0..N_SAMPLES).map(|n| (start_ms + n * 5_000, n * 1_000)).collect();
        assert_eq!(points, &expected, "{comm}");
    }
    let minutes = read(&store, start_ms, MINUTE_MS).await;
    assert_eq!(minutes.len(), N_COMMUNICATORS);
    for (comm, points) in &minutes {
        // The first, and the last of each minute: those that had been rolled up, and those that had not.
        let mut expected = vec![(start_ms, 0)];
        expected.extend((1..=5).map(|minute| minute * 12 - 1).map(|n| (start_ms + n * 5_000, n * 1_000)));
        assert_eq!(points, &expected, "{comm}");
    }
    store.close().await;
}

async fn open(url: &str) -> Store {
    Store::open(&url.parse().unwrap()).await.unwrap().unwrap()
}

async fn n_left(store: &Store) -> usize {
    lines(store, "SELECT source AS line FROM history_moves").await.len()
}

async fn progress(store: &Store) -> Vec<String> {
    lines(store, "SELECT source || ' ' || subject AS line FROM history_moves ORDER BY source").await
}

/// By communicator, by time.
async fn read(store: &Store, start_ms: i64, step_ms: i64) -> BTreeMap<String, Vec<(i64, i64)>> {
    let query = SeriesQuery {
        of_jobs: None,
        metric: Metric::IssuedBytes,
        job: Some("train".into()),
        id: None,
        host: None,
        kind: None,
        from_ms: start_ms,
        to_ms: start_ms + 10 * MINUTE_MS,
        step_ms,
    };
    let mut found: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let take = |point: SamplePoint<'_>| {
        found.entry(point.id.to_owned()).or_default().push((point.ts_ms, point.value));
    };
    assert!(store.series(&query, take).await.unwrap());
    found
}

/// A span of ten minutes in the hour before the last whole one.
fn start_ms() -> i64 {
    (clock::now().unix_ms().cast_signed() / 3_600_000 - 2) * 3_600_000
}

/// What the older one had: samples of five minutes, of which two were rolled up.
fn rows(start_ms: i64) -> Vec<String> {
    let now_ns = clock::now().0;
    let mut rows = Vec::new();
    let values = |n: i64| format!("'h', 'all_reduce', {n}, {n}000, 0, 0, NULL, NULL)");
    for comm in 0..N_COMMUNICATORS {
        rows.push(format!(
            "INSERT INTO communicators (id, job, comm_hash, state, n_ranks, n_nodes, created_ns, updated_ns) \
             VALUES ('c{comm:03}', 'train', '0x1', 'active', 2, 1, {now_ns}, {now_ns})"
        ));
        let samples: Vec<String> = (0..N_SAMPLES)
            .map(|n| format!("('c{comm:03}', {}, {}", start_ms + n * 5_000, values(n)))
            .collect();
        rows.push(format!("INSERT INTO samples VALUES {}", samples.join(", ")));
        let rollups: Vec<String> = [0, 11, 23]
            .iter()
            .map(|n| format!("(60000, 'c{comm:03}', {}, {}", start_ms + n * 5_000, values(*n)))
            .collect();
        rows.push(format!("INSERT INTO rollups VALUES {}", rollups.join(", ")));
    }
    let rolled_up_ms = start_ms + 2 * MINUTE_MS;
    rows.push(format!("INSERT INTO rollup_marks VALUES (60000, {rolled_up_ms}), (600000, 0), (3600000, 0)"));
    rows
}
