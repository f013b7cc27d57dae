//! The agent of this host, where none runs: started for the job, and ended with it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringscope_agent::DEFAULT_DIR;
use ringscope_agent::{shared_dir, sweep};
use ringscope_api::clock;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::other_daemon;
use super::output::{self, Room};
use super::state::StateFolder;
use super::tree;
use crate::launch::OWN_PROGRAM;
use crate::launch::inherited::Inherited;
use crate::launch::protocol::{AGENT, AgentSettings, Frame, Share, Stream};
use crate::launch::{config, node_name};

/// Between two looks whether an agent runs.
const LOOK: Duration = Duration::from_secs(2);
/// What an agent says; the launch itself has said where its token goes.
const LOGS: &str = "warn,ringscope_daemon::config::token=error";
/// Between two looks at what is left.
const AGAIN: Duration = Duration::from_millis(50);
/// How long an agent may take to send the rest.
const ENDS_WITHIN: Duration = Duration::from_secs(6);

/// The agent of this launch, where one had to be started.
pub(super) struct OwnAgent {
    inherited: Inherited,
    agent: Option<Agent>,
    streams: JoinSet<()>,
    looked_at: Option<Instant>,
    /// Somebody else's reads, as of the last look.
    is_read: bool,
    /// It was said, where need be, that that one sends elsewhere.
    is_told: bool,
}

impl OwnAgent {
    /// None runs yet.
    pub(super) fn new(inherited: Inherited) -> Self {
        Self {
            inherited,
            agent: None,
            streams: JoinSet::new(),
            looked_at: None,
            is_read: false,
            is_told: false,
        }
    }

    /// Its number, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.agent.as_ref().map(|agent| agent.pid)
    }

    /// A child has ended: whether it was the agent.
    pub(super) fn has_ended(&mut self, pid: u32) -> bool {
        self.agent.take_if(|agent| agent.pid == pid).is_some()
    }

    /// Starts one where one is wanted and none runs; what is to be said of it.
    pub(super) fn look(
        &mut self,
        share: &Share,
        now: Instant,
        room: &Arc<Room>,
        frames: &Sender<Frame>,
    ) -> Option<String> {
        let settings = share.agent.as_ref().filter(|_| self.agent.is_none())?;
        if self.looked_at.is_some_and(|at| now.saturating_duration_since(at) < LOOK) {
            return None;
        }
        self.looked_at = Some(now);
        let (dir, host) = (watched_folder(share), node_name());
        // Who holds a lock is asked once: the kernel's list of all locks of the machine may be long, and a job too.
        self.is_read = self.is_read && sweep::is_held(&dir) || sweep::is_read(&dir);
        if self.is_read {
            if std::mem::replace(&mut self.is_told, true) {
                return None;
            }
            return other_daemon::note(&sweep::sends_to(&dir)?, &settings.arguments);
        }
        Some(match Agent::start(settings, &share.job, &dir, self.inherited) {
            Ok((agent, said)) => {
                let (room, frames) = (Arc::clone(room), frames.clone());
                self.streams.spawn(output::hand_on(said, (AGENT, Stream::Err), room, frames));
                let pid = agent.pid;
                self.agent = Some(agent);
                format!("{host}: no agent runs; one was started for this job (pid {pid})")
            }
            Err(error) => format!(
                "{host}: no agent runs, and none can be started for {}: {error}; the job is not seen there",
                dir.display()
            ),
        })
    }

    /// Ends it, and after it all that is left.
    pub(super) async fn end(&mut self) {
        if let Some(agent) = &self.agent {
            agent.end(Signal::TERM);
            let until = clock::monotonic() + ENDS_WITHIN;
            while !tree::descendants(&[]).is_empty() && clock::monotonic() < until {
                tokio::time::sleep(AGAIN).await;
                tree::reap();
            }
        }
        tree::kill_all(&[]).await;
        self.agent = None;
    }
}

/// An agent that was started here.
struct Agent {
    pid: u32,
    /// Goes with it.
    _state: StateFolder,
}

/// The folder that it watches: that of the job.
pub(super) fn watched_folder(share: &Share) -> PathBuf {
    let said = share.environment.iter().find(|(name, value)| name == "RINGSCOPE_DIR" && !value.is_empty());
    let said = said.map(|(_, value)| value.clone()).or_else(config::shared_dir);
    said.map_or_else(|| DEFAULT_DIR.into(), PathBuf::from)
}

impl Agent {
    /// Starts one, and gives what it says.
    fn start(
        settings: &AgentSettings,
        job: &str,
        dir: &Path,
        inherited: Inherited,
    ) -> io::Result<(Self, OwnedFd)> {
        shared_dir::create(dir)?;
        let state = StateFolder::create_in(&std::env::temp_dir())?;
        let (said, end) = io::pipe()?;
        let mut command = Command::new(OWN_PROGRAM);
        command.arg0("ringscope").arg("agent").args(&settings.arguments).arg("--dir").arg(dir);
        command.arg("--state-dir").arg(state.path());
        if let Some(token) = &settings.token {
            command.env("RINGSCOPE_TOKEN", token);
        }
        command.env_remove(config::SECRET);
        // Who finds it in `ps e` sees whose it is.
        command.env("RINGSCOPE_STARTED_BY", format!("launch of {job}")).env("RUST_LOG", LOGS);
        // With the lock: an agent that outlives the launch keeps its folder.
        command.stdin(state.lock()?).stdout(Stdio::null()).stderr(end).process_group(0);
        inherited.hand_on(&mut command);
        let pid = command.spawn()?.id();
        Ok((Self { pid, _state: state }, said.into()))
    }

    /// Tells it to end; it sends what it has before.
    fn end(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}
