//! What agents tell of the ranks: batches of 64 processes each, as absolute values.

use std::collections::BTreeSet;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{
    Activity, Batch, CollectorState, Communicator, CommunicatorState, Completion, Counters, FORMAT_VERSION,
    Gpu, HostHardware, Identity, Level, Process, ProcessState, Sources,
};

use super::calls::{counters, messages, open_call, operation, sequence};
use super::pace::{Pace, Slow};
use super::program::{Edit, Kind, Program, Signature};

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    Killed,
    Exited,
}

/// What is told of one rank beside its calls.
pub(crate) struct Told {
    life: Life,
    ended_ns: Option<u64>,
    pub(crate) activity: &'static str,
    pub(crate) never_starts: bool,
    /// Function that it is in and does not leave.
    pub(crate) inside: Option<&'static str>,
    inside_ns: u64,
    pub(crate) error: Option<u32>,
    /// In an init of a further communicator, of so many ranks.
    forming: Option<u32>,
    has_left: bool,
    known: bool,
}

/// A job, and what the agents say of it.
pub(crate) struct Teller {
    pub(crate) program: Program,
    pub(crate) pause: bool,
    /// How time goes, where that is told.
    pub(crate) pace: Option<Pace>,
    job: String,
    ranks: Vec<Told>,
    began: Timestamp,
    batch_number: u64,
    /// Agents that are not heard.
    muted: BTreeSet<u32>,
    /// Hosts that one agent speaks for.
    hosts_per_agent: u32,
    shifted: Option<(u32, u64)>,
    /// Ranks whose GPU says that it is too hot. Absent: nothing is told of GPUs.
    hot: Option<BTreeSet<u32>>,
}

impl Teller {
    pub(crate) fn new(job: String, n_ranks: u32, began: Timestamp) -> Self {
        let told = |_| Told {
            life: Life::Runs,
            ended_ns: None,
            activity: "R",
            never_starts: false,
            inside: None,
            inside_ns: 0,
            error: None,
            forming: None,
            has_left: false,
            known: false,
        };
        Self {
            program: Program::new(n_ranks, RANKS_PER_HOST),
            pause: false,
            pace: None,
            job,
            ranks: (0..n_ranks).map(told).collect(),
            began,
            batch_number: 0,
            muted: BTreeSet::new(),
            // As many processes in fewer batches, where there are many.
            hosts_per_agent: if n_ranks > 2000 { 8 } else { 1 },
            shifted: None,
            hot: None,
        }
    }

    /// The job has a pipeline too, and all tell how their time goes.
    pub(crate) fn tell_of_time(&mut self) {
        let hosts = self.n_ranks() / RANKS_PER_HOST;
        let fits = |stages: &u32| hosts.is_multiple_of(*stages) && hosts / stages >= REPLICAS_LEAST;
        let stages = STAGES.into_iter().find(fits).unwrap_or(1);
        self.program.stages = stages;
        self.pace = Some(Pace::new(self.n_ranks(), RANKS_PER_HOST, stages, self.began.0));
    }

    /// Makes ranks slow; returns them.
    pub(crate) fn slow(&mut self, ranks: &[u32], how: Slow) -> Vec<u32> {
        self.pace_mut(|pace| ranks.iter().for_each(|rank| pace.slow(*rank, how)));
        ranks.to_vec()
    }

    /// From now on it is told how GPUs are, and those of some ranks are too hot.
    pub(crate) fn tell_of_gpus(&mut self, hot: impl IntoIterator<Item = u32>) {
        self.hot = Some(hot.into_iter().collect());
    }

    pub(crate) fn pace_mut(&mut self, change: impl FnOnce(&mut Pace)) {
        if let Some(pace) = &mut self.pace {
            change(pace);
        }
    }

    /// Lets the job go on until now.
    pub(crate) fn go_on(&mut self, now: Timestamp) {
        let steps = self.pace.as_mut().map_or(STEPS_PER_ROUND, |pace| pace.advance(now.0));
        self.program.advance(steps, now.0);
    }

