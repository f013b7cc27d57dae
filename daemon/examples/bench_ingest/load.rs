//! The agents.

use std::time::{Duration, Instant};

use ringscope_wire::batch::{
    Batch, CollectorState, Communicator, CommunicatorState, Completion, Counters, FORMAT_VERSION, Identity,
    Level, Operation, OperationState, Process, ProcessState, RingPosition, Sources,
};
use tokio::task::JoinSet;

use crate::common::batches::START_NS;
use crate::pace::{READING, readings};
use crate::sending::Daemon;

/// The cluster that is simulated.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) hosts: u32,
    pub(crate) ranks_per_host: u32,
    /// Each over all ranks: the most series there can be.
    pub(crate) communicators: u32,
    pub(crate) primitives: u32,
    /// Completed operations told of each rank a second, as at the level `steps`; 0 at the level `counters`.
    pub(crate) operations: u32,
    pub(crate) channels: u32,
}

/// What the rounds gave.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) latencies_ms: Vec<f64>,
    pub(crate) refused: usize,
}

/// One agent and its next batch.
pub(crate) struct Agent {
    batch: Batch,
    operations: u32,
    offset: Duration,
    facts_sent: bool,
    /// From the batch before to this one.
    readings: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { hosts: 125, ranks_per_host: 8, communicators: 8, primitives: 5, operations: 0, channels: 16 }
    }
}

impl Shape {
    /// One per rank, communicator and primitive.
    pub(crate) fn samples_per_batch(self) -> usize {
        (self.ranks_per_host * self.communicators * self.primitives) as usize
    }

    /// Six counters (numbers of `Counters`) a sample.
    pub(crate) fn counters_per_batch(self) -> usize {
        self.samples_per_batch() * 6
    }
}

pub(crate) fn agents(shape: Shape) -> Vec<Agent> {
    (0..shape.hosts)
        .map(|host| Agent {
            batch: Batch {
                format_version: FORMAT_VERSION,
                agent_id: format!("bench-agent-{host}"),
                agent_host: format!("node-{host:03}"),
                processes: (0..shape.ranks_per_host).map(|local| process(shape, host, local)).collect(),
                ..Batch::default()
            },
            operations: shape.operations,
            // Agents are not in step.
            offset: READING * host / shape.hosts,
            facts_sent: false,
            readings: 1,
        })
        .collect()
}

/// Every agent reads four times a second and sends as often as the daemon lets it, for this long.
pub(crate) async fn rounds(daemon: &Daemon, agents: &mut Vec<Agent>, time: Duration) -> Measured {
    let start = Instant::now();
    let mut running = JoinSet::new();
    for agent in agents.drain(..) {
        // A connection of its own, as an agent has.
        running.spawn(agent.run(daemon.another(), start, time));
    }
    let mut sum = Measured::default();
    while let Some(finished) = running.join_next().await {
        let (agent, measured) = finished.unwrap();
        agents.push(agent);
        sum.latencies_ms.extend(measured.latencies_ms);
        sum.refused += measured.refused;
    }
    sum
}

impl Agent {
    async fn run(mut self, daemon: Daemon, start: Instant, time: Duration) -> (Self, Measured) {
        let mut measured = Measured::default();
        let mut due = start + self.offset;
        while due < start + time {
            tokio::time::sleep_until(due.into()).await;
            self.advance();
            let sent = Instant::now();
            let reply = daemon.send(&self.batch).await;
            measured.latencies_ms.push(sent.elapsed().as_secs_f64() * 1000.0);
            match &reply {
                Ok(_) => self.forget_facts(),
                Err(_) => measured.refused += 1,
            }
            self.readings = reply.as_ref().map_or(1, readings);
            due += READING * self.readings;
        }
        (self, measured)
    }

