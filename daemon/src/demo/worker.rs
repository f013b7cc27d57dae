//! One rank of the demo's job: a real process that trains in a loop.
//!
//! It knows nothing of ringscope. It calls the collective library as a training framework does, checks every result,
//! and keeps a log of its own of what it called, to which the demo's test compares what ringscope shows.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ringscope_api::clock;
use serde::{Deserialize, Serialize};

use super::nccl::{Communicator, Nccl, NcclError, Reduction, UniqueId};

/// Arguments of the hidden `ringscope demo-worker`: what a launcher tells a rank.
#[derive(Clone, Debug, clap::Args)]
pub struct WorkerArgs {
    /// Path of librsccl.so
    #[arg(long)]
    library: PathBuf,
    /// Folder that the ranks of the job share
    #[arg(long)]
    job_dir: PathBuf,
    /// Rank in the job
    #[arg(long, env = "RANK")]
    rank: usize,
    /// Ranks in the job
    #[arg(long, env = "WORLD_SIZE")]
    world_size: usize,
    /// Ranks on each host
    #[arg(long, env = "LOCAL_WORLD_SIZE")]
    ranks_per_host: usize,
    /// Milliseconds that one step computes before it communicates
    #[arg(long, default_value_t = 100)]
    step_ms: u64,
}

/// Why a rank gave up.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The collective library said no.
    #[error(transparent)]
    Nccl(#[from] NcclError),
    /// A file of the job's folder cannot be used.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A result was wrong.
    #[error("rank {rank}: {what} gave {found}, not {expected}")]
    WrongResult {
        /// Which rank saw it.
        rank: usize,
        /// Which operation.
        what: &'static str,
        /// What came out.
        found: f32,
        /// What should have.
        expected: f32,
    },
    /// The other ranks did not come.
    #[error("no {path} after {waited_s} s: is rank 0 running?")]
    Rendezvous {
        /// The file that was waited for.
        path: PathBuf,
        /// How long.
        waited_s: u64,
    },
}

/// What one rank did, as it counted itself: communicator name → primitive → calls and bytes.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct WorkerLog {
    /// Rank in the job.
    pub rank: usize,
    /// Communicator name → primitive → what was called.
    pub communicators: BTreeMap<String, BTreeMap<String, Called>>,
    /// The error that ended the rank, if one did.
    pub error: Option<String>,
}

/// Calls of one primitive.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Called {
    /// How often.
    pub calls: u64,
    /// Payload bytes by NCCL's convention.
    pub bytes: u64,
}

/// What the parent writes into the job's `epoch` file: the epoch to be in, or [`STOP`].
pub(super) const EPOCH_FILE: &str = "epoch";
/// Epoch that ends the job.
pub(super) const STOP: i32 = i32::MAX;

/// Elements of the gradient buckets: even, uneven, and fewer than ranks × channels.
const BUCKETS: [usize; 4] = [262_144, 65_537, 4_099, 7];
/// Elements per rank of all_gather, reduce_scatter, broadcast and send.
const SHARD: usize = 8_191;
/// Elements that a rank sends each other one in an all-to-all.
const TOKENS: usize = 1_021;
/// How long a rank waits for the others to meet.
const RENDEZVOUS_S: u64 = 30;

/// Runs one rank until the job is told to stop.
///
/// # Errors
/// [`WorkerError`]; it stands in the rank's log too.
pub fn run(args: &WorkerArgs) -> Result<(), WorkerError> {
    let mut rank = Trainer { args: args.clone(), log: WorkerLog { rank: args.rank, ..WorkerLog::default() } };
    let result = Nccl::load(&args.library).map_err(WorkerError::from).and_then(|nccl| rank.train(&nccl));
    rank.log.error = result.as_ref().err().map(ToString::to_string);
    rank.write_log().and(result)
}

struct Trainer {
    args: WorkerArgs,
    log: WorkerLog,
}

/// The communicators of one epoch.
struct Communicators {
    epoch: i32,
    world: Communicator,
    data: Communicator,
    host: Communicator,
}

impl Trainer {
    fn train(&mut self, nccl: &Nccl) -> Result<(), WorkerError> {
        let mut epoch = 0;
        while epoch != STOP {
            let communicators = self.form(nccl, epoch)?;
            epoch = self.train_epoch(&communicators)?;
            communicators.data.destroy()?;
            communicators.host.destroy()?;
            communicators.world.destroy()?;
            self.write_log()?;
        }
        Ok(())
    }

