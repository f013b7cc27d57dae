//! Communicators whose ranks are threads.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::collective::algorithm::Algorithm;
use crate::comm::init::{Request, init};
use crate::comm::{Comm, CommConfig};
use crate::config::Settings;
use crate::lock::lock;
use crate::net::root;
use crate::transport::sim::{Receiver, Sender, Terms, connect};

/// How the ranks reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transport {
    /// Sockets between all of them.
    Tcp,
    /// Memory that all of them share.
    Shm,
    /// Shared memory inside hosts, sockets between them.
    Mixed,
    /// Bounded pipes, late at random, between all of them.
    Sim,
}

/// A communicator to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) transport: Transport,
    pub(super) n_ranks: usize,
    pub(super) ranks_per_host: usize,
    pub(super) n_channels: usize,
    /// `RSCCL_ALGO`
    pub(super) algorithm: Option<Algorithm>,
    /// `RSCCL_DETERMINISTIC`
    pub(super) deterministic: Option<&'static str>,
    /// Of the delays of simulated connections.
    pub(super) seed: u64,
}

/// So few bytes make a channel worth while here that small operations use all of them.
const CHANNEL_BYTES: usize = 8;
/// Less than most parts have.
const SIMULATED_BYTES: usize = 1000;

type Ends<H> = Mutex<HashMap<(u32, usize, usize), H>>;

/// The ends of simulated connections, by channel, sender and receiver, until their rank takes them.
struct Fabric {
    sends: Ends<Sender>,
    recvs: Ends<Receiver>,
}

impl Shape {
    /// Runs `rank` on each rank; what it returned, by rank.
    pub(super) fn run<T: Send>(&self, rank: impl Fn(&Arc<Comm>) -> T + Sync) -> Vec<T> {
        let root = root::start("127.0.0.1".parse().unwrap(), Duration::from_secs(20)).unwrap();
        let fabric = Fabric::new(self);
        let (id, rank, fabric) = (root.to_bytes(), &rank, &fabric);
        std::thread::scope(|scope| {
            let start = |index: usize| {
                let config = CommConfig::default();
                let (api, n_ranks) = ("ncclCommInitRank", self.n_ranks);
                let request =
                    Request { api, id, rank: index, n_ranks, config, device: None, split: None, kin: None };
                scope.spawn(move || {
                    let comm = init(request, self.settings(index)).unwrap();
                    fabric.install(&comm);
                    run_one(&comm, rank)
                })
            };
            let threads: Vec<_> = (0..self.n_ranks).map(start).collect();
            let joined: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            joined.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    }

    fn settings(&self, rank: usize) -> Settings {
        let host = rank / self.ranks_per_host + 1;
        let shares = matches!(self.transport, Transport::Shm | Transport::Mixed);
        Settings::parse(|name| match name {
            "RSCCL_HOST" => Some(format!("host-{host}")),
            "RSCCL_NICS" => Some(format!("mlx5_0=127.0.{host}.1,mlx5_1=127.0.{host}.2")),
            "RSCCL_MIN_NCHANNELS" | "RSCCL_MAX_NCHANNELS" => Some(self.n_channels.to_string()),
            "RSCCL_CHANNEL_BYTES" => Some(CHANNEL_BYTES.to_string()),
            "RSCCL_ALGO" => self.algorithm.map(|algorithm| algorithm.name().to_owned()),
            "RSCCL_DETERMINISTIC" => self.deterministic.map(str::to_owned),
            "RSCCL_SHM_DISABLE" => (!shares).then(|| "1".to_owned()),
            "NCCL_PROFILER_PLUGIN" => Some("none".to_owned()),
            _ => None,
        })
        .unwrap()
    }
}

/// A rank that fails ends the others too, so that a test fails and does not wait.
fn run_one<T>(comm: &Arc<Comm>, rank: &impl Fn(&Arc<Comm>) -> T) -> T {
    let result = catch_unwind(AssertUnwindSafe(|| rank(comm)));
    if result.is_err() {
        comm.revoke();
    }
    comm.destroy();
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

impl Fabric {
    fn new(shape: &Shape) -> Self {
        let (mut sends, mut recvs) = (HashMap::new(), HashMap::new());
        let n = if shape.transport == Transport::Sim { shape.n_ranks } else { 0 };
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            for channel in (0..).take(shape.n_channels) {
                let seed = (shape.seed << 20) + ((from * 64 + to) * 64) as u64 + u64::from(channel) + 1;
                let terms = Terms { seed, bound_bytes: SIMULATED_BYTES, lost_after: None };
                let (send, recv) = connect(terms);
                sends.insert((channel, from, to), send);
                recvs.insert((channel, from, to), recv);
            }
        }
        Self { sends: Mutex::new(sends), recvs: Mutex::new(recvs) }
    }

    /// Puts the simulated connections of a rank in the place of its own.
    fn install(&self, comm: &Comm) {
        let links = &mut lock(&comm.engine).links;
        for ((channel, _, to), half) in lock(&self.sends).extract_if(|(_, from, _), _| *from == comm.rank) {
            links.sends.connect(channel, to, Box::new(half));
        }
        for ((channel, from, _), half) in lock(&self.recvs).extract_if(|(_, _, to), _| *to == comm.rank) {
            links.recvs.connect(channel, from, Box::new(half));
        }
    }
}