    /// Every counter grows.
    fn advance(&mut self) {
        self.batch.seq_number += 1;
        let (readings, calls) = (u64::from(self.readings), u64::from(self.readings) * CALLS);
        self.batch.sent_at_ns = self.batch.sent_at_ns.max(START_NS) + readings * READING_NS;
        for process in &mut self.batch.processes {
            for counters in &mut process.counters {
                counters.issued_calls += calls;
                counters.issued_bytes += calls * 33_554_432;
                counters.completed_calls += calls;
                counters.completed_bytes += calls * 33_554_432;
                counters.busy_ns += calls * 2_345_678;
            }
            for operation in process.in_flight.iter_mut().chain(&mut process.last_completed) {
                operation.seq_number += calls;
                operation.issued_at_ns += readings * READING_NS;
            }
            let n_communicators = process.last_completed.len().max(1);
            let (seq, n) = (self.batch.seq_number, u64::from(self.operations) * readings / 4);
            process.completed_operations = (0..n)
                .map(|number| Operation {
                    seq_number: seq * n + number,
                    issued_at_ns: self.batch.sent_at_ns + number * 1_000_000,
                    completed_at_ns: Some(self.batch.sent_at_ns + (number + 1) * 1_000_000),
                    ..operation(number % n_communicators as u64, OperationState::Completed)
                })
                .collect();
        }
    }

    /// What does not change is said once.
    fn forget_facts(&mut self) {
        if !std::mem::replace(&mut self.facts_sent, true) {
            for process in &mut self.batch.processes {
                process.identity = None;
                process.communicators.clear();
            }
        }
    }
}

fn process(shape: Shape, host: u32, local: u32) -> Process {
    let n_ranks = shape.hosts * shape.ranks_per_host;
    let rank = host * shape.ranks_per_host + local;
    let name = format!("node-{host:03}");
    let communicators = 0..u64::from(shape.communicators);
    Process {
        key: format!("{name}/{}/{START_NS}", 4000 + local),
        identity: Some(Identity {
            host: name,
            pid: 4000 + local,
            start_time_ns: START_NS,
            job: "bench".into(),
            global_rank: Some(rank),
            world_size: Some(n_ranks),
            local_rank: Some(local),
            library_version: 22_809,
            ..Identity::default()
        }),
        communicators: communicators
            .clone()
            .map(|local_id| communicator(shape, local_id, rank, n_ranks))
            .collect(),
        counters: communicators
            .clone()
            .flat_map(|local_id| {
                (1..=i32::try_from(shape.primitives).unwrap()).map(move |primitive| Counters {
                    local_id,
                    primitive,
                    ..Counters::default()
                })
            })
            .collect(),
        in_flight: vec![operation(0, OperationState::Issued)],
        last_completed: communicators
            .map(|local_id| operation(local_id, OperationState::Completed))
            .collect(),
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

fn communicator(shape: Shape, local_id: u64, rank: u32, n_ranks: u32) -> Communicator {
    Communicator {
        local_id,
        comm_hash: 0x1000 + local_id,
        rank,
        n_ranks,
        n_nodes: Some(shape.hosts),
        state: CommunicatorState::Active.into(),
        created_at_ns: START_NS,
        init_channels: Some(shape.channels / 2),
        final_channels: Some(shape.channels),
        rings: (0..shape.channels)
            .map(|channel| RingPosition {
                channel,
                prev: (rank + n_ranks - 1) % n_ranks,
                next: (rank + 1) % n_ranks,
                transport: "NET/IB".into(),
                nic: format!("mlx5_{}", channel % 8),
                ..RingPosition::default()
            })
            .collect(),
        sources: Some(Sources { calls: true, plugin: true, log: true }),
        completion: Completion::Profiler.into(),
        ..Communicator::default()
    }
}

fn operation(local_id: u64, state: OperationState) -> Operation {
    Operation {
        local_id,
        primitive: 1,
        seq_number: 0,
        bytes: 33_554_432,
        count: 8_388_608,
        datatype: 7,
        state: state.into(),
        issued_at_ns: START_NS,
        channels_done: 16,
        channels_expected: 16,
        ..Operation::default()
    }
}

/// Calls of each primitive between two readings: some hundred a second.
const CALLS: u64 = 30;
const READING_NS: u64 = 250_000_000;
