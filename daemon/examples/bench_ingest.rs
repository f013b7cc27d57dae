//! How much of a core the daemon needs for a thousand ranks: 125 agents with eight ranks each send, every second, a
//! batch in which every counter of every rank changed, over HTTP to a daemon in a process of its own.
//!
//! `cargo run --release -p ringscope --example bench_ingest -- [--seconds 15] [--store none|sqlite|postgres|all]`
//!
//! Prints a table, and one line of JSON. Postgres is a private cluster that this starts itself, with fsync on.

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
#[path = "bench_ingest/load.rs"]
mod load;
#[path = "bench_ingest/proc.rs"]
mod proc;

use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::postgres::Postgres;
use load::Shape;
use tokio_util::sync::CancellationToken;

/// What one run measured.
struct Figures {
    store: &'static str,
    counters_per_s: f64,
    batches: usize,
    refused: usize,
    daemon_cpu_percent: f64,
    postgres_cpu_percent: Option<f64>,
    rss_mib: f64,
    p50_ms: f64,
    p99_ms: f64,
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| Some(args.get(args.iter().position(|arg| arg == name)? + 1)?.clone());
    if let Some(url) = value("--daemon") {
        return daemon(&url).await;
    }
    let seconds: u64 = value("--seconds").map_or(15, |text| text.parse().expect("a number of seconds"));
    let stores = match value("--store").as_deref() {
        None | Some("all") => vec!["none", "sqlite", "postgres"],
        Some("none") => vec!["none"],
        Some("sqlite") => vec!["sqlite"],
        Some("postgres") => vec!["postgres"],
        Some(other) => panic!("no store is called {other}; there are none, sqlite, postgres and all"),
    };
    let shape = Shape::default();
    println!(
        "{} ranks on {} hosts, {} communicators x {} primitives per rank: {} counters in {} batches a second, {seconds} s",
        shape.hosts * shape.ranks_per_host,
        shape.hosts,
        shape.communicators,
        shape.primitives,
        shape.counters_per_round(),
        shape.hosts,
    );
    println!("store     counters/s  refused  daemon CPU  Postgres CPU   RSS MiB   p50 ms   p99 ms");
    let mut all = Vec::new();
    for store in stores {
        let figures = run(store, shape, Duration::from_secs(seconds)).await;
        print_row(&figures);
        all.push(figures);
    }
    println!("{}", json(&all));
}

async fn run(store: &'static str, shape: Shape, time: Duration) -> Figures {
    let dir = common::scratch("bench");
    let postgres = (store == "postgres").then(Postgres::start_durable);
    let url = match &postgres {
        Some(postgres) => postgres.url(),
        None if store == "sqlite" => format!("sqlite:{}", dir.join("bench.db").display()),
        None => "none".to_owned(),
    };
    let (child, base_url) = spawn_daemon(&url);
    let pid = child.0.id();
    load::until_ready(&base_url).await;
    let mut agents = load::agents(shape);
    // Who they are, and a few rounds for everything to settle, are not measured.
    load::rounds(&base_url, &mut agents, Duration::from_secs(4)).await;

    let cpu = || (proc::cpu_s(pid), postgres.as_ref().map(|postgres| proc::tree_cpu_s(postgres.pid())));
    let (before, start) = (cpu(), Instant::now());
    let mut measured = load::rounds(&base_url, &mut agents, time).await;
    let (after, wall_s) = (cpu(), start.elapsed().as_secs_f64());
    let rss_mib = proc::rss_bytes(pid) as f64 / f64::from(1 << 20);
    drop(child);
    std::fs::remove_dir_all(dir).unwrap();

    measured.latencies_ms.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let last = measured.latencies_ms.len().saturating_sub(1);
        measured.latencies_ms.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    };
    Figures {
        store,
        counters_per_s: (measured.latencies_ms.len() * shape.counters_per_batch()) as f64 / wall_s,
        batches: measured.latencies_ms.len(),
        refused: measured.refused,
        daemon_cpu_percent: (after.0 - before.0) / wall_s * 100.0,
        postgres_cpu_percent: after.1.zip(before.1).map(|(after, before)| (after - before) / wall_s * 100.0),
        rss_mib,
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
    }
}

/// The daemon that is measured.
async fn daemon(url: &str) {
    let server = ringscope_daemon::serve::Server::bind(common::daemon::config(url)).await.unwrap();
    println!("listening {}", server.local_addr());
    server.run(CancellationToken::new()).await.unwrap();
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn_daemon(url: &str) -> (Killed, String) {
    let program = std::env::current_exe().unwrap();
    let mut child = Command::new(program).args(["--daemon", url]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening ").expect("the daemon's address").to_owned();
    (Killed(child), format!("http://{address}"))
}

fn print_row(figures: &Figures) {
    let postgres = figures.postgres_cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.1} %"));
    println!(
        "{:<9} {:>10.0} {:>8} {:>9.1} % {:>13} {:>9.0} {:>8.1} {:>8.1}",
        figures.store,
        figures.counters_per_s,
        figures.refused,
        figures.daemon_cpu_percent,
        postgres,
        figures.rss_mib,
        figures.p50_ms,
        figures.p99_ms
    );
}

fn json(all: &[Figures]) -> serde_json::Value {
    let rows = all.iter().map(|figures| {
        serde_json::json!({
            "store": figures.store,
            "counters_per_s": figures.counters_per_s.round(),
            "batches": figures.batches,
            "refused": figures.refused,
            "daemon_cpu_percent": figures.daemon_cpu_percent,
            "postgres_cpu_percent": figures.postgres_cpu_percent,
            "rss_mib": figures.rss_mib,
            "p50_ms": figures.p50_ms,
            "p99_ms": figures.p99_ms,
        })
    });
    serde_json::json!({ "benchmark": "ingest", "runs": rows.collect::<Vec<_>>() })
}
