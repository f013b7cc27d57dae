//! How long a look at a job of ten thousand ranks takes, in peace, while one rank is stopped and after half of them have
//! died at once: the model and the diagnosis of the daemon, in this process, without HTTP and store.
//!
//! `cargo run --release -p ringscope --example bench_judge -- [--hosts 1250] [--rounds 30]`
//!
//! Each host has eight ranks; each rank is in a communicator of all, one of its host and one of its local rank over all
//! hosts. Every second each rank completes some calls and has one open. Prints one table and one line of JSON.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark fails by them")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program of its own, with its own clock"
)]
#![allow(missing_docs, reason = "not a library")]

use std::time::Duration;

use ringscope_api::clock::Timestamp;
use ringscope_judge::Diagnosis;
use ringscope_model::Model;
use ringscope_wire::batch::{
    self, Activity, Batch, CallSequence, CollectorState, Communicator, CommunicatorState, Completion,
    FORMAT_VERSION, Identity, Operation, OperationState, OwnTime, Primitive, Process, ProcessState, Sources,
};

const PER_HOST: u32 = 8;
const START_NS: u64 = 1_800_000_000_000_000_000;
/// When the daemon looks, after the agents have told.
const LOOK_AFTER_NS: u64 = 200_000_000;
/// What a look may cost in peace, of one core at one look a second, and what one may take while a communicator of all
/// ranks hangs, also where half of them are dead.
const PEACE_PERCENT: f64 = 5.0;
const HANG_MS: f64 = 1_000.0;

/// The job, and what was told of it.
struct Job {
    hosts: u32,
    s: u64,
    /// Rank that makes no calls any more, and how many it had made.
    stopped: Option<(u32, u64)>,
    /// From when on the ranks from the middle on are dead.
    dead_since: Option<u64>,
}

