//! `ringscope status`: the daemon's view as a table in the terminal.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};

use crate::api::{CommunicatorState, CommunicatorSummary, Finding, FindingState, HostSummary, Job, Severity};
use crate::client::{Client, ClientError, daemon_url};

/// Arguments of `ringscope status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringscope status --daemon http://ringscope.cluster:9440

Exit status: 0 all well, 1 no answer, 2 a finding of severity warning or above is firing,
64 wrong usage")]
pub struct StatusArgs {
    /// Address of the daemon
    #[arg(long, env = "RINGSCOPE_DAEMON", default_value = "http://127.0.0.1:9440", value_parser = daemon_url)]
    daemon: String,
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
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Prints the status. Returns whether a finding of severity warning or above is firing.
///
/// # Errors
/// [`StatusError`].
pub async fn run(args: &StatusArgs, out: &mut impl Write) -> Result<bool, StatusError> {
    let client = Client::new(&args.daemon);
    let findings: Vec<Finding> = client
        .findings()
        .await?
        .into_iter()
        .filter(|finding| finding.state == FindingState::Firing)
        .collect();
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &findings).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let hosts = client.hosts().await?;
        writeln!(out, "{}\n", health(&hosts))?;
        writeln!(out, "{}\n", jobs(&client.jobs().await?))?;
        writeln!(out, "{}\n", communicators(&client.communicators().await?))?;
        writeln!(out, "{}", findings_table(&findings))?;
    }
    Ok(findings.iter().any(|finding| finding.severity >= Severity::Warning))
}

/// The state of all hosts in one sentence.
fn health(hosts: &[HostSummary]) -> String {
    let degraded: Vec<&HostSummary> = hosts.iter().filter(|host| host.degraded).collect();
    match (hosts.len(), degraded.first()) {
        (0, _) => "No host has been heard of: start a job with `ringscope run -- CMD`.".to_owned(),
        (n, None) => format!("All {n} hosts healthy."),
        (n, Some(worst)) => {
            let reason = worst.reasons.first().map_or("", String::as_str);
            format!("{} of {n} hosts degraded: {reason}.", degraded.len())
        }
    }
}

fn jobs(jobs: &[Job]) -> Table {
    let mut table =
        table(&["job", "state", "hosts", "processes", "killed", "communicators", "issued", "completed"]);
    for job in jobs {
        table.add_row([
            job.id.clone(),
            format!("{:?}", job.state).to_lowercase(),
            job.hosts.len().to_string(),
            job.n_processes.to_string(),
            job.n_killed.to_string(),
            format!("{} of {} active", job.active_communicators, job.n_communicators),
            size(job.issued_bytes),
            size(job.completed_bytes),
        ]);
    }
    table
}

fn communicators(communicators: &[CommunicatorSummary]) -> Table {
    let mut table = table(&[
        "communicator",
        "name",
        "job",
        "ranks",
        "hosts",
        "base",
        "final",
        "completed",
        "GB/s",
        "held back by",
    ]);
    for communicator in communicators.iter().filter(|one| one.state != CommunicatorState::Ended) {
        table.add_row([
            communicator.id.clone(),
            communicator.name.clone().unwrap_or_default(),
            communicator.job.clone(),
            communicator.n_ranks.to_string(),
            communicator.hosts.len().to_string(),
            channels(communicator.base),
            channels(communicator.final_channels),
            size(communicator.completed_bytes),
            format!("{:.3}", communicator.completed_bytes_per_s / 1e9),
            communicator.culprits.join(", "),
        ]);
    }
    table
}

/// One row for what several communicators of a job have in common.
fn findings_table(findings: &[Finding]) -> Table {
    let mut folded: Vec<(&Finding, u32)> = Vec::new();
    for finding in findings {
        let same = |other: &Finding| (&other.job, &other.message) == (&finding.job, &finding.message);
        match folded.iter_mut().find(|(other, _)| same(other)) {
            Some((_, communicators)) => *communicators += 1,
            None => folded.push((finding, 1)),
        }
    }
    let mut table = table(&["severity", "finding", "job", "host", "communicators", "since", "what"]);
    for (finding, communicators) in folded {
        table.add_row([
            finding.severity.label().to_owned(),
            finding.finding.label().to_owned(),
            finding.job.clone(),
            finding.host.clone(),
            communicators.to_string(),
            finding.first_seen.to_string(),
            finding.message.clone(),
        ]);
    }
    table
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

fn channels(channels: Option<u32>) -> String {
    channels.map_or_else(|| "unknown".to_owned(), |channels| channels.to_string())
}

/// Bytes with a binary prefix.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_binary_prefixes() {
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1_572_864, "1.5 MiB")] {
            assert_eq!(size(bytes), expected);
        }
    }
}
