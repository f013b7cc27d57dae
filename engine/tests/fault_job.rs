//! The training job in which something goes wrong (examples/fault_job), on the engine alone: as a healthy job, and with
//! one fault of each kind of evidence.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::process::{HANG_WAIT, Process, now};
use common::{fault_job_program, folder};
use serde_json::Value;

/// Ranks of a job, two on each host.
struct Job {
    ranks: Vec<Process>,
    name: String,
}

impl Job {
    fn start(program: &Path, n_ranks: usize, arguments: &[&str]) -> Self {
        Self::start_each(program, n_ranks, arguments, &|_| Vec::new())
    }

    /// With arguments for each.
    fn start_each<'a>(
        program: &Path,
        n_ranks: usize,
        arguments: &[&str],
        own: &dyn Fn(usize) -> Vec<&'a str>,
    ) -> Self {
        let name = format!("{} of {n_ranks}", arguments.join(" "));
        let place = folder(&format!("fault-job-{n_ranks}{}", arguments.concat().replace(',', "-")));
        let start = |rank: usize| {
            let host = rank / 2 + 1;
            let mut command = Command::new(program);
            command
                .args(["--rank", &rank.to_string(), "--ranks", &n_ranks.to_string(), "--dir"])
                .arg(&place)
                .args(["--step-ms", "5"])
                .args(arguments)
                .args(own(rank))
                .env("RSCCL_FAITHFUL", "2.28")
                .env("RSCCL_HOST", format!("host-{host}"))
                .env("RSCCL_NICS", format!("mlx5_0=127.0.{host}.1"));
            Process::start(&mut command)
        };
        Self { ranks: (0..n_ranks).map(start).collect(), name }
    }

    /// The next event of this kind that a rank tells of; it must not tell of a wrong result before.
    fn event(&self, rank: usize, kind: &str) -> Value {
        loop {
            let (_, line) = self.ranks[rank].line(&format!("{}, rank {rank}, {kind}", self.name));
            let event: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(event["rank"], rank);
            if event["event"] == kind {
                return event;
            }
            assert!(
                !["wrong", "error", "end"].contains(&event["event"].as_str().unwrap()),
                "{}: {line}",
                self.name
            );
        }
    }

    /// All ranks take all steps with right results, and end in order.
    fn goes_well(mut self, steps: u64) {
        for rank in 0..self.ranks.len() {
            for step in 0..steps {
                assert_eq!(self.event(rank, "step")["step"], step, "{}", self.name);
            }
            assert_eq!(self.event(rank, "end")["status"], 0, "{}", self.name);
            assert!(self.ranks[rank].child.wait().unwrap().success(), "{}", self.name);
        }
    }
}

fn program(name: &str) -> PathBuf {
    fault_job_program(&folder(&format!("fault-job-{name}")))
}

#[test]
fn healthy_jobs_of_all_shapes_end_with_right_results() {
    let program = program("healthy");
    for (job, n_ranks) in [("dp", 4), ("2d", 4), ("3d", 8)] {
        Job::start(&program, n_ranks, &["--job", job, "--steps", "6"]).goes_well(6);
        Job::start(&program, n_ranks, &["--job", job, "--steps", "6", "--layers", "3"]).goes_well(6);
    }
    let unequal = ["--job", "3d", "--steps", "6", "--layers", "3", "--fault", "unequal_stages"];
    Job::start(&program, 8, &unequal).goes_well(6);
}

#[test]
fn what_only_looks_like_a_fault_ends_as_well() {
    let program = program("harmless");
    let always = ["--steps", "6", "--at", "2", "--pause-ms", "300", "--fault"];
    for kind in [
        "late",
        "slow_start",
        "checkpoint",
        "evaluation",
        "uneven",
        "unused_comm",
        "many_comms",
        "staggered_end",
        "uneven_batches",
        "warm_up",
        "first_steps",
        "evaluation_phase",
        "noisy_neighbour",
        "overlapped",
        "remade",
        "short_spell",
        "small_pieces",
    ] {
        let victim: &[&str] = if find(&program, kind)["min_victims"] == 1 { &["--victim", "1"] } else { &[] };
        Job::start(&program, 4, &[&always[..], &[kind], victim].concat()).goes_well(6);
    }
    Job::start(&program, 4, &[&always[..], &["early_end"]].concat()).goes_well(2);
}

/// Every rank tells by how much, before and after; the job takes at least as much longer, and its results are right.
#[test]
fn a_slow_rank_makes_the_job_slower_by_what_it_tells() {
    let program = program("slow");
    let always = "--job 2d --layers 4 --steps 7 --at 3 --step-ms 20 --spread-percent 0 --victim 3 --pause-ms 90 --every 2";
    let always: Vec<&str> = always.split(' ').collect();
    for (kind, percent, slower_ms) in [
        ("slow_steady", "30", [0, 0, 0, 6, 6, 6, 6]),
        ("slow_busy", "100", [0, 0, 0, 20, 20, 20, 20]),
        ("slow_growing", "1000", [0, 0, 0, 0, 2, 4, 6]),
        ("slow_periodic", "30", [0, 0, 0, 90, 0, 90, 0]),
        ("uneven_work", "60", [0, 0, 0, 12, 12, 12, 12]),
        ("other_role", "60", [0, 0, 0, 12, 12, 12, 12]),
        ("cpu_quota", "30", [0, 0, 0, 0, 0, 0, 0]),
    ] {
        let job = Job::start(&program, 4, &[&always[..], &["--percent", percent, "--fault", kind]].concat());
        let (mut last_ns, mut fault_ns) = (0, u64::MAX);
        for (step, ms) in slower_ms.iter().enumerate() {
            if step == 3 {
                let fault = job.event(3, "fault");
                assert_eq!((&fault["kind"], &fault["step"]), (&kind.into(), &3.into()));
                fault_ns = told_at(&fault);
            }
            let event = job.event(3, "step");
            let slower_us = event["slower_us"].as_u64().unwrap();
            assert_eq!((&event["step"], slower_us), (&step.into(), ms * 1_000), "{kind}");
            let took_ns = told_at(&event) - last_ns;
            assert!(took_ns >= 1_000 * (20_000 + slower_us), "{kind}: step {step} took {took_ns} ns");
            last_ns = told_at(&event);
        }
        let ended_ns = told_at(&job.event(0, "end"));
        let least_ns = slower_ms.iter().map(|ms| 1_000_000 * (20 + ms)).sum::<u64>() - 3 * 20_000_000;
        assert!(ended_ns - fault_ns >= least_ns, "{kind}: rank 0 waits for rank 3");
        job.event(3, "end");
    }
}