    /// Makes the communicators of an epoch, as an elastic launcher's ranks do after a change.
    fn form(&mut self, nccl: &Nccl, epoch: i32) -> Result<Communicators, WorkerError> {
        let WorkerArgs { rank, world_size, ranks_per_host, .. } = self.args;
        let id = self.meet(nccl, epoch)?;
        let world = nccl.init(id, rank, world_size, &format!("world/{epoch}"))?;
        let (host, local_rank) = (rank / ranks_per_host, rank % ranks_per_host);
        let n_hosts = world_size / ranks_per_host;
        let data = world.split(local_rank, host, n_hosts, &format!("data-{local_rank}/{epoch}"))?;
        let host = world.split(host, local_rank, ranks_per_host, &format!("host-{host}/{epoch}"))?;
        Ok(Communicators { epoch, world, data, host })
    }

    /// Trains until all ranks agree on another epoch, and returns it.
    fn train_epoch(&mut self, communicators: &Communicators) -> Result<i32, WorkerError> {
        loop {
            thread::sleep(Duration::from_millis(self.args.step_ms)); // the computing between communications
            let wanted = [self.wanted_epoch()?];
            let mut agreed = [0];
            communicators.world.all_reduce(&wanted, &mut agreed, Reduction::Max)?;
            self.count("world", communicators, "all_reduce", 4);
            if agreed[0] > communicators.epoch {
                return Ok(agreed[0]);
            }
            self.step(communicators)?;
        }
    }

    fn step(&mut self, communicators: &Communicators) -> Result<(), WorkerError> {
        for elements in BUCKETS {
            self.reduce_gradients("world", &communicators.world, communicators, elements)?;
        }
        let data = format!("data-{}", self.args.rank % self.args.ranks_per_host);
        self.reduce_gradients(&data, &communicators.data, communicators, BUCKETS[1])?;
        let host = format!("host-{}", self.args.rank / self.args.ranks_per_host);
        self.reduce_gradients(&host, &communicators.host, communicators, BUCKETS[2])?;
        self.shard_parameters(communicators)?;
        self.exchange_tokens(communicators)?;
        self.pass_activations(communicators)
    }

    /// All-reduce of one gradient bucket.
    fn reduce_gradients(
        &mut self,
        name: &str,
        comm: &Communicator,
        communicators: &Communicators,
        elements: usize,
    ) -> Result<(), WorkerError> {
        let gradients = vec![as_f32(comm.rank + 1); elements];
        let mut sums = vec![0.0; elements];
        comm.all_reduce(&gradients, &mut sums, Reduction::Sum)?;
        self.count(name, communicators, "all_reduce", elements * 4);
        self.expect_all("all_reduce", &sums, as_f32(comm.n_ranks * (comm.n_ranks + 1) / 2))
    }

    /// Reduce-scatter of gradients, all-gather of parameters, broadcast of a small state: one sharded optimizer step.
    fn shard_parameters(&mut self, communicators: &Communicators) -> Result<(), WorkerError> {
        let world = &communicators.world;
        let gradients = vec![1.0; SHARD * world.n_ranks];
        let mut shard = vec![0.0; SHARD];
        world.reduce_scatter(&gradients, &mut shard)?;
        self.count("world", communicators, "reduce_scatter", SHARD * 4);
        self.expect_all("reduce_scatter", &shard, as_f32(world.n_ranks))?;

        let parameters = vec![as_f32(world.rank); SHARD];
        let mut all = vec![0.0; SHARD * world.n_ranks];
        world.all_gather(&parameters, &mut all)?;
        self.count("world", communicators, "all_gather", SHARD * 4);
        for (rank, part) in all.chunks(SHARD).enumerate() {
            self.expect_all("all_gather", part, as_f32(rank))?;
        }

        let mut state = vec![as_f32(world.rank + 42); SHARD];
        world.broadcast(&mut state, 0)?;
        self.count("world", communicators, "broadcast", SHARD * 4);
        self.expect_all("broadcast", &state, 42.0)
    }

