//! Batches as agents send them.

use std::collections::BTreeMap;

use ringscope_wire::batch::{
    Batch, CollectorState, Communicator, CommunicatorState, Completion, Counters, Dropped, FORMAT_VERSION,
    HostHardware, Identity, Level, Nic, NicCounter, NicKind, Operation, OperationState, Primitive, Process,
    ProcessState, RingPosition, Sources,
};

/// 2026-01-31T12:00:00Z.
pub const START_NS: u64 = 1_769_860_800_000_000_000;

/// A job with one communicator over all its ranks.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub name: &'a str,
    pub hosts: &'a [&'a str],
    pub ranks_per_host: u32,
    /// Init channels of each host.
    pub init: &'a [u32],
    pub last: u32,
}

/// Two hosts with two ranks each, of which the second holds the first back.
pub const SMALL: Job<'static> =
    Job { name: "train", hosts: &["node-a", "node-b"], ranks_per_host: 2, init: &[8, 2], last: 4 };

impl Job<'_> {
    /// The batch of one host in which each rank has issued `calls` all-reduces of 1 MiB and finished all but one.
    pub fn batch(&self, host: usize, seq_number: u64, calls: u64, now_ns: u64) -> Batch {
        let first = u32::try_from(host).unwrap() * self.ranks_per_host;
        let processes =
            (first..first + self.ranks_per_host).map(|rank| self.process(host, rank, calls, now_ns));
        Batch {
            format_version: FORMAT_VERSION,
            agent_id: format!("agent-{}-{}", self.name, self.hosts[host]),
            seq_number,
            agent_host: self.hosts[host].to_owned(),
            sent_at_ns: now_ns,
            processes: processes.collect(),
            dropped: vec![Dropped { reason: "backlog_full".into(), events: 3 }],
            ..Batch::default()
        }
    }

    fn process(&self, host: usize, rank: u32, calls: u64, now_ns: u64) -> Process {
        let pid = 1000 + rank;
        let n_ranks = u32::try_from(self.hosts.len()).unwrap() * self.ranks_per_host;
        let completed = calls.saturating_sub(1);
        Process {
            key: format!("{}/{pid}/{START_NS}", self.hosts[host]),
            identity: Some(Identity {
                host: self.hosts[host].to_owned(),
                pid,
                start_time_ns: START_NS,
                job: self.name.to_owned(),
                global_rank: Some(rank),
                world_size: Some(n_ranks),
                local_rank: Some(rank % self.ranks_per_host),
                executable: "python3".into(),
                library_version: 22_809,
                ..Identity::default()
            }),
            communicators: vec![self.communicator(host, rank, n_ranks)],
            counters: vec![Counters {
                local_id: 1,
                primitive: Primitive::AllReduce.into(),
                issued_calls: calls,
                issued_bytes: calls << 20,
                completed_calls: completed,
                completed_bytes: completed << 20,
                failed_calls: 0,
                busy_ns: completed * 1_000_000,
                ..Counters::default()
            }],
            in_flight: vec![Operation {
                local_id: 1,
                primitive: Primitive::AllReduce.into(),
                seq_number: completed,
                bytes: 1 << 20,
                count: 1 << 18,
                datatype: 7,
                state: OperationState::Issued.into(),
                issued_at_ns: now_ns,
                channels_expected: self.last,
                ..Operation::default()
            }],
            dropped: vec![Dropped { reason: "ring_overrun".into(), events: 5 }],
            collector_state: CollectorState::On.into(),
            state: ProcessState::Running.into(),
            level: Level::Steps.into(),
            profiler_version: 5,
            calls_seen: true,
            n_libraries: 1,
            has_segment: true,
            ..Process::default()
        }
    }

    fn communicator(&self, host: usize, rank: u32, n_ranks: u32) -> Communicator {
        let leaves = rank % self.ranks_per_host == self.ranks_per_host - 1;
        Communicator {
            local_id: 1,
            comm_hash: 0x9f3b_5c6d_7e8f_9a0b,
            name: "world".into(),
            rank,
            n_ranks,
            n_nodes: Some(u32::try_from(self.hosts.len()).unwrap()),
            state: CommunicatorState::Active.into(),
            created_at_ns: START_NS,
            gpu: format!("{:02x}:00.0", rank % self.ranks_per_host),
            init_channels: Some(self.init[host]),
            final_channels: Some(self.last),
            rings: (0..self.last)
                .map(|channel| RingPosition {
                    channel,
                    prev: (rank + n_ranks - 1) % n_ranks,
                    next: (rank + 1) % n_ranks,
                    transport: if leaves { "NET/IB" } else { "P2P/IPC" }.into(),
                    nic: if leaves { "mlx5_0" } else { "" }.into(),
                    ..RingPosition::default()
                })
                .collect(),
            channel_settings: BTreeMap::new(),
            sources: Some(Sources { calls: true, plugin: true, log: true }),
            completion: Completion::Profiler.into(),
            ..Communicator::default()
        }
    }
}

/// What a host with healthy NICs of these names has, as read at `now_ns`.
pub fn hardware(host: &str, nics: &[&str], now_ns: u64) -> HostHardware {
    HostHardware {
        host: host.to_owned(),
        read_at_ns: now_ns,
        nics: nics.iter().map(|name| nic(name)).collect(),
        ..HostHardware::default()
    }
}

fn nic(name: &str) -> Nic {
    Nic {
        name: name.to_owned(),
        kind: NicKind::Rdma.into(),
        port: 1,
        up: true,
        state: "ACTIVE".into(),
        physical_state: "LinkUp".into(),
        rate_bits_per_s: Some(400_000_000_000),
        link_layer: "InfiniBand".into(),
        model: "MT4129".into(),
        sent_bytes: Some(1 << 30),
        received_bytes: Some(1 << 29),
        link_downs: Some(1),
        errors: vec![NicCounter { name: "symbol_error".into(), value: 3 }],
        state_file: format!("/sys/class/infiniband/{name}/ports/1/state"),
        ..Nic::default()
    }
}
