//! How fast a daemon with a thousand hosts answers those who look, while all hosts send.
//!
//! `cargo run --release -p ringscope --example bench_http -- [--hosts 1000] [--rate 200] [--seconds 10]`, after
//! `cargo build --release -p ringscope --bin ringscope --example simulate_cluster`
//!
//! A daemon and a simulated cluster (the example `simulate_cluster`) run as processes of their own. Each of the five busiest GETs
//! is asked for at the rate, packed with gzip, twice: by this program, which counts from the moment when a request was
//! due, whether or not others were still open (so a pause of the daemon is counted for all who would have come in it); and
//! by wrk with eight connections that wait between two requests, which counts from the moment of sending.

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
#[allow(dead_code, reason = "it uses a part")]
#[path = "bench_ingest/proc.rs"]
mod proc;
#[path = "bench_http/wrk.rs"]
mod wrk;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinSet;

/// Measure how fast a daemon with many hosts answers
#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Requests per second
    #[arg(long, default_value_t = 200)]
    rate: u32,
    /// For each URL and each way of asking
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

/// What one URL gave.
struct Figures {
    path: String,
    kib: f64,
    failed: usize,
    latencies_ms: Vec<f64>,
    daemon_cpu_percent: f64,
    wrk: wrk::Figures,
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nobody waits for a page that takes longer, whoever else looks.
const LIMIT_P99_MS: f64 = 50.0;

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let dir = common::scratch("bench-http");
    let examples = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let url = format!("http://127.0.0.1:{}", common::free_port());
    let daemon = serve(&examples.with_file_name("ringscope"), &url, &dir);
    let client = Client::new();
    common::until("the daemon is ready", async || {
        client.get(format!("{url}/readyz")).send().await.is_ok_and(|response| response.status().is_success())
    })
    .await;
    let _cluster = simulate(&examples.join("simulate_cluster"), &url, arguments.hosts);

    println!(
        "{} hosts x 8 ranks, which send; {} requests/s for {} s a URL, gzip; {} x {}",
        arguments.hosts,
        arguments.rate,
        arguments.seconds,
        proc::n_cpus(),
        proc::cpu_model()
    );
    println!(
        "answer                                    KiB   p50 ms  p99 ms  max ms  failed  daemon CPU   wrk: req/s  p50 ms  p99 ms"
    );
    let mut all = Vec::new();
    for path in paths(&client, &url).await {
        let figures = measure(&client, &url, path, &arguments, daemon.0.id(), &dir).await;
        print_row(&figures);
        all.push(figures);
    }
    let worst = all.iter().map(|figures| quantile(&figures.latencies_ms, 0.99)).fold(0.0, f64::max);
    let met = worst < LIMIT_P99_MS && all.iter().all(|figures| figures.failed == 0);
    let words = if met { "met" } else { "not met" };
    println!("\nslowest p99 {worst:.1} ms, less than {LIMIT_P99_MS} ms: {words}");
}

fn serve(program: &Path, url: &str, dir: &Path) -> Killed {
    let mut command = Command::new(program);
    command.args(["serve", "--with-agent", "false", "--listen", url.trim_start_matches("http://")]);
    command.arg("--data-dir").arg(dir).stdout(Stdio::null()).stderr(Stdio::null());
    Killed(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display())))
}

/// Starts the cluster, and waits until the daemon knows all of it.
fn simulate(program: &Path, url: &str, hosts: u32) -> Killed {
    let mut command = Command::new(program);
    command.args(["--url", url, "--hosts", &hosts.to_string()]).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let child = Killed(child);
    assert!({ lines }.any(|line| line.starts_with("simulating")), "the cluster did not come up");
    child
}

/// The five busiest.
async fn paths(client: &Client, url: &str) -> Vec<String> {
    let largest = json(client, &format!("{url}/api/v1/communicators?state=active&limit=1000")).await;
    let largest = largest["items"].as_array().unwrap().iter().max_by_key(|known| known["n_ranks"].as_u64());
    let largest = largest.expect("an active communicator");
    let (id, job) = (largest["id"].as_str().unwrap(), largest["job"].as_str().unwrap());
    vec![
        "/api/v1/jobs".to_owned(),
        "/api/v1/nodes?limit=1000".to_owned(),
        format!("/api/v1/communicators?job={job}"),
        "/api/v1/findings?state=firing".to_owned(),
        format!("/api/v1/communicators/{id}"),
    ]
}

async fn json(client: &Client, url: &str) -> Value {
    client.get(url).send().await.unwrap().error_for_status().unwrap().json().await.unwrap()
}

async fn measure(
    client: &Client,
    url: &str,
    path: String,
    arguments: &Arguments,
    pid: u32,
    dir: &Path,
) -> Figures {
    let url = format!("{url}{path}");
    let kib = ask(client, &url).await.expect("an answer") as f64 / 1024.0;
    let (cpu_s, start) = (proc::cpu_s(pid), Instant::now());
    let mut open = JoinSet::new();
    for number in 0..arguments.rate * arguments.seconds {
        let due = start + Duration::from_secs(1) * number / arguments.rate;
        tokio::time::sleep_until(due.into()).await;
        let (client, url) = (client.clone(), url.clone());
        open.spawn(async move { ask(&client, &url).await.map(|_| due.elapsed().as_secs_f64() * 1000.0) });
    }
    let asked = open.join_all().await;
    let daemon_cpu_percent = (proc::cpu_s(pid) - cpu_s) / start.elapsed().as_secs_f64() * 100.0;
    let mut latencies_ms: Vec<f64> = asked.iter().copied().flatten().collect();
    latencies_ms.sort_by(f64::total_cmp);
    let failed = asked.len() - latencies_ms.len();
    let wrk = wrk::run(&url, arguments.rate, arguments.seconds, dir);
    Figures { path, kib, failed, latencies_ms, daemon_cpu_percent, wrk }
}

/// Bytes of the answer; nothing if it is none.
async fn ask(client: &Client, url: &str) -> Option<usize> {
    let response = client.get(url).header("accept-encoding", "gzip").send().await.ok()?;
    Some(response.error_for_status().ok()?.bytes().await.ok()?.len())
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).ceil() as usize).copied().unwrap_or(f64::INFINITY)
}

fn print_row(figures: &Figures) {
    let of = |share| quantile(&figures.latencies_ms, share);
    println!(
        "{:<40} {:>5.0} {:>7.1} {:>7.1} {:>7.1} {:>7} {:>9.1} % {:>12.0} {:>7.1} {:>7.1}",
        figures.path,
        figures.kib,
        of(0.5),
        of(0.99),
        of(1.0),
        figures.failed,
        figures.daemon_cpu_percent,
        figures.wrk.requests_per_s,
        figures.wrk.p50_ms,
        figures.wrk.p99_ms,
    );
}
