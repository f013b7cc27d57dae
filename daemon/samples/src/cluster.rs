//! Batches for tests.

use ringscope_api::clock::Timestamp;
use ringscope_wire::Primitive;
use ringscope_wire::batch::{
    self, Batch, Communicator, CommunicatorState, Connection, ConnectionEnd, ConnectionState, Counters,
    FORMAT_VERSION, GidKind, HostHardware, Identity, Link, Nic, NicKind, Operation, OperationState, Process,
    ProcessState, QueuePair, QueuePairState, RingPosition,
};

use ringscope_api::CommunicatorId;

/// A time, by seconds since the tests began.
pub fn at(s: u64) -> Timestamp {
    Timestamp((1_800_000_000 + s) * 1_000_000_000)
}

/// A communicator of a job, one process a rank.
#[derive(Clone)]
pub struct Cluster {
    pub job: &'static str,
    pub comm_hash: u64,
    pub local_id: u64,
    pub created: Timestamp,
    /// Per rank.
    pub ranks: Vec<RankSpec>,
}

#[derive(Clone)]
pub struct RankSpec {
    pub host: String,
    pub init: Option<u32>,
    pub final_channels: Option<u32>,
    pub state: CommunicatorState,
    pub settings: Vec<(&'static str, i64)>,
}

impl Cluster {
    /// Hosts with their number of ranks and what each found; all run on `final_channels`.
    pub fn new(hosts: &[(&str, u32, u32)], final_channels: u32) -> Self {
        let ranks = hosts.iter().flat_map(|(host, n_ranks, init)| {
            let spec = RankSpec {
                host: (*host).to_owned(),
                init: Some(*init),
                final_channels: Some(final_channels),
                state: CommunicatorState::Active,
                settings: Vec::new(),
            };
            vec![spec; *n_ranks as usize]
        });
        Self { job: "train", comm_hash: 0xabc, local_id: 7, created: at(1), ranks: ranks.collect() }
    }

    /// Another communicator of the same ranks.
    pub fn again(&self, comm_hash: u64, local_id: u64, created_s: u64) -> Self {
        Self { comm_hash, local_id, created: at(created_s), ..self.clone() }
    }

    pub fn with(mut self, change: impl Fn(usize, &mut RankSpec)) -> Self {
        self.ranks.iter_mut().enumerate().for_each(|(rank, spec)| change(rank, spec));
        self
    }

    pub fn id(&self) -> CommunicatorId {
        CommunicatorId::new(self.job, self.comm_hash, self.n_ranks())
    }

    pub fn n_ranks(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap()
    }

    pub fn key(&self, rank: u32) -> String {
        format!("{}/{}/1", self.ranks[rank as usize].host, 1_000 + rank)
    }

