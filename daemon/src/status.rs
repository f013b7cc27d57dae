//! `ringscope status`: what the daemon sees, in the terminal. Its exit status is for scripts.
//!
//! Asks the REST API and judges nothing itself.

mod view;

use std::io::{self, IsTerminal as _, Write};

use ringscope_api::clock;
use ringscope_api::{
    CommunicatorSummary, Finding, Health, HealthLevel, HostSummary, Incident, Job, SummationGroup,
};
use ringscope_judge::health;
use view::Look;

use crate::client::{ClientError, DaemonArgs};
use crate::config;

/// Arguments of `ringscope status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope status --daemon http://ringscope.cluster:9440
  ringscope status --job train-70b --host node-17

  ringscope status --strict || page-me
  ringscope status --job \"$RINGSCOPE_JOB\" || echo \"the job failed\"     # in an epilog

How something stands is one of: healthy, unknown, degraded, hung, failed. A job that has ended counts only where --job
asks for it: how it ended is known for an hour.

Exit status:
  0   all well as far as is known; what is only information (severity info, e.g. `waiting`) counts as well
  1   no answer, or no such job or host
  2   an incident of severity warning or above is open, acknowledged and silenced ones too, or a job that runs, the job
      of --job or a host is degraded, hung or failed; what was imported counts while nothing runs
  3   with --strict: how something stands, or how the job of --job ended, is not known
  64  wrong usage")]
pub struct StatusArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Only this job, also one that has ended, and its hosts
    #[arg(long)]
    job: Option<String>,
    /// Only this host and its jobs
    #[arg(long)]
    host: Option<String>,
    /// Print health, open incidents and firing findings as one JSON object instead
    #[arg(long)]
    json: bool,
    /// Exit with 3 if it is not known how something stands
    #[arg(long)]
    strict: bool,
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
#[derive(Debug)]
struct Status {
    health: Health,
    /// Open, worst first.
    incidents: Vec<Incident>,
    jobs: Vec<Job>,
    hosts: Vec<HostSummary>,
    communicators: Vec<CommunicatorSummary>,
    groups: Vec<SummationGroup>,
    /// Firing, worst first.
    findings: Vec<Finding>,
}

/// What the status comes to, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All well, as far as is known.
    Well,
    /// Somebody should look.
    Bad,
    /// With `--strict`: how something stands is not known.
    Unknown,
}

/// Prints the status.
///
/// # Errors
/// [`StatusError`].
pub async fn run(args: &StatusArgs, out: &mut impl Write) -> Result<Outcome, StatusError> {
    let client = args.daemon.client()?;
    let mut status = Status {
        health: client.health(args.job.as_deref(), args.host.as_deref()).await?,
        incidents: client.incidents(false).await?,
        jobs: client.jobs().await?,
        hosts: match &args.job {
            Some(job) => client.hosts_of_job(job).await?,
            None => client.hosts().await?,
        },
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
        let Status { health, incidents, findings, .. } = &status;
        serde_json::to_writer_pretty(&mut *out, &Document { health, incidents, findings })
            .map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(view::text(&status, look(), clock::now()).as_bytes())?;
    }
    Ok(outcome(&status.health, args.strict))
}

/// What `--json` prints.
#[derive(serde::Serialize)]
struct Document<'a> {
    health: &'a Health,
    incidents: &'a [Incident],
    findings: &'a [Finding],
}

fn outcome(health: &Health, strict: bool) -> Outcome {
    match health.level {
        HealthLevel::Warning | HealthLevel::Critical => Outcome::Bad,
        _ if strict && (health.level == HealthLevel::Unknown || !health.unknown.is_empty()) => {
            Outcome::Unknown
        }
        _ => Outcome::Well,
    }
}

fn known<'a>(
    what: &'static str,
    name: &str,
    mut all: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), StatusError> {
    let mut shown = all.clone();
    let some: Vec<&str> = shown.by_ref().take(KNOWN_SHOWN).collect();
    if all.any(|one| one == name) {
        return Ok(());
    }
    let known = match (some.is_empty(), shown.count()) {
        (true, _) => "none yet".to_owned(),
        (_, 0) => some.join(", "),
        (_, more) => format!("{}, and {more} more", some.join(", ")),
    };
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
        self.incidents.retain(|incident| {
            incident.job == name || incident.job.is_empty() && hosts.contains(&&incident.host)
        });
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
        self.incidents.retain(|incident| {
            incident.host == name || incident.culprits.iter().any(|culprit| culprit.host == name)
        });
        // The cause of an incident of this host stands below it, whatever the finding is about.
        let roots: Vec<&String> =
            self.incidents.iter().filter_map(|incident| incident.findings.first()).collect();
        self.findings.retain(|finding| health::concerns(finding, name) || roots.contains(&&finding.id));
    }
}

/// Names shown for one that is not known.
const KNOWN_SHOWN: usize = 8;