    /// All-to-all of tokens between experts, their counts gathered at rank 0, and their new places scattered from there.
    fn exchange_tokens(&mut self, communicators: &Communicators) -> Result<(), WorkerError> {
        let world = &communicators.world;
        let n_ranks = world.n_ranks;
        let tokens: Vec<f32> = (0..n_ranks).flat_map(|rank| [as_f32(rank); TOKENS]).collect();
        let mut received = vec![0.0; TOKENS * n_ranks];
        world.all_to_all(&tokens, &mut received)?;
        self.count("world", communicators, "all_to_all", TOKENS * 4);
        self.expect_all("all_to_all", &received, as_f32(world.rank))?;

        let mut counts = vec![0.0; n_ranks];
        world.gather(&[as_f32(TOKENS)], &mut counts, 0)?;
        self.count("world", communicators, "gather", 4);
        if world.rank == 0 {
            self.expect_all("gather", &counts, as_f32(TOKENS))?;
        }
        let places: Vec<f32> = (0..n_ranks).map(as_f32).collect();
        let mut place = [0.0];
        world.scatter(&places, &mut place, 0)?;
        self.count("world", communicators, "scatter", 4);
        self.expect_all("scatter", &place, as_f32(world.rank))
    }

    /// Send to the next rank while receiving from the previous one: one pipeline step.
    fn pass_activations(&mut self, communicators: &Communicators) -> Result<(), WorkerError> {
        let world = &communicators.world;
        let next = (world.rank + 1) % world.n_ranks;
        let previous = (world.rank + world.n_ranks - 1) % world.n_ranks;
        let outgoing = vec![as_f32(world.rank); SHARD];
        let mut incoming = vec![0.0; SHARD];
        world.exchange((&outgoing, next), (&mut incoming, previous))?;
        self.count("world", communicators, "send", SHARD * 4);
        self.count("world", communicators, "recv", SHARD * 4);
        self.expect_all("recv", &incoming, as_f32(previous))
    }

    fn count(&mut self, name: &str, communicators: &Communicators, primitive: &str, bytes: usize) {
        let name = format!("{name}/{}", communicators.epoch);
        let called = self.log.communicators.entry(name).or_default().entry(primitive.to_owned()).or_default();
        called.calls += 1;
        called.bytes += bytes as u64;
    }

    #[expect(clippy::float_cmp, reason = "sums of small whole numbers are exact")]
    fn expect_all(&self, what: &'static str, values: &[f32], expected: f32) -> Result<(), WorkerError> {
        match values.iter().find(|value| **value != expected) {
            None => Ok(()),
            Some(found) => {
                Err(WorkerError::WrongResult { rank: self.args.rank, what, found: *found, expected })
            }
        }
    }

    /// Rank 0 makes an id and leaves it in the job's folder; the others pick it up.
    fn meet(&self, nccl: &Nccl, epoch: i32) -> Result<UniqueId, WorkerError> {
        let path = self.args.job_dir.join(format!("id-{epoch}"));
        if self.args.rank == 0 {
            let id = nccl.unique_id()?;
            write_whole(&path, &id.0)?;
            return Ok(id);
        }
        let started = clock::monotonic();
        while started.elapsed() < Duration::from_secs(RENDEZVOUS_S) {
            if let Ok(bytes) = fs::read(&path)
                && let Ok(id) = bytes.try_into()
            {
                return Ok(UniqueId(id));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Err(WorkerError::Rendezvous { path, waited_s: RENDEZVOUS_S })
    }

    fn wanted_epoch(&self) -> Result<i32, WorkerError> {
        let path = self.args.job_dir.join(EPOCH_FILE);
        let text = fs::read_to_string(&path).map_err(|source| WorkerError::File { path, source })?;
        Ok(text.trim().parse().unwrap_or(STOP))
    }

    fn write_log(&self) -> Result<(), WorkerError> {
        let json = serde_json::to_vec(&self.log).unwrap_or_default();
        write_whole(&self.args.job_dir.join(format!("rank-{}.json", self.args.rank)), &json)
    }
}

/// Writes under another name and renames: readers see all or nothing.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WorkerError> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&temporary, bytes)
        .and_then(|()| fs::rename(&temporary, path))
        .map_err(|source| WorkerError::File { path: path.to_owned(), source })
}

/// Whole numbers below 2^24 are exact in f32.
#[expect(clippy::cast_precision_loss, reason = "ranks are small")]
fn as_f32(value: usize) -> f32 {
    value as f32
}
