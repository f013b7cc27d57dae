//! ringscope itself: a daemon beside the switch, an agent on each host, and what the API says.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::network::{self, Network, host_name};
use crate::clock::eventually;
use crate::http;

/// The daemon and the agents; killed when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    processes: Vec<Child>,
}

impl Daemon {
    /// Starts all, and waits until the daemon answers.
    ///
    /// `sysfs`: the folder that holds what agents read of each host's NICs, by its name; else they read the machine's own.
    pub(crate) fn start(
        programs: &Path,
        folder: &Path,
        network: &Network,
        n_hosts: usize,
        sysfs: Option<&Path>,
    ) -> Result<Self> {
        let ringscope = programs.join("ringscope");
        let mut daemon = Self { processes: Vec::new() };
        let mut serve = Command::new(&ringscope);
        serve.args(["serve", "--with-agent", "false", "--listen", &address()]);
        // Only the rig reaches that address.
        serve.arg("--insecure-open");
        serve.arg("--data-dir").arg(folder.join("data"));
        daemon.spawn(serve, &folder.join("serve.log"))?;
        eventually("ringscope serve ready", PATIENCE, || Ok(get("/readyz").ok()))?;
        for host in 0..n_hosts {
            let mut agent = network.command_on(host, &ringscope);
            agent.args(["agent", "--daemon", &format!("http://{}", address())]);
            agent.args([
                "--interval",
                AGENT_INTERVAL,
                "--hardware-interval",
                HARDWARE_INTERVAL,
                "--allow-other-hosts",
            ]);
            agent.arg("--dir").arg(segments(host)).arg("--state-dir").arg(folder.join(host_name(host)));
            if let Some(sysfs) = sysfs {
                agent.arg("--sysfs").arg(sysfs.join(host_name(host)));
            }
            daemon.spawn(agent, &folder.join(format!("agent-{host}.log")))?;
        }
        Ok(daemon)
    }

    fn spawn(&mut self, mut command: Command, log: &Path) -> Result<()> {
        let file = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        self.processes.push(command.spawn().with_context(|| format!("cannot start {command:?}"))?);
        Ok(())
    }

    /// What a route of the API answers.
    pub(crate) fn json(&self, path: &str) -> Result<Value> {
        let body = get(path)?;
        serde_json::from_str(&body).with_context(|| format!("{path}: {body}"))
    }

    /// The `items` of a route that lists.
    pub(crate) fn items(&self, path: &str) -> Result<Vec<Value>> {
        let Value::Array(items) = self.json(path)?["items"].take() else { bail!("{path}: no items") };
        Ok(items)
    }

    /// Id of the communicator of this name, once the daemon shows it with all its ranks and channels.
    pub(crate) fn communicator(&self, name: &str, n_ranks: usize) -> Result<String> {
        eventually(&format!("communicator {name} with {n_ranks} ranks shown"), PATIENCE, || {
            let known = self.items("/api/v1/communicators?limit=1000")?;
            let known = known.into_iter().find(|one| one["name"] == name && one["n_ranks_seen"] == n_ranks);
            Ok(known
                .filter(|one| !one["final_channels"].is_null())
                .and_then(|one| one["id"].as_str().map(str::to_owned)))
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Nothing that they keep is wanted: what is not ended here ends with the namespaces.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Folder of a host's segments: hosts share the mount, so each has one of its own.
pub(crate) fn segments(host: usize) -> PathBuf {
    Path::new("/dev/shm").join(host_name(host))
}

fn get(path: &str) -> Result<String> {
    http::get(&address(), path, PATIENCE)
}

fn address() -> String {
    format!("{}:9440", network::DAEMON)
}

/// How long what must happen may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often an agent reads its host's processes.
const AGENT_INTERVAL: &str = "100ms";
/// How often an agent reads its host's NICs.
const HARDWARE_INTERVAL: &str = "500ms";
