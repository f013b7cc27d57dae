//! What a week of history costs: the daemon's store, driven by a clock that runs as fast as the machine can.
//!
//! `cargo run --release -p ringscope --example bench_week -- [--ranks 1000] [--days 7 | --hours N] [--interval 10] [--keep-samples 2]
//! [--dir FOLDER]`
//!
//! Each rank is in a communicator of all, one of its host and one of its local rank over all hosts; every `--interval` seconds
//! a sample of each series is written, every ten minutes the store settles and rolls up, every hour it forgets what is older
//! than a week (of samples: than `--keep-samples` days), and every six hours the job ends and begins again. At the end come the
//! times of some queries, and a daemon is started on what there is. Prints a table, and one line of JSON.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark fails by them")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program of its own, with its own clock"
)]
#![allow(missing_docs, reason = "not a library")]
#![allow(clippy::cast_precision_loss, reason = "figures to be read")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prost::Message as _;
use ringscope_api::clock::{self, Timestamp};
use ringscope_daemon::config::ServeConfig;
use ringscope_daemon::serve::Server;
use ringscope_store::{
    CommunicatorRow, CountersRow, Keep, Metric, ProcessRow, SampleRow, SeriesQuery, Store, Swept, WriteSet,
};
use ringscope_wire::batch::{Communicator, Identity, Process, ProcessState};
use tokio_util::sync::CancellationToken;

struct Options {
    ranks: u32,
    hours: u64,
    interval_s: u64,
    keep_samples_days: u64,
    dir: PathBuf,
}

/// What one series is of.
struct Of {
    comm: String,
    host: String,
}

#[derive(Default)]
struct Figures {
    samples: u64,
    written_bytes: u64,
    swept: Swept,
    days_on_disk: usize,
}

const RANKS_A_HOST: u32 = 8;
const HOUR_S: u64 = 3_600;
const DAY_S: u64 = 86_400;
const JOB_S: u64 = 6 * HOUR_S;
const NS: u64 = 1_000_000_000;

#[tokio::main]
async fn main() {
    let options = options();
    let _ = std::fs::remove_dir_all(&options.dir);
    std::fs::create_dir_all(&options.dir).unwrap();
    let database = options.dir.join("week.db");
    let url = format!("sqlite:{}", database.display());
    let end = clock::now();
    let start = Timestamp(end.0 - options.hours * HOUR_S * NS);
    let clock = Instant::now();
    let store = Store::open(&url.parse().unwrap()).await.unwrap().unwrap();
    let figures = week(&store, &options, start, end).await;
    let wall_s = clock.elapsed().as_secs_f64();
    let size = bytes(&options.dir);
    let queries = queries(&store, end).await;
    store.close().await;
    let ready_ms = ready_ms(&url, &options.dir).await;

    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let days = options.hours as f64 / 24.0;
    println!(
        "{} ranks, {days:.2} days, a sample of each series every {} s, samples kept {} days; {wall_s:.0} s\n",
        options.ranks, options.interval_s, options.keep_samples_days
    );
    println!("samples                        {}", figures.samples);
    println!(
        "written                        {:.0} MiB, {:.0} a day",
        mib(figures.written_bytes),
        mib(figures.written_bytes) / days
    );
    println!("written a sample               {:.1} B", figures.written_bytes as f64 / figures.samples as f64);
    println!(
        "on disk at the end             {:.0} MiB in tables of {} days",
        mib(size),
        figures.days_on_disk
    );
    println!(
        "dropped                        {} tables of days, {} rows of other things",
        figures.swept.days, figures.swept.rows
    );
    println!("restart until /readyz is 200   {ready_ms:.0} ms");
    for (what, points, ms) in &queries {
        println!("{what:<30} {ms:.0} ms, {points} points");
    }
    let json = serde_json::json!({
        "ranks": options.ranks,
        "hours": options.hours,
        "interval_s": options.interval_s,
        "samples": figures.samples,
        "written_bytes": figures.written_bytes,
        "size_bytes": size,
        "days_dropped": figures.swept.days,
        "rows_deleted": figures.swept.rows,
        "ready_ms": ready_ms,
        "wall_s": wall_s,
        "queries": queries,
    });
    println!("\n{json}");
    let _ = std::fs::remove_dir_all(&options.dir);
}

