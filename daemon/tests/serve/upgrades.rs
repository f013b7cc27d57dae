//! A database that an older ringscope made and filled is brought up to date with all that is in it.

use std::path::{Path, PathBuf};

use ringscope_api::clock::{self, Timestamp};
use ringscope_store::{Metric, SeriesQuery, Store, StoreError};
use sqlx::AssertSqlSafe;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgPool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use super::rollups::lines;
use crate::common::daemon::{Daemon, sqlite};
use crate::common::postgres::Postgres;
use crate::common::scratch;

const HOUR_MS: i64 = 3_600_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_from_each_version() {
    for version in older_versions("sqlite") {
        let dir = scratch("upgrade");
        let options = SqliteConnectOptions::new().filename(dir.join("test.db")).create_if_missing(true);
        let pool = SqlitePool::connect_with(options).await.unwrap();
        migrations_up_to("sqlite", version).await.run(&pool).await.unwrap();
        let from_ms = start_ms();
        for statement in rows(from_ms) {
            sqlx::query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
        }
        pool.close().await;
        refused_beside(&sqlite(&dir)).await;
        upgraded(&sqlite(&dir), from_ms).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_from_each_version() {
    for version in older_versions("postgres") {
        let postgres = Postgres::start();
        let pool = PgPool::connect(&postgres.url()).await.unwrap();
        migrations_up_to("postgres", version).await.run(&pool).await.unwrap();
        let from_ms = start_ms();
        for statement in rows(from_ms) {
            sqlx::query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
        }
        pool.close().await;
        refused_beside(&postgres.url()).await;
        upgraded(&postgres.url(), from_ms).await;
    }
}

#[test]
fn both_databases_have_the_same_versions() {
    let names = |database: &str| files(database).iter().map(|file| name(file)).collect::<Vec<_>>();
    assert_eq!(names("sqlite"), names("postgres"));
}

/// All of the older ringscope's is there, and is rolled up; then again after a restart.
async fn upgraded(url: &str, from_ms: i64) {
    for _ in 0..2 {
        let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
        let restored = store.restore().await.unwrap();
        assert_eq!(restored.agents.iter().map(|agent| agent.last_seq).collect::<Vec<_>>(), [41]);
        assert_eq!(lines(&store, "SELECT id || ' ' || job AS line FROM communicators").await, ["c1 train"]);
        // So much later that all is rolled up.
        let later = Timestamp(clock::now().0 + 30 * 3_600_000_000_000);
        super::rollups::roll_up(&store, later).await;
        let query = SeriesQuery {
            of_jobs: None,
            metric: Metric::IntraBytes,
            job: Some("train".into()),
            id: None,
            host: None,
            kind: None,
            from_ms,
            to_ms: from_ms + HOUR_MS,
            step_ms: 600_000,
        };
        let mut values = Vec::new();
        assert!(store.series(&query, |point| values.push(point.value)).await.unwrap());
        assert_eq!(values, [0, 19, 39, 59, 79, 99, 119]);
        store.close().await;
        let daemon = Daemon::ready(url).await;
        let path =
            format!("/api/v1/series?metric=issued_bytes&from={from_ms}&to={}&step=10m", from_ms + HOUR_MS);
        let answer = daemon.json(&path).await;
        assert_eq!(answer["lines"][0]["values"][5], 119_000.0);
        daemon.stop().await;
    }
}

/// The hour before the last whole one. Asked once for a database: another may begin meanwhile.
fn start_ms() -> i64 {
    (clock::now().unix_ms().cast_signed() / HOUR_MS - 2) * HOUR_MS
}

/// What the first version could hold.
fn rows(start_ms: i64) -> Vec<String> {
    let now_ns = clock::now().0;
    let mut rows = vec![
        format!("INSERT INTO agents VALUES ('a', 'h', 41, {now_ns})"),
        format!(
            "INSERT INTO communicators (id, job, comm_hash, state, n_ranks, n_nodes, created_ns, updated_ns) \
             VALUES ('c1', 'train', '0x1', 'active', 2, 1, {now_ns}, {now_ns})"
        ),
    ];
    rows.extend((0..120).map(|row| {
        let ts_ms = start_ms + row * 30_000;
        format!("INSERT INTO samples VALUES ('c1', {ts_ms}, 'h', 'all_reduce', {row}, {row}000, 0, 0, {row}, {row})")
    }));
    rows
}

/// Every version in which history was a row a sample; what came later is in `moved_history`.
fn older_versions(database: &str) -> std::ops::Range<usize> {
    1..files(database).iter().take_while(|file| !name(file).ends_with("history.sql")).count() + 1
}

/// A command beside a daemon of the older release leaves its tables as they are.
async fn refused_beside(url: &str) {
    let refused = Store::open_beside(&url.parse().unwrap()).await.unwrap_err();
    assert!(matches!(refused, StoreError::SchemaOlder { .. }), "{refused}");
}

/// The first `n` migrations.
pub(crate) async fn migrations_up_to(database: &str, n: usize) -> Migrator {
    let dir = scratch("migrations");
    for file in &files(database)[..n] {
        std::fs::copy(file, dir.join(name(file))).unwrap();
    }
    Migrator::new(dir.to_path_buf()).await.unwrap()
}

fn files(database: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(database);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name().unwrap().to_str().unwrap().to_owned()
}
