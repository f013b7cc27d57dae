//! Processes of a summation group, one on each host: the example `summing`, which obeys JSON objects.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::job::Job;
use super::super::network::{Network, address, nic};
use super::super::stage::{RANK, SUMMING};
use super::theory::{Shape, as_f64, median};
use crate::process::{say, target_dir};

/// Hosts without ringscope.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) programs: PathBuf,
    pub(super) network: Network,
    folder: PathBuf,
}

impl Ground {
    /// So many hosts behind links of this rate.
    pub(super) fn lay(programs: &Path, name: &str, n_hosts: usize, rate_mbit: u32) -> Result<Self> {
        let folder = target_dir().join("rig").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let network = Network::build(n_hosts, rate_mbit)?;
        say(&format!("{name}: {n_hosts} hosts at {rate_mbit} Mbit/s; logs in {}", folder.display()));
        Ok(Self { programs: programs.to_owned(), network, folder })
    }

    /// Takes the hosts away.
    pub(super) fn clear(self) -> Result<()> {
        self.network.clear()
    }

    /// Processes of the summation service, one on each of the first hosts.
    pub(super) fn group(&self, name: &str, n_processes: usize) -> Result<Group> {
        let job = self.job(name, SUMMING, n_processes, &[])?;
        Ok(Group { job, shape: Shape::of(n_processes, 0) })
    }

    /// Ranks of the collective engine, one on each of the first hosts, with a communicator.
    pub(super) fn ranks(&self, name: &str, n_ranks: usize) -> Result<Job> {
        let mut job = self.job(name, RANK, n_ranks, &[("RSCCL_ALGO", "ring"), RING_BUFFER])?;
        job.form(name)?;
        Ok(job)
    }

    fn job(&self, name: &str, program: &str, n: usize, environment: &[(&str, &str)]) -> Result<Job> {
        let folder = if program == SUMMING { self.programs.join("examples") } else { self.programs.clone() };
        let command = |host: usize| {
            let mut command = self.network.command_on(host, &folder.join(program));
            command.env("RSCCL_NICS", format!("{}={}", nic(0), address(host, 0)));
            command.envs(environment.iter().copied());
            command
        };
        Job::of(name, &self.folder, (0..n).map(command))
    }
}

/// How a group is set up.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) strategy: &'static str,
    pub(super) partition_bytes: u64,
    /// Floats of each tensor.
    pub(super) elements: Vec<u64>,
    /// Further members of the command.
    pub(super) more: Value,
}

impl Plan {
    /// The service's own placement of one tensor.
    pub(super) fn of(model_bytes: u64, partition_bytes: u64) -> Self {
        Self::by("greedy", model_bytes, partition_bytes)
    }

    /// Another placement of one tensor.
    pub(super) fn by(strategy: &'static str, model_bytes: u64, partition_bytes: u64) -> Self {
        Self { strategy, partition_bytes, elements: vec![model_bytes / 4], more: json!({}) }
    }

    /// With these members in the command.
    pub(super) fn with(mut self, more: Value) -> Self {
        self.more = more;
        self
    }
}

/// Processes on hosts, workers before servers.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) job: Job,
    shape: Shape,
}

/// A round, as all workers saw it.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// From when the first worker began.
    pub(super) seconds: f64,
    /// The same until all workers had each tensor.
    pub(super) tensor_seconds: Vec<f64>,
    /// By worker.
    pub(super) fingerprints: Vec<u64>,
}

impl Group {
    /// Lets the first n + k processes be a group. What each predicts of itself, for one round.
    pub(super) fn join(&mut self, shape: Shape, plan: &Plan) -> Result<Vec<Value>> {
        self.shape = shape;
        let id = self.ask_one(0, &json!({ "do": "id", "address": address(0, 0) }))?;
        let Shape { n, k } = shape;
        let command = |rank: usize| {
            let mut command = json!({
                "do": "join",
                "id": id["id"],
                "n_workers": n,
                "n_servers": k,
                "rank": rank,
                "partition_bytes": plan.partition_bytes,
                "strategy": plan.strategy,
                "elements": plan.elements,
            });
            if let (Some(command), Some(more)) = (command.as_object_mut(), plan.more.as_object()) {
                command.extend(more.clone());
            }
            command
        };
        self.ask(0..n + k, command)
    }

