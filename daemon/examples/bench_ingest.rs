//! How much of a core the daemon needs for a thousand ranks: 125 agents with eight ranks each read four times a second, and send
//! as often as the daemon lets them a batch in which every counter of every rank changed, over HTTP to a daemon in a process of its own.
//!
//! `cargo run --release -p ringscope --example bench_ingest -- [--seconds 10] [--rounds 3]
//! [--store none|sqlite|postgres|all] [--hosts 125] [--tls] [--operations 0] [--history-hosts 1000]`
//!
//! `--operations` is how many completed operations each rank tells a second, as at the level `steps`. `--history-hosts` is
//! of how many hosts a week of history is read back, from samples and from rollups; 0 leaves that out. `--tls` has each
//! round also over https, in turns, and prints what that costs against the limit; each agent has eight ranks.
//!
//! Prints four tables, and one line of JSON: what taking the batches costs in each round (the stores take turns, for the
//! machine's speed drifts), the medians of that against the limit, and, of the same daemons with everything in them,
//! how long the largest answers take; and how long a week of history takes. A sample is one row of counters: a (rank,
//! communicator, primitive). Postgres is a private cluster that this starts itself, with fsync on; SQLite works inside
//! the daemon.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark fails by them")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program of its own, with its own clock"
)]
#![allow(missing_docs, reason = "not a library")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures to be read"
)]

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "bench_ingest/daemon.rs"]
mod daemon;
#[path = "bench_ingest/history.rs"]
mod history;
#[path = "bench_ingest/load.rs"]
mod load;
#[path = "bench_ingest/pace.rs"]
mod pace;
#[path = "bench_ingest/proc.rs"]
mod proc;
#[path = "bench_ingest/reads.rs"]
mod reads;
mod sending;

use std::path::Path;
use std::time::{Duration, Instant};

use common::postgres::Postgres;
use load::Shape;

/// What one run measured.
struct Figures {
    store: &'static str,
    tls: bool,
    samples_per_s: f64,
    counters_per_s: f64,
    batches: usize,
    refused: usize,
    daemon_cpu_percent: f64,
    daemon_cpu_ms_a_batch: f64,
    postgres_cpu_percent: Option<f64>,
    rss_mib: f64,
    p50_ms: f64,
    p99_ms: f64,
    reads: Vec<reads::Read>,
}

/// What a thousand ranks may cost, of one core.
const LIMIT_CPU_PERCENT: f64 = 10.0;
/// What https may cost, of what http costs.
const LIMIT_TLS_PERCENT: f64 = 10.0;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| Some(args.get(args.iter().position(|arg| arg == name)? + 1)?.clone());
    if let Some(url) = value("--daemon") {
        return daemon::run(&url, value("--tls-files").as_deref().map(Path::new)).await;
    }
    let seconds: u64 = value("--seconds").map_or(10, |text| text.parse().expect("a number of seconds"));
    let rounds: usize = value("--rounds").map_or(3, |text| text.parse().expect("a number of rounds"));
    let stores = match value("--store").as_deref() {
        None | Some("all") => vec!["none", "sqlite", "postgres"],
        Some("none") => vec!["none"],
        Some("sqlite") => vec!["sqlite"],
        Some("postgres") => vec!["postgres"],
        Some(other) => panic!("no store is called {other}; there are none, sqlite, postgres and all"),
    };
    let number = |name: &str, default: u32| value(name).map_or(default, |text| text.parse().expect(name));
    let shape =
        Shape { operations: number("--operations", 0), hosts: number("--hosts", 125), ..Shape::default() };
    let ways: &[bool] = if args.iter().any(|arg| arg == "--tls") { &[false, true] } else { &[false] };
    let history_hosts = number("--history-hosts", 1000);
    println!(
        "{} ranks on {} hosts, {} communicators x {} primitives per rank: {} samples, {} counters in {} batches, four times a second or \
         as the daemon says, {seconds} s; {} x {}",
        shape.hosts * shape.ranks_per_host,
        shape.hosts,
        shape.communicators,
        shape.primitives,
        shape.samples_per_batch() * shape.hosts as usize,
        shape.counters_per_batch() * shape.hosts as usize,
        shape.hosts,
        proc::n_cpus(),
        proc::cpu_model(),
    );
    println!("store     samples/s  counters/s  refused  daemon CPU  database CPU  RSS MiB  p50 ms  p99 ms");
    let mut all = Vec::new();
    for round in 0..rounds {
        for store in &stores {
            for way in 0..ways.len() {
                // Who comes first takes turns too.
                let tls = ways[(way + round) % ways.len()];
                let figures = run(store, tls, shape, Duration::from_secs(seconds)).await;
                print_row(&figures);
                all.push(figures);
            }
        }
    }
    println!("\nstore     daemon CPU, median (min to max) of {rounds}   at most {LIMIT_CPU_PERCENT} %");
    for store in &stores {
        for tls in ways {
            print_median(store, *tls, &all);
        }
        print_tls(store, &all);
    }
    println!("\nstore     answer                                 ms      KiB");
    for figures in &all {
        for read in &figures.reads {
            println!("{:<9} {:<33} {:>7.1} {:>8.0}", figures.store, read.path, read.ms, read.kib);
        }
    }
    let mut weeks = Vec::new();
    for store in stores.iter().filter(|store| history_hosts > 0 && **store != "none") {
        weeks.push(history::measure(store, history_hosts).await);
    }
    history::print(&weeks);
    println!("\n{}", json(&all, &weeks));
}

