//! Daemons of one Postgres that are killed: whether anything is lost or doubled, and how soon the next one leads.
//!
//! `cargo xtask bench takeover -- [--daemons 3] [--jobs 30] [--minutes 10] [--kill-every 20]`
//!
//! Real `ringscope serve` processes share a real Postgres. Each job has two hosts of two ranks; the agent of a host sends four
//! times a second, each batch to another daemon, keeps what is not taken, and writes down what its ranks have called. One
//! daemon, chosen by turns that nobody can foresee, is killed (SIGKILL) again and again and started anew; Postgres is
//! restarted twice. At the end every daemon must say each job's totals as the agents wrote them down, and each job's finding
//! and incident must be there once, since its beginning. Prints how long nobody took batches after a leader was killed,
//! and one line of JSON; fails where a total, a finding or an incident is wrong.

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
#[allow(dead_code, reason = "this one speaks http")]
mod sending;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::batches::{Job, START_NS};
use common::postgres::Postgres;
use sending::Daemon;
use serde_json::Value;
use tokio::task::JoinSet;

struct Options {
    daemons: usize,
    jobs: usize,
    minutes: f64,
    kill_every: Duration,
}

/// One daemon of several, and how it is started.
struct One {
    port: u16,
    process: Child,
}

/// By job.
type Logs = BTreeMap<&'static str, Vec<Arc<Log>>>;

/// What one agent has had its ranks call, and how much of it was taken.
#[derive(Default)]
struct Log {
    calls: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
}

