//! What it costs the daemon that a large job starts: every agent tells, once, of the eight ranks of its host, 64 at a time,
//! over HTTP to a daemon in a process of its own.
//!
//! `cargo run --release -p ringscope --example bench_register -- [--ranks 1000,4000,10000] [--rounds 3] [--sqlite]
//! [--nics 0] [--seconds 5] [--settle 0] [--tls] [--beside PROGRAM]`
//!
//! Each rank is in a communicator of all, one of its host and one of its local rank over all hosts, with 16 channels. CPU is
//! the daemon's own from the first batch until it has judged the communicator of all; /healthz is asked every 20 ms
//! meanwhile. Then, for `--seconds`, every counter changes four times a second, and every agent sends that as agents do: as often
//! as the daemon lets it, or at each reading with `--each-reading`, as agents of older releases do; and when it is
//! quiet /metrics is scraped. `--beside` is
//! an older build of `bench_ingest` or of this program, and `--tls` has this one by https too: they take turns. Prints a table,
//! and one line of JSON.

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
#[path = "bench_register/job.rs"]
mod job;
#[path = "bench_ingest/pace.rs"]
mod pace;
#[path = "bench_ingest/proc.rs"]
mod proc;
mod sending;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use job::Job;

/// What one round measured.
struct Figures {
    whose: &'static str,
    ranks: u32,
    cpu_s: f64,
    wall_s: f64,
    refused: usize,
    judged_s: Option<f64>,
    healthz_p99_ms: f64,
    healthz_max_ms: f64,
    rss_mib: f64,
    steady_cpu_percent: f64,
    steady_cpu_us_a_batch: f64,
    steady_batches: usize,
    steady_p99_ms: f64,
    written_gib_a_day: f64,
    scrapes: Scrapes,
    /// Medians, nothing of it kept from before: the one sentence, and all that the overview of the page asks for.
    health_ms: f64,
    overview_ms: f64,
}

/// What /metrics cost while nobody sends.
struct Scrapes {
    series: usize,
    median_ms: f64,
    max_ms: f64,
    cpu_ms: f64,
}

struct Options {
    rounds: usize,
    seconds: u64,
    settle: u64,
    sqlite: bool,
    nics: u32,
    /// Agents send each reading, whatever the daemon says.
    each_reading: bool,
    /// Older build, if any, and this one.
    programs: Vec<Program>,
}

/// A daemon, and the way to it.
struct Program {
    name: &'static str,
    path: PathBuf,
    tls: bool,
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| Some(args.get(args.iter().position(|arg| arg == name)? + 1)?.clone());
    if let Some(url) = value("--daemon") {
        return daemon::run(&url, None).await;
    }
    if args.iter().any(|arg| arg == "--help") {
        return println!("{USAGE}");
    }
    let number = |name: &str, default: u64| value(name).map_or(default, |text| text.parse().expect(name));
    let ranks = value("--ranks").unwrap_or_else(|| "1000,4000,10000".to_owned());
    let ranks: Vec<u32> = ranks.split(',').map(|text| text.parse().expect("numbers of ranks")).collect();
    let program = |name, path| Program { name, path, tls: name == "https" };
    let mut programs = vec![program("now", std::env::current_exe().unwrap())];
    if let Some(path) = value("--beside") {
        programs.insert(0, program("before", PathBuf::from(path)));
    }
    if args.iter().any(|arg| arg == "--tls") {
        programs.push(program("https", std::env::current_exe().unwrap()));
    }
    let options = Options {
        rounds: usize::try_from(number("--rounds", 3)).unwrap(),
        seconds: number("--seconds", 5),
        settle: number("--settle", 0),
        sqlite: args.iter().any(|arg| arg == "--sqlite"),
        nics: u32::try_from(number("--nics", 0)).unwrap(),
        each_reading: args.iter().any(|arg| arg == "--each-reading"),
        programs,
    };
    println!(
        "3 communicators and {} channels a rank, {}; {} x {}",
        job::CHANNELS,
        if options.sqlite { "sqlite" } else { "no store" },
        proc::n_cpus(),
        proc::cpu_model(),
    );
    println!(
        "  ranks  build   CPU s  µs a rank  wall s  judged s  refused  healthz p99 ms  max ms  RSS MiB | steady: CPU   \
         µs a batch  batches/s  p99 ms  GiB a day | series  scrape ms  max ms  CPU ms | health ms  \
         overview ms"
    );
    let mut all = Vec::new();
    for ranks in ranks {
        for _ in 0..options.rounds {
            for program in &options.programs {
                let figures = round(program, ranks, &options).await;
                print_row(&figures, options.seconds);
                all.push(figures);
            }
        }
    }
    println!("\n{}", json(&all, &options));
}