/// An empty database of that kind, and the server if it needs one.
fn database(store: &str, dir: &Path) -> (String, Option<Postgres>) {
    let postgres = (store == "postgres").then(Postgres::start_durable);
    let url = match &postgres {
        Some(postgres) => postgres.url(),
        None if store == "sqlite" => common::daemon::sqlite(dir),
        None => "none".to_owned(),
    };
    (url, postgres)
}

async fn run(store: &'static str, tls: bool, shape: Shape, time: Duration) -> Figures {
    let dir = common::scratch("bench");
    let (url, postgres) = database(store, &dir);
    let ca = tls.then(|| common::certs::Authority::new("bench"));
    if let Some(ca) = &ca {
        ca.issue(&["127.0.0.1"]).write(&dir, "host");
    }
    let (child, base_url) = daemon::spawn(&std::env::current_exe().unwrap(), &url, tls.then_some(&*dir));
    let pid = child.id();
    let daemon = sending::Daemon::trusting(ca.as_ref().map(|ca| ca.pem.as_str()), &base_url);
    daemon.until_ready().await.unwrap();
    let mut agents = load::agents(shape);
    // Who they are, and a few rounds for everything to settle, are not measured.
    load::rounds(&daemon, &mut agents, Duration::from_secs(4)).await;

    let cpu = || (proc::cpu_s(pid), postgres.as_ref().map(|postgres| proc::tree_cpu_s(postgres.pid())));
    let (before, start) = (cpu(), Instant::now());
    let mut measured = load::rounds(&daemon, &mut agents, time).await;
    let (after, wall_s) = (cpu(), start.elapsed().as_secs_f64());
    let rss_mib = proc::rss_bytes(pid) as f64 / f64::from(1 << 20);
    let reads = if tls { Vec::new() } else { reads::all(&base_url).await };
    drop(child);
    std::fs::remove_dir_all(dir).unwrap();

    measured.latencies_ms.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let last = measured.latencies_ms.len().saturating_sub(1);
        measured.latencies_ms.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    };
    let taken = (measured.latencies_ms.len() - measured.refused) as f64;
    Figures {
        store,
        tls,
        samples_per_s: taken * shape.samples_per_batch() as f64 / wall_s,
        counters_per_s: taken * shape.counters_per_batch() as f64 / wall_s,
        batches: measured.latencies_ms.len(),
        refused: measured.refused,
        daemon_cpu_percent: (after.0 - before.0) / wall_s * 100.0,
        daemon_cpu_ms_a_batch: (after.0 - before.0) * 1000.0 / taken.max(1.0),
        postgres_cpu_percent: after.1.zip(before.1).map(|(after, before)| (after - before) / wall_s * 100.0),
        rss_mib,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        reads,
    }
}

