//! Workers and servers of a summation group killed at random moments: all others name the dead one, none hangs, no sum is
//! wrong, and with `RSUM_ON_LOSS=continue` the rest goes on with right sums.
//!
//! `RSUM_CHAOS_ROUNDS` kills so often (`cargo xtask chaos --summation` sets it), else 12 times. `RSUM_CHAOS_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::sum::{Group, sum_program};

/// Deaths where their number is not given.
const ROUNDS: u64 = 12;
/// Survivors name the dead one so soon after the death.
const ERROR_WAIT: Duration = Duration::from_secs(1);
/// What a machine that does other work besides may take longer.
const LOAD_WAIT: Duration = Duration::from_secs(3);
/// A process that says nothing for this long hangs.
const HANG_WAIT: Duration = Duration::from_secs(20);
/// Latest moments of a death, in turn: while the first connections are made, in the first rounds, and at work.
const LATEST_DEATH_US: [u64; 3] = [2_000, 30_000, 200_000];

/// xorshift64*, so that a seed is all that a run depends on.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit as u64;
        usize::try_from(drawn).unwrap()
    }
}

#[expect(clippy::disallowed_methods, reason = "the times of deaths and errors are what the test is about")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the settings of this test")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A worker or a server, and when it said what.
struct Process {
    child: Child,
    lines: mpsc::Receiver<(Instant, String)>,
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

    /// The next line with this in it, and when it came; a process that says nothing hangs.
    fn wait_for(&self, text: &str, case: &str) -> (Instant, String) {
        loop {
            let (when, line) =
                self.lines.recv_timeout(HANG_WAIT).unwrap_or_else(|_| panic!("{case}: no {text:?}"));
            assert!(!line.starts_with("WRONG"), "{case}: {line}");
            if line.contains(text) {
                return (when, line);
            }
        }
    }
}