    pub(crate) fn n_ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    pub(crate) fn rank(&mut self, rank: u32) -> &mut Told {
        &mut self.ranks[rank as usize]
    }

    pub(crate) fn halt(&mut self, rank: u32) {
        self.program.ranks[rank as usize].halted = true;
    }

    pub(crate) fn resume(&mut self, rank: u32) {
        self.program.ranks[rank as usize].halted = false;
    }

    pub(crate) fn end(&mut self, rank: u32, life: Life) {
        self.halt(rank);
        self.ranks[rank as usize].life = life;
    }

    /// Destroys its communicators and exits.
    pub(crate) fn leave(&mut self, rank: u32) {
        self.end(rank, Life::Exited);
        self.ranks[rank as usize].has_left = true;
    }

    /// All ranks that the agent of this one speaks for.
    pub(crate) fn ranks_of_agent_of(&self, rank: u32) -> Vec<u32> {
        let per_agent = RANKS_PER_HOST * self.hosts_per_agent;
        let first = rank / per_agent * per_agent;
        (first..(first + per_agent).min(self.n_ranks())).collect()
    }

    pub(crate) fn ranks_of_host_of(&self, rank: u32) -> Vec<u32> {
        let first = rank / RANKS_PER_HOST * RANKS_PER_HOST;
        (first..first + RANKS_PER_HOST).collect()
    }

    /// The agent that speaks for this rank says nothing any more.
    pub(crate) fn mute_agent_of(&mut self, rank: u32) {
        self.muted.insert(rank / RANKS_PER_HOST / self.hosts_per_agent);
    }

    pub(crate) fn unmute(&mut self) {
        self.muted.clear();
    }

    /// The clock of this rank's host is ahead.
    pub(crate) fn shift_clock_of(&mut self, rank: u32, seconds: u64) {
        self.shifted = Some((rank / RANKS_PER_HOST, seconds * 1_000_000_000));
    }

    /// The victim's next world call but one asks for something else, and whether that stops everybody.
    pub(crate) fn differ(&mut self, victim: u32, signature: Signature, hangs: bool) -> Vec<u32> {
        let step = self.program.step() + 1;
        self.program.edit(victim, Edit::Other { step, signature });
        if hangs {
            self.program.stalled_from = Some(step);
        }
        vec![victim]
    }

    /// All ranks call an init of a further communicator; one does not, or one says another size.
    pub(crate) fn form(&mut self, without: Option<u32>, disagrees: Option<u32>) {
        let n_ranks = self.n_ranks();
        for rank in 0..n_ranks {
            self.halt(rank);
            if Some(rank) != without {
                let size = if Some(rank) == disagrees { n_ranks + 1 } else { n_ranks };
                let told = self.rank(rank);
                told.forming = Some(size);
                told.inside = Some("ncclCommInitRank");
                told.known = false;
            }
        }
    }

    /// What all agents tell now. An agent that has not been heard by the daemon (`resend`) tells everything.
    pub(crate) fn batches(&mut self, now: Timestamp) -> Vec<Batch> {
        self.batch_number += 1;
        let hosts: Vec<u32> = (0..self.n_ranks() / RANKS_PER_HOST).collect();
        let agents = hosts.chunks(self.hosts_per_agent as usize).enumerate();
        let heard: Vec<&[u32]> = agents
            .filter(|(agent, _)| !self.muted.contains(&(*agent as u32)))
            .map(|(_, hosts)| hosts)
            .collect();
        heard.into_iter().map(|hosts| self.batch(hosts, now)).collect()
    }

