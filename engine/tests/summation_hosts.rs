//! Groups of real processes whose hosts sum first what their workers contribute: their sums, and what comes of a relay's death.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::sum::{Group, sum_program};

/// Of one host.
const HOST_WORKERS: usize = 2;
const N_WORKERS: usize = 4;
/// Survivors name the dead one so soon after the death,
const ERROR_WAIT: Duration = Duration::from_secs(1);
/// or, on a machine that does other work besides, so much later.
const LOAD_WAIT: Duration = Duration::from_secs(60);
/// A process that says nothing for this long hangs.
const HANG_WAIT: Duration = Duration::from_secs(120);

/// A worker or a server, and when it said what.
struct Process {
    child: Child,
    lines: mpsc::Receiver<(Instant, String)>,
}

#[expect(clippy::disallowed_methods, reason = "the times of deaths and errors are what the test is about")]
fn now() -> Instant {
    Instant::now()
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = said.send((now(), line));
            }
        });
        Self { child, lines }
    }

    /// The next line with this in it, and when it came.
    fn wait_for(&self, text: &str) -> (Instant, String) {
        loop {
            let said = self.lines.recv_timeout(HANG_WAIT);
            let (when, line) = said.unwrap_or_else(|_| panic!("no {text:?}"));
            assert!(!line.starts_with("WRONG"), "{line}");
            if line.contains(text) {
                return (when, line);
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Workers on hosts of two, then servers on hosts of their own.
fn start(program: &Path, n_servers: usize, what: &str) -> Vec<Process> {
    let group = Group::new(program, N_WORKERS, n_servers);
    let of_host = HOST_WORKERS.to_string();
    let environment = |host: &'static str| {
        [
            ("RSCCL_HOST", host),
            ("SUM_HOST_WORKERS", of_host.as_str()),
            // Several parts for each relay.
            ("RSUM_PARTITION_BYTES", "100000"),
            ("RSUM_ON_LOSS", "continue"),
            // Longer than an error may take: nobody is to learn of a death from silence.
            ("RSCCL_TIMEOUT_S", "120"),
        ]
    };
    let hosts = ["host-1", "host-2", "host-3", "host-4"];
    let worker =
        |worker: usize| group.worker_command(worker, &[what], &environment(hosts[worker / HOST_WORKERS]));
    let servers = (0..n_servers)
        .map(|server| group.server_command(&[], &environment(hosts[N_WORKERS / HOST_WORKERS + server])));
    let commands = (0..N_WORKERS).map(worker).chain(servers);
    commands.map(|mut command| Process::start(&mut command)).collect()
}

#[test]
fn sums_are_those_of_the_tree_whatever_the_servers() {
    let program = sum_program("sum-hosts");
    let mut fingerprints = std::collections::BTreeSet::new();
    for n_servers in [0, 1, 2] {
        let processes = start(&program, n_servers, "sums");
        for worker in &processes[..N_WORKERS] {
            let (_, line) = worker.wait_for("SUMS");
            fingerprints.insert(line.split(' ').nth(1).unwrap().to_owned());
            worker.wait_for("DONE");
        }
    }
    assert_eq!(fingerprints.len(), 1, "{fingerprints:?}");
}

#[test]
fn a_relay_that_dies_is_named_by_all_others_and_the_rest_goes_on() {
    let program = sum_program("sum-relays");
    for victim in 1..N_WORKERS {
        let mut processes = start(&program, 1, "continue");
        processes[..N_WORKERS].iter().for_each(|worker| drop(worker.wait_for("READY")));
        // In the middle of whatever round that is: every worker is the relay of some of each round's parts.
        let moment = now() + Duration::from_millis(60);
        while now() < moment {
            std::thread::yield_now();
        }
        processes[victim].child.kill().unwrap();
        let died = now();
        for (index, process) in processes.iter().enumerate().filter(|(index, _)| *index != victim) {
            let word = if index < N_WORKERS { "LOST" } else { "the group has failed" };
            let (when, line) = process.wait_for(word);
            assert!(line.contains(&format!("rank {victim} (")), "{index} says {line}");
            let took = when.saturating_duration_since(died);
            println!("worker {victim} was named by process {index} after {took:?}");
            assert!(took < ERROR_WAIT + LOAD_WAIT, "{index} took {took:?}");
        }
        for worker in processes[..N_WORKERS].iter().enumerate().filter(|(index, _)| *index != victim) {
            let (_, line) = worker.1.wait_for("SUMS");
            assert!(line.ends_with("epoch 1"), "{line}");
            worker.1.wait_for("DONE");
        }
    }
}
