//! The daemon under test, in a process and a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ringscope_api::{Finding, Incident, JobLevel};
use ringscope_daemon::client::Client;

use crate::sending;

pub(crate) struct Daemon {
    child: Child,
    dir: PathBuf,
    segment_dir: PathBuf,
    pub(crate) url: String,
    client: Client,
}

impl Daemon {
    /// Starts one and waits until it answers; with its own agent or without.
    pub(crate) async fn start(ringscope: &Path, with_agent: bool) -> Result<Self, String> {
        let words = |error: std::io::Error| format!("{}: {error}", ringscope.display());
        let name = format!("ringscope-faults-{}", std::process::id());
        let (dir, segment_dir) = (std::env::temp_dir().join(&name), Path::new("/dev/shm").join(&name));
        for dir in [&dir, &segment_dir] {
            std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        let port = free_port().map_err(words)?;
        let log = std::fs::File::create(dir.join("serve.log")).map_err(words)?;
        let child = Command::new(ringscope)
            .arg("serve")
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .args(["--with-agent", if with_agent { "true" } else { "false" }])
            .args(["--agent-other-hosts", "true"])
            .arg("--data-dir")
            .arg(dir.join("data"))
            .arg("--agent-dir")
            .arg(&segment_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(words)?;
        let url = format!("http://127.0.0.1:{port}");
        let daemon = Self { child, dir, segment_dir, client: Client::new(&url), url };
        sending::Daemon::new(&daemon.url).until_ready().await?;
        Ok(daemon)
    }

    /// Folder of segments and logs.
    pub(crate) fn segment_dir(&self) -> &Path {
        &self.segment_dir
    }

    /// A folder for what else a trial needs.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The open incidents of a job.
    pub(crate) async fn incidents(&self, job: &str) -> Result<Vec<Incident>, String> {
        let path = format!("incidents?state=firing&job={job}");
        self.client.list(&path).await.map_err(|error| self.with_log(&error))
    }

    /// The findings of a job that fire.
    pub(crate) async fn firing(&self, job: &str) -> Result<Vec<Finding>, String> {
        let path = format!("findings?state=firing&job={job}");
        self.client.list(&path).await.map_err(|error| self.with_log(&error))
    }

    /// What the processes of a job are asked for.
    pub(crate) async fn level(&self, job: &str) -> Result<JobLevel, String> {
        self.client.level(job).await.map_err(|error| self.with_log(&error))
    }

    /// An error, and what the daemon said last.
    fn with_log(&self, error: &impl ToString) -> String {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let log = std::fs::read_to_string(self.dir.join("serve.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
        format!("{}\nthe daemon's process: {state}\nthe end of its log:\n  {last}", error.to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.segment_dir);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Lines of the daemon's log that are shown with an error.
const LOG_LINES: usize = 20;

fn free_port() -> std::io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
