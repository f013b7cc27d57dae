//! `ringscope-sumd`: a machine that does nothing but sum.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use rsccl::summation::session::server::{Options, Server};
use rsccl::summation::session::signals;

/// Sums the gradients of training jobs, beside their workers.
///
/// Waits at RSUM_ROOT until the workers of a job are there, joins their group, and sums what the placement gives it, until
/// they leave. Needs RSUM_ROOT, the host and port at which the processes meet, and RSUM_SECRET, as the workers have them.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLE)]
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
}

const EXAMPLE: &str = "Example:
  RSUM_ROOT=10.0.0.1:4700 RSUM_SECRET=correct-horse ringscope-sumd --stay --health 0.0.0.0:4701

Every setting of the workers (RSUM_NIC_MBIT_S, RSCCL_TIMEOUT_S, NCCL_DEBUG, …) is one here too.";

fn main() -> ExitCode {
    let Cli { root, stay, health } = Cli::parse();
    let run = || {
        let server = Server::from_env(Options { root, stay })?;
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

/// A log that cannot be written stops no job.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "ringscope-sumd: {text}");
}
