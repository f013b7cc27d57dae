//! A job of the demo: real processes, one a rank, started through `ringscope run` as a user would start them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::host::PretendedHost;
use super::worker::{EPOCH_FILE, STOP, WorkerError, WorkerLog, write_whole};

/// What a job is to be.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// Job id.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<PretendedHost>,
    /// Ranks on each host.
    pub ranks_per_host: usize,
    /// Further settings of every rank, e.g. `RSCCL_MIN_NCHANNELS`.
    pub environment: Vec<(&'static str, String)>,
    /// Milliseconds that a step computes.
    pub step_ms: u64,
}

/// Where things are that every job needs.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The `ringscope` executable.
    pub ringscope: PathBuf,
    /// `librsccl.so`.
    pub engine: PathBuf,
    /// Folder for segments and logs.
    pub segment_dir: PathBuf,
    /// Folder to unpack the collector into.
    pub cache_dir: PathBuf,
    /// The version of NCCL that the engine behaves as, or `off`: its `RSCCL_FAITHFUL`.
    pub faithful: String,
}

/// A running job. Its processes are killed when it is dropped.
#[derive(Debug)]
pub struct Job {
    /// Job id.
    pub name: String,
    dir: PathBuf,
    /// The ranks' processes, by rank.
    pub ranks: Vec<Child>,
}

impl Job {
    /// Starts every rank; the job is then in epoch 0.
    ///
    /// # Errors
    /// Those of starting a process and of writing the job's folder.
    pub fn start(spec: &JobSpec, installation: &Installation, dir: &Path) -> io::Result<Self> {
        let dir = dir.join(&spec.name);
        fs::create_dir_all(&dir)?;
        let mut job = Self { name: spec.name.clone(), dir, ranks: Vec::new() };
        job.enter_epoch(0)?;
        let n_ranks = spec.hosts.len() * spec.ranks_per_host;
        for rank in 0..n_ranks {
            let log = fs::File::create(job.dir.join(format!("rank-{rank}.stderr")))?;
            let mut command = Command::new(&installation.ringscope);
            command
                .args(arguments(spec, installation, &job.dir))
                .env("RANK", rank.to_string())
                .env("WORLD_SIZE", n_ranks.to_string())
                .env("LOCAL_RANK", (rank % spec.ranks_per_host).to_string())
                .env("LOCAL_WORLD_SIZE", spec.ranks_per_host.to_string())
                .env("RSCCL_CONNECTION_LOG", job.connection_log(rank))
                .env("RSCCL_FAITHFUL", &installation.faithful)
                // The page shows bytes per link, which only this level counts.
                .env("RINGSCOPE_LEVEL", "steps")
                .envs(spec.hosts[rank / spec.ranks_per_host].environment())
                .envs(spec.environment.iter().cloned())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .kill_on_drop(true);
            job.ranks.push(command.spawn()?);
        }
        Ok(job)
    }

    /// Asks the ranks to re-form their communicators.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn enter_epoch(&self, epoch: i32) -> io::Result<()> {
        write_whole(&self.dir.join(EPOCH_FILE), epoch.to_string().as_bytes()).map_err(|error| match error {
            WorkerError::File { source, .. } => source,
            other => io::Error::other(other),
        })
    }

    /// Asks the ranks to finish, and waits until they have.
    ///
    /// # Errors
    /// A text that says which rank failed and how, or that they did not finish in time.
    pub async fn stop(&mut self, patience: Duration) -> Result<(), String> {
        self.enter_epoch(STOP).map_err(|error| error.to_string())?;
        let name = self.name.clone();
        tokio::time::timeout(patience, self.wait())
            .await
            .map_err(|_| format!("{name}: its ranks did not finish within {} s", patience.as_secs()))?
    }

    async fn wait(&mut self) -> Result<(), String> {
        for (rank, process) in self.ranks.iter_mut().enumerate() {
            let status = process.wait().await.map_err(|error| error.to_string())?;
            if !status.success() {
                let log = self.dir.join(format!("rank-{rank}.stderr"));
                let words = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("{}: rank {rank} ended with {status}: {}", self.name, words.trim()));
            }
        }
        Ok(())
    }

    /// Ranks that have ended with an error while they should run.
    ///
    /// # Errors
    /// A text that names the first such rank.
    pub fn check(&mut self) -> Result<(), String> {
        for (rank, process) in self.ranks.iter_mut().enumerate() {
            if let Ok(Some(status)) = process.try_wait() {
                let log = self.dir.join(format!("rank-{rank}.stderr"));
                let words = fs::read_to_string(log).unwrap_or_default();
                return Err(format!("{}: rank {rank} ended with {status}: {}", self.name, words.trim()));
            }
        }
        Ok(())
    }

    /// What each rank says that it did, by rank.
    ///
    /// # Errors
    /// Those of reading the logs.
    pub fn logs(&self) -> io::Result<Vec<WorkerLog>> {
        (0..self.ranks.len())
            .map(|rank| {
                let bytes = fs::read(self.dir.join(format!("rank-{rank}.json")))?;
                serde_json::from_slice(&bytes).map_err(io::Error::other)
            })
            .collect()
    }

    /// File into which a rank's engine writes the connections it makes.
    #[must_use]
    pub fn connection_log(&self, rank: usize) -> PathBuf {
        self.dir.join(format!("rank-{rank}.connections"))
    }
}

/// `ringscope run … -- ringscope demo-worker …`.
fn arguments(spec: &JobSpec, installation: &Installation, job_dir: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    for (option, value) in [("--job", Path::new(&spec.name)), ("--dir", &installation.segment_dir)] {
        arguments.extend([option.into(), value.into()]);
    }
    arguments.extend(["--cache-dir".into(), installation.cache_dir.clone().into(), "--".into()]);
    arguments.extend([installation.ringscope.clone().into(), "demo-worker".into()]);
    for (option, value) in [("--library", installation.engine.as_path()), ("--job-dir", job_dir)] {
        arguments.extend([option.into(), value.into()]);
    }
    arguments.extend(["--step-ms".into(), spec.step_ms.to_string().into()]);
    arguments.insert(0, "run".into());
    arguments
}