fn options() -> Options {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str, default: &str| {
        let place = arguments.iter().position(|argument| argument == name);
        place.and_then(|place| arguments.get(place + 1)).map_or(default, String::as_str).to_owned()
    };
    let number = |name: &str, default: &str| value(name, default).parse::<u64>().unwrap();
    let dir = std::env::temp_dir().join(format!("ringscope-week-{}", std::process::id()));
    Options {
        ranks: u32::try_from(number("--ranks", "1000")).unwrap(),
        hours: number("--hours", &(number("--days", "7") * 24).to_string()),
        interval_s: number("--interval", "10"),
        keep_samples_days: number("--keep-samples", "2"),
        dir: PathBuf::from(value("--dir", &dir.display().to_string())),
    }
}

async fn week(store: &Store, options: &Options, start: Timestamp, end: Timestamp) -> Figures {
    let keep = Keep {
        samples: Duration::from_secs(options.keep_samples_days * DAY_S),
        all: Duration::from_secs(7 * DAY_S),
    };
    let mut figures = Figures::default();
    let written_before = written_bytes();
    let (mut series, mut job) = (Vec::new(), 0);
    for second in (0..options.hours * HOUR_S).step_by(usize::try_from(options.interval_s).unwrap()) {
        let now = Timestamp(start.0 + second * NS);
        if series.is_empty() || second / JOB_S != job {
            job = second / JOB_S;
            series = begin(store, options, job, now).await;
        }
        let calls = (second % JOB_S * 40).cast_signed();
        let samples = series.iter().enumerate().map(|(place, of)| sample(of, place, calls, now)).collect();
        store.write(&WriteSet { samples, ..WriteSet::default() }).await.unwrap();
        figures.samples += series.len() as u64;
        if second % 600 < options.interval_s {
            while !store.roll_up(now).await.unwrap() {}
        }
        if second % HOUR_S < options.interval_s {
            let swept = store.sweep(now, keep).await.unwrap();
            figures.swept.days += swept.days;
            figures.swept.rows += swept.rows;
        }
    }
    // The last job ends too: a restart has nothing that lives.
    begin(store, options, job + 1, end).await;
    while !store.roll_up(end).await.unwrap() {}
    let swept = store.sweep(end, keep).await.unwrap();
    figures.swept.days += swept.days;
    figures.written_bytes = written_bytes() - written_before;
    figures.days_on_disk = match store {
        Store::Lite { read, .. } => {
            let days = sqlx::query("SELECT family FROM history_days").fetch_all(read).await.unwrap();
            days.len()
        }
        Store::Pg(..) => 0,
    };
    figures
}

/// Ends the job before, and begins the next. Returns its series.
async fn begin(store: &Store, options: &Options, job: u64, now: Timestamp) -> Vec<Of> {
    let n_hosts = options.ranks.div_ceil(RANKS_A_HOST);
    let mut set = WriteSet::default();
    for (number, ended) in [(job.checked_sub(1), Some(now)), (Some(job), None)] {
        let Some(number) = number else { continue };
        for rank in 0..options.ranks {
            let (facts, counters) = process(number, rank, options.ranks, ended, now);
            set.processes.push(facts);
            set.counters.push(counters);
        }
    }
    let mut comms: Vec<(String, Vec<u32>)> = vec![(format!("w{job}"), (0..n_hosts).collect())];
    comms.extend((0..n_hosts).map(|host| (format!("h{job}-{host}"), vec![host])));
    comms.extend((0..RANKS_A_HOST).map(|local| (format!("l{job}-{local}"), (0..n_hosts).collect())));
    let mut series = Vec::new();
    for (comm, hosts) in comms {
        series.extend(hosts.iter().map(|host| Of { comm: comm.clone(), host: format!("node-{host}") }));
        set.communicators.push(CommunicatorRow {
            id: comm,
            job: format!("train-{job}"),
            comm_hash: "0x1".into(),
            state: "active".into(),
            n_ranks: options.ranks.into(),
            updated_ns: now.0.cast_signed(),
            ..CommunicatorRow::default()
        });
    }
    store.write(&set).await.unwrap();
    series
}

