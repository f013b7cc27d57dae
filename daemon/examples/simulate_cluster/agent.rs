//! The agent of one host, and the batches that it would send.

use std::sync::Arc;

use ringscope_api::clock::Timestamp;
use ringscope_wire::batch::{
    Batch, CollectorState, Communicator, FORMAT_VERSION, Identity, Level, Process, ProcessState, Slurm,
};

use crate::cluster::{Cluster, Host, Scheduler};
use crate::rings::{N_NICS, Seat};
use crate::traffic::{self, Progress};
use crate::{communicators, hardware};

pub(crate) struct Agent {
    cluster: Arc<Cluster>,
    host: u32,
    /// Processes of the job that runs, and of the one that has ended.
    processes: Vec<Member>,
    seq_number: u64,
    /// Whether the daemon has all that does not change.
    known: bool,
    told_at: Timestamp,
}

/// A rank of a job.
struct Member {
    job: usize,
    local: u32,
    pid: u32,
    communicators: Vec<Communicator>,
}

impl Agent {
    pub(crate) fn new(cluster: &Arc<Cluster>, host: u32) -> Self {
        let runs = cluster.hosts[host as usize].job;
        let ended = cluster.jobs.len() - 1;
        let jobs = [runs, ended].into_iter().filter(|job| cluster.jobs[*job].hosts.contains(&host));
        let locals = 0..cluster.shape.ranks_per_host;
        let processes =
            jobs.flat_map(|job| locals.clone().map(move |local| member(cluster, job, host, local))).collect();
        Self {
            cluster: Arc::clone(cluster),
            host,
            processes,
            seq_number: 1,
            known: false,
            told_at: cluster.began,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    pub(crate) fn taken(&mut self, resend_all: bool) {
        self.seq_number += 1;
        self.known = !resend_all;
    }

    /// The same number again; what the daemon had is in doubt.
    pub(crate) fn refused(&mut self) {
        self.known = false;
    }

    pub(crate) fn batch(&mut self, now: Timestamp) -> Batch {
        let host = self.me();
        let reads_hardware = !self.known || self.seq_number.is_multiple_of(HARDWARE_EVERY);
        let all = self.processes.iter().filter(|member| !self.known || self.runs(member));
        let batch = Batch {
            format_version: FORMAT_VERSION,
            agent_id: format!("simulated-{}-{}", host.name, self.cluster.began.0),
            seq_number: self.seq_number,
            agent_host: host.name.clone(),
            sent_at_ns: now.0,
            processes: all.map(|member| self.process(member, now)).collect(),
            hardware: reads_hardware.then(|| self.hardware(now)).into_iter().collect(),
            ..Batch::default()
        };
        self.told_at = now;
        batch
    }

    fn me(&self) -> &Host {
        &self.cluster.hosts[self.host as usize]
    }

    fn runs(&self, member: &Member) -> bool {
        self.cluster.jobs[member.job].ended.is_none()
    }

    fn progress(&self, member: &Member, now: Timestamp) -> Progress {
        let job = &self.cluster.jobs[member.job];
        Progress::new(job.started, job.ended.unwrap_or(now), self.cluster.fault_of(member.job))
    }

    fn process(&self, member: &Member, now: Timestamp) -> Process {
        let job = &self.cluster.jobs[member.job];
        let (progress, before) = (self.progress(member, now), self.progress(member, self.told_at));
        let running = self.runs(member);
        let mut process = Process {
            key: format!("{}/{}/{}", self.me().name, member.pid, job.started.0),
            collector_state: CollectorState::On.into(),
            state: if running { ProcessState::Running } else { ProcessState::Exited }.into(),
            ended_at_ns: job.ended.map(|ended| ended.0),
            exit_status: (!running).then_some(0),
            level: Level::Steps.into(),
            profiler_version: 5,
            calls_seen: true,
            n_libraries: 1,
            has_segment: true,
            ..Process::default()
        };
        for communicator in &member.communicators {
            process.counters.extend(traffic::counters(communicator, progress, running));
            process.links.extend(traffic::links(communicator, progress));
            if running {
                let [in_flight, last] = traffic::operations(communicator, progress, now);
                process.in_flight.extend(in_flight);
                process.last_completed.extend(last);
                process.completed_operations.extend(traffic::history(communicator, before, progress, now));
            }
        }
        if !self.known {
            process.identity = Some(self.identity(member));
            process.communicators.clone_from(&member.communicators);
        }
        process
    }

    fn identity(&self, member: &Member) -> Identity {
        let job = &self.cluster.jobs[member.job];
        let ranks_per_host = self.cluster.shape.ranks_per_host;
        Identity {
            host: self.me().name.clone(),
            pid: member.pid,
            start_time_ns: job.started.0,
            job: job.name.clone(),
            global_rank: Some((self.host - job.hosts.start) * ranks_per_host + member.local),
            world_size: Some((job.hosts.end - job.hosts.start) * ranks_per_host),
            local_rank: Some(member.local),
            executable: "python3".into(),
            library_version: 22_703,
            ..self.scheduled(member)
        }
    }

    /// What the scheduler has made of it.
    fn scheduled(&self, member: &Member) -> Identity {
        let place = self.host - self.cluster.jobs[member.job].hosts.start;
        match self.cluster.shape.scheduler {
            None => Identity::default(),
            Some(Scheduler::Slurm) => Identity {
                slurm: Some(Slurm {
                    job_id: 4100 + u32::try_from(member.job).unwrap_or_default(),
                    step_id: Some(0),
                    node: self.me().name.clone(),
                    ..Slurm::default()
                }),
                ..Identity::default()
            },
            Some(Scheduler::Kubernetes) => Identity {
                k8s_namespace: "research".into(),
                k8s_pod: format!("{}-workers-{place}-x7k2p", self.cluster.jobs[member.job].name),
                k8s_node: self.me().name.clone(),
                k8s_container: "pytorch".into(),
                ..Identity::default()
            },
        }
    }

    /// The NICs count what the rings send through them, and a little more for headers.
    fn hardware(&self, now: Timestamp) -> ringscope_wire::batch::HostHardware {
        let mut sent_bytes = [0; N_NICS as usize];
        for member in &self.processes {
            let progress = self.progress(member, now);
            for communicator in &member.communicators {
                for link in traffic::links(communicator, progress) {
                    let rings = || communicator.rings.iter().filter(|ring| ring.next == link.peer);
                    let share = link.sent_bytes / rings().count().max(1) as u64;
                    for nic in rings().filter_map(|ring| ring.nic_index) {
                        sent_bytes[nic as usize] += share + share / 50;
                    }
                }
            }
        }
        hardware::of_host(self.me(), self.cluster.shape.ranks_per_host, &sent_bytes, now)
    }
}

fn member(cluster: &Cluster, job: usize, host: u32, local: u32) -> Member {
    let hosts: Vec<&Host> = cluster.of_job(job).collect();
    let place = host - cluster.jobs[job].hosts.start;
    let ranks_per_host = cluster.shape.ranks_per_host;
    let pid = 41_000 + 1_000 * job as u32 + local;
    let seat = Seat { hosts: &hosts, place, local, ranks_per_host };
    Member { job, local, pid, communicators: communicators::of_rank(cluster, job, seat, pid) }
}

/// Every how many batches the hardware is read.
const HARDWARE_EVERY: u64 = 3;