impl Process {
    /// Waits until it has said all; a process that says nothing hangs.
    fn wait_for_end(&self, case: &str) {
        loop {
            match self.lines.recv_timeout(HANG_WAIT) {
                Ok((_, line)) => assert!(!line.starts_with("WRONG"), "{case}: {line}"),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{case} hangs"),
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

/// A group, and who dies in it.
#[derive(Clone, Copy, Debug)]
struct Case {
    n_workers: usize,
    n_servers: usize,
    over_memory: bool,
    continues: bool,
    /// Workers before servers.
    victim: usize,
    death: Duration,
    /// While the processes still meet: the others learn that from the rendezvous, from the making of the communicator, or
    /// from the group, so all that is asked is that none hangs.
    early: bool,
}

/// What the deaths came to.
#[derive(Debug, Default)]
struct Tally {
    deaths: u64,
    early: u64,
    of_servers: u64,
    went_on: u64,
    slowest: Duration,
    late: u64,
}

impl Case {
    fn draw(random: &mut Random, round: u64) -> Self {
        let (n_workers, n_servers) = (2 + random.below(2), random.below(3));
        let latest = LATEST_DEATH_US[usize::try_from(round % 3).unwrap()];
        Self {
            n_workers,
            n_servers,
            over_memory: random.below(2) == 0,
            continues: random.below(3) > 0,
            victim: random.below(n_workers + n_servers),
            death: Duration::from_micros(random.below(usize::try_from(latest).unwrap()) as u64),
            early: random.below(4) == 0,
        }
    }

    /// Workers before servers.
    fn start(&self, program: &Path) -> Vec<Process> {
        let group = Group::new(program, self.n_workers, self.n_servers);
        let on_loss = if self.continues { "continue" } else { "stop" };
        let shm = if self.over_memory { "0" } else { "1" };
        let timeout = if self.early { "2" } else { "10" };
        let environment =
            [("RSUM_ON_LOSS", on_loss), ("RSCCL_SHM_DISABLE", shm), ("RSCCL_TIMEOUT_S", timeout)];
        let workers =
            (0..self.n_workers).map(|worker| group.worker_command(worker, &[on_loss], &environment));
        let servers = (0..self.n_servers).map(|_| group.server_command(&[], &environment));
        workers.chain(servers).map(|mut command| Process::start(&mut command)).collect()
    }
}

/// Nobody tells when a random moment has come.
fn wait_until(moment: Instant) {
    while now() < moment {
        std::thread::yield_now();
    }
}

fn round(program: &Path, case: &Case, tally: &mut Tally) {
    let text = format!("{case:?}");
    let mut processes = case.start(program);
    if case.early {
        wait_until(now() + case.death);
        processes[case.victim].child.kill().unwrap();
        let workers = processes.iter().take(case.n_workers).enumerate();
        for (index, worker) in workers.filter(|(index, _)| *index != case.victim) {
            worker.wait_for_end(&format!("{text}: {index}"));
        }
        (tally.deaths, tally.early) = (tally.deaths + 1, tally.early + 1);
        return;
    }
    processes.iter().take(case.n_workers).for_each(|worker| drop(worker.wait_for("READY", &text)));
    // A server's rank is known by what it says; a worker's is its number.
    let rank = |process: &Process| {
        let (_, line) = process.wait_for("joined as rank", &text);
        line.split(' ').nth(4).unwrap().parse::<usize>().unwrap()
    };
    let ranks: Vec<usize> = (0..case.n_workers).chain(processes[case.n_workers..].iter().map(rank)).collect();
    wait_until(now() + case.death);
    processes[case.victim].child.kill().unwrap();
    let died = now();
    let survivors = || processes.iter().enumerate().filter(|(index, _)| *index != case.victim);
    for (index, process) in survivors() {
        let word = if index < case.n_workers { "LOST" } else { "the group has failed" };
        let (when, line) = process.wait_for(word, &text);
        assert!(line.contains(&format!("rank {} (", ranks[case.victim])), "{text}: {index} says {line}");
        let took = when.saturating_duration_since(died);
        assert!(took < ERROR_WAIT + LOAD_WAIT, "{text}: {index} took {took:?}");
        tally.slowest = tally.slowest.max(took);
        tally.late += u64::from(took > ERROR_WAIT);
    }
    let goes_on = case.continues && case.victim != 0;
    for (index, process) in survivors().take_while(|(index, _)| case.continues && *index < case.n_workers) {
        if goes_on {
            let (_, line) = process.wait_for("SUMS", &text);
            assert!(line.ends_with("epoch 1"), "{text}: {index} says {line}");
            process.wait_for("DONE", &text);
        } else {
            process.wait_for("ERROR resume: the process that gives the rendezvous", &text);
        }
    }
    for (index, process) in processes.iter_mut().enumerate().filter(|(index, _)| *index != case.victim) {
        let status = process.child.wait().unwrap();
        let is_well = if index < case.n_workers { goes_on || !case.continues } else { goes_on };
        let said: Vec<String> = process.lines.iter().map(|(_, line)| line).collect();
        assert_eq!(status.success(), is_well, "{text}: {index} ended with {status}: {said:?}");
    }
    tally.deaths += 1;
    tally.of_servers += u64::from(case.victim >= case.n_workers);
    tally.went_on += u64::from(goes_on);
}

#[test]
fn members_die_at_any_moment() {
    let program = sum_program("sum-chaos");
    let seed = setting("RSUM_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()) + 1);
    let rounds = setting("RSUM_CHAOS_ROUNDS").unwrap_or(ROUNDS);
    println!("RSUM_CHAOS_SEED={seed}");
    let mut random = Random(seed.max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut tally = Tally::default();
    for number in 0..rounds {
        let case = Case::draw(&mut random, number);
        round(&program, &case, &mut tally);
    }
    let Tally { deaths, early, of_servers, went_on, slowest, late } = tally;
    println!(
        "{deaths} deaths, {early} while they met, {of_servers} more of servers: 0 hangs, 0 wrong sums; named by all survivors after at most {:.0} ms, {late} times \
             after more than {} ms; {went_on} groups went on with right sums",
        slowest.as_secs_f64() * 1000.0,
        ERROR_WAIT.as_millis()
    );
}