fn process(
    job: u64,
    rank: u32,
    ranks: u32,
    ended: Option<Timestamp>,
    now: Timestamp,
) -> (ProcessRow, CountersRow) {
    let host = format!("node-{}", rank / RANKS_A_HOST);
    let key = format!("{host}/{rank}/{job}");
    let identity = Identity {
        job: format!("train-{job}"),
        host: host.clone(),
        pid: rank + 1,
        start_time_ns: now.0,
        global_rank: Some(rank),
        ..Identity::default()
    };
    let state = if ended.is_some() { ProcessState::Exited } else { ProcessState::Running };
    let communicator =
        Communicator { local_id: 1, comm_hash: job + 1, rank, n_ranks: ranks, ..Communicator::default() };
    let facts = Process {
        key: key.clone(),
        identity: Some(identity),
        communicators: vec![communicator],
        state: state.into(),
        ended_at_ns: ended.map(|at| at.0),
        ..Process::default()
    };
    let row = ProcessRow {
        key: key.clone(),
        job: format!("train-{job}"),
        host,
        pid: i64::from(rank) + 1,
        ended_ns: ended.map(|at| at.0.cast_signed()),
        facts: facts.encode_to_vec(),
        updated_ns: now.0.cast_signed(),
        ..ProcessRow::default()
    };
    let counters = Process { key: key.clone(), ..Process::default() }.encode_to_vec();
    (row, CountersRow { key, counters, updated_ns: now.0.cast_signed() })
}

/// Counters of ranks that work in step, each a little ahead of or behind the others.
fn sample(of: &Of, place: usize, calls: i64, now: Timestamp) -> SampleRow {
    let jitter = i64::try_from(place * 7_919 % 5).unwrap() + calls % 3;
    let completed_calls = (calls - jitter).max(0);
    SampleRow {
        comm: of.comm.clone(),
        host: of.host.clone(),
        ts_ms: now.unix_ms().cast_signed(),
        primitive: "all_reduce",
        issued_calls: calls,
        issued_bytes: calls * 4_194_304,
        completed_calls,
        completed_bytes: completed_calls * 4_194_304,
        intra_bytes: Some(completed_calls * 7_340_032),
        inter_bytes: Some(completed_calls * 1_048_576),
    }
}

/// How long some questions take, and how many points answer them.
async fn queries(store: &Store, end: Timestamp) -> Vec<(String, u64, f64)> {
    let to_ms = end.unix_ms().cast_signed();
    let of_day = SeriesQuery {
        of_jobs: None,
        metric: Metric::CompletedBytes,
        job: None,
        id: None,
        host: None,
        kind: None,
        from_ms: to_ms - 86_400_000,
        to_ms,
        step_ms: 60_000,
    };
    let host = SeriesQuery { host: Some("node-3".into()), ..of_day.clone() };
    let week = |query: &SeriesQuery| SeriesQuery {
        from_ms: to_ms - 7 * 86_400_000,
        step_ms: 3_600_000,
        ..query.clone()
    };
    let asked = [
        ("a host, a day by minutes", host.clone()),
        ("a host, a day of samples", SeriesQuery { step_ms: 1_000, ..host.clone() }),
        ("a host, a week by hours", week(&host)),
        ("everything, a day by minutes", of_day.clone()),
        ("everything, a week by hours", week(&of_day)),
    ];
    let mut answers = Vec::new();
    for (what, query) in asked {
        let (clock, mut points) = (Instant::now(), 0);
        store.series(&query, |_| points += 1).await.unwrap();
        answers.push((what.to_owned(), points, clock.elapsed().as_secs_f64() * 1e3));
    }
    answers
}

/// From the start of a daemon on this database until it is ready.
async fn ready_ms(url: &str, dir: &Path) -> f64 {
    let config = ServeConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        database_url: url.parse().unwrap(),
        with_agent: false,
        data_dir: dir.to_path_buf(),
        ..ServeConfig::default()
    };
    let clock = Instant::now();
    let server = Server::bind(config).await.unwrap();
    let readyz = format!("{}/readyz", server.local_url());
    let stop = CancellationToken::new();
    let running = tokio::spawn(server.run(stop.clone()));
    let client = reqwest::Client::new();
    loop {
        let answer = client.get(&readyz).send().await;
        if answer.is_ok_and(|answer| answer.status() == 200) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let ready_ms = clock.elapsed().as_secs_f64() * 1e3;
    stop.cancel();
    running.await.unwrap().unwrap();
    ready_ms
}

/// What this process has written to disks.
fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).map_or(0, |text| text.parse().unwrap())
}

fn bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).unwrap().flatten();
    files.map(|file| file.metadata().map_or(0, |data| data.len())).sum()
}
