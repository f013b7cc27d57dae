//! What an agent is told, with each default and why it is that.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ringscope_tls::credential::TokenSource;
use ringscope_tls::{Own, Trust};

use super::error::AgentError;
use super::programs::{Paths, Programs, Starter};

/// Folder of the segments. Memory, so that a segment costs no disk; shared, so that the agent sees it.
pub const DEFAULT_DIR: &str = "/dev/shm/ringscope";
/// Often enough that a screen looks live, seldom enough to cost nothing.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(250);
/// Hours of a quiet host, some minutes of a busy one.
pub const DEFAULT_BACKLOG_BYTES: u64 = 64 << 20;
/// Long enough to look at the files of a crashed job by hand.
pub const DEFAULT_KEEP_DEAD: Duration = Duration::from_secs(3600);
/// A quarter of what collectors let all segments of a folder take.
pub(super) const DEFAULT_ENDED_BYTES: u64 = 64 << 20;
/// Where the kernel shows its devices.
pub const DEFAULT_SYSFS: &str = "/sys";
/// Soon enough to explain why a job found fewer channels; a reading takes some milliseconds.
pub const DEFAULT_HARDWARE_INTERVAL: Duration = Duration::from_secs(5);

/// Long enough for a process to make its segment, which it does at its first communicator.
const LOG_GRACE: Duration = Duration::from_secs(5);

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Address of the daemon: `http://host:port` or `https://host:port`. Of several daemons of one database, those of all: the one
    /// that answers is used.
    pub daemon_urls: Vec<String>,
    /// Whom it trusts to be the daemon, and as whom it shows itself.
    pub trust: Trust,
    /// The certificate of the daemon, where that is this process: then no other is trusted.
    pub daemon_here: Option<Arc<Own>>,
    /// What it shows the daemon; `None`: nothing.
    pub token: Option<TokenSource>,
    /// Folder of the segments; made if it is not there.
    pub dir: PathBuf,
    /// Folder in which batches are kept while the daemon is away; made if it is not there.
    pub state_dir: PathBuf,
    /// Time between two readings.
    pub interval: Duration,
    /// Bytes of batches kept while the daemon is away; beyond, the oldest are dropped.
    pub backlog_bytes: u64,
    /// How long the files of a process that has ended are kept after the daemon has heard of its end.
    pub keep_dead: Duration,
    /// Bytes that these files may take together, and never more than a sixteenth of the file system; beyond, the first that
    /// ended go first.
    pub ended_bytes: u64,
    /// How long a log that names a communicator waits for the segment of its process before the process counts as one
    /// without.
    pub log_grace: Duration,
    /// Name of this machine.
    pub host: String,
    /// Folder in which the kernel shows this machine's devices.
    pub sysfs: PathBuf,
    /// Time between two readings of the hardware; zero: never.
    pub hardware_interval: Duration,
    /// Hosts that this machine pretends to be. If there are any, their hardware is read and not the machine's own.
    pub pretended_hosts: Vec<PretendedSysfs>,
    /// Whether processes may count themselves to other hosts than this machine, as those of a demonstration do. Else a user
    /// could say what he likes of any host.
    pub other_hosts: bool,
    /// Where the kernel's messages are read; `None`: nowhere.
    pub kernel_log: Option<KernelLog>,
    /// Program that looks at a process when the daemon asks what it does (`ringscope look-at`); `None`: nobody looks.
    pub look: Option<PathBuf>,
    /// Whether an agent that is a process of its own gives up all that it does not need ([`super::confine`]). Default yes: what it
    /// reads is anybody's.
    pub sandbox: bool,
    /// Who starts programs for a confined agent; `None`: it does so itself.
    pub starter: Option<Starter>,
    /// Whether the system holds it to writing in `dir` and `state_dir` as they are now.
    pub is_held: bool,
}

/// Where the kernel's messages can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLog {
    /// The kernel's device.
    pub kmsg: PathBuf,
    /// The program that shows the journal, where the device may not be read.
    pub journalctl: PathBuf,
}

impl Default for KernelLog {
    fn default() -> Self {
        Self { kmsg: PathBuf::from("/dev/kmsg"), journalctl: PathBuf::from("journalctl") }
    }
}

/// Name of a pretended host, and its folder in the shape of `/sys`.
pub type PretendedSysfs = (String, PathBuf);

impl AgentConfig {
    /// An agent with the defaults.
    #[must_use]
    pub fn new(daemon_url: impl Into<String>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            daemon_urls: vec![daemon_url.into()],
            trust: Trust::default(),
            daemon_here: None,
            token: None,
            dir: PathBuf::from(DEFAULT_DIR),
            state_dir: state_dir.into(),
            interval: DEFAULT_INTERVAL,
            backlog_bytes: DEFAULT_BACKLOG_BYTES,
            keep_dead: DEFAULT_KEEP_DEAD,
            ended_bytes: DEFAULT_ENDED_BYTES,
            log_grace: LOG_GRACE,
            host: host_name(),
            sysfs: PathBuf::from(DEFAULT_SYSFS),
            hardware_interval: DEFAULT_HARDWARE_INTERVAL,
            pretended_hosts: Vec::new(),
            other_hosts: false,
            kernel_log: Some(KernelLog::default()),
            look: Some(Paths::default().look),
            sandbox: true,
            starter: None,
            is_held: false,
        }
    }

    /// The programs that it needs, and how they are started.
    pub(super) fn programs(&self) -> Programs {
        let default = Paths::default();
        let paths = Paths {
            look: self.look.clone().unwrap_or(default.look),
            cgroups: self.sysfs.join("fs/cgroup"),
            journalctl: self.kernel_log.clone().map_or(default.journalctl, |log| log.journalctl),
        };
        Programs { paths, starter: self.starter.clone() }
    }

    /// Where batches go: to one of these, of which there is at least one.
    ///
    /// # Errors
    /// [`AgentError::DaemonUrl`].
    pub fn ingest_urls(&self) -> Result<Vec<reqwest::Url>, AgentError> {
        let urls: Vec<reqwest::Url> =
            self.daemon_urls.iter().map(|url| ingest_url(url)).collect::<Result<_, _>>()?;
        let lacks = || AgentError::DaemonUrl { url: String::new(), why: "no address is given".to_owned() };
        if urls.is_empty() { Err(lacks()) } else { Ok(urls) }
    }
}

fn ingest_url(daemon_url: &str) -> Result<reqwest::Url, AgentError> {
    let wrong = |why: String| AgentError::DaemonUrl { url: daemon_url.to_owned(), why };
    let base =
        reqwest::Url::parse(daemon_url.trim_end_matches('/')).map_err(|error| wrong(error.to_string()))?;
    if !matches!(base.scheme(), "http" | "https") {
        return Err(wrong(format!("scheme {:?} is not spoken", base.scheme())));
    }
    reqwest::Url::parse(&format!("{}/api/v1/ingest", base.as_str().trim_end_matches('/')))
        .map_err(|error| wrong(error.to_string()))
}

/// Name of this machine, as `uname` gives it.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
