//! The agent of this host, where none runs: started for the job, and ended with it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ringscope_agent::DEFAULT_DIR;
use ringscope_agent::{shared_dir, sweep};
use ringscope_api::clock::Timestamp;
use rustix::process::{Pid, Signal, kill_process};

use super::OWN_PROGRAM;
use crate::launch::config;
use crate::launch::protocol::{AgentWish, Share};

/// An agent that was started here.
pub(super) struct Agent {
    /// Its number.
    pub(super) pid: u32,
    /// Its folder for batches that wait, which goes with it.
    _state: tempfile::TempDir,
}

/// The folder that it watches: that of the job.
pub(super) fn dir(share: &Share) -> PathBuf {
    let said = share.environment.iter().find(|(name, value)| name == "RINGSCOPE_DIR" && !value.is_empty());
    let said = said.map(|(_, value)| value.clone()).or_else(config::shared_dir);
    said.map_or_else(|| DEFAULT_DIR.into(), PathBuf::from)
}

/// Whether an agent reads now what jobs of this user leave in the folder. That of the last launch, which left a while ago, does not
/// come back: so it is asked as if that had long been so.
pub(super) fn is_served(dir: &Path) -> bool {
    let later = Timestamp(ringscope_api::clock::now().0.saturating_add(LONG_NS));
    sweep::is_served(dir, later)
}

const LONG_NS: u64 = 24 * 3600 * 1_000_000_000;

impl Agent {
    /// Starts one, and gives what it says.
    pub(super) fn start(wish: &AgentWish, job: &str, dir: &Path) -> io::Result<(Self, OwnedFd)> {
        shared_dir::create(dir)?;
        let state = tempfile::Builder::new().prefix("ringscope-launch-agent-").tempdir()?;
        let (said, end) = io::pipe()?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0("ringscope").arg("agent").args(&wish.arguments).arg("--dir").arg(dir);
        command.arg("--state-dir").arg(state.path());
        if let Some(token) = &wish.token {
            command.env("RINGSCOPE_TOKEN", token);
        }
        command.env_remove(config::SECRET);
        // Who finds it in `ps e` sees whose it is.
        command.env("RINGSCOPE_STARTED_BY", format!("launch of {job}")).env("RUST_LOG", "warn");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(end).process_group(0);
        let pid = command.spawn()?.id();
        Ok((Self { pid, _state: state }, said.into()))
    }

    /// Tells it to end; it sends what it has before.
    pub(super) fn end(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}