    fn batch(&mut self, hosts: &[u32], now: Timestamp) -> Batch {
        let ranks = hosts.iter().flat_map(|host| host * RANKS_PER_HOST..(host + 1) * RANKS_PER_HOST);
        let mut processes = Vec::with_capacity(hosts.len() * RANKS_PER_HOST as usize);
        for rank in ranks {
            let now_ns = self.clock_of(rank, now);
            let mut process = self.process(rank, now_ns);
            process.own_time = self.pace.as_mut().map(|pace| pace.tell(rank, now_ns - now.0));
            self.ranks[rank as usize].known = true;
            processes.push(process);
        }
        Batch {
            format_version: FORMAT_VERSION,
            agent_id: format!("{}-{}", self.job, hosts[0] / self.hosts_per_agent),
            seq_number: self.batch_number,
            agent_host: host_name(hosts[0]),
            sent_at_ns: self.clock_of(hosts[0] * RANKS_PER_HOST, now),
            processes,
            hardware: hosts.iter().filter_map(|host| self.gpus_of(*host, now)).collect(),
            ..Batch::default()
        }
    }

    fn gpus_of(&self, host: u32, now: Timestamp) -> Option<HostHardware> {
        let hot = self.hot.as_ref()?;
        let gpu = |index: u32| {
            let is_hot = hot.contains(&(host * RANKS_PER_HOST + index));
            Gpu {
                index,
                name: "NVIDIA H100".to_owned(),
                pci: pci_of(index),
                clock_mhz: Some(if is_hot { 1_200 } else { 1_980 }),
                // nvmlClocksEventReasonHwThermalSlowdown
                throttle_reasons: Some(if is_hot { 0x40 } else { 0 }),
                temperature_c: Some(if is_hot { 91 } else { 60 }),
                utilization_percent: Some(95),
                ..Gpu::default()
            }
        };
        Some(HostHardware {
            host: host_name(host),
            read_at_ns: now.0,
            gpus: (0..RANKS_PER_HOST).map(gpu).collect(),
            gpus_known: true,
            ..HostHardware::default()
        })
    }

    fn clock_of(&self, rank: u32, now: Timestamp) -> u64 {
        let ahead = self.shifted.filter(|(host, _)| *host == rank / RANKS_PER_HOST);
        now.0 + ahead.map_or(0, |(_, ahead)| ahead)
    }

    fn process(&mut self, index: u32, now_ns: u64) -> Process {
        let told = &mut self.ranks[index as usize];
        if told.life != Life::Runs {
            told.ended_ns.get_or_insert(now_ns);
        }
        if told.inside.is_some() && told.inside_ns == 0 {
            told.inside_ns = now_ns;
        }
        let told = &self.ranks[index as usize];
        let rank = &self.program.ranks[index as usize];
        let runs = told.life == Life::Runs;
        let busy = if told.activity == "R" { now_ns.saturating_sub(self.began.0) } else { 0 };
        let mut process = Process {
            key: format!("{}/{}/{}", host_name(index / RANKS_PER_HOST), PID + index, self.began.0),
            collector_state: CollectorState::On.into(),
            state: match told.life {
                Life::Runs => ProcessState::Running,
                Life::Killed => ProcessState::Killed,
                Life::Exited => ProcessState::Exited,
            }
            .into(),
            ended_at_ns: told.ended_ns,
            level: Level::Counters.into(),
            profiler_version: 5,
            calls_seen: true,
            n_libraries: 1,
            has_segment: true,
            segment_version: 5,
            last_returned_at_ns: Some(rank.returned_ns),
            activity: runs.then(|| Activity {
                state: told.activity.into(),
                cpu_ns: busy,
                read_at_ns: now_ns,
            }),
            open_calls: told
                .inside
                .map(|function| open_call(told.forming.is_some(), function, told.inside_ns))
                .into_iter()
                .collect(),
            ..Process::default()
        };
        if !told.known {
            process.identity = Some(self.identity(index));
        }
        // A state that changed is told once more, whole.
        if !told.known || told.has_left || told.error.is_some() {
            process.communicators = Kind::ALL.map(|kind| self.communicator(kind, index)).to_vec();
            process.communicators.extend(self.pace.as_ref().map(|_| self.pipeline(index)));
            process.communicators.extend(told.forming.map(|size| self.further(index, size)));
        }
        let spent = self.pace.as_ref().map(|pace| pace.spent(index));
        for kind in Kind::ALL {
            let busy_ns = spent.map_or(0, |spent| spent.busy_ns[kind as usize]);
            process.counters.push(Counters { busy_ns, ..counters(rank, kind) });
            process.sequences.push(sequence(rank, kind));
            let last = rank.last[kind as usize];
            process.last_completed.extend(last.map(|(call, at)| operation(&call, Some(at), false)));
        }
        process.counters.extend(spent.into_iter().flat_map(messages));
        process.in_flight.extend(rank.open.iter().map(|call| operation(call, None, told.never_starts)));
        process
    }