impl Job {
    /// What each host's agent tells in this second.
    fn batches(&self) -> impl Iterator<Item = Batch> {
        (0..self.hosts).map(|host| Batch {
            format_version: FORMAT_VERSION,
            agent_id: format!("agent-{host}"),
            seq_number: self.s + 1,
            agent_host: format!("node-{host:04}"),
            sent_at_ns: self.now().0,
            processes: (0..PER_HOST).filter_map(|local| self.told(host, local)).collect(),
            ..Batch::default()
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp(START_NS + self.s * 1_000_000_000)
    }

    /// A process, unless it has told of its death before.
    fn told(&self, host: u32, local: u32) -> Option<Process> {
        let process = self.process(host, local);
        match self.dead_since.filter(|_| host >= self.hosts / 2) {
            None => Some(process),
            Some(since) if since < self.s => None,
            Some(_) => Some(Process {
                state: ProcessState::Killed.into(),
                ended_at_ns: Some(self.now().0),
                activity: None,
                ..process
            }),
        }
    }

    fn process(&self, host: u32, local: u32) -> Process {
        let rank = host * PER_HOST + local;
        let name = format!("node-{host:04}");
        let n = self.hosts * PER_HOST;
        let mut process = Process {
            key: format!("{name}/{}/1", 1_000 + local),
            collector_state: CollectorState::On.into(),
            level: batch::Level::Counters.into(),
            has_segment: true,
            calls_seen: true,
            segment_version: 5,
            profiler_version: 5,
            activity: Some(Activity {
                state: if self.is_stopped(rank) { "T" } else { "S" }.to_owned(),
                cpu_ns: self.s * 500_000_000,
                read_at_ns: self.now().0,
            }),
            ..Process::default()
        };
        if self.s == 0 {
            process.identity = Some(Identity {
                host: name,
                pid: 1_000 + local,
                job: "bench".to_owned(),
                global_rank: Some(rank),
                world_size: Some(n),
                ..Identity::default()
            });
            process.communicators = vec![
                communicator(0, 0xa11, rank, n),
                communicator(1, 0x1000 + u64::from(host), local, PER_HOST),
                communicator(2, 0x2_0000 + u64::from(local), host, self.hosts),
            ];
        }
        process.own_time = Some(OwnTime {
            covered_ns: self.s * 1_000_000_000,
            own_ns: self.s * 400_000_000 + u64::from(rank % 7) * 1_000_000,
            operations: self.s * 24,
            operations_per_step: 24,
            usual_step_ns: 400_000_000,
            step_spread_ns: 10_000_000,
            ..OwnTime::default()
        });
        // Who waits for the stopped one makes no other calls either.
        for local_id in 0..3_u64 {
            let done = self.stopped.map_or(self.s, |(_, since)| since) * 8;
            let open = u64::from(local_id == 0 && !self.is_stopped(rank));
            process.sequences.push(CallSequence {
                local_id,
                calls: done + open,
                hash: done + open,
                marks: Vec::new(),
                sampled_log2: 0,
            });
            if open > 0 {
                process.in_flight.push(self.operation(local_id, done, false));
            }
            if done > 0 {
                process.last_completed.push(self.operation(local_id, done - 1, true));
            }
        }
        process
    }

    fn is_stopped(&self, rank: u32) -> bool {
        self.stopped.is_some_and(|(stopped, _)| stopped == rank)
    }

    fn operation(&self, local_id: u64, number: u64, completed: bool) -> Operation {
        let since = self.stopped.map_or(self.s, |(_, since)| since);
        let issued_at_ns = START_NS + since * 1_000_000_000 - 100_000_000;
        Operation {
            local_id,
            primitive: Primitive::AllReduce.into(),
            seq_number: number,
            call_number: Some(number),
            count: 1 << 20,
            bytes: 4 << 20,
            datatype: 7,
            op: Some(0),
            state: if completed { OperationState::Completed } else { OperationState::Issued }.into(),
            issued_at_ns,
            start_known: true,
            started_at_ns: Some(issued_at_ns + 10_000),
            completed_at_ns: completed.then_some(issued_at_ns + 50_000_000),
            ..Operation::default()
        }
    }
}

fn communicator(local_id: u64, comm_hash: u64, rank: u32, n_ranks: u32) -> Communicator {
    Communicator {
        local_id,
        comm_hash,
        rank,
        n_ranks,
        state: CommunicatorState::Active.into(),
        created_at_ns: START_NS,
        sources: Some(Sources { calls: true, plugin: true, log: false }),
        completion: Completion::Profiler.into(),
        ..Communicator::default()
    }
}

/// What looks took, and how many findings there were at the end.
struct Looks {
    looks_ms: Vec<f64>,
    ticks_ms: Vec<f64>,
    n_findings: usize,
}

fn rounds(job: &mut Job, model: &mut Model, diagnosis: &mut Diagnosis, n: usize) -> Looks {
    let mut looks = Looks { looks_ms: Vec::new(), ticks_ms: Vec::new(), n_findings: 0 };
    let ms = |start: Duration| (processor_time() - start).as_secs_f64() * 1_000.0;
    for _ in 0..n {
        job.s += 1;
        for batch in job.batches() {
            model.apply(&batch, job.now());
        }
        let later = Timestamp(job.now().0 + LOOK_AFTER_NS);
        let start = processor_time();
        diagnosis.update_jobs(model, None, later);
        looks.looks_ms.push(ms(start));
        let start = processor_time();
        model.tick(later);
        diagnosis.update(model, None, later);
        looks.ticks_ms.push(ms(start));
    }
    looks.n_findings = diagnosis.firing().filter(|finding| finding.accused.len() == 1).count();
    looks
}

/// What this thread has used of a core: a busy machine changes little of it.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let value = |name: &str| args.get(args.iter().position(|arg| arg == name)? + 1)?.parse().ok();
    let mut job = Job { hosts: value("--hosts").unwrap_or(1_250), s: 0, stopped: None, dead_since: None };
    let n: usize = value("--rounds").map_or(30, |n: u32| n as usize);
    let (mut model, mut diagnosis) = (Model::new(), Diagnosis::new());
    for batch in job.batches() {
        model.apply(&batch, job.now());
    }
    let peace = rounds(&mut job, &mut model, &mut diagnosis, n);
    job.stopped = Some((job.hosts * PER_HOST / 2, job.s + 1));
    let hang = rounds(&mut job, &mut model, &mut diagnosis, n);
    job.dead_since = Some(job.s + 1);
    let death = rounds(&mut job, &mut model, &mut diagnosis, n);
    println!("{} ranks, {n} looks each", job.hosts * PER_HOST);
    println!("            look, median   longest   whole tick, median   accusing one");
    for (name, looks) in [("peace", &peace), ("one stopped", &hang), ("half dead", &death)] {
        let longest = looks.looks_ms.iter().copied().fold(0.0, f64::max);
        let (look, tick) = (median(&looks.looks_ms), median(&looks.ticks_ms));
        println!("{name:<11} {look:>10.1} ms {longest:>6.1} ms {tick:>17.1} ms {:>14}", looks.n_findings);
    }
    let percent = median(&peace.looks_ms) / 10.0;
    let longest = |looks: &Looks| looks.looks_ms.iter().copied().fold(0.0, f64::max);
    let (longest, longest_of_dead) = (longest(&hang), longest(&death));
    let word = |met: bool| if met { "met" } else { "not met" };
    println!(
        "peace: {percent:.2} % of a core, at most {PEACE_PERCENT} %: {}",
        word(percent <= PEACE_PERCENT)
    );
    println!("hang: {longest:.0} ms a look, at most {HANG_MS} ms: {}", word(longest <= HANG_MS));
    println!(
        "deaths: {longest_of_dead:.0} ms a look, at most {HANG_MS} ms: {}",
        word(longest_of_dead <= HANG_MS)
    );
    println!(
        "{}",
        serde_json::json!({
            "benchmark": "judge",
            "ranks": job.hosts * PER_HOST,
            "peace_look_ms": median(&peace.looks_ms),
            "peace_tick_ms": median(&peace.ticks_ms),
            "hang_look_ms": median(&hang.looks_ms),
            "hang_look_max_ms": longest,
            "hang_findings": hang.n_findings,
            "half_dead_look_ms": median(&death.looks_ms),
            "half_dead_look_max_ms": longest_of_dead,
        })
    );
}