fn print_row(figures: &Figures) {
    let database = figures.postgres_cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.1} %"));
    println!(
        "{:<9} {:>9.0} {:>11.0} {:>8} {:>9.1} % {:>13} {:>8.0} {:>7.1} {:>7.1}",
        name(figures.store, figures.tls),
        figures.samples_per_s,
        figures.counters_per_s,
        figures.refused,
        figures.daemon_cpu_percent,
        database,
        figures.rss_mib,
        figures.p50_ms,
        figures.p99_ms,
    );
}

/// Of the store, and of the way to it.
fn name(store: &str, tls: bool) -> String {
    format!("{store}{}", if tls { "+tls" } else { "" })
}

/// The least, the median and the most of a figure of each round.
fn spread(all: &[Figures], store: &str, tls: bool, of: fn(&Figures) -> f64) -> Option<(f64, f64, f64)> {
    let rounds = all.iter().filter(|figures| figures.store == store && figures.tls == tls);
    let mut values: Vec<f64> = rounds.map(of).collect();
    values.sort_by(f64::total_cmp);
    Some((*values.first()?, values[values.len() / 2], *values.last()?))
}

/// What https takes beyond http, of the CPU time for a batch, from the medians of the rounds.
fn print_tls(store: &str, all: &[Figures]) {
    let ms_a_batch = |figures: &Figures| figures.daemon_cpu_ms_a_batch;
    let (Some((min, plain, max)), Some((tls_min, tls, tls_max))) =
        (spread(all, store, false, ms_a_batch), spread(all, store, true, ms_a_batch))
    else {
        return;
    };
    let percent = (tls / plain - 1.0) * 100.0;
    let words = if percent <= LIMIT_TLS_PERCENT { "met" } else { "not met" };
    println!(
        "{store:<9} CPU ms a batch: http {plain:.3} ({min:.3} to {max:.3}), https {tls:.3} ({tls_min:.3} to {tls_max:.3}): \
         {percent:+.1} %, at most {LIMIT_TLS_PERCENT} %: {words}"
    );
}

fn print_median(store: &str, tls: bool, all: &[Figures]) {
    let of_store = || all.iter().filter(|figures| figures.store == store && figures.tls == tls);
    let Some((min, median, max)) = spread(all, store, tls, |figures| figures.daemon_cpu_percent) else {
        return;
    };
    let store = name(store, tls);
    let met = median <= LIMIT_CPU_PERCENT && of_store().all(|figures| figures.refused == 0);
    let words = if met { "met" } else { "not met" };
    println!("{store:<9} {median:.1} % ({min:.1} to {max:.1}){:16}{words}", "");
}

fn json(all: &[Figures], weeks: &[history::Week]) -> serde_json::Value {
    let rows = all.iter().map(|figures| {
        serde_json::json!({
            "store": figures.store,
            "tls": figures.tls,
            "daemon_cpu_ms_a_batch": figures.daemon_cpu_ms_a_batch,
            "samples_per_s": figures.samples_per_s.round(),
            "counters_per_s": figures.counters_per_s.round(),
            "batches": figures.batches,
            "refused": figures.refused,
            "daemon_cpu_percent": figures.daemon_cpu_percent,
            "database_cpu_percent": figures.postgres_cpu_percent,
            "rss_mib": figures.rss_mib,
            "p50_ms": figures.p50_ms,
            "p99_ms": figures.p99_ms,
            "reads": figures.reads.iter().map(reads::Read::json).collect::<Vec<_>>(),
        })
    });
    serde_json::json!({
        "benchmark": "ingest",
        "cpu": proc::cpu_model(),
        "n_cpus": proc::n_cpus(),
        "limit_cpu_percent": LIMIT_CPU_PERCENT,
        "runs": rows.collect::<Vec<_>>(),
        "history": weeks.iter().map(history::Week::json).collect::<Vec<_>>(),
    })
}