    /// The process of a rank with this communicator, one ring in the order of the ranks on every channel.
    pub fn process(&self, rank: u32) -> Process {
        let spec = &self.ranks[rank as usize];
        let n = self.n_ranks();
        let next = (rank + 1) % n;
        let local = self.ranks[next as usize].host == spec.host;
        let ring = |channel| RingPosition {
            channel,
            prev: (rank + n - 1) % n,
            next,
            transport: if local { "P2P/IPC" } else { "NET/IB" }.to_owned(),
            nic: if local { "" } else { "mlx5_0" }.to_owned(),
            ..RingPosition::default()
        };
        Process {
            key: self.key(rank),
            identity: Some(Identity {
                host: spec.host.clone(),
                pid: 1_000 + rank,
                start_time_ns: at(0).0,
                job: self.job.to_owned(),
                global_rank: Some(rank),
                world_size: Some(n),
                library_version: 22_809,
                ..Identity::default()
            }),
            communicators: vec![Communicator {
                local_id: self.local_id,
                comm_hash: self.comm_hash,
                name: "dp".to_owned(),
                rank,
                n_ranks: n,
                state: spec.state.into(),
                created_at_ns: self.created.0,
                gpu: format!("0000:{rank:02x}:00.0"),
                init_channels: spec.init,
                final_channels: spec.final_channels,
                rings: (0..spec.final_channels.unwrap_or(0)).map(ring).collect(),
                channel_settings: spec
                    .settings
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), *value))
                    .collect(),
                sources: Some(batch::Sources { calls: true, plugin: true, log: true }),
                completion: batch::Completion::Profiler.into(),
                compute_capability: Some(80),
                ring_bw_intra: Some(24.0),
                ..Communicator::default()
            }],
            state: ProcessState::Running.into(),
            level: batch::Level::Steps.into(),
            profiler_version: 5,
            calls_seen: true,
            n_libraries: 1,
            has_segment: true,
            ..Process::default()
        }
    }

    pub fn processes(&self) -> Vec<Process> {
        (0..self.n_ranks()).map(|rank| self.process(rank)).collect()
    }

    /// Every process, as its agent tells of it first.
    pub fn batch(&self, seq_number: u64, s: u64) -> Batch {
        batch(seq_number, s, self.processes())
    }

    /// Only the key, to be filled with counters.
    pub fn word(&self, rank: u32) -> Process {
        Process { key: self.key(rank), ..Process::default() }
    }

    pub fn counters(&self, primitive: Primitive, issued: u64, completed: u64, bytes: u64) -> Counters {
        Counters {
            local_id: self.local_id,
            primitive: batch::Primitive::from(primitive).into(),
            issued_calls: issued,
            issued_bytes: issued * bytes,
            completed_calls: completed,
            completed_bytes: completed * bytes,
            ..Counters::default()
        }
    }

    pub fn link(&self, primitive: Primitive, peer: u32, sent_bytes: u64) -> Link {
        Link {
            local_id: self.local_id,
            primitive: batch::Primitive::from(primitive).into(),
            peer,
            sent_bytes,
            sent_steps: 1,
            sending_ns: 0,
        }
    }

    pub fn operation(&self, seq_number: u64, issued_s: u64, completed_s: Option<u64>) -> Operation {
        Operation {
            local_id: self.local_id,
            primitive: batch::Primitive::AllReduce.into(),
            seq_number,
            bytes: 1_024,
            count: 256,
            datatype: 7,
            state: if completed_s.is_some() { OperationState::Completed } else { OperationState::Issued }
                .into(),
            issued_at_ns: at(issued_s).0,
            completed_at_ns: completed_s.map(|s| at(s).0),
            ..Operation::default()
        }
    }
}

/// A batch of the one agent of the tests.
pub fn batch(seq_number: u64, s: u64, processes: Vec<Process>) -> Batch {
    Batch {
        format_version: FORMAT_VERSION,
        agent_id: "agent".to_owned(),
        seq_number,
        agent_host: "host-0".to_owned(),
        sent_at_ns: at(s).0,
        processes,
        ..Batch::default()
    }
}

/// The same process, ended.
pub fn ended(mut process: Process, state: ProcessState, s: u64) -> Process {
    process.state = state.into();
    process.ended_at_ns = Some(at(s).0);
    process
}

/// A batch of nothing but hardware.
pub fn reading(seq_number: u64, s: u64, hardware: Vec<HostHardware>) -> Batch {
    Batch { hardware, ..batch(seq_number, s, Vec::new()) }
}

/// What a host has, without GPUs.
pub fn hardware(host: &str, s: u64, nics: Vec<Nic>) -> HostHardware {
    HostHardware { host: host.to_owned(), read_at_ns: at(s).0, nics, ..HostHardware::default() }
}

/// A healthy port of an RDMA device.
pub fn nic(name: &str) -> Nic {
    Nic {
        name: name.to_owned(),
        kind: NicKind::Rdma.into(),
        port: 1,
        up: true,
        state: "ACTIVE".to_owned(),
        physical_state: "LinkUp".to_owned(),
        rate_bits_per_s: Some(400_000_000_000),
        link_layer: "InfiniBand".to_owned(),
        model: "MT4129".to_owned(),
        state_file: format!("/sys/class/infiniband/{name}/ports/1/state"),
        ..Nic::default()
    }
}

/// An open connection over which data leave this process, by RoCE v2.
pub fn connection(device: &str, remote_host: &str, remote_device: &str) -> Connection {
    let end = |device: &str, last| ConnectionEnd {
        device: device.to_owned(),
        port: 1,
        gid: vec![0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
        gid_index: 1,
        gid_kind: GidKind::RoceV2.into(),
        mtu_bytes: 4096,
        ..ConnectionEnd::default()
    };
    Connection {
        place: 0,
        generation: 1,
        state: ConnectionState::Open.into(),
        is_send: true,
        local: Some(end(device, 1)),
        remote: Some(ConnectionEnd {
            host: remote_host.to_owned(),
            pid: 4712,
            global_rank: Some(1),
            ..end(remote_device, 2)
        }),
        path_mtu_bytes: 4096,
        queue_pairs: vec![QueuePair { number: 17, remote_number: 18, state: QueuePairState::Rts.into() }],
        file: "/dev/shm/ringscope/4711-8771.net".to_owned(),
        broken_at_ns: 0,
        ..Connection::default()
    }
}
