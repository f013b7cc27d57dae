//! History made coarser says the same: on both databases, over borders, resets and gaps, cut off and begun again.

use std::collections::BTreeMap;
use std::time::Duration;

use ringscope_api::clock::{self, Timestamp};
use ringscope_store::{CommunicatorRow, Keep, Metric, SampleRow, SeriesQuery, Store, WriteSet};
use serde_json::Value;

use super::stores::{communicator, sample};
use super::summation_history as groups;
use crate::common::daemon::{Daemon, sqlite};
use crate::common::postgres::Postgres;
use crate::common::scratch;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const WEEK: Duration = Duration::from_secs(7 * 86_400);
/// Time between samples.
const SAMPLE_MS: i64 = 5_000;
/// Steps that are answered from rollups.
const STEPS_MS: [i64; 4] = [MINUTE_MS, 10 * MINUTE_MS, 30 * MINUTE_MS, HOUR_MS];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_file() {
    let dir = scratch("rollups");
    suite(&sqlite(&dir)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let postgres = Postgres::start();
    suite(&postgres.url()).await;
}

async fn suite(url: &str) {
    let now = clock::now();
    // So much later that every bucket is over.
    let later = after(now, 30);
    let start_ms = (now.unix_ms().cast_signed() / HOUR_MS - 5) * HOUR_MS;
    let store = filled(url, now, start_ms).await;
    groups::check(&store, start_ms).await;
    let raw = growth(&store, start_ms, 1_000).await;

    // Not yet rolled up.
    for step_ms in STEPS_MS {
        assert_eq!(growth(&store, start_ms, step_ms).await, raw, "{step_ms}");
    }
    let whole = filled("sqlite::memory:", now, start_ms).await;
    roll_up(&whole, later).await;
    let rolled_up = rows(&whole).await;
    cut_off(&store, later, &rolled_up).await;
    assert_eq!(lines(&store, "SELECT CAST(count(*) AS TEXT) AS line FROM recent_samples").await, ["0"]);
    // Few points more than buckets in which there is something.
    for (step_ms, most) in [(MINUTE_MS, 2 * 520), (10 * MINUTE_MS, 2 * 90), (HOUR_MS, 2 * 45)] {
        let n_points = points(&store, start_ms, step_ms).await.len();
        assert!((1..=most).contains(&n_points), "{step_ms}: {n_points}");
    }
    for step_ms in [1_000].into_iter().chain(STEPS_MS) {
        assert_eq!(growth(&store, start_ms, step_ms).await, raw, "{step_ms}");
    }
    groups::check(&store, start_ms).await;
    late(&store, later, start_ms).await;
    store.close().await;

    let before = answers(url, start_ms).await;
    let store = open(url).await;
    let rolled_up = rollups(&store).await;
    // The samples of the first hour and a half, then all of them; the marks outlive a restart.
    for last_ms in [start_ms + 90 * MINUTE_MS + 12_345, now.unix_ms().cast_signed() - MINUTE_MS] {
        let samples = Duration::from_millis(now.unix_ms() - last_ms.unsigned_abs());
        store.sweep(now, Keep { samples, all: WEEK }).await.unwrap();
        assert_eq!(rollups(&store).await, rolled_up);
        for step_ms in [1_000].into_iter().chain(STEPS_MS) {
            assert_eq!(growth(&store, start_ms, step_ms).await, raw, "{last_ms} {step_ms}");
        }
        groups::check(&store, start_ms).await;
    }
    store.close().await;
    let after_all = answers(url, start_ms).await;
    assert_eq!(after_all[1..], before[1..], "coarse answers need no samples");

    // Days that are over go as a whole, those of samples first.
    let store = open(url).await;
    let much_later = after(now, 72);
    let swept = store.sweep(much_later, Keep { samples: Duration::from_secs(60), all: WEEK }).await.unwrap();
    assert!(swept.days >= 1 && swept.rows == 0, "{swept:?}");
    assert_eq!(rollups(&store).await, rolled_up);
    assert_eq!(rows(&store).await, rolled_up, "no sample is left");
    let nothing = Keep { samples: Duration::from_secs(60), all: Duration::from_secs(60) };
    assert!(store.sweep(much_later, nothing).await.unwrap().days >= 1);
    assert_eq!(rows(&store).await, Vec::<String>::new());
    assert!(points(&store, start_ms, HOUR_MS).await.is_empty());
    for table in ["series", "recent_samples"] {
        let count: &'static str = format!("SELECT CAST(count(*) AS TEXT) AS line FROM {table}").leak();
        assert_eq!(lines(&store, count).await, ["0"], "{table}");
    }
    store.close().await;
}

fn after(now: Timestamp, hours: u64) -> Timestamp {
    Timestamp(now.0 + hours * 3_600_000_000_000)
}

/// A database with the history of communicators and of summation groups.
async fn filled(url: &str, now: Timestamp, start_ms: i64) -> Store {
    let store = open(url).await;
    let seen = CommunicatorRow { updated_ns: now.0.cast_signed(), ..communicator("c1") };
    let samples = history(start_ms);
    store.write(&WriteSet { communicators: vec![seen], samples, ..WriteSet::default() }).await.unwrap();
    groups::write(&store, now, start_ms).await;
    store
}

/// Runs that end anywhere, and one whose last marks were not written.
async fn cut_off(store: &Store, now: Timestamp, whole: &[String]) {
    let mut n_cut = 0;
    // Ever longer: on a slow machine it ends too.
    for patience_ms in std::iter::successors(Some(1), |ms| Some(ms + 2 + ms / 8)) {
        match tokio::time::timeout(Duration::from_millis(patience_ms), store.roll_up(now)).await {
            Ok(done) if done.as_ref().is_ok_and(|is_all| *is_all) => break,
            Ok(done) => drop(done.unwrap()),
            Err(_) => n_cut += 1,
        }
    }
    assert!(n_cut > 0);
    assert_eq!(rows(store).await, whole);
    execute(store, "UPDATE rollup_marks SET ts_ms = ts_ms - 7200000").await;
    roll_up(store, now).await;
    assert_eq!(rows(store).await, whole);
}

/// Samples that waited for the database join those of their time, whether they had been written before or not.
async fn late(store: &Store, now: Timestamp, start_ms: i64) {
    let before = points(store, start_ms, 1_000).await;
    let twice = history(start_ms).into_iter().filter(|sample| sample.host == "even").take(200).collect();
    let missed = sample("c1", "even", start_ms + 3 * MINUTE_MS + 701, 36_001);
    let set = WriteSet { samples: twice, ..WriteSet::default() };
    store.write(&set).await.unwrap();
    assert_eq!(points(store, start_ms, 1_000).await, before, "none is given twice");
    store.write(&WriteSet { samples: vec![missed], ..WriteSet::default() }).await.unwrap();
    let with_missed = points(store, start_ms, 1_000).await;
    assert_eq!(with_missed.len(), before.len() + 1);
    roll_up(store, now).await;
    assert_eq!(points(store, start_ms, 1_000).await, with_missed);
}

async fn open(url: &str) -> Store {
    Store::open(&url.parse().unwrap()).await.unwrap().unwrap()
}

pub(crate) async fn roll_up(store: &Store, now: Timestamp) {
    for _ in 0..20 {
        if store.roll_up(now).await.unwrap() {
            return;
        }
    }
    panic!("not rolled up after 20 calls");
}

/// Three hours of one host that works evenly, and of which the network is measured for a while; one whose counters
/// begin anew in a bucket, on the border of an hour, and twice in one minute; one that comes late and pauses.
fn history(start_ms: i64) -> Vec<SampleRow> {
    let mut samples = Vec::new();
    let mut anew = 50_000;
    let mut late = 9_000;
    for ms in (0..3 * HOUR_MS).step_by(usize::try_from(SAMPLE_MS).unwrap()) {
        let ts_ms = start_ms + ms + 700;
        let even = ms / SAMPLE_MS * 1_000;
        let is_measured = (40 * MINUTE_MS + 30_000..2 * HOUR_MS).contains(&ms);
        let inter_bytes = is_measured.then_some(even / 2);
        samples.push(SampleRow { inter_bytes, ..sample("c1", "even", ts_ms, even) });

        let resets_ms = [37 * MINUTE_MS + 20_000, HOUR_MS, 90 * MINUTE_MS + 15_000, 90 * MINUTE_MS + 40_000];
        anew = if resets_ms.contains(&ms) { 300 } else { anew + 500 + ms / SAMPLE_MS % 7 };
        samples.push(sample("c1", "anew", ts_ms, anew));

        let is_busy =
            (62 * MINUTE_MS + 30_000..80 * MINUTE_MS).contains(&ms) || ms > 125 * MINUTE_MS + 10_000;
        if is_busy {
            late += 2_000;
            samples.push(sample("c1", "late", ts_ms, late));
        }
    }
    samples
}

/// What each host's counters grew by, as a reader sums it who takes a fall for a new beginning.
async fn growth(store: &Store, start_ms: i64, step_ms: i64) -> BTreeMap<(String, &'static str), i64> {
    let mut sums = BTreeMap::new();
    let mut last = BTreeMap::new();
    for ((host, metric), ts_ms, value) in points(store, start_ms, step_ms).await {
        let before = last.insert((host.clone(), metric), (ts_ms, value));
        let (before_ms, before) = before.unwrap_or((0, value));
        assert!(before_ms < ts_ms, "the rows of a series come by time");
        *sums.entry((host, metric)).or_default() += (value - before).max(0);
    }
    sums
}

/// Host and metric, time, value.
type Point = ((String, &'static str), i64, i64);

async fn points(store: &Store, start_ms: i64, step_ms: i64) -> Vec<Point> {
    let mut points = Vec::new();
    for metric in [Metric::CompletedBytes, Metric::InterBytes] {
        let query = SeriesQuery {
            of_jobs: None,
            metric,
            job: Some("j1".into()),
            id: None,
            host: None,
            kind: None,
            from_ms: start_ms,
            // The last bucket is not over.
            to_ms: start_ms + 3 * HOUR_MS + 90_000,
            step_ms,
        };
        let take = |point: ringscope_store::SamplePoint<'_>| {
            points.push(((point.host.to_owned(), metric.label()), point.ts_ms, point.value));
        };
        assert!(store.series(&query, take).await.unwrap());
    }
    // Those of a series stay in their order.
    points.sort_by(|one, other| one.0.cmp(&other.0));
    points
}

/// What a daemon answers of each step, that of 30 s first; and that the others agree with it within a step.
async fn answers(url: &str, start_ms: i64) -> Vec<Value> {
    let daemon = Daemon::ready(url).await;
    let mut answers = Vec::new();
    for rate in [false, true] {
        let mut fine = BTreeMap::new();
        for step_ms in [30_000].into_iter().chain(STEPS_MS) {
            let to_ms = start_ms + 4 * HOUR_MS;
            let path = format!(
                "/api/v1/series?metric=completed_bytes&by=host&rate={rate}&from={start_ms}&to={to_ms}&step={step_ms}ms"
            );
            let answer = daemon.json(&path).await;
            let values = values(&answer);
            assert_eq!(values.keys().collect::<Vec<_>>(), ["anew", "even", "late"]);
            if step_ms == 30_000 {
                fine = values;
                continue;
            }
            let n_fine = usize::try_from(step_ms / 30_000).unwrap();
            for (host, coarse) in &values {
                let place = format!("{host}, rate {rate}, step {step_ms}");
                let chunks: Vec<_> = fine[host].chunks(n_fine).collect();
                assert_eq!(coarse.len(), chunks.len(), "{place}");
                if rate {
                    agree_in_rate(&place, coarse, &chunks)
                } else {
                    agree_in_value(&place, coarse, &chunks)
                }
            }
            answers.push(answer);
        }
    }
    daemon.stop().await;
    answers
}

fn values(answer: &Value) -> BTreeMap<String, Vec<Option<f64>>> {
    let lines = answer["lines"].as_array().unwrap().iter();
    lines
        .map(|line| {
            let values = line["values"].as_array().unwrap().iter().map(Value::as_f64);
            (line["host"].as_str().unwrap().to_owned(), values.collect())
        })
        .collect()
}

fn agree_in_value(place: &str, coarse: &[Option<f64>], fine: &[&[Option<f64>]]) {
    for (index, value) in coarse.iter().enumerate() {
        let of_fine = fine[index].last().copied().flatten();
        assert_eq!(value.is_none(), of_fine.is_none(), "{place}: a gap at {index}");
        let around: Vec<f64> = fine[index.saturating_sub(1)..(index + 2).min(fine.len())]
            .iter()
            .flat_map(|chunk| chunk.iter().flatten().copied())
            .collect();
        if let Some(value) = value {
            let (least, most) =
                (around.iter().copied().fold(f64::MAX, f64::min), around.iter().copied().fold(0.0, f64::max));
            // Values are rounded.
            assert!(
                (least - 1.0..=most + 1.0).contains(value),
                "{place}: {value} at {index} of {least} to {most}"
            );
        }
    }
    assert_eq!(coarse.last().unwrap(), fine.last().unwrap().last().unwrap(), "{place}: the end");
}

fn agree_in_rate(place: &str, coarse: &[Option<f64>], fine: &[&[Option<f64>]]) {
    #[expect(clippy::cast_precision_loss, reason = "a few buckets")]
    let means: Vec<f64> =
        fine.iter().map(|chunk| chunk.iter().flatten().sum::<f64>() / chunk.len().max(1) as f64).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let (mut of_coarse, mut of_fine) = (0.0, 0.0);
    for (index, value) in coarse.iter().enumerate() {
        // The bucket in which a series begins is not known whole.
        let is_known = fine[index].first().copied().flatten().is_some();
        assert!(value.is_some() || !is_known, "{place}: a gap at {index}");
        let Some(value) = value else { continue };
        of_coarse += value;
        of_fine += means[index];
        assert!((of_coarse - of_fine).abs() <= most, "{place}: {of_coarse} and {of_fine} at {index}");
    }
    assert!((of_coarse - of_fine).abs() <= most * 0.02, "{place}: {of_coarse} and {of_fine} in all");
}

/// Every row of history, as text.
pub(crate) async fn rows(store: &Store) -> Vec<String> {
    let mut rows = Vec::new();
    for day in
        lines(store, "SELECT family || ' ' || day AS line FROM history_days ORDER BY family, day").await
    {
        let (family, day) = day.split_once(' ').unwrap();
        let day =
            time::OffsetDateTime::from_unix_timestamp(day.parse::<i64>().unwrap() * 86_400).unwrap().date();
        let hex = match store {
            Store::Pg(..) => "upper(encode(points, 'hex'))",
            Store::Lite { .. } => "hex(points)",
        };
        let (month, table) = (u8::from(day.month()), format!("{family}_{}", day.year()));
        let sql = format!(
            "SELECT level_ms || ' ' || from_ms || ' ' || series || ' ' || {hex} AS line FROM {table}{month:02}{:02} \
             ORDER BY level_ms, from_ms, series",
            day.day()
        );
        rows.extend(lines(store, sql.leak()).await);
    }
    rows
}

/// The same of rollups alone.
async fn rollups(store: &Store) -> Vec<String> {
    let mut rows = rows(store).await;
    rows.retain(|row| !row.starts_with("0 "));
    rows
}

/// The column `line`.
pub(crate) async fn lines(store: &Store, sql: &'static str) -> Vec<String> {
    use sqlx::Row as _;
    match store {
        Store::Pg(pool, _) => {
            sqlx::query(sql).fetch_all(pool).await.unwrap().iter().map(|row| row.get("line")).collect()
        }
        Store::Lite { write, .. } => {
            sqlx::query(sql).fetch_all(write).await.unwrap().iter().map(|row| row.get("line")).collect()
        }
    }
}

async fn execute(store: &Store, sql: &'static str) {
    match store {
        Store::Pg(pool, _) => drop(sqlx::query(sql).execute(pool).await.unwrap()),
        Store::Lite { write, .. } => drop(sqlx::query(sql).execute(write).await.unwrap()),
    }
}
