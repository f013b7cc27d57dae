//! Ranks: processes on the hosts, started by `ringscope run`, which do what they are told line by line (see `rank.c`).

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::daemon::segments;
use super::network::{self, NICS};
use super::stage::{RANK, Stage};

/// What a job is to be.
#[derive(Debug)]
pub(crate) struct Spec<'a> {
    /// Job id.
    pub(crate) name: &'a str,
    /// Host of each rank.
    pub(crate) hosts: &'a [usize],
    /// Further settings of every rank.
    pub(crate) environment: &'a [(&'a str, &'a str)],
    /// How much the collector tells from the start.
    pub(crate) level: &'a str,
    /// Each rank has the one NIC of its place on its host, as a GPU has; else all of them.
    pub(crate) rails: bool,
}

/// Running ranks; killed when dropped.
#[derive(Debug)]
pub(crate) struct Job {
    name: String,
    ranks: Vec<Rank>,
}

#[derive(Debug)]
struct Rank {
    process: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
    log: PathBuf,
    engine_log: PathBuf,
}

impl Job {
    /// Starts every rank, without a communicator.
    pub(crate) fn start(stage: &Stage, spec: &Spec<'_>) -> Result<Self> {
        let command = |(rank, host): (usize, usize)| {
            let mut command = stage.network.command_on(host, &stage.programs.join("ringscope"));
            command.args(["run", "--job", spec.name, "--level", spec.level, "--dir"]).arg(segments(host));
            command.arg("--cache-dir").arg(stage.folder.join("libraries"));
            command.arg("--").arg(stage.programs.join(RANK));
            command.envs(environment(spec, rank)).envs(spec.environment.iter().copied());
            command
        };
        Self::of(spec.name, &stage.folder, spec.hosts.iter().copied().enumerate().map(command))
    }

    /// Starts one process for each command, with logs in `folder`.
    pub(crate) fn of(name: &str, folder: &Path, commands: impl Iterator<Item = Command>) -> Result<Self> {
        let mut job = Self { name: name.to_owned(), ranks: Vec::new() };
        for (rank, mut command) in commands.enumerate() {
            let log = folder.join(format!("{name}-rank-{rank}.log"));
            let engine_log = folder.join(format!("{name}-rank-{rank}.nccl.log"));
            command.envs(ENGINE_LOG).env("NCCL_DEBUG_FILE", &engine_log);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.stderr(File::create(&log).with_context(|| format!("cannot make {}", log.display()))?);
            let mut process = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
            let commands = process.stdin.take().context("a rank has a stdin")?;
            let answers = answers(process.stdout.take().context("a rank has a stdout")?);
            job.ranks.push(Rank { process, commands, answers, log, engine_log });
        }
        Ok(job)
    }

    /// Job id.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Number of ranks.
    pub(crate) fn n_ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Where the engine writes its log, by rank.
    pub(crate) fn engine_logs(&self) -> Vec<PathBuf> {
        self.ranks.iter().map(|rank| rank.engine_log.clone()).collect()
    }

    /// Makes a communicator of all ranks.
    pub(crate) fn form(&mut self, communicator: &str) -> Result<()> {
        let id = self.ask(0, "id")?;
        let n_ranks = self.n_ranks();
        self.ask_each(|rank| format!("init {id} {n_ranks} {rank} {communicator}")).map(drop)
    }

    /// Tells every rank the same, then waits for their answers, by rank.
    pub(crate) fn ask_all(&mut self, command: &str) -> Result<Vec<String>> {
        self.ask_each(|_| command.to_owned())
    }

    /// Tells each rank something, then waits for their answers, by rank.
    pub(crate) fn ask_each(&mut self, command: impl Fn(usize) -> String) -> Result<Vec<String>> {
        for rank in 0..self.n_ranks() {
            self.tell(rank, &command(rank))?;
        }
        (0..self.n_ranks()).map(|rank| self.answer(rank, PATIENCE)).collect()
    }

    /// One rank's answer.
    pub(crate) fn ask(&mut self, rank: usize, command: &str) -> Result<String> {
        self.tell(rank, command)?;
        self.answer(rank, PATIENCE)
    }

    /// Tells a rank something; [`Self::answer`] waits for what it says.
    pub(crate) fn tell(&mut self, rank: usize, command: &str) -> Result<()> {
        let told = &mut self.ranks[rank].commands;
        writeln!(told, "{command}").with_context(|| format!("{} rank {rank}: {command}", self.name))
    }

    /// What follows `ok` in the answer to the last command.
    pub(crate) fn answer(&mut self, rank: usize, patience: Duration) -> Result<String> {
        let of = &mut self.ranks[rank];
        let Ok(answer) = of.answers.recv_timeout(patience) else {
            let status = of.process.try_wait()?;
            bail!("{} rank {rank} does not answer ({status:?}): see {}", self.name, of.log.display());
        };
        let ok = answer.strip_prefix("ok").map(|rest| rest.trim().to_owned());
        ok.with_context(|| format!("{} rank {rank}: {answer}", self.name))
    }

    /// Kills a rank with SIGKILL.
    pub(crate) fn kill(&mut self, rank: usize) -> Result<()> {
        let process = &mut self.ranks[rank].process;
        process.kill().with_context(|| format!("{} rank {rank}", self.name))?;
        process.wait().map(drop).with_context(|| format!("{} rank {rank}", self.name))
    }

    /// Ends every rank, by the end of what it is told.
    pub(crate) fn finish(mut self) -> Result<()> {
        for rank in std::mem::take(&mut self.ranks) {
            let Rank { mut process, commands, log, .. } = rank;
            drop(commands);
            let status = process.wait()?;
            if !status.success() {
                bail!("{}: a rank ended with {status}: see {}", self.name, log.display());
            }
        }
        Ok(())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for rank in &mut self.ranks {
            let _ = rank.process.kill();
            let _ = rank.process.wait();
        }
    }
}

/// What a launcher tells a rank.
fn environment(spec: &Spec<'_>, rank: usize) -> Vec<(&'static str, String)> {
    let host = spec.hosts[rank];
    let on_host = |ranks: &[usize]| ranks.iter().filter(|other| **other == host).count();
    let place = on_host(&spec.hosts[..rank]);
    let own = if spec.rails { place..place + 1 } else { 0..NICS };
    let nics = own.map(|index| format!("{}={}", network::nic(index), network::address(host, index)));
    vec![
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", spec.hosts.len().to_string()),
        ("LOCAL_RANK", place.to_string()),
        ("LOCAL_WORLD_SIZE", on_host(spec.hosts).to_string()),
        ("RSCCL_NICS", nics.collect::<Vec<_>>().join(",")),
    ]
}

/// The lines that a rank writes. It answers one command at a time.
fn answers(stdout: std::process::ChildStdout) -> Receiver<String> {
    let (sender, receiver) = sync_channel(MAX_ANSWERS);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// What the engine's log is to say: of communicators, and of connections.
const ENGINE_LOG: [(&str, &str); 2] = [("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,NET")];
/// Answers that wait to be read.
const MAX_ANSWERS: usize = 16;
/// How long an answer may take: more than the engine's own patience with a silent peer.
const PATIENCE: Duration = Duration::from_secs(60);
