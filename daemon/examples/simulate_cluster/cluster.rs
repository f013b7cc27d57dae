//! Who is there: hosts, which of them are degraded and how, and which jobs run on them.

use ringscope_api::clock::Timestamp;

/// What was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) hosts: u32,
    pub(crate) ranks_per_host: u32,
    pub(crate) degraded: u32,
    pub(crate) seed: u64,
    pub(crate) scheduler: Option<Scheduler>,
}

/// Who has started the jobs.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Scheduler {
    Slurm,
    Kubernetes,
}

/// What is wrong with a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The last NIC is down: one channel less.
    NicDown,
    /// The network plugin did not load: its hops run over sockets.
    Socket,
    /// Two NICs have changed places.
    CrossRail,
}

/// A machine.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) fault: Option<Fault>,
    /// Job that runs on it.
    pub(crate) job: usize,
}

/// Processes on neighbouring hosts that train together.
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) hosts: std::ops::Range<u32>,
    pub(crate) started: Timestamp,
    /// When it ended. Absent: it runs.
    pub(crate) ended: Option<Timestamp>,
}

/// All of it.
pub(crate) struct Cluster {
    pub(crate) shape: Shape,
    pub(crate) hosts: Vec<Host>,
    /// The last one has ended, on the hosts of the last that runs.
    pub(crate) jobs: Vec<Job>,
    /// When the simulation started.
    pub(crate) began: Timestamp,
}

impl Cluster {
    pub(crate) fn new(shape: Shape, began: Timestamp) -> Self {
        let mut jobs = running(shape, began);
        let host = |(index, job): (u32, usize)| Host {
            name: format!("gpu-r{:02}n{:02}", index / 16 + 1, index % 16 + 1),
            fault: None,
            job,
        };
        let of_job = |(number, job): (usize, &Job)| job.hosts.clone().map(move |index| (index, number));
        let mut hosts: Vec<Host> = jobs.iter().enumerate().flat_map(of_job).map(host).collect();
        degrade(&mut hosts, &jobs, shape);
        jobs.extend(jobs.last().map(|last| Job {
            name: "llm-7b-eval".to_owned(),
            hosts: last.hosts.start..last.hosts.end.min(last.hosts.start + SMALL_HOSTS),
            started: ago(began, 3 * 3600),
            ended: Some(ago(began, 2 * 3600 + 1200)),
        }));
        Self { shape, hosts, jobs, began }
    }

    /// The degraded host of a job; the others are held back by it.
    pub(crate) fn fault_of(&self, job: usize) -> Option<Fault> {
        self.of_job(job).find_map(|host| host.fault)
    }

    /// The hosts of a job, by place.
    pub(crate) fn of_job(&self, job: usize) -> impl Iterator<Item = &Host> {
        self.jobs[job].hosts.clone().map(|index| &self.hosts[index as usize])
    }

    /// For a person.
    pub(crate) fn words(&self) -> String {
        let degraded = self.hosts.iter().filter_map(|host| Some(format!("{} {:?}", host.name, host.fault?)));
        format!(
            "{} hosts x {} ranks in {} jobs; degraded: {}",
            self.hosts.len(),
            self.shape.ranks_per_host,
            self.jobs.len(),
            degraded.collect::<Vec<_>>().join(", ")
        )
    }
}

/// Jobs over all hosts, the last of them small if there are hosts enough.
fn running(shape: Shape, began: Timestamp) -> Vec<Job> {
    let small = if shape.hosts > 2 * SMALL_HOSTS { SMALL_HOSTS } else { 0 };
    let large = shape.hosts - small;
    let mut starts: Vec<u32> = (0..large).step_by(JOB_HOSTS as usize).collect();
    let n_large = starts.len();
    starts.extend((small > 0).then_some(large));
    let ends = starts.iter().skip(1).copied().chain([shape.hosts]);
    let job = |(index, (start, end)): (usize, (u32, u32))| Job {
        name: match (index < n_large, NAMES.get(index)) {
            (false, _) => "llm-7b-finetune".to_owned(),
            (true, Some(name)) => (*name).to_owned(),
            (true, None) => format!("sweep-{index:02}"),
        },
        hosts: start..end,
        started: ago(began, 2 * 3600 - 600 * (index as u64 % 10)),
        ended: None,
    };
    starts.iter().copied().zip(ends).enumerate().map(job).collect()
}

/// One degraded host in each of the first jobs, then a second; the first host of a job stays healthy.
fn degrade(hosts: &mut [Host], jobs: &[Job], shape: Shape) {
    let mut random = shape.seed;
    for index in 0..shape.degraded as usize {
        let job = &jobs[index % jobs.len()];
        let n_hosts = job.hosts.end - job.hosts.start;
        if n_hosts < 2 {
            continue;
        }
        let place = 1 + (next(&mut random) % u64::from(n_hosts - 1)) as u32;
        hosts[(job.hosts.start + place) as usize].fault = Some(FAULTS[index % FAULTS.len()]);
    }
}

/// The next number of `SplitMix64`.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn ago(time: Timestamp, seconds: u64) -> Timestamp {
    Timestamp(time.0.saturating_sub(seconds * 1_000_000_000))
}

/// Hosts of a job: 1 024 ranks where there are eight a host.
const JOB_HOSTS: u32 = 128;
const SMALL_HOSTS: u32 = 8;
const FAULTS: [Fault; 3] = [Fault::NicDown, Fault::Socket, Fault::CrossRail];
const NAMES: [&str; 8] = [
    "llm-405b-pretrain",
    "llm-70b-pretrain",
    "moe-8x22b-pretrain",
    "vision-22b",
    "speech-3b",
    "llm-70b-ablation",
    "diffusion-12b",
    "reward-model",
];
