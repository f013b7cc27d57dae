//! The communicators of a process, as its library would say: the world, the ranks of its host, its peers on the others.

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{Communicator, CommunicatorState, Completion, Evidence, RingPosition, Sources};

use crate::cluster::{Cluster, Fault, next};
use crate::rings::{N_NICS, Seat};

pub(crate) const WORLD: u64 = 1;
/// Tensor parallel: the ranks of a host.
pub(crate) const TENSOR: u64 = 2;
/// Data parallel: ranks of the same place on each host.
pub(crate) const DATA: u64 = 3;

/// Channels that a node's search found, and on which all run.
#[derive(Clone, Copy)]
struct Channels {
    init: u32,
    last: u32,
}

/// The communicators of a rank.
pub(crate) fn of_rank(cluster: &Cluster, job: usize, seat: Seat<'_>, pid: u32) -> Vec<Communicator> {
    let about = &cluster.jobs[job];
    let made = Maker { cluster, job, seat, pid, started: about.started, ended: about.ended };
    let mut all = vec![made.world()];
    if seat.ranks_per_host > 1 && seat.hosts.len() > 1 {
        all.extend([made.tensor(), made.data()]);
    }
    all
}

struct Maker<'a> {
    cluster: &'a Cluster,
    job: usize,
    seat: Seat<'a>,
    pid: u32,
    started: Timestamp,
    ended: Option<Timestamp>,
}

impl Maker<'_> {
    fn world(&self) -> Communicator {
        let here = self.seat.hosts[self.seat.place as usize];
        let found = |fault| if fault == Some(Fault::NicDown) { N_NICS - 1 } else { N_NICS };
        let channels = Channels { init: found(here.fault), last: 2 * found(self.cluster.fault_of(self.job)) };
        let rank = self.seat.place * self.seat.ranks_per_host + self.seat.local;
        let n_ranks = self.seat.hosts.len() as u32 * self.seat.ranks_per_host;
        let rings = self.seat.world(channels.last, channels.last / 2);
        Communicator {
            name: "default_pg".into(),
            n_nodes: Some(self.seat.hosts.len() as u32),
            local_ranks: Some(self.seat.ranks_per_host),
            local_rank: Some(self.seat.local),
            ..self.communicator(WORLD, 0, (rank, n_ranks), channels, rings)
        }
    }

    fn tensor(&self) -> Communicator {
        let n = self.seat.ranks_per_host;
        let rings = self.seat.inside(24);
        Communicator {
            name: "tensor_parallel".into(),
            n_nodes: Some(1),
            parent_hash: Some(self.hash(0)),
            local_ranks: Some(n),
            local_rank: Some(self.seat.local),
            ..self.communicator(
                TENSOR,
                1 + self.seat.place,
                (self.seat.local, n),
                Channels { init: 12, last: 24 },
                rings,
            )
        }
    }

    fn data(&self) -> Communicator {
        let n = self.seat.hosts.len() as u32;
        let rings = self.seat.across(4);
        Communicator {
            name: "data_parallel".into(),
            n_nodes: Some(n),
            parent_hash: Some(self.hash(0)),
            local_ranks: Some(1),
            local_rank: Some(0),
            ..self.communicator(
                DATA,
                10_001 + self.seat.local,
                (self.seat.place, n),
                Channels { init: 2, last: 4 },
                rings,
            )
        }
    }

    /// What they have in common. `rank`: and of how many.
    fn communicator(
        &self,
        local_id: u64,
        number: u32,
        rank: (u32, u32),
        channels: Channels,
        rings: Vec<RingPosition>,
    ) -> Communicator {
        let state =
            if self.ended.is_some() { CommunicatorState::Destroyed } else { CommunicatorState::Active };
        Communicator {
            local_id,
            comm_hash: self.hash(number),
            rank: rank.0,
            n_ranks: rank.1,
            state: state.into(),
            // One after the other, as a program makes them.
            created_at_ns: self.started.0 + local_id * 1_500_000_000,
            ended_at_ns: self.ended.map(|ended| ended.0),
            gpu: crate::hardware::gpu_pci(self.seat.local),
            init_channels: Some(channels.init),
            final_channels: Some(channels.last),
            evidence: self.evidence(rank.0, channels, &rings),
            rings,
            sources: Some(Sources { calls: true, plugin: true, log: true }),
            completion: Completion::Profiler.into(),
            compute_capability: Some(80),
            ring_bw_intra: Some(20.0),
            ring_bw_inter: Some(20.0),
            mnnvl: Some(false),
            collnet_channels: Some(0),
            nvls_channels: Some(0),
            shares_resources: Some(false),
            log_version: "2.27.3+cuda12.9".into(),
            net_unpack: Some(false),
            made_by: if local_id == WORLD { "ncclCommInitRankConfig" } else { "ncclCommSplit" }.into(),
            ..Communicator::default()
        }
    }

    fn hash(&self, number: u32) -> u64 {
        let mut state = self.cluster.shape.seed.wrapping_add((self.job as u64) << 32 | u64::from(number));
        next(&mut state)
    }

    /// The lines of the log that say so.
    fn evidence(&self, rank: u32, channels: Channels, rings: &[RingPosition]) -> Vec<Evidence> {
        let host = &self.seat.hosts[self.seat.place as usize].name;
        let (pid, device) = (self.pid, self.seat.local);
        let file = format!("/var/log/nccl/{}/{host}.{pid}.log", self.cluster.jobs[self.job].name);
        let line = |fact: String, line: usize, text: String| Evidence {
            fact,
            file: file.clone(),
            line: line as u64,
            text: format!("{host}:{pid}:{pid} [{device}] NCCL INFO {text}"),
        };
        let Channels { init, last } = channels;
        let mut lines = vec![
            line(
                "init".into(),
                118,
                format!(
                    "Pattern 4, crossNic 0, nChannels {init}, bw 20.0/20.0, type NVL/PXB, sameChannels 1"
                ),
            ),
            line(
                "final".into(),
                240,
                format!(
                    "{last} coll channels, {last} collnet channels, 0 nvls channels, {last} p2p channels, 2 p2p channels per peer"
                ),
            ),
        ];
        lines.extend(rings.iter().filter(|ring| !ring.nic.is_empty()).map(|ring| {
            let (channel, next, transport) = (ring.channel, ring.next, &ring.transport);
            let direct = if ring.gpu_direct { "/GDRDMA" } else { "" };
            let nic = ring.nic_index.unwrap_or_default();
            line(
                format!("send/{channel}"),
                130 + channel as usize,
                format!(
                    "Channel {channel:02}/0 : {rank}[{device}] -> {next} [send] via {transport}/{nic}{direct}"
                ),
            )
        }));
        lines
    }
}