async fn round(program: &Program, ranks: u32, options: &Options) -> Figures {
    let dir = common::scratch("bench");
    let (child, base_url, daemon) = start(program, &dir, options.sqlite).await;
    let pid = child.id();
    let job = Arc::new(Job { hosts: ranks / job::PER_HOST, nics: options.nics });
    let agents: Arc<[sending::Daemon]> =
        (0..job.hosts.min(CONNECTIONS_MAX)).map(|_| daemon.another()).collect();

    let health = (!program.tls).then(|| Health::of(&base_url));
    let (before, start) = (proc::tree_cpu_s(pid), Instant::now());
    let registered = send(&agents, &job, (1, 1)).await;
    let wall_s = start.elapsed().as_secs_f64();
    let judged_s = until_judged(&base_url, start).await;
    let cpu_s = proc::tree_cpu_s(pid) - before;
    let mut healthz_ms = health.map(Health::end).unwrap_or_default();
    let rss_mib = proc::rss_bytes(pid) as f64 / f64::from(1 << 20);

    let (mut number, mut reading) = (1, 1);
    let mut steadily = async |seconds| {
        let mut steady = Sent::default();
        let start = Instant::now();
        let mut due = start;
        while start.elapsed() < Duration::from_secs(seconds) {
            number += 1;
            reading += 1;
            let sent = send(&agents, &job, (number, reading)).await;
            let readings = if options.each_reading { 1 } else { sent.readings.max(1) };
            steady.add(sent);
            reading += u64::from(readings) - 1;
            due += pace::READING * readings;
            tokio::time::sleep_until(due.into()).await;
        }
        steady
    };
    let settled = steadily(options.settle).await;
    let written_before = written_bytes(pid);
    let (before, start) = (proc::tree_cpu_s(pid), Instant::now());
    let mut steady = steadily(options.seconds).await;
    let steady_cpu_s = proc::tree_cpu_s(pid) - before;
    let steady_s = start.elapsed().as_secs_f64();
    let written_gib = (written_bytes(pid) - written_before) as f64 / f64::from(1 << 30);
    let scrapes = scrape(&base_url, pid).await;
    let (health_ms, overview_ms) = look(&base_url).await;
    drop(child);
    std::fs::remove_dir_all(dir).unwrap();
    Figures {
        whose: program.name,
        ranks,
        cpu_s,
        wall_s,
        refused: registered.refused + settled.refused + steady.refused,
        judged_s,
        healthz_p99_ms: quantile(&mut healthz_ms, 0.99),
        healthz_max_ms: quantile(&mut healthz_ms, 1.0),
        rss_mib,
        steady_cpu_percent: steady_cpu_s / steady_s * 100.0,
        steady_cpu_us_a_batch: steady_cpu_s * 1e6 / steady.latencies_ms.len().max(1) as f64,
        steady_batches: steady.latencies_ms.len(),
        steady_p99_ms: quantile(&mut steady.latencies_ms, 0.99),
        written_gib_a_day: written_gib / steady_s * 86_400.0,
        scrapes,
        health_ms,
        overview_ms,
    }
}

/// Starts a daemon that keeps its data in `dir`, if any, and waits until it is ready.
async fn start(
    program: &Program,
    dir: &std::path::Path,
    sqlite: bool,
) -> (daemon::Spawned, String, sending::Daemon) {
    let url = if sqlite { common::daemon::sqlite(dir) } else { "none".to_owned() };
    let ca = program.tls.then(|| common::certs::Authority::new("bench"));
    if let Some(ca) = &ca {
        ca.issue(&["127.0.0.1"]).write(dir, "host");
    }
    let (child, base_url) = daemon::spawn(&program.path, &url, program.tls.then_some(dir));
    let daemon = match &ca {
        Some(ca) => sending::Daemon::trusting(Some(&ca.pem), &base_url),
        None => sending::Daemon::new(&base_url),
    };
    daemon.until_ready().await.unwrap();
    (child, base_url, daemon)
}

