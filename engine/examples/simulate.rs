//! Simulates one collective and prints what it takes: `cargo xtask simulate --help`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command's output")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use rsccl::sim::experiment::{Experiment, Report, run};
use rsccl::sim::fabric::{Fabric, Link};
use rsccl::sim::outcome::{Fate, Outcome};

/// Bits per second of 1 Gb/s, in bytes.
const GBPS: f64 = 125e6;

/// Simulate a collective over hosts with NICs, and compare it with its closed form.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask simulate",
    after_help = "Examples:
  cargo xtask simulate --algo ring --ranks 16384 --bytes 1073741824
  cargo xtask simulate --algo hierarchical --ranks 512 --hosts 64 --nics 8 --json
  cargo xtask simulate --algo tree --ranks 8 --lose 3@1.5     who waits for rank 3, lost after 1.5 ms"
)]
struct Cli {
    /// ring, tree, halving-doubling, recursive-doubling, hierarchical, direct or fixed-tree
    #[arg(long, default_value = "ring", value_name = "NAME")]
    algo: String,
    /// all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, gather or scatter
    #[arg(long, default_value = "all_reduce", value_name = "NAME")]
    primitive: String,
    /// Ranks
    #[arg(long, default_value_t = 8, value_name = "N")]
    ranks: usize,
    /// Hosts, with equally many ranks each [default: one for each rank]
    #[arg(long, value_name = "N")]
    hosts: Option<usize>,
    /// NICs of each host
    #[arg(long, default_value_t = 1, value_name = "N")]
    nics: usize,
    /// Channels
    #[arg(long, default_value_t = 1, value_name = "N")]
    channels: usize,
    /// Bytes, as the call counts them
    #[arg(long, default_value_t = 256 << 20, value_name = "N")]
    bytes: usize,
    /// Bytes of a piece, where an algorithm passes a buffer along piece by piece
    #[arg(long, default_value_t = 512 << 10, value_name = "N")]
    piece: usize,
    /// Elements are f16 instead of f32
    #[arg(long)]
    f16: bool,
    /// Latency between hosts, in microseconds
    #[arg(long, default_value_t = 5.0, value_name = "US")]
    alpha_us: f64,
    /// Bandwidth of a NIC, in 10^9 bits per second and direction
    #[arg(long, default_value_t = 100.0, value_name = "N")]
    gbps: f64,
    /// Latency inside a host, in microseconds
    #[arg(long, default_value_t = 1.0, value_name = "US")]
    intra_alpha_us: f64,
    /// Bandwidth of a rank's link inside its host, in 10^9 bits per second and direction
    #[arg(long, default_value_t = 400.0, value_name = "N")]
    intra_gbps: f64,
    /// What a rank reduces, in 10^9 bytes per second [default: reducing costs nothing]
    #[arg(long, value_name = "N")]
    reduce_gbs: Option<f64>,
    /// A NIC with another bandwidth
    #[arg(long, value_name = "HOST:NIC@GBPS", value_parser = odd_nic)]
    odd_nic: Vec<(usize, usize, f64)>,
    /// A rank that is lost, and when
    #[arg(long, value_name = "RANK@MS", value_parser = loss)]
    lose: Option<(usize, Duration)>,
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

#[expect(clippy::disallowed_methods, reason = "how long the simulation itself takes is part of its output")]
fn main() -> ExitCode {
    let cli = Cli::parse();
    let begun = Instant::now();
    match run(&cli.experiment()) {
        Ok(report) if cli.json => println!("{}", json(&cli, &report, begun.elapsed())),
        Ok(report) => words(&cli, &report, begun.elapsed()),
        Err(refused) => {
            eprintln!("simulate: {refused}");
            return ExitCode::from(64);
        }
    }
    ExitCode::SUCCESS
}

impl Cli {
    fn experiment(&self) -> Experiment {
        let nic = Link { latency: microseconds(self.alpha_us), bytes_per_s: self.gbps * GBPS };
        let intra = Link { latency: microseconds(self.intra_alpha_us), bytes_per_s: self.intra_gbps * GBPS };
        let mut fabric = Fabric::even(self.ranks, self.hosts.unwrap_or(self.ranks), nic, intra);
        fabric.nics_per_host = self.nics;
        fabric.odd_nics = self.odd_nic.iter().map(|odd| (odd.0, odd.1, odd.2 * GBPS)).collect();
        fabric.reduced_bytes_per_s = self.reduce_gbs.map_or(f64::INFINITY, |rate| rate * 1e9);
        Experiment {
            algorithm: self.algo.clone(),
            primitive: self.primitive.clone(),
            size_bytes: self.bytes,
            n_channels: self.channels,
            piece_bytes: self.piece,
            f16: self.f16,
            fabric,
            lose: self.lose,
        }
    }
}

fn words(cli: &Cli, report: &Report, took: Duration) {
    let outcome = &report.outcome;
    let hosts = cli.hosts.unwrap_or(cli.ranks);
    println!("{} {} · {} ranks on {hosts} hosts · {} bytes", cli.algo, cli.primitive, cli.ranks, cli.bytes);
    let ms = |time: Option<Duration>| {
        time.map_or("-".to_owned(), |time| format!("{:.6} ms", 1e3 * time.as_secs_f64()))
    };
    println!("predicted    {}", ms(outcome.finished_after()));
    println!("closed form  {}", ms(report.closed_form));
    if let Some(ratio) = ratio(report) {
        println!("ratio        {ratio:.6}");
    }
    println!("data flow    {}", outcome.flaw.as_ref().map_or("right".to_owned(), ToString::to_string));
    let links = &outcome.links;
    let sent: u64 = links.iter().map(|link| link.bytes).sum();
    println!("sent         {sent} bytes over {} links in {} transfers", links.len(), outcome.n_transfers);
    if let (Some(most), Some(least)) = (outcome.busiest_link(), links.iter().map(|link| link.bytes).min()) {
        println!(
            "link         {least} to {} bytes; the most from rank {} to {}",
            most.bytes, most.from, most.to
        );
    }
    if let Some(port) = outcome.busiest_port() {
        let share =
            outcome.finished_after().map_or(f64::NAN, |end| port.busy.as_secs_f64() / end.as_secs_f64());
        println!(
            "busiest port {}: {} bytes, in use for {:.1} % of the time",
            port.name,
            port.bytes,
            100.0 * share
        );
    }
    stuck(outcome);
    println!("simulated in {:.2} s", took.as_secs_f64());
}

/// Who waits for whom: one line for each rank that is waited for, by at most ten names.
fn stuck(outcome: &Outcome) {
    let finished = outcome.fates.iter().filter(|fate| matches!(fate, Fate::Finished { .. })).count();
    if finished == outcome.fates.len() {
        return;
    }
    println!("finished     {finished} of {} ranks", outcome.fates.len());
    let waits = outcome.fates.iter().enumerate().filter_map(|(rank, fate)| match fate {
        Fate::Waits { peer } => Some(format!("             rank {rank} waits for rank {peer}")),
        Fate::Lost => Some(format!("             rank {rank} is lost")),
        Fate::Finished { .. } => None,
    });
    let waits: Vec<String> = waits.collect();
    waits.iter().take(10).for_each(|line| println!("{line}"));
    if waits.len() > 10 {
        println!("             and {} more", waits.len() - 10);
    }
}

fn json(cli: &Cli, report: &Report, took: Duration) -> serde_json::Value {
    let outcome = &report.outcome;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    let fates = outcome.fates.iter().enumerate().filter_map(|(rank, fate)| match fate {
        Fate::Waits { peer } => Some(serde_json::json!({"rank": rank, "waits_for": peer})),
        Fate::Lost => Some(serde_json::json!({"rank": rank, "waits_for": null})),
        Fate::Finished { .. } => None,
    });
    let ports = outcome.ports.iter().filter(|port| port.is_nic);
    let nic = |port: &rsccl::sim::outcome::PortUse| serde_json::json!({"port": port.name, "bytes": port.bytes, "busy_s": port.busy.as_secs_f64()});
    serde_json::json!({
        "algorithm": cli.algo,
        "primitive": cli.primitive,
        "n_ranks": cli.ranks,
        "n_hosts": cli.hosts.unwrap_or(cli.ranks),
        "size_bytes": cli.bytes,
        "predicted_s": seconds(outcome.finished_after()),
        "closed_form_s": seconds(report.closed_form),
        "ratio": ratio(report),
        "flaw": outcome.flaw.as_ref().map(ToString::to_string),
        "n_transfers": outcome.n_transfers,
        "sent_bytes": outcome.links.iter().map(|link| link.bytes).sum::<u64>(),
        "n_links": outcome.links.len(),
        "busiest_link": outcome.busiest_link().map(|link| [link.from as u64, link.to as u64, link.bytes]),
        "busiest_port": outcome.busiest_port().map(nic),
        "nics": ports.map(nic).collect::<Vec<_>>(),
        "unfinished": fates.collect::<Vec<_>>(),
        "simulated_in_s": took.as_secs_f64(),
    })
}

fn ratio(report: &Report) -> Option<f64> {
    Some(report.outcome.finished_after()?.as_secs_f64() / report.closed_form?.as_secs_f64())
}

fn microseconds(us: f64) -> Duration {
    Duration::try_from_secs_f64(us / 1e6).unwrap_or(Duration::MAX)
}

fn loss(text: &str) -> Result<(usize, Duration), String> {
    let parts =
        text.split_once('@').and_then(|(rank, ms)| Some((rank.parse().ok()?, ms.parse::<f64>().ok()?)));
    let (rank, ms) = parts.ok_or("write it as RANK@MS, such as 3@1.5")?;
    Ok((rank, Duration::try_from_secs_f64(ms / 1e3).map_err(|error| error.to_string())?))
}

fn odd_nic(text: &str) -> Result<(usize, usize, f64), String> {
    let parts = text.split_once('@').and_then(|(nic, gbps)| {
        let (host, nic) = nic.split_once(':')?;
        Some((host.parse().ok()?, nic.parse().ok()?, gbps.parse().ok()?))
    });
    parts.ok_or_else(|| "write it as HOST:NIC@GBPS, such as 0:1@50".to_owned())
}
