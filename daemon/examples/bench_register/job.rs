//! The job that starts.

use ringscope_wire::batch::{
    Batch, CallSequence, CollectorState, Communicator, CommunicatorState, Completion, Counters,
    FORMAT_VERSION, HostHardware, Identity, Level, Operation, OperationState, Process, ProcessState,
    RingPosition, Sources,
};
use ringscope_wire::segment::layout::VERSION;

use crate::common::batches::{START_NS, hardware};

/// Ranks of a host.
pub(crate) const PER_HOST: u32 = 8;
/// Channels of each communicator.
pub(crate) const CHANNELS: u32 = 16;

/// See the module.
pub(crate) struct Job {
    pub(crate) hosts: u32,
    /// NICs of each.
    pub(crate) nics: u32,
}

impl Job {
    /// What a host's agent tells. The first has everything, the others that every counter grew since, as of this reading.
    pub(crate) fn batch(&self, host: u32, number: u64, reading: u64) -> Batch {
        Batch {
            format_version: FORMAT_VERSION,
            agent_id: format!("bench-agent-{host}"),
            agent_host: name(host),
            seq_number: number,
            sent_at_ns: START_NS + reading * 250_000_000,
            posted_at_ns: START_NS + reading * 250_000_000,
            reads_segment_version: VERSION,
            processes: (0..PER_HOST).map(|local| self.process(host, local, number == 1, reading)).collect(),
            hardware: (number == 1 && self.nics > 0).then(|| self.hardware(host)).into_iter().collect(),
            ..Batch::default()
        }
    }

    fn hardware(&self, host: u32) -> HostHardware {
        let nics: Vec<String> = (0..self.nics).map(|nic| format!("mlx5_{nic}")).collect();
        hardware(&name(host), &nics.iter().map(String::as_str).collect::<Vec<_>>(), START_NS)
    }

    fn process(&self, host: u32, local: u32, is_first: bool, number: u64) -> Process {
        let (rank, n_ranks) = (host * PER_HOST + local, self.hosts * PER_HOST);
        // Communicator, its calls a step, by primitive.
        let counted = [(1, 1), (2, 1), (2, 4), (2, 5), (3, 1), (3, 4), (3, 5)];
        let facts = is_first.then(|| {
            vec![
                self.communicator(1, "world", 0x1000, rank, n_ranks),
                self.communicator(2, "tp", 0x2000 + u64::from(host), local, PER_HOST),
                self.communicator(3, "dp", 0x300_0000 + u64::from(local), host, self.hosts),
            ]
        });
        Process {
            key: format!("{}/{}/{START_NS}", name(host), 4000 + local),
            identity: is_first.then(|| Identity {
                host: name(host),
                pid: 4000 + local,
                start_time_ns: START_NS,
                job: "bench".into(),
                global_rank: Some(rank),
                world_size: Some(n_ranks),
                local_rank: Some(local),
                library_version: 22_809,
                ..Identity::default()
            }),
            communicators: facts.unwrap_or_default(),
            counters: counted.map(|(local_id, primitive)| counters(local_id, primitive, number)).to_vec(),
            in_flight: vec![operation(3, number, OperationState::Issued)],
            last_completed: (1..=3)
                .map(|local_id| operation(local_id, number - 1, OperationState::Completed))
                .collect(),
            sequences: (1..=3)
                .map(|local_id| CallSequence {
                    local_id,
                    calls: number,
                    hash: number,
                    ..CallSequence::default()
                })
                .collect(),
            segment_version: VERSION,
            launched: true,
            last_returned_at_ns: Some(START_NS + number * 250_000_000),
            collector_state: CollectorState::On.into(),
            state: ProcessState::Running.into(),
            level: Level::Counters.into(),
            profiler_version: 5,
            calls_seen: true,
            n_libraries: 1,
            has_segment: true,
            ..Process::default()
        }
    }

    fn communicator(
        &self,
        local_id: u64,
        name: &str,
        comm_hash: u64,
        rank: u32,
        n_ranks: u32,
    ) -> Communicator {
        let (prev, next) = ((rank + n_ranks - 1) % n_ranks, (rank + 1) % n_ranks);
        let is_inside = local_id == 2;
        let ring = |channel: u32| {
            let nic = if is_inside { String::new() } else { format!("mlx5_{}", channel % 8) };
            RingPosition {
                channel,
                prev,
                next,
                transport: if is_inside { "P2P/CUMEM" } else { "NET/IB" }.into(),
                recv_nic: nic.clone(),
                nic,
                gpu_direct: !is_inside,
                ..RingPosition::default()
            }
        };
        Communicator {
            local_id,
            comm_hash,
            name: name.to_owned(),
            rank,
            n_ranks,
            n_nodes: Some(if is_inside { 1 } else { self.hosts }),
            state: CommunicatorState::Active.into(),
            // Lists show the newest first: that of all.
            created_at_ns: START_NS + 10 - local_id,
            gpu: format!("0000:{:02x}:00.0", rank % PER_HOST),
            init_channels: Some(CHANNELS / 2),
            final_channels: Some(CHANNELS),
            rings: (0..CHANNELS).map(ring).collect(),
            sources: Some(Sources { calls: true, plugin: true, log: true }),
            completion: Completion::Profiler.into(),
            ..Communicator::default()
        }
    }
}

fn operation(local_id: u64, number: u64, state: OperationState) -> Operation {
    let issued_at_ns = START_NS + number * 250_000_000;
    Operation {
        local_id,
        primitive: 1,
        seq_number: number,
        call_number: Some(number),
        bytes: 33_554_432,
        count: 8_388_608,
        datatype: 7,
        state: state.into(),
        issued_at_ns,
        completed_at_ns: (state == OperationState::Completed).then_some(issued_at_ns + 1_000_000),
        ..Operation::default()
    }
}

fn name(host: u32) -> String {
    format!("node-{host:05}")
}

fn counters(local_id: u64, primitive: i32, number: u64) -> Counters {
    Counters {
        local_id,
        primitive,
        issued_calls: number,
        issued_bytes: number << 20,
        completed_calls: number,
        completed_bytes: number << 20,
        ..Counters::default()
    }
}
