//! `ringscope status`: what the daemon sees, in the terminal. Its exit status is for scripts.
//!
//! Asks the REST API and judges nothing itself.

mod view;

use std::io::{self, IsTerminal as _, Write};

use crate::api::{CommunicatorSummary, Finding, HostSummary, Job, Severity, SummationGroup};
use crate::client::{Client, ClientError, daemon_url};
use crate::{clock, config};
use view::Look;

/// Arguments of `ringscope status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope status --daemon http://ringscope.cluster:9440
  ringscope status --job train-70b --host node-17

Exit status: 0 all well, 1 no answer, or no such job or host, 2 a finding of severity warning or above is firing,
64 wrong usage")]
pub struct StatusArgs {
    /// Address of the daemon
    #[arg(long, env = "RINGSCOPE_DAEMON", default_value = "http://127.0.0.1:9440", value_parser = daemon_url)]
    daemon: String,
    /// Only this job and its hosts
    #[arg(long)]
    job: Option<String>,
    /// Only this host and its jobs
    #[arg(long)]
    host: Option<String>,
    /// Print the firing findings as JSON instead
    #[arg(long)]
    json: bool,
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The daemon.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The daemon has not heard of it.
    #[error("no {what} is called {name:?}; there are: {known}")]
    Unknown {
        /// `job` or `host`.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// Some that there are.
        known: String,
    },
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// What is shown.
#[derive(Debug, Default)]
struct Status {
    jobs: Vec<Job>,
    hosts: Vec<HostSummary>,
    communicators: Vec<CommunicatorSummary>,
    groups: Vec<SummationGroup>,
    /// Firing, worst first.
    findings: Vec<Finding>,
}

/// Prints the status. Returns whether a finding of severity warning or above is firing.
///
/// # Errors
/// [`StatusError`].
pub async fn run(args: &StatusArgs, out: &mut impl Write) -> Result<bool, StatusError> {
    let client = Client::new(&args.daemon);
    let mut status = Status {
        jobs: client.jobs().await?,
        hosts: client.hosts().await?,
        communicators: client.communicators().await?,
        groups: client.summation_groups().await?,
        findings: client.firing().await?,
    };
    if let Some(job) = &args.job {
        known("job", job, status.jobs.iter().map(|job| &*job.id))?;
        status.keep_job(job);
    }
    if let Some(host) = &args.host {
        known("host", host, status.hosts.iter().map(|host| &*host.host))?;
        status.keep_host(host);
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &status.findings).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(view::text(&status, look(), clock::now()).as_bytes())?;
    }
    Ok(status.findings.iter().any(|finding| finding.severity >= Severity::Warning))
}

fn known<'a>(
    what: &'static str,
    name: &str,
    mut all: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), StatusError> {
    let some: Vec<&str> = all.clone().take(KNOWN_SHOWN).collect();
    if all.any(|one| one == name) {
        return Ok(());
    }
    let known = if some.is_empty() { "none yet".to_owned() } else { some.join(", ") };
    Err(StatusError::Unknown { what, name: name.to_owned(), known })
}

/// What the terminal can show; of a pipe everything, without colour.
fn look() -> Look {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return Look::default();
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok();
    Look {
        width: size.map(|size| size.ws_col).filter(|width| *width > 0),
        colour: config::colour_is_wanted(),
    }
}

impl Status {
    fn keep_job(&mut self, name: &str) {
        self.jobs.retain(|job| job.id == name);
        let hosts: Vec<&String> = self.jobs.iter().flat_map(|job| &job.hosts).collect();
        self.hosts.retain(|host| hosts.contains(&&host.host));
        self.communicators.retain(|communicator| communicator.job == name);
        self.groups.retain(|group| group.job == name);
        // What is wrong with the hardware of its hosts is its business too.
        self.findings.retain(|finding| {
            finding.job == name || finding.job.is_empty() && hosts.contains(&&finding.host)
        });
    }

    fn keep_host(&mut self, name: &str) {
        self.jobs.retain(|job| job.hosts.iter().any(|host| host == name));
        self.hosts.retain(|host| host.host == name);
        self.communicators.retain(|communicator| communicator.hosts.iter().any(|host| host == name));
        self.groups.retain(|group| self.jobs.iter().any(|job| job.id == group.job));
        self.findings.retain(|finding| finding.host == name);
    }
}

/// Names shown for one that is not known.
const KNOWN_SHOWN: usize = 8;
