//! Groups of processes that push and pull a model's gradients when they are told.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rsccl::summation::bench::{Place, Rank as Member, meet};
use rsccl::summation::placement::models;
use rsccl::summation::tensor::{DataType, Declaration, Declarations};

/// As in the example `digits`.
pub(crate) const WORKERS: usize = 4;
pub(crate) const SERVERS: usize = 2;
/// Bytes of a part at most: BytePS's.
pub(crate) const PARTITION_BYTES: u64 = 4_096_000;
/// Sums grow by the number of workers in each round: before they overflow, the gradient begins anew.
const ROUNDS_BEFORE_REFILL: usize = 40;

/// Whose gradients.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Model {
    /// Of `examples/digits/train.py`, whose processes share memory
    Digits,
    /// Of torchvision's resnet50; sockets only, as between machines
    Resnet50,
}

/// A rank of a group, which this program starts itself.
#[derive(Args, Debug)]
pub(crate) struct StepRank {
    #[arg(long)]
    meeting: String,
    #[arg(long)]
    rank: usize,
    #[arg(long)]
    model: Model,
}

impl Model {
    pub(crate) const ALL: [Self; 2] = [Self::Digits, Self::Resnet50];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Digits => "digits",
            Self::Resnet50 => "resnet50",
        }
    }

    pub(crate) fn tensors(self) -> Vec<Declaration> {
        let digits = || {
            let layers = [(0, 64, 256), (2, 256, 128), (4, 128, 10)];
            layers.into_iter().flat_map(|(layer, inputs, outputs)| {
                [("weight", inputs * outputs), ("bias", outputs)].map(|(what, elements)| Declaration {
                    name: format!("gradient.{layer}.{what}"),
                    elements,
                    data_type: DataType::F32,
                })
            })
        };
        match self {
            Self::Digits => digits().collect(),
            Self::Resnet50 => models::Model::ResNet50.tensors(),
        }
    }

    pub(crate) fn declarations(self) -> Result<Declarations, String> {
        Declarations::of(PARTITION_BYTES, self.tensors()).map_err(|error| error.to_string())
    }

    /// Each rank on a host of its own, if it is a model for many machines.
    fn place(self, command: &mut Command, rank: usize) {
        command.env("RSCCL_NICS", "lo=127.0.0.1").env("NCCL_PROFILER_PLUGIN", "none");
        if let Self::Resnet50 = self {
            command.env("RSCCL_SHM_DISABLE", "1").env("RSCCL_HOST", format!("host-{rank}"));
        }
    }
}

/// Processes that make steps when they are told.
pub(crate) struct Group {
    workers: Vec<(Child, Option<ChildStdin>, BufReader<ChildStdout>)>,
    servers: Vec<Child>,
}

impl Group {
    pub(crate) fn start(model: Model, watcher: Option<(&Path, &Path)>) -> Result<Self, String> {
        let meeting = meet()?;
        let spawn = |rank: usize| {
            let mut command = this_program()?;
            command.args(["step-rank", "--meeting", &meeting, "--rank", &rank.to_string()]);
            model.place(command.args(["--model", model.name()]), rank);
            if let Some((library, folder)) = watcher {
                command.env("RSUM_OBSERVER", library).env("RINGSCOPE_DIR", folder);
            }
            let mut child = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())?;
            let words = BufReader::new(child.stdout.take().ok_or("a rank has no output")?);
            let orders = child.stdin.take();
            Ok((child, orders, words))
        };
        let workers = (0..WORKERS).map(spawn).collect::<Result<Vec<_>, String>>()?;
        let servers = (WORKERS..WORKERS + SERVERS).map(|rank| Ok(spawn(rank)?.0));
        let mut group = Self { workers, servers: servers.collect::<Result<_, String>>()? };
        group.words()?;
        Ok(group)
    }

    /// Seconds of the slowest worker.
    pub(crate) fn step(&mut self) -> Result<f64, String> {
        for (_, orders, _) in &mut self.workers {
            let orders = orders.as_mut().ok_or("a rank takes no orders")?;
            orders.write_all(b"\n").map_err(|error| error.to_string())?;
        }
        self.words()
    }

    /// Processor time of all members so far.
    pub(crate) fn core_ns(&self) -> Result<u64, String> {
        let workers = self.workers.iter().map(|(child, ..)| child);
        workers.chain(&self.servers).map(|child| core_ns(child.id())).sum()
    }

    fn words(&mut self) -> Result<f64, String> {
        let word = |words: &mut BufReader<ChildStdout>| {
            let mut line = String::new();
            words.read_line(&mut line).map_err(|error| error.to_string())?;
            line.trim().parse::<f64>().map_err(|_| format!("a rank said {line:?}"))
        };
        self.workers.iter_mut().try_fold(0.0, |most: f64, (_, _, words)| Ok(most.max(word(words)?)))
    }

    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.workers.iter_mut().for_each(|(_, orders, _)| *orders = None);
        let workers = self.workers.iter_mut().map(|(child, ..)| child);
        for child in workers.chain(&mut self.servers) {
            let status = child.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("a rank ended with {status}"));
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let workers = self.workers.iter_mut().map(|(child, ..)| child);
        for child in workers.chain(&mut self.servers) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl StepRank {
    /// Says 0 when it has started, and then, for each line, the seconds of a step.
    pub(crate) fn run(&self) -> Result<(), String> {
        let tensors = self.model.tensors();
        let member = Member::join(Place {
            meeting: &self.meeting,
            n_workers: WORKERS,
            n_servers: SERVERS,
            rank: self.rank,
            partition_bytes: PARTITION_BYTES,
            tensors: &tensors,
            codec: None,
            frame_bytes: None,
        })?;
        if self.rank < WORKERS {
            let n_bytes = usize::try_from(self.model.declarations()?.total_bytes()).unwrap_or(0);
            let mut gradient = vec![0x38; n_bytes];
            println!("0");
            for (round, line) in (1..).zip(std::io::stdin().lines()) {
                line.map_err(|error| error.to_string())?;
                let start = Instant::now();
                member.push_pull(&mut gradient)?;
                println!("{}", start.elapsed().as_secs_f64());
                if usize::is_multiple_of(round, ROUNDS_BEFORE_REFILL) {
                    gradient.fill(0x38);
                }
            }
        }
        member.leave()
    }
}

/// Processor time of all threads of a process.
fn core_ns(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
    let of = |path: PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    Ok(threads.filter_map(Result::ok).filter_map(|thread| of(thread.path())).sum())
}

pub(crate) fn this_program() -> Result<Command, String> {
    std::env::current_exe().map(Command::new).map_err(|error| error.to_string())
}