    fn identity(&self, rank: u32) -> Identity {
        Identity {
            host: host_name(rank / RANKS_PER_HOST),
            pid: PID + rank,
            start_time_ns: self.began.0,
            job: self.job.clone(),
            global_rank: Some(rank),
            world_size: Some(self.n_ranks()),
            local_rank: Some(rank % RANKS_PER_HOST),
            executable: "python3".into(),
            library_version: 22_809,
            ..Identity::default()
        }
    }

    fn communicator(&self, kind: Kind, index: u32) -> Communicator {
        let told = &self.ranks[index as usize];
        let (n_ranks, rank) = self.program.seat(kind, index);
        Communicator {
            local_id: kind as u64,
            comm_hash: 0x1000 + 0x1_0000 * (kind as u64 + 1) + u64::from(self.program.group(kind, index)),
            rank,
            n_ranks,
            state: if told.has_left { CommunicatorState::Destroyed } else { CommunicatorState::Active }
                .into(),
            created_at_ns: self.began.0,
            ended_at_ns: told.ended_ns.filter(|_| told.has_left),
            sources: Some(Sources { calls: true, plugin: true, log: false }),
            completion: Completion::Profiler.into(),
            made_by: "ncclCommInitRank".into(),
            gpu: pci_of(index % RANKS_PER_HOST),
            error: told.error.filter(|_| kind == Kind::World),
            error_function: told.error.map_or_else(String::new, |_| "ncclCommGetAsyncError".into()),
            error_at_ns: told.error.map(|_| self.program.ranks[index as usize].returned_ns),
            ..Communicator::default()
        }
    }

    /// The communicator among the stages: the hosts of one replica, the same GPU of each.
    fn pipeline(&self, index: u32) -> Communicator {
        let (host, stages) = (index / RANKS_PER_HOST, self.program.stages);
        let line = host / stages * RANKS_PER_HOST + index % RANKS_PER_HOST;
        Communicator {
            local_id: PIPELINE,
            comm_hash: 0x9000_0000 + u64::from(line),
            rank: host % stages,
            n_ranks: stages,
            ..self.communicator(Kind::Tensor, index)
        }
    }

    /// The communicator whose init does not end.
    fn further(&self, index: u32, n_ranks: u32) -> Communicator {
        Communicator {
            local_id: FURTHER,
            comm_hash: 0xfeed_0001,
            rank: index,
            n_ranks,
            state: CommunicatorState::Forming.into(),
            created_at_ns: self.ranks[index as usize].inside_ns,
            ..self.communicator(Kind::World, index)
        }
    }
}

/// Where the GPU of a local rank is.
fn pci_of(local_rank: u32) -> String {
    format!("0000:{local_rank:02x}:00.0")
}

fn host_name(host: u32) -> String {
    format!("gpu-{host:04}")
}

/// Name of the host that a rank is on.
pub(crate) fn host_of(rank: u32) -> String {
    host_name(rank / RANKS_PER_HOST)
}

/// GPUs, and ranks, of a host.
pub(crate) const RANKS_PER_HOST: u32 = 8;
/// `local_id` of the communicator whose init does not end.
pub(crate) const FURTHER: u64 = 3;
/// The same of the communicator among the stages of a pipeline.
pub(crate) const PIPELINE: u64 = 4;
/// Stages of a pipeline, where the hosts can be shared out among so many replicas at least.
const STAGES: [u32; 4] = [5, 4, 3, 2];
const REPLICAS_LEAST: u32 = 3;
/// Steps of the job between two readings, where its time is not told.
const STEPS_PER_ROUND: u64 = 5;
const PID: u32 = 10_000;
