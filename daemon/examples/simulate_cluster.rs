//! A cluster that is not there: hosts with NICs, GPUs and ranks that train, told to a real daemon as agents tell it.
//!
//! `cargo run --release -p ringscope --example simulate_cluster -- [--url http://127.0.0.1:9440] [--hosts 1000] [--ranks 8]
//! [--degraded 3] [--interval 2] [--seed 1] [--seconds 0] [--scheduler slurm|kubernetes]`
//!
//! Jobs of 128 hosts, a small one, and one that has ended. Of the degraded hosts the first has lost a NIC, so that it
//! finds fewer channels; the second has hops over sockets; the third has its NICs in another order; and again. All that
//! is said follows from the seed and the time. Prints `simulating …` once the daemon knows every host. A daemon that
//! goes away is waited for, and one that starts anew is told everything again.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]
#![allow(missing_docs, reason = "not a library")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers, and figures that are made up"
)]

#[path = "simulate_cluster/agent.rs"]
mod agent;
#[path = "simulate_cluster/cluster.rs"]
mod cluster;
#[path = "simulate_cluster/communicators.rs"]
mod communicators;
#[path = "simulate_cluster/hardware.rs"]
mod hardware;
#[path = "simulate_cluster/rings.rs"]
mod rings;
mod sending;
#[path = "simulate_cluster/traffic.rs"]
mod traffic;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agent::Agent;
use clap::Parser;
use cluster::{Cluster, Scheduler, Shape};
use ringscope_api::clock;
use sending::Daemon;
use tokio::task::JoinSet;

/// Tell a daemon of a cluster that is not there
#[derive(Parser)]
struct Arguments {
    /// Where the daemon is
    #[arg(long, default_value = "http://127.0.0.1:9440")]
    url: String,
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hosts: u32,
    /// GPUs, and ranks, of each host
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=8))]
    ranks: u32,
    /// Hosts with something wrong
    #[arg(long, default_value_t = 3)]
    degraded: u32,
    /// Seconds between two batches of a host
    #[arg(long, default_value_t = 2.0)]
    interval: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after so many seconds. 0: never
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Who has started the jobs. Default: not said
    #[arg(long)]
    scheduler: Option<Scheduler>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("{words}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), String> {
    let shape = Shape {
        hosts: arguments.hosts,
        ranks_per_host: arguments.ranks,
        degraded: arguments.degraded,
        seed: arguments.seed,
        scheduler: arguments.scheduler,
    };
    let interval =
        Duration::try_from_secs_f64(arguments.interval.max(0.1)).map_err(|error| error.to_string())?;
    let daemon = Daemon::new(&arguments.url);
    daemon.until_ready().await?;
    let cluster = Arc::new(Cluster::new(shape, clock::now()));
    let end = (arguments.seconds > 0).then(|| clock::monotonic() + Duration::from_secs(arguments.seconds));
    let known = Arc::new(AtomicU32::new(0));
    let mut sending = JoinSet::new();
    for number in 0..LANES.min(shape.hosts) {
        let hosts = (number..shape.hosts).step_by(LANES as usize);
        let lane = Lane {
            agents: hosts.map(|host| Agent::new(&cluster, host)).collect(),
            daemon: daemon.another(),
            cluster: Arc::clone(&cluster),
            known: Arc::clone(&known),
        };
        sending.spawn(lane.send(interval, end));
    }
    sending.join_all().await;
    Ok(())
}

/// Agents that send one after the other.
struct Lane {
    agents: Vec<Agent>,
    daemon: Daemon,
    cluster: Arc<Cluster>,
    /// Hosts of all lanes that the daemon knows.
    known: Arc<AtomicU32>,
}

impl Lane {
    /// Each once in an interval, until the end.
    async fn send(mut self, interval: Duration, end: Option<Instant>) {
        let pause = interval / u32::try_from(self.agents.len().max(1)).unwrap_or(u32::MAX);
        let mut due = clock::monotonic();
        loop {
            for agent in &mut self.agents {
                if end.is_some_and(|end| clock::monotonic() >= end) {
                    return;
                }
                let is_new = !agent.is_known();
                match self.daemon.send(&agent.batch(clock::now())).await {
                    Ok(reply) => agent.taken(reply.resend_all),
                    Err(words) => {
                        agent.refused();
                        eprintln!("not taken: {words}");
                        tokio::time::sleep(BACK_OFF).await;
                    }
                }
                if is_new && agent.is_known() {
                    // The first time round as fast as the daemon takes it.
                    if self.known.fetch_add(1, Ordering::Relaxed) + 1 == self.cluster.shape.hosts {
                        println!("simulating {}", self.cluster.words());
                    }
                    continue;
                }
                // Who is late does not catch up.
                due = (due + pause).max(clock::monotonic());
                tokio::time::sleep_until(due.into()).await;
            }
        }
    }
}

/// Connections to the daemon: the hosts share them.
const LANES: u32 = 16;
/// After a batch that was not taken.
const BACK_OFF: Duration = Duration::from_millis(500);