/// Asks for what the overview of the page shows, one answer after the other. The ticks see to it that none is kept from before.
async fn look(base_url: &str) -> (f64, f64) {
    // No secret is in it.
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    let (mut health_ms, mut overview_ms) = (Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let start = Instant::now();
        for (number, path) in OVERVIEW.iter().enumerate() {
            client.get(format!("{base_url}/api/v1/{path}")).send().await.unwrap().bytes().await.unwrap();
            if number == 0 {
                health_ms.push(start.elapsed().as_secs_f64() * 1000.0);
            }
        }
        overview_ms.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    (quantile(&mut health_ms, 0.5), quantile(&mut overview_ms, 0.5))
}

/// Scrapes /metrics, after the first, as Prometheus does: the first one does what later ones need not.
async fn scrape(base_url: &str, pid: u32) -> Scrapes {
    // No secret is in it.
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    let (mut times_ms, mut cpu_s, mut series) = (Vec::new(), 0.0, 0);
    for number in 0..=SCRAPES {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (before, start) = (proc::tree_cpu_s(pid), Instant::now());
        let text = client.get(format!("{base_url}/metrics")).send().await.unwrap().text().await.unwrap();
        if number > 0 {
            times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
            cpu_s += proc::tree_cpu_s(pid) - before;
        }
        series = text.lines().filter(|line| !line.starts_with('#')).count();
    }
    Scrapes {
        series,
        median_ms: quantile(&mut times_ms, 0.5),
        max_ms: quantile(&mut times_ms, 1.0),
        cpu_ms: cpu_s * 1000.0 / f64::from(SCRAPES),
    }
}

/// What became of batches.
#[derive(Default)]
struct Sent {
    latencies_ms: Vec<f64>,
    refused: usize,
    /// From these batches to the next ones.
    readings: u32,
}

impl Sent {
    fn add(&mut self, other: Self) {
        self.latencies_ms.extend(other.latencies_ms);
        self.refused += other.refused;
        self.readings = self.readings.max(other.readings);
    }
}

/// Every agent sends its batch of this number, of this reading, [`AT_ONCE`] of them at a time.
async fn send(agents: &Arc<[sending::Daemon]>, job: &Arc<Job>, (number, reading): (u64, u64)) -> Sent {
    let next = Arc::new(AtomicU64::new(0));
    let senders = (0..AT_ONCE).map(|_| {
        let (agents, job, next) = (Arc::clone(agents), Arc::clone(job), Arc::clone(&next));
        tokio::spawn(async move {
            let mut sent = Sent::default();
            loop {
                let host = u32::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
                if host >= job.hosts {
                    return sent;
                }
                let batch = job.batch(host, number, reading);
                let agent = &agents[host as usize % agents.len()];
                let start = Instant::now();
                match agent.send(&batch).await {
                    Ok(reply) => sent.readings = sent.readings.max(pace::readings(&reply)),
                    Err(_) => sent.refused += 1,
                }
                sent.latencies_ms.push(start.elapsed().as_secs_f64() * 1000.0);
            }
        })
    });
    let mut sum = Sent::default();
    for sender in senders.collect::<Vec<_>>() {
        sum.add(sender.await.unwrap());
    }
    sum
}

/// How long it took until the communicator of all has its final channels, which takes a look at every rank.
async fn until_judged(base_url: &str, start: Instant) -> Option<f64> {
    // No secret is in it.
    let client = reqwest::Client::builder().danger_accept_invalid_certs(true).build().unwrap();
    while start.elapsed() < PATIENCE {
        let url = format!("{base_url}/api/v1/communicators?limit=1000");
        let answer = client.get(url).send().await.unwrap().text().await.unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or_default();
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        if items.iter().any(|known| known["name"] == "world" && !known["final_channels"].is_null()) {
            return Some(start.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    None
}

/// Asks /healthz all the time, on a connection and a thread of its own: the senders here shall not delay it.
struct Health {
    thread: std::thread::JoinHandle<Vec<f64>>,
    stop: Arc<AtomicBool>,
}

impl Health {
    fn of(base_url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let address = base_url.strip_prefix("http://").expect("the daemon's address").to_owned();
        let thread = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.set_nodelay(true).unwrap();
            let request = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
            let (mut times_ms, mut answer) = (Vec::new(), [0; 4096]);
            while !until.load(Ordering::Relaxed) {
                let start = Instant::now();
                stream.write_all(request.as_bytes()).unwrap();
                let n = stream.read(&mut answer).unwrap();
                times_ms.push(start.elapsed().as_secs_f64() * 1000.0);
                assert!(
                    answer[..n].starts_with(b"HTTP/1.1 200"),
                    "{}",
                    String::from_utf8_lossy(&answer[..n])
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            times_ms
        });
        Self { thread, stop }
    }

    fn end(self) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// What a process had written to disks.
fn written_bytes(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    written.map_or(0, |text| text.parse().unwrap())
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
}

fn print_row(figures: &Figures, seconds: u64) {
    println!(
        "{:>7}  {:<6} {:>6.2} {:>10.0} {:>7.1} {:>9} {:>8} {:>15.1} {:>7.1} {:>8.0} | {:>9.0} % {:>11.0} {:>10.0} {:>7.1} {:>10.1} | {:>6} {:>10.0} {:>7.0} {:>7.0} | {:>9.0} {:>9.0}",
        figures.ranks,
        figures.whose,
        figures.cpu_s,
        figures.cpu_s * 1e6 / f64::from(figures.ranks),
        figures.wall_s,
        figures.judged_s.map_or("never".to_owned(), |s| format!("{s:.1}")),
        figures.refused,
        figures.healthz_p99_ms,
        figures.healthz_max_ms,
        figures.rss_mib,
        figures.steady_cpu_percent,
        figures.steady_cpu_us_a_batch,
        figures.steady_batches as f64 / seconds.max(1) as f64,
        figures.steady_p99_ms,
        figures.written_gib_a_day,
        figures.scrapes.series,
        figures.scrapes.median_ms,
        figures.scrapes.max_ms,
        figures.scrapes.cpu_ms,
        figures.health_ms,
        figures.overview_ms,
    );
}

fn json(all: &[Figures], options: &Options) -> serde_json::Value {
    let rows = all.iter().map(|figures| {
        serde_json::json!({
            "build": figures.whose,
            "ranks": figures.ranks,
            "cpu_s": figures.cpu_s,
            "wall_s": figures.wall_s,
            "judged_s": figures.judged_s,
            "refused": figures.refused,
            "healthz_p99_ms": figures.healthz_p99_ms,
            "healthz_max_ms": figures.healthz_max_ms,
            "rss_mib": figures.rss_mib,
            "steady_cpu_percent": figures.steady_cpu_percent,
            "steady_cpu_us_a_batch": figures.steady_cpu_us_a_batch,
            "steady_batches": figures.steady_batches,
            "steady_p99_ms": figures.steady_p99_ms,
            "written_gib_a_day": figures.written_gib_a_day,
            "series": figures.scrapes.series,
            "scrape_median_ms": figures.scrapes.median_ms,
            "scrape_max_ms": figures.scrapes.max_ms,
            "scrape_cpu_ms": figures.scrapes.cpu_ms,
            "health_ms": figures.health_ms,
            "overview_ms": figures.overview_ms,
        })
    });
    serde_json::json!({
        "benchmark": "register",
        "cpu": proc::cpu_model(),
        "n_cpus": proc::n_cpus(),
        "sqlite": options.sqlite,
        "nics": options.nics,
        "runs": rows.collect::<Vec<_>>(),
    })
}

const USAGE: &str = "\
What it costs the daemon that a large job starts, and then sends four times a second

  --ranks 1000,4000,10000   sizes of jobs; eight ranks on each host
  --rounds 3                of each size
  --seconds 5               how long counters change four times a second; they are stored every 20 s or less often
  --settle 0                how long they do so before it is measured: rows of the registration are written meanwhile
  --each-reading            agents send each of these changes, and do not wait as the daemon lets them
  --sqlite                  with a database
  --nics 0                  NICs of each host
  --tls                     this build by https too
  --beside PROGRAM          an older build of bench_register or bench_ingest, in turns

Example: cargo xtask bench register -- --ranks 1000,10000 --sqlite --seconds 120";
/// Each agent has a connection of its own; of more agents than this some share one.
const CONNECTIONS_MAX: u32 = 1250;
/// Agents that send at the same time.
const AT_ONCE: usize = 64;
/// How long the communicator of all may take to be judged.
const PATIENCE: Duration = Duration::from_secs(900);
/// How often /metrics is scraped in the end.
const SCRAPES: u32 = 20;
/// Looks at the overview.
const LOOKS: u32 = 5;
/// What it asks for, the sentence first.
const OVERVIEW: [&str; 4] = ["health", "incidents?state=firing", "jobs?limit=1000", "nodes?limit=1000"];
