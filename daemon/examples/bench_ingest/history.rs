//! A week of history: how long one line over all hosts takes, from samples and from rollups of them.

use std::time::Instant;

use ringscope_api::clock;
use ringscope_store::{CommunicatorRow, SampleRow, Store, WriteSet};

use crate::{common, daemon, database, sending};

/// What one database took.
pub(crate) struct Week {
    store: &'static str,
    hosts: u32,
    samples: u64,
    rolled_up_s: f64,
    from_samples_ms: f64,
    from_rollups_ms: f64,
}

impl Week {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "store": self.store,
            "hosts": self.hosts,
            "samples": self.samples,
            "rolled_up_s": self.rolled_up_s,
            "from_samples_ms": self.from_samples_ms,
            "from_rollups_ms": self.from_rollups_ms,
        })
    }
}

pub(crate) fn print(weeks: &[Week]) {
    println!("\nGET series?job=history&step=1h over 7 days, a sample of each host every 10 minutes");
    println!("store     hosts    samples  rolling up s  from samples ms  from rollups ms");
    for week in weeks {
        println!(
            "{:<9} {:>5} {:>10} {:>13.1} {:>16.1} {:>16.1}",
            week.store,
            week.hosts,
            week.samples,
            week.rolled_up_s,
            week.from_samples_ms,
            week.from_rollups_ms,
        );
    }
}

pub(crate) async fn measure(store: &'static str, hosts: u32) -> Week {
    let dir = common::scratch("history");
    let (url, _postgres) = database(store, &dir);
    let open = async || Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let now = clock::now();
    let from_ms = (now.unix_ms().cast_signed() / HOUR_MS - HOURS) * HOUR_MS;

    let database = open().await;
    let samples = fill(&database, hosts, from_ms).await;
    database.close().await;
    let from_samples_ms = read_ms(&url, from_ms).await;
    let database = open().await;
    let start = Instant::now();
    while !database.roll_up(now).await.unwrap() {}
    let rolled_up_s = start.elapsed().as_secs_f64();
    database.close().await;
    Week {
        store,
        hosts,
        samples,
        rolled_up_s,
        from_samples_ms,
        from_rollups_ms: read_ms(&url, from_ms).await,
    }
}

/// Inside the database: sending a million samples would measure the sending. Returns how many there are.
async fn fill(store: &Store, hosts: u32, from_ms: i64) -> u64 {
    let communicator = CommunicatorRow {
        id: "history".into(),
        job: "history".into(),
        updated_ns: clock::now().0.cast_signed(),
        ..CommunicatorRow::default()
    };
    store.write(&WriteSet { communicators: vec![communicator], ..WriteSet::default() }).await.unwrap();
    let mut n_samples = 0;
    for step in 0..HOURS * 6 {
        let of_host = |host| SampleRow {
            comm: "history".into(),
            ts_ms: from_ms + step * 600_000,
            host: format!("node-{host}"),
            primitive: "all_reduce",
            issued_calls: step,
            issued_bytes: step * 1_000,
            completed_calls: step,
            completed_bytes: step * 1_000,
            ..SampleRow::default()
        };
        let samples: Vec<SampleRow> = (1..=hosts).map(of_host).collect();
        n_samples += samples.len() as u64;
        store.write(&WriteSet { samples, ..WriteSet::default() }).await.unwrap();
    }
    n_samples
}

/// Median of [`TIMES`] requests, each for other times: a repeated one would be answered from what is kept of it.
async fn read_ms(url: &str, from_ms: i64) -> f64 {
    let (_child, base_url) = daemon::spawn(&std::env::current_exe().unwrap(), url, None);
    sending::Daemon::new(&base_url).until_ready().await.unwrap();
    let client = reqwest::Client::new();
    let mut times_ms = Vec::new();
    for number in 0..TIMES {
        let (from_ms, to_ms) = (from_ms - number * HOUR_MS, from_ms + (HOURS - number) * HOUR_MS);
        let path = format!(
            "api/v1/series?metric=completed_bytes&job=history&rate=true&from={from_ms}&to={to_ms}&step=1h"
        );
        let start = Instant::now();
        let answer = client.get(format!("{base_url}/{path}")).send().await.unwrap();
        let answer: serde_json::Value = answer.error_for_status().unwrap().json().await.unwrap();
        times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
        assert_eq!(answer["lines"].as_array().map(Vec::len), Some(1), "{path}: {answer}");
    }
    times_ms.sort_by(f64::total_cmp);
    times_ms[times_ms.len() / 2]
}

const HOUR_MS: i64 = 3_600_000;
const HOURS: i64 = 7 * 24;
const TIMES: i64 = 5;
