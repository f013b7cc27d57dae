//! Databases that the first release filled (fixtures/upgrade), given to this one: nothing of them is lost, and what was shown
//! then is shown.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ringscope_daemon::config::ServeConfig;
use ringscope_store::Store;
use serde_json::Value;
use sqlx::postgres::PgPool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{AssertSqlSafe, raw_sql};

use super::rollups::lines;
use crate::common::daemon::{Daemon, config, sqlite};
use crate::common::postgres::Postgres;
use crate::common::{scratch, until};

/// What the first release had.
const TABLES: [&str; 8] = [
    "agents",
    "processes",
    "process_counters",
    "jobs",
    "hosts",
    "communicators",
    "communicator_ranks",
    "findings",
];
/// The recording is of one day, and nothing of it may be too old whenever this runs.
const KEPT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_of_the_first_release() {
    let dir = scratch("first-release");
    let options = SqliteConnectOptions::new().filename(dir.join("test.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    raw_sql(AssertSqlSafe(dump("sqlite"))).execute(&pool).await.unwrap();
    pool.close().await;
    upgraded(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_of_the_first_release() {
    let postgres = Postgres::start();
    let pool = PgPool::connect(&postgres.url()).await.unwrap();
    raw_sql(AssertSqlSafe(dump("postgres"))).execute(&pool).await.unwrap();
    pool.close().await;
    upgraded(&postgres.url()).await;
}

fn dump(database: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/upgrade");
    std::fs::read_to_string(folder.join(format!("first-release.{database}.sql"))).unwrap()
}

async fn upgraded(url: &str) {
    // The store alone: the schema is brought up to date, with every row.
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let before = Rows::of(&store).await;
    assert!(
        before.counts.values().all(|n| *n > 0),
        "the recording has something of everything: {:?}",
        before.counts
    );
    assert_eq!(store.restore().await.unwrap().unreadable_rows, 0);
    let migrations = lines(&store, MIGRATIONS).await;
    assert_eq!(migrations.len(), n_migrations());
    store.close().await;

    let mut shown = Vec::new();
    for start in 0..2 {
        let config = ServeConfig { retention: KEPT, raw_retention: KEPT, ..config(url) };
        let daemon = Daemon::start(config).await;
        daemon.until_ready().await;
        until("all is read back", async || daemon.json("/readyz").await["unrestored_processes"] == 0).await;
        shown.push(Shown::by(&daemon, &before).await);
        daemon.stop().await;
        let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
        let after = Rows::of(&store).await;
        // What is derived from processes may be more than what the first release had come to write.
        for (table, n) in &before.counts {
            let is_told = ["agents", "processes", "process_counters"].contains(table);
            let now = after.counts[table];
            assert!(now == *n || now > *n && !is_told, "start {start}: {table} had {n} rows and has {now}");
        }
        assert!(before.findings.iter().all(|id| after.findings.contains(id)), "start {start}");
        assert!(before.communicators.iter().all(|id| after.communicators.contains(id)), "start {start}");
        assert_eq!(lines(&store, MIGRATIONS).await, migrations, "start {start}: nothing was left to migrate");
        store.close().await;
    }
    assert_eq!(shown[0], shown[1], "a second start changes nothing");
}

/// Versions and when each was installed.
const MIGRATIONS: &str = "SELECT CAST(version AS TEXT) || ' ' || CAST(installed_on AS TEXT) AS line FROM _sqlx_migrations ORDER BY version";

fn n_migrations() -> usize {
    std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations/sqlite")).unwrap().count()
}

/// What a database has.
struct Rows {
    counts: BTreeMap<&'static str, u64>,
    jobs: Vec<String>,
    hosts: Vec<String>,
    communicators: Vec<String>,
    findings: Vec<String>,
    firing: Vec<String>,
}

impl Rows {
    async fn of(store: &Store) -> Self {
        let mut counts = BTreeMap::new();
        for table in TABLES {
            let n = one(store, format!("SELECT CAST(count(*) AS TEXT) AS line FROM {table}")).await;
            counts.insert(table, n.parse().unwrap());
        }
        Self {
            counts,
            jobs: lines(store, "SELECT DISTINCT job AS line FROM processes ORDER BY line").await,
            hosts: lines(store, "SELECT DISTINCT host AS line FROM processes ORDER BY line").await,
            communicators: lines(store, "SELECT id AS line FROM communicators ORDER BY line").await,
            findings: lines(store, "SELECT id AS line FROM findings ORDER BY line").await,
            firing: lines(store, "SELECT id AS line FROM findings WHERE state = 'firing' ORDER BY line")
                .await,
        }
    }
}

/// What the API shows of it.
#[derive(Debug, PartialEq)]
struct Shown {
    jobs: Vec<(String, u64, u64)>,
    communicators: Vec<(String, String)>,
    points: usize,
}

impl Shown {
    async fn by(daemon: &Daemon, rows: &Rows) -> Self {
        let jobs = items(daemon, "/api/v1/jobs?limit=1000").await;
        let jobs: Vec<_> = jobs
            .iter()
            .map(|job| {
                (text(job, "id"), job["n_processes"].as_u64().unwrap(), job["issued_bytes"].as_u64().unwrap())
            })
            .collect();
        assert_eq!(jobs.iter().map(|job| &job.0).collect::<Vec<_>>(), rows.jobs.iter().collect::<Vec<_>>());
        assert_eq!(jobs.iter().map(|job| job.1).sum::<u64>(), rows.counts["processes"]);
        assert!(jobs.iter().all(|job| job.2 > 0), "{jobs:?}");
        let hosts = items(daemon, "/api/v1/nodes?limit=1000").await;
        let hosts: Vec<String> = hosts.iter().map(|host| text(host, "host")).collect();
        assert_eq!(hosts, rows.hosts);

        // By the ids that it had: links to it and its history still lead somewhere.
        let mut communicators = Vec::new();
        for id in &rows.communicators {
            let one = daemon.json(&format!("/api/v1/communicators/{id}")).await;
            assert!(
                one["n_ranks"].as_u64().unwrap() > 0 && !one["ranks"].as_array().unwrap().is_empty(),
                "{one}"
            );
            communicators.push((id.clone(), text(&one, "job")));
        }
        let findings = items(daemon, "/api/v1/findings?limit=1000").await;
        let found: Vec<String> = findings.iter().map(|finding| text(finding, "id")).collect();
        for id in &rows.firing {
            assert!(found.contains(id), "{id} is not among {found:?}");
        }
        let series =
            "/api/v1/series?metric=issued_bytes&from=2026-11-01T00:00:00Z&to=2026-12-31T00:00:00Z&step=1h";
        until("the history is moved", async || daemon.get(series).await.status() == 200).await;
        let series = daemon.json(series).await;
        let points =
            series["lines"].as_array().unwrap().iter().flat_map(|line| line["values"].as_array().unwrap());
        let points = points.filter(|value| !value.is_null()).count();
        assert!(points > 0, "{series}");
        Self { jobs, communicators, points }
    }
}

async fn items(daemon: &Daemon, path: &str) -> Vec<Value> {
    daemon.json(path).await["items"].as_array().unwrap().clone()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value}")).to_owned()
}

async fn one(store: &Store, query: String) -> String {
    let mut lines = lines(store, query.leak()).await;
    lines.pop().unwrap()
}