fn told_at(event: &Value) -> u64 {
    event["monotonic_ns"].as_u64().unwrap()
}

#[test]
fn a_rank_that_is_stopped_now_and_then_goes_on_in_between() {
    let always = ["--fault", "stopped_duty", "--victim", "2", "--at", "1", "--steps", "100000"];
    let job = Job::start(&program("duty"), 4, &always);
    job.event(2, "fault");
    let stat = format!("/proc/{}/stat", job.ranks[2].child.id());
    let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
    for _ in 0..3 {
        for wanted in [true, false] {
            let until = now() + HANG_WAIT;
            while is_stopped() != wanted {
                assert!(now() < until, "rank 2 is stopped: {}", !wanted);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        job.event(0, "step");
    }
}

#[test]
fn a_rank_that_the_job_does_not_have_is_refused_as_such() {
    let program = program("no-such-rank");
    let said = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["--rank", "9", "--ranks", "4", "--dir", "/tmp"]).contains("--rank: not below --ranks"));
    assert!(said(&["--rank", "0", "--ranks", "4"]).contains("give --rank, --ranks and --dir"));
}

/// What the program says of a kind.
fn find(program: &Path, kind: &str) -> Value {
    let output = Command::new(program).arg("--list").output().unwrap().stdout;
    let kinds = String::from_utf8(output).unwrap();
    let mut all = kinds.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.find(|one| one["kind"] == kind).unwrap_or_else(|| panic!("no kind {kind}"))
}

#[test]
fn an_elastic_job_goes_on_with_fewer_ranks() {
    let job = Job::start(&program("elastic"), 6, &["--steps", "5", "--at", "3", "--fault", "elastic"]);
    for rank in 0..6 {
        assert_eq!(job.event(rank, "formed")["n_ranks"], 6);
        assert_eq!(job.event(rank, "twin")["kind"], "elastic");
        if rank < 5 {
            assert_eq!(job.event(rank, "formed")["n_ranks"], 5);
            assert_eq!(job.event(rank, "step")["step"], 3);
        }
        job.event(rank, "end");
    }
}

/// The victim tells of the fault before it happens. Rank 0 has a watchdog that gives up; by then it has not taken the step
/// in which that was. Another root is not among them: as in NCCL, some rank has garbage, and who waits where depends on the
/// ring. A job starts once the one before has come to its fault: all wait for their watchdogs at once.
#[test]
fn faults_stop_the_job_where_they_happen() {
    let program = program("faults");
    let kinds =
        ["sleep", "other_primitive", "swapped_order", "send_alone", "recv_alone", "send_size", "skip_one"];
    let start = |kind: &'static str| {
        let arguments = ["--fault", kind, "--victim", "2", "--at", "3", "--job", "2d"];
        let watched = |rank: usize| if rank == 0 { "10000" } else { "0" };
        let job = Job::start_each(&program, 4, &arguments, &|rank| vec!["--abort-after-ms", watched(rank)]);
        let fault = job.event(2, "fault");
        assert_eq!((&fault["kind"], &fault["step"]), (&kind.into(), &3.into()));
        (kind, job)
    };
    let jobs = kinds.map(start);
    for (kind, job) in jobs {
        for step in 0..3 {
            assert_eq!(job.event(0, "step")["step"], step, "{kind}");
        }
        let (_, line) = job.ranks[0].line(kind);
        assert!(line.contains("\"event\":\"aborting\""), "{kind}: {line}");
    }
}

#[test]
fn a_mistake_in_the_arguments_is_refused() {
    let program = program("refused");
    for (arguments, why) in [
        (&["--rank", "0", "--ranks", "4"][..], "--dir"),
        (&["--rank", "0", "--ranks", "5", "--dir", "/tmp", "--job", "2d"], "multiple"),
        (&["--rank", "0", "--ranks", "4", "--dir", "/tmp", "--fault", "stop"], "--victim"),
        (&["--rank", "0", "--ranks", "4", "--dir", "/tmp", "--fault", "nonsense"], "--list"),
        (&["--rank", "0", "--ranks", "4", "--dir", "/tmp", "--fault", "unequal_stages"], "--job 3d"),
        (
            &["--rank", "0", "--ranks", "3", "--dir", "/tmp", "--fault", "uneven_work", "--victim", "1"],
            "even number",
        ),
    ] {
        let output = Command::new(&program).args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && text.contains(why), "{arguments:?}: {text}");
    }
}
