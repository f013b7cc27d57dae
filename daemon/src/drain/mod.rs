//! `ringscope drain`: has hosts taken out of service that the daemon's findings accuse, by a script of the operator's choice.
//!
//! Asks the daemon and judges nothing itself ([`plan`] only counts and waits). Without `--run` it does nothing, and no host is
//! drained on an answer that did not come.

mod memory;
mod plan;
mod script;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use ringscope_api::clock::{self, Timestamp};
use ringscope_api::words::{duration, parse_duration, plural};
use ringscope_api::{Finding, FindingKind, Incident, Severity};

use crate::client::{Client, ClientError, DaemonArgs};
use memory::{Memory, MemoryError, MemoryFile};
use plan::{Rules, Step, Verdict, plain, plan};
use script::Script;

/// Arguments of `ringscope drain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringscope drain                                  say what would be drained, and why not the others
  ringscope drain --run /etc/ringscope/drain.sh    drain it; to be called once a minute: ringscope-drain.timer
  ringscope drain --finding nic_degraded --for 30m

The script is told in its environment: RINGSCOPE_DRAIN_HOST, RINGSCOPE_DRAIN_FINDING, RINGSCOPE_DRAIN_SENTENCE and
RINGSCOPE_DRAIN_SINCE. One for Slurm is /usr/share/ringscope/slurm/drain.sh.

A host is drained once, as long as anything accuses it. Nobody is drained whose incident is silenced or looked after:
`ringscope incident ID --acknowledge`. When the daemon does not answer, nobody is.

Exit status: 0 done, or nothing to do; 1 the daemon does not answer, the memory cannot be used, or a script failed; 64 wrong usage, or
--run names nothing that can be executed")]
pub struct DrainArgs {
    #[command(flatten)]
    daemon: DaemonArgs,
    /// Program that drains one host. Without it, it is only said what would be drained
    #[arg(long, value_name = "SCRIPT")]
    run: Option<PathBuf>,
    /// Only say what would be drained, also with --run
    #[arg(long)]
    dry_run: bool,
    /// Kind of finding that drains a host; may be repeated [default: channel_shortfall, gpu_missing, kernel_fault,
    /// nic_degraded, rdma_errors, slow_nic]
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(ACCUSING.map(FindingKind::label)))]
    finding: Vec<String>,
    /// Least severity of such a finding
    #[arg(long, value_name = "SEVERITY", value_parser = ["warning", "critical"], default_value = "critical")]
    severity: String,
    /// How long it must have held without a break, e.g. 30m
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration, default_value = "10m")]
    lasted: Duration,
    /// How many hosts are drained at most within --per
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_most: usize,
    /// Time within which so many are
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1h")]
    per: Duration,
    /// File that remembers who was drained when
    #[arg(
        long,
        value_name = "FILE",
        env = "RINGSCOPE_DRAIN_STATE",
        default_value = "/var/lib/ringscope-drain/state.json"
    )]
    state: PathBuf,
    /// How long the script may take
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    limit: Duration,
}