#[tokio::main]
async fn main() {
    let options = options();
    let mut postgres = Postgres::start_durable();
    let dir = common::scratch("takeover");
    let program = program();
    let mut daemons: Vec<One> = (0..options.daemons)
        .map(|index| start(&program, &postgres.url(), common::free_port(), &dir.join(index.to_string())))
        .collect();
    let urls: Arc<[String]> = daemons.iter().map(|one| url(one.port)).collect();
    until_ready(&urls).await;
    let (stop, mut agents) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let names: Vec<&'static str> = (0..options.jobs).map(|job| &*format!("job-{job}").leak()).collect();
    let logs = train(&names, &urls, &stop, &mut agents);
    let began = Instant::now();
    let first_seen = findings(&urls, &names).await;
    let (mut takeovers, mut kills, mut restarts) = (Vec::new(), 0, 0);
    let end = Duration::from_secs_f64(options.minutes * 60.0);
    let client = reqwest::Client::builder().timeout(Duration::from_secs(2)).build().unwrap();
    let mut dice = u64::from(std::process::id()) << 20 | 1;
    while began.elapsed() < end {
        tokio::time::sleep(options.kill_every).await;
        if began.elapsed().as_secs_f64() > end.as_secs_f64() * f64::from(restarts + 1) / 3.0 && restarts < 2 {
            postgres.stop();
            tokio::time::sleep(Duration::from_secs(2)).await;
            postgres.start_again();
            restarts += 1;
            println!("{:>5.0} s  Postgres restarted", began.elapsed().as_secs_f64());
            continue;
        }
        let which = any(&mut dice, daemons.len());
        let led = leads(&client, &urls[which]).await;
        let before = taken(&logs);
        let one = &mut daemons[which];
        one.process.kill().unwrap();
        let killed = Instant::now();
        one.process.wait().unwrap();
        kills += 1;
        if led {
            let gap = until_taken(&logs, before, killed).await;
            takeovers.push(gap.as_secs_f64());
            println!(
                "{:>5.0} s  the leader was killed; batches are taken again after {:.2} s",
                began.elapsed().as_secs_f64(),
                gap.as_secs_f64()
            );
        }
        *one = start(&program, &postgres.url(), one.port, &dir.join(which.to_string()));
    }
    // What agents have by now, all of it.
    until_ready(&urls).await;
    stop.store(true, Ordering::Relaxed);
    while agents.join_next().await.is_some() {}
    let wrong = check(&urls, &logs, &first_seen).await;
    takeovers.sort_by(f64::total_cmp);
    let at = |share: f64| {
        takeovers.get(((takeovers.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0.0)
    };
    let refused: u64 = logs.values().flatten().map(|log| log.refused.load(Ordering::Relaxed)).sum();
    println!(
        "{}",
        serde_json::json!({
            "bench": "takeover", "daemons": options.daemons, "jobs": options.jobs, "minutes": options.minutes, "kills": kills,
            "takeovers": takeovers.len(), "p50_s": at(0.5), "p99_s": at(0.99), "max_s": at(1.0),
            "postgres_restarts": restarts, "batches_taken": taken(&logs), "asked_again": refused, "wrong": wrong,
        })
    );
    for one in &mut daemons {
        let _ = one.process.kill();
        let _ = one.process.wait();
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Starts the agents of all jobs; returns what each writes down.
fn train(
    names: &[&'static str],
    urls: &Arc<[String]>,
    stop: &Arc<AtomicBool>,
    agents: &mut JoinSet<()>,
) -> Logs {
    let mut logs = Logs::new();
    for (index, name) in names.iter().enumerate() {
        for host in 0..2 {
            let log = Arc::new(Log::default());
            logs.entry(*name).or_default().push(Arc::clone(&log));
            agents.spawn(agent(name, host, Arc::clone(urls), index + host, log, Arc::clone(stop)));
        }
    }
    logs
}

async fn until_ready(urls: &[String]) {
    for url in urls {
        Daemon::new(url).until_ready().await.unwrap();
    }
}

/// Any number, evenly.
fn any(dice: &mut u64, below: usize) -> usize {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*dice >> 33).unwrap() % below
}

/// The agent of one host: a batch each 250 ms, kept until some daemon has taken it.
async fn agent(
    name: &'static str,
    host: usize,
    urls: Arc<[String]>,
    first: usize,
    log: Arc<Log>,
    stop: Arc<AtomicBool>,
) {
    let hosts: [String; 2] = [format!("{name}-a"), format!("{name}-b")];
    let hosts: [&str; 2] = [&hosts[0], &hosts[1]];
    let job = Job { name, hosts: &hosts, ranks_per_host: 2, init: &[8, 2], last: 4 };
    let daemons: Vec<Daemon> = urls.iter().map(|url| Daemon::new(url)).collect();
    let (mut turn, mut seq) = (first, 0);
    loop {
        let is_last = stop.load(Ordering::Relaxed);
        seq += 1;
        let calls = log.calls.fetch_add(3, Ordering::Relaxed) + 3;
        let now_ns = START_NS + seq * 250_000_000;
        loop {
            turn += 1;
            match daemons[turn % daemons.len()].send(&job.batch(host, seq, calls, now_ns)).await {
                Ok(_) => break,
                Err(_) => {
                    log.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        log.taken.fetch_add(1, Ordering::Relaxed);
        if is_last {
            return;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

fn taken(logs: &Logs) -> u64 {
    logs.values().flatten().map(|log| log.taken.load(Ordering::Relaxed)).sum()
}

/// How long after `killed` more batches were taken than those that were on their way.
async fn until_taken(logs: &Logs, before: u64, killed: Instant) -> Duration {
    let n_agents: u64 = logs.values().map(|logs| logs.len() as u64).sum();
    // Each agent may have had an answer under way; half of all have had one since then.
    while taken(logs) < before + n_agents + n_agents / 2 {
        assert!(killed.elapsed() < Duration::from_secs(120), "nobody takes batches");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    killed.elapsed()
}

async fn leads(client: &reqwest::Client, url: &str) -> bool {
    match client.get(format!("{url}/metrics")).send().await {
        Ok(response) => response.text().await.unwrap_or_default().contains("ringscope_daemon_leads 1"),
        Err(_) => false,
    }
}

/// The finding of each job, with when it was first seen, once all are there.
async fn findings(urls: &[String], names: &[&str]) -> BTreeMap<String, (String, String)> {
    common::eventually("each job's finding", async || {
        let found = found(&urls[0]).await?;
        names
            .iter()
            .all(|name| found.get(*name).is_some_and(|found| found.len() == 1))
            .then(|| found.into_iter().map(|(job, mut of)| (job, of.remove(0))).collect())
    })
    .await
}

/// Findings that fire for a shortfall of channels, by job: id and when each was first seen.
async fn found(url: &str) -> Option<BTreeMap<String, Vec<(String, String)>>> {
    let page = json(url, "/api/v1/findings?limit=1000").await?;
    let mut found: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for finding in
        page["items"].as_array()?.iter().filter(|finding| finding["finding"] == "channel_shortfall")
    {
        let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        found.entry(text("job")).or_default().push((text("id"), text("first_seen")));
    }
    Some(found)
}

async fn json(url: &str, path: &str) -> Option<Value> {
    reqwest::get(format!("{url}{path}")).await.ok()?.error_for_status().ok()?.json().await.ok()
}

/// What is wrong in what each daemon says at the end.
async fn check(urls: &[String], logs: &Logs, first_seen: &BTreeMap<String, (String, String)>) -> Vec<String> {
    let mut wrong = Vec::new();
    for url in urls {
        let jobs = json(url, "/api/v1/jobs?limit=1000").await.expect("jobs");
        for (name, logs) in logs {
            let of = jobs["items"].as_array().unwrap().iter().find(|job| job["id"] == **name);
            let said = of.map_or(0, |job| job["issued_bytes"].as_u64().unwrap_or(0));
            // Two ranks a host, a MiB a call.
            let written: u64 = logs.iter().map(|log| 2 * (log.calls.load(Ordering::Relaxed) << 20)).sum();
            if said != written {
                wrong.push(format!("{url}: {name}: {said} bytes issued, the agents wrote down {written}"));
            }
        }
        let found = found(url).await.expect("findings");
        for (name, first) in first_seen {
            match found.get(name).map(Vec::as_slice) {
                Some([one]) if one == first => {}
                other => wrong.push(format!("{url}: {name}: was {first:?}, is {other:?}")),
            }
        }
    }
    wrong
}

fn start(program: &PathBuf, database_url: &str, port: u16, dir: &std::path::Path) -> One {
    std::fs::create_dir_all(dir).unwrap();
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    let process = Command::new(program)
        .args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--cluster-url", &url(port)])
        .args(["--database-url", database_url])
        .arg("--data-dir")
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    One { port, process }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// The command, as it was built beside this program.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    here.parent().unwrap().parent().unwrap().join("ringscope")
}

fn options() -> Options {
    let mut options = Options { daemons: 3, jobs: 30, minutes: 10.0, kill_every: Duration::from_secs(20) };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} needs a value"));
        match &*name {
            "--daemons" => options.daemons = value.parse().unwrap(),
            "--jobs" => options.jobs = value.parse().unwrap(),
            "--minutes" => options.minutes = value.parse().unwrap(),
            "--kill-every" => options.kill_every = Duration::from_secs_f64(value.parse().unwrap()),
            _ => panic!("no option is called {name}"),
        }
    }
    options
}