    /// Tells all processes of the group to leave it. What each says of its traffic.
    pub(super) fn leave(&mut self) -> Result<Vec<Value>> {
        self.ask(0..self.shape.n_hosts(), |_| json!({ "do": "leave" }))
    }

    /// Tells all workers the same.
    pub(super) fn ask_workers(&mut self, command: &Value) -> Result<Vec<Value>> {
        self.ask(0..self.shape.n, |_| command.clone())
    }

    /// Rounds of all tensors, as the command says.
    pub(super) fn rounds(&mut self, mut command: Value) -> Result<Vec<Round>> {
        command["do"] = json!("rounds");
        let answers = self.ask_workers(&command)?;
        let n_rounds = answers[0]["rounds"].as_array().context("rounds")?.len();
        let wrong: u64 = answers.iter().filter_map(|answer| answer["wrong"].as_u64()).sum();
        anyhow::ensure!(wrong == 0, "{wrong} sums were wrong");
        (0..n_rounds).map(|round| Round::of(&answers, round).context("a round")).collect()
    }

    /// Asks these processes, each its own, and waits for all.
    pub(super) fn ask(
        &mut self,
        ranks: std::ops::Range<usize>,
        command: impl Fn(usize) -> Value,
    ) -> Result<Vec<Value>> {
        for rank in ranks.clone() {
            self.job.tell(rank, &command(rank).to_string())?;
        }
        ranks.map(|rank| self.answer(rank)).collect()
    }

    /// Asks one.
    pub(super) fn ask_one(&mut self, rank: usize, command: &Value) -> Result<Value> {
        self.job.tell(rank, &command.to_string())?;
        self.answer(rank)
    }

    /// What a process says to what it was told.
    pub(super) fn answer(&mut self, rank: usize) -> Result<Value> {
        let answer = self.job.answer(rank, PATIENCE)?;
        serde_json::from_str(&answer).with_context(|| format!("rank {rank}: {answer}"))
    }
}

impl Round {
    fn of(answers: &[Value], round: usize) -> Option<Self> {
        let of: Vec<&Value> = answers.iter().map(|answer| &answer["rounds"][round]).collect();
        let start_ns = of.iter().map(|round| round["start_ns"].as_u64()).min()??;
        let n_tensors = of.first()?["end_ns"].as_array()?.len();
        let seconds = |tensor: usize| {
            let end_ns = of.iter().map(|round| round["end_ns"][tensor].as_u64()).max()??;
            Some(as_f64(end_ns.saturating_sub(start_ns)) / 1e9)
        };
        let tensor_seconds = (0..n_tensors).map(seconds).collect::<Option<Vec<f64>>>()?;
        Some(Self {
            seconds: tensor_seconds.iter().copied().fold(0.0, f64::max),
            tensor_seconds,
            fingerprints: of.iter().map(|round| round["fingerprint"].as_u64()).collect::<Option<_>>()?,
        })
    }
}

/// What one process says to one command, without a network.
pub(super) fn alone(programs: &Path, command: &Value) -> Result<Value> {
    let program = programs.join("examples").join(SUMMING);
    let folder = target_dir().join("rig").join("alone");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let job = Job::of("alone", &folder, std::iter::once(Command::new(program)))?;
    let mut group = Group { job, shape: Shape::of(1, 0) };
    let answer = group.ask_one(0, command)?;
    group.job.finish()?;
    Ok(answer)
}

/// The middle one of the rounds' times.
pub(super) fn median_seconds(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|round| round.seconds).collect())
}

/// Small beside what a link of 100 Mbit/s carries in 10 ms, so that what is on its way to a service with a small share is
/// several parts; large beside a message's cost.
pub(super) const PARTITION_BYTES: u64 = 16_000;

/// The service's own settings, for links of this rate, with barriers before rounds.
pub(super) fn told(rate_mbit: u32) -> Value {
    json!({ "barrier": true, "nic_mbit": rate_mbit })
}

/// Steps of 64 KiB, 5 ms at 100 Mbit/s: with those of 512 KiB, the ring's ranks wait for first steps for 7 % of its time.
const RING_BUFFER: (&str, &str) = ("RSCCL_BUFFSIZE", "524288");
/// How long an answer may take: an experiment's longest rounds on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(300);