/// Why it ended otherwise than well.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// The script that was named cannot be run.
    #[error("nothing is drained: --run {0}")]
    NoScript(String),
    /// The daemon.
    #[error("nothing is drained: {0}")]
    Client(#[from] ClientError),
    /// The memory.
    #[error("nothing is drained: {0}")]
    Memory(#[from] MemoryError),
    /// What was done could not be remembered.
    #[error("{host} is not drained: {source}")]
    Forgetful {
        /// The host.
        host: String,
        /// Why not.
        source: MemoryError,
    },
    /// Scripts.
    #[error("not drained: {0}; what was not drained is tried again at the next call")]
    Script(String),
    /// The terminal.
    #[error("cannot write: {0}")]
    Io(#[from] io::Error),
}

/// Drains, or says what it would drain.
///
/// # Errors
/// [`DrainError`].
pub async fn run(args: &DrainArgs, out: &mut impl Write) -> Result<(), DrainError> {
    let script = args.run.as_ref().map(|path| Script::new(path, args.limit)).transpose();
    let script = script.map_err(DrainError::NoScript)?.filter(|_| !args.dry_run);
    // Held to the end: two at once would each drain as many as one may.
    let file = script.as_ref().map(|_| MemoryFile::lock(&args.state)).transpose()?;
    let mut memory = match &file {
        Some(file) => file.read()?,
        None => MemoryFile::peek(&args.state)?,
    };
    let client = args.daemon.client()?;
    let (incidents, findings) = asked(&client, ASK_WITHIN).await?;
    let now = clock::now();
    let steps = plan(&findings, &incidents, &args.rules(), &mut memory, now);
    if let Some(file) = &file {
        file.write(&memory)?;
    }
    let mut failed = Vec::new();
    let mut n_mild = 0;
    for step in &steps {
        match (&script, &file) {
            (Some(script), Some(file)) if step.verdict == Verdict::Drain => {
                match drain(step, script, (file, &mut memory), now).await? {
                    None => writeln!(out, "Drained {}", told(step, now))?,
                    Some(why) => failed.push(format!("{}: {why}", step.host)),
                }
            }
            // Once a minute, into a journal: those that nothing will come of are counted.
            (Some(_), _) if step.verdict == Verdict::TooMild => n_mild += 1,
            _ => writeln!(out, "{}", line(step, now, args))?,
        }
    }
    if n_mild > 0 {
        writeln!(out, "Not {} with warnings only; without --run each is told", plural(n_mild, "host"))?;
    }
    if steps.is_empty() {
        writeln!(out, "No host is accused: nothing to drain.")?;
    }
    if failed.is_empty() { Ok(()) } else { Err(DrainError::Script(failed.join("; "))) }
}

/// The open incidents and firing findings, or that they did not all come in time, however many pages there are.
async fn asked(client: &Client, within: Duration) -> Result<(Vec<Incident>, Vec<Finding>), ClientError> {
    let both = async {
        // Incidents first: a finding that comes between has none yet, and is told by itself.
        let incidents = client.incidents(false).await?;
        Ok((incidents, client.firing().await?))
    };
    tokio::time::timeout(within, both).await.unwrap_or_else(|_| Err(client.silent(within)))
}

/// Remembers first and drains then: who is interrupted between drains one too few. Returns why the script failed.
async fn drain(
    step: &Step,
    script: &Script<'_>,
    (file, memory): (&MemoryFile, &mut Memory),
    now: Timestamp,
) -> Result<Option<String>, DrainError> {
    memory.note(&step.host, now);
    file.write(memory).map_err(|source| DrainError::Forgetful { host: step.host.clone(), source })?;
    let failed = script.run(step).await.err();
    if failed.is_some() {
        memory.note_failed(&step.host);
        file.write(memory)?;
    }
    Ok(failed)
}

impl DrainArgs {
    fn rules(&self) -> Rules {
        let is_named = |kind: &FindingKind| self.finding.iter().any(|label| label == kind.label());
        Rules {
            kinds: match self.finding.is_empty() {
                true => BY_DEFAULT.to_vec(),
                false => ACCUSING.into_iter().filter(is_named).collect(),
            },
            severity: if self.severity == "warning" { Severity::Warning } else { Severity::Critical },
            lasted: self.lasted,
            at_most: self.at_most,
            per: self.per,
        }
    }
}

/// What is said of a host that is not drained now.
fn line(step: &Step, now: Timestamp, args: &DrainArgs) -> String {
    let told = told(step, now);
    match &step.verdict {
        Verdict::Drain => format!("Would drain {told}"),
        Verdict::NotYet => format!("Not yet {told} (it must hold for {})", duration(args.lasted)),
        Verdict::Already(at) => format!("Already drained {} ago: {told}", duration(now.since(*at))),
        Verdict::Enough => {
            format!("Not now {told} (at most {} within {} are drained)", args.at_most, duration(args.per))
        }
        Verdict::LookedAfter(by) => format!("Not {told} ({} looks after it)", plain(by)),
        Verdict::Silenced => format!("Not {told} (its incident is silenced)"),
        Verdict::TooMild => format!("Not {told} (a warning; --severity warning counts those too)"),
        Verdict::NoName => format!("Not {told} (this is no name of a host)"),
    }
}

fn told(step: &Step, now: Timestamp) -> String {
    let lasted = duration(now.since(step.since));
    format!("{}: {} for {lasted}: {}", plain(&step.host), step.kind.label(), step.sentence)
}

/// For all that is asked: it is called once a minute, and holds the lock of its memory meanwhile.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// Kinds that say of a host, and not of a job or of its user's program, that it is the one to look at.
const ACCUSING: [FindingKind; 14] = [
    FindingKind::ChannelShortfall,
    FindingKind::ChannelRegression,
    FindingKind::TransportFallback,
    FindingKind::NicDegraded,
    FindingKind::GpuMissing,
    FindingKind::KernelFault,
    FindingKind::HostLost,
    FindingKind::SlowNic,
    FindingKind::SlowDevice,
    FindingKind::SlowHost,
    FindingKind::RdmaErrors,
    FindingKind::RdmaRetransmits,
    FindingKind::QueuePairError,
    FindingKind::PfcStorm,
];
/// Those that hold of the machine, whatever runs there. A host that is lost the scheduler sees itself.
const BY_DEFAULT: [FindingKind; 6] = [
    FindingKind::ChannelShortfall,
    FindingKind::GpuMissing,
    FindingKind::KernelFault,
    FindingKind::NicDegraded,
    FindingKind::RdmaErrors,
    FindingKind::SlowNic,
];

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers each question with a page after which there is another.
    async fn answer_without_end(listener: TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let page = r#"{"items":[],"next_cursor":"more"}"#;
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }

    /// Answers that these hosts have warnings, and that there are no incidents.
    async fn answer_with_warnings(listener: TcpListener, hosts: &[&str]) {
        let finding = |host: &&str| {
            serde_json::json!({
                "id": host, "finding": "rdma_errors", "severity": "warning", "state": "firing", "job": "train",
                "host": host, "comm": "c", "cause": "x", "message": format!("{host} has errors"),
                "incident": format!("i-{host}"), "first_seen": clock::now(), "last_seen": clock::now(),
            })
        };
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            let n = stream.read(&mut asked).await.unwrap();
            let is_of_findings = String::from_utf8_lossy(&asked[..n]).contains("/findings");
            let items: Vec<_> = hosts.iter().filter(|_| is_of_findings).map(finding).collect();
            let page = serde_json::json!({ "items": items }).to_string();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
            let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: DrainArgs,
    }

    #[tokio::test]
    async fn warnings_are_counted_where_hosts_are_drained_and_told_where_none_is() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state.json").display().to_string();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let daemon = format!("http://{}", listener.local_addr().unwrap());
        let said = async |options: &[&str]| {
            let words = [&["drain", "--daemon", &daemon, "--state", &state], options].concat();
            let mut out = Vec::new();
            run(&Cli::try_parse_from(words).unwrap().args, &mut out).await.unwrap();
            String::from_utf8(out).unwrap()
        };
        let all = async {
            let counted = said(&["--run", "/bin/false"]).await;
            assert_eq!(counted, "Not 2 hosts with warnings only; without --run each is told\n");
            for options in [&[][..], &["--run", "/bin/false", "--dry-run"]] {
                let told = said(options).await;
                let is_told = |host| told.contains(&format!("Not {host}: rdma_errors"));
                assert!(told.lines().count() == 2 && is_told("n1") && is_told("n2"), "{told}");
            }
        };
        tokio::select! {
            () = all => {}
            () = answer_with_warnings(listener, &["n1", "n2"]) => unreachable!("it answers for ever"),
        }
    }

    #[tokio::test]
    async fn a_daemon_whose_answer_has_no_end_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()));
        let answer = tokio::select! {
            answer = asked(&client, Duration::from_secs(1)) => answer,
            () = answer_without_end(listener) => unreachable!("it answers for ever"),
        };
        let why = answer.unwrap_err().to_string();
        assert!(why.contains("nothing came within 1 s"), "{why}");
    }
}
