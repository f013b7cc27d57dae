//! `ringscope-sumd`: a machine that does nothing but sum.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rsccl::summation::session::pool::broker::Broker;
use rsccl::summation::session::pool::operator;
use rsccl::summation::session::server::{Failed, Options, Server};
use rsccl::summation::session::signals;

/// Sums the gradients of training jobs, beside their workers.
///
/// Waits at RSUM_ROOT until the workers of a job are there, joins their group, and sums what the placement gives it, until
/// they leave. Needs RSUM_ROOT, the host and port at which the processes meet, and RSUM_SECRET, as the workers have them.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLE, args_conflicts_with_subcommands = true)]
struct Cli {
    /// Listen at RSUM_ROOT, in place of worker 0
    #[arg(long)]
    root: bool,
    /// Wait for another job after one, and after a failure
    #[arg(long)]
    stay: bool,
    /// Answer HTTP at this address: /healthz while the process lives, /readyz in a group, /status what it is at, as JSON
    #[arg(long, value_name = "ADDRESS")]
    health: Option<String>,
    /// Be lent to jobs by the broker at this address, one after the other; they say where they meet
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["root", "stay"])]
    pool: Option<String>,
    /// Sum nothing: keep a pool of servers at this address, and lend them to jobs that have it as RSUM_POOL
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["root", "stay", "health", "pool"])]
    broker: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask the pool at RSUM_POOL
    #[command(subcommand)]
    Pool(Pool),
}

#[derive(Debug, Subcommand)]
enum Pool {
    /// Show its jobs and servers
    List,
    /// Lend servers to a job while it runs, or take them back
    Lend {
        /// The job's name (RSUM_JOB)
        job: String,
        /// How many it is to have, or `auto`: as the pool deals them
        #[arg(value_parser = servers)]
        servers: Servers,
    },
}

/// None: as the pool deals them.
#[derive(Clone, Copy, Debug)]
struct Servers(Option<usize>);

fn servers(text: &str) -> Result<Servers, String> {
    match text {
        "auto" => Ok(Servers(None)),
        text => text.parse().map(|n| Servers(Some(n))).map_err(|_| "neither a number nor auto".to_owned()),
    }
}

const EXAMPLE: &str = "Example:
  RSUM_ROOT=10.0.0.1:4700 RSUM_SECRET=correct-horse ringscope-sumd --stay --health 0.0.0.0:4701

A pool, whose servers and jobs share RSUM_SECRET:
  ringscope-sumd --broker 10.0.0.9:4800
  ringscope-sumd --pool 10.0.0.9:4800                        on each server
  RSUM_POOL=10.0.0.9:4800 ringscope-sumd pool lend JOB 2

Every setting of the workers (RSUM_NIC_MBIT_S, RSCCL_TIMEOUT_S, NCCL_DEBUG, …) is one here too.";

fn main() -> ExitCode {
    let Cli { root, stay, health, pool, broker, command } = Cli::parse();
    let run = || {
        if let Some(Command::Pool(question)) = command {
            return ask(&question);
        }
        if let Some(address) = broker {
            let broker = Broker::listen(&address)?;
            say(&format!("the broker is at {}", broker.address()?));
            broker.run(say);
            return Ok(());
        }
        let server = Server::from_env(Options { root, stay, pool })?;
        signals::stop_on_signals(server.stopper())?;
        if let Some(address) = health {
            let address = server.answer_health(&address)?;
            say(&format!("health is told at http://{address}/status"));
        }
        server.run(say)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn ask(question: &Pool) -> Result<(), Failed> {
    let told = match question {
        Pool::List => operator::list(),
        Pool::Lend { job, servers: Servers(servers) } => operator::lend(job, *servers),
    }?;
    // Who does not read the answer misses it.
    let _ = std::io::stdout().write_all(told.as_bytes());
    Ok(())
}

/// A log that cannot be written stops no job.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ringscope-sumd: {text}");
}
