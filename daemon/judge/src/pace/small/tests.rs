//! Jobs whose steps are calls of known sizes and times, and what is said of these.

use ringscope_api::{Finding, FindingKind, Severity};
use ringscope_model::Model;
use ringscope_samples::cluster::{Cluster, at, batch};
use ringscope_wire::Primitive;
use ringscope_wire::batch::{Counters, OwnTime, Process};

use crate::Diagnosis;

const KIB: u64 = 1024;

/// Calls of a step, one after the other: bytes and how long each takes, in microseconds.
type Step = Vec<(u64, u64)>;

/// A job of four ranks on one host, which all call at the same time.
struct Job {
    cluster: Cluster,
    /// What a step computes before its calls.
    compute_us: u64,
    step: Step,
    /// Whether a step's calls are all made at once, and wait for each other.
    is_queued: bool,
    operations_per_step: u32,
    calls: u64,
    bytes: u64,
    own_us: u64,
    now_us: u64,
}

/// Jobs, and who judges them.
struct Stage {
    jobs: Vec<Job>,
    model: Model,
    diagnosis: Diagnosis,
    s: u64,
}

impl Job {
    fn new(job: &'static str, compute_us: u64, step: Step) -> Self {
        let cluster = Cluster { job, ..Cluster::new(&[("a", 4, 2)], 2) };
        let operations_per_step = u32::try_from(step.len()).unwrap();
        Self {
            cluster,
            compute_us,
            step,
            is_queued: false,
            operations_per_step,
            calls: 0,
            bytes: 0,
            own_us: 0,
            now_us: 0,
        }
    }

    /// Whole steps until the second is over; of its calls every so many-th is told one by one.
    fn words(&mut self, until_s: u64) -> Vec<Process> {
        let mut told = Vec::new();
        let step_us = self.compute_us + self.step.iter().map(|(_, us)| us).sum::<u64>();
        let per_s = self.step.len() as u64 * 1_000_000 / step_us;
        let every = (per_s / 2).max(1).next_power_of_two();
        while self.now_us < until_s * 1_000_000 {
            self.now_us += self.compute_us;
            self.own_us += self.compute_us;
            let began_us = self.now_us;
            for (bytes, us) in &self.step {
                let called_us = if self.is_queued { began_us } else { self.now_us };
                self.now_us += us;
                if self.calls.is_multiple_of(every) {
                    let mut operation = self.cluster.operation(self.calls, 0, None);
                    operation.call_number = Some(self.calls);
                    operation.bytes = *bytes;
                    operation.issued_at_ns = at(0).0 + called_us * 1_000;
                    operation.completed_at_ns = Some(at(0).0 + self.now_us * 1_000);
                    told.push(operation);
                }
                self.calls += 1;
                self.bytes += bytes;
            }
        }
        let word = |rank: u32| Process {
            own_time: Some(OwnTime {
                covered_ns: self.now_us * 1_000,
                own_ns: self.own_us * 1_000,
                operations: self.calls,
                operations_per_step: self.operations_per_step,
                ..OwnTime::default()
            }),
            counters: vec![Counters {
                issued_bytes: self.bytes,
                completed_bytes: self.bytes,
                ..self.cluster.counters(Primitive::AllReduce, self.calls, self.calls, 0)
            }],
            completed_operations: told.clone(),
            ..self.cluster.word(rank)
        };
        (0..self.cluster.n_ranks()).map(word).collect()
    }
}

impl Stage {
    fn new(jobs: Vec<Job>) -> Self {
        let mut model = Model::new();
        let processes = jobs.iter().enumerate().flat_map(|(index, job)| {
            let mut processes = job.cluster.processes();
            processes.iter_mut().for_each(|process| process.key = key(index, &process.key));
            processes
        });
        model.apply(&batch(1, 0, processes.collect()), at(0));
        Self { jobs, model, diagnosis: Diagnosis::new(), s: 0 }
    }

    fn second(&mut self) -> Vec<Finding> {
        self.s += 1;
        let mut processes = Vec::new();
        for (index, job) in self.jobs.iter_mut().enumerate() {
            let words = job.words(self.s);
            processes.extend(words.into_iter().map(|word| Process { key: key(index, &word.key), ..word }));
        }
        self.model.apply(&batch(self.s + 1, self.s, processes), at(self.s));
        self.diagnosis.update(&self.model, None, at(self.s));
        let is_it = |finding: &&Finding| finding.finding == FindingKind::TooSmall;
        self.diagnosis.firing().filter(is_it).cloned().collect()
    }

    fn first(&mut self, seconds: u64) -> Option<Finding> {
        (0..seconds).find_map(|_| self.second().into_iter().next())
    }

    #[track_caller]
    fn stay_calm(mut self) {
        let found = self.first(120);
        assert!(found.is_none(), "{found:#?}");
    }
}

/// Processes of several jobs have keys of their own.
fn key(job: usize, key: &str) -> String {
    format!("{key}{job}")
}

fn small(n: usize) -> Step {
    vec![(4 * KIB, 100); n]
}

/// 64 of 4 KiB at 100 us, then one of 256 KiB at 320 us.
fn with_a_large_one(n: usize) -> Step {
    let mut step = small(n);
    step.push((256 * KIB, 320));
    step
}

#[test]
fn a_job_of_many_small_ones_is_told_what_fusing_would_give() {
    let mut stage = Stage::new(vec![Job::new("train", 2_000, with_a_large_one(64))]);
    let finding = stage.first(120).unwrap();
    assert_eq!(
        (finding.severity, &*finding.comm),
        (Severity::Info, &*stage.jobs[0].cluster.id().to_string())
    );
    assert_eq!(
        finding.message,
        "73 % of the job's time goes into all_reduce of 4.0 KiB at 61.4 MB/s; 64 of them in one would take 1/20 of the time \
         (measured: 256.0 KiB at 1.23 GB/s)"
    );
    let cost = finding.cost.unwrap();
    let (saved_s, step_s) = (64.0 * 100e-6 - 320e-6, 2e-3 + 64.0 * 100e-6 + 320e-6);
    assert!((cost.seconds_per_step - saved_s).abs() < 0.05 * saved_s, "{cost:?}");
    assert!((cost.percent - 100.0 * saved_s / step_s).abs() < 4.0, "{cost:?}");
    let later = (0..20).map(|_| stage.second()).last().unwrap();
    assert_eq!((later.len(), &later[0].id), (1, &finding.id));
    assert!(later[0].cost.unwrap().rank_hours > cost.rank_hours);
    // It fuses them.
    stage.jobs[0].step = vec![(256 * KIB, 320); 2];
    assert!((0..120).any(|_| stage.second().is_empty()), "it ends");
}

#[test]
fn larger_ones_may_be_measured_on_a_communicator_like_it() {
    let other = |step| Job::new("other", 50_000, step);
    let mut stage = Stage::new(vec![Job::new("train", 2_000, small(64)), other(vec![(256 * KIB, 320)])]);
    let finding = stage.first(60).unwrap();
    assert_eq!(finding.job, "train");
    assert!(
        finding.message.contains("(measured on a communicator like it: 256.0 KiB"),
        "{}",
        finding.message
    );
    // Nothing larger is known, or nothing that is faster.
    Stage::new(vec![Job::new("train", 2_000, small(64))]).stay_calm();
    Stage::new(vec![Job::new("train", 2_000, small(64)), other(vec![(256 * KIB, 6_400)])]).stay_calm();
}

#[test]
fn small_ones_that_are_queued_take_their_part_of_the_time_each() {
    let other = Job::new("other", 50_000, vec![(256 * KIB, 320)]);
    let queued = Job { is_queued: true, ..Job::new("train", 2_000, small(64)) };
    let finding = Stage::new(vec![queued, other]).first(60).unwrap();
    assert!(finding.message.contains("would take 1/20 of the time"), "{}", finding.message);
}

#[test]
fn who_has_no_reason_to_fuse_is_left_alone() {
    let calm =
        |job: Job| Stage::new(vec![job, Job::new("other", 50_000, vec![(256 * KIB, 320)])]).stay_calm();
    // Few small ones beside large ones: by chance, or always, the small ones are those that are told.
    let mut few = vec![(4 * KIB, 100); 3];
    few.push((64 * KIB * KIB, 20_000));
    calm(Job::new("train", 2_000, few));
    // It mostly computes.
    calm(Job::new("train", 60_000, with_a_large_one(64)));
    // Barriers.
    let mut barriers = vec![(4, 100); 64];
    barriers.push((256 * KIB, 320));
    calm(Job::new("train", 2_000, barriers));
    // One large one, and small ones that wait in the queue behind it.
    let mut behind = vec![(64 * KIB * KIB, 20_000)];
    behind.extend(small(64));
    calm(Job { is_queued: true, ..Job::new("train", 2_000, behind) });
    // One each step.
    calm(Job::new("train", 100, vec![(4 * KIB, 100), (256 * KIB, 320)]));
}
