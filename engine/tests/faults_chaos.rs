//! Ranks killed at random moments, from before init on: no hang, no wrong result, nothing left behind.
//!
//! `RSCCL_CHAOS_ROUNDS` kills so often (`cargo xtask chaos` sets it); without it, as often as fits into the time budget.
//! `RSCCL_CHAOS_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::leftovers::Before;
use common::process::{Process, Random, now, setting, wait_until};
use common::{fault_program, folder};

/// Time for the rounds where their number is not given.
const BUDGET: Duration = Duration::from_secs(30);
/// Survivors say their error so soon after the death.
const ERROR_WAIT: Duration = Duration::from_secs(1);
/// What a machine that does other work besides may take longer; how often one does is printed.
const LOAD_WAIT: Duration = Duration::from_secs(60);
/// Of a rank that dies before it joins, nobody can know more than that it does not come.
const NOT_JOINED: &str = "did not join within 10 s";
/// What else is said where a timeout has passed: nobody is to learn of another death from silence.
const SILENCE: [&str; 5] =
    ["has not answered for", " within 10 s", "waited in", "wait for each other", "nothing has come from"];
/// Latest moments of a death, in turn: in init, which takes some milliseconds, about its end, and at work.
const LATEST_DEATH_US: [u64; 3] = [3_000, 20_000, 150_000];

#[derive(Clone, Copy, Debug)]
enum Over {
    Shm,
    Tcp,
    /// Two ranks per host.
    Both,
}

fn start(program: &Path, rank: usize, n_ranks: usize, id: &str, over: Over, seed: u64) -> Process {
    let host = match over {
        Over::Shm => 1,
        Over::Tcp | Over::Both => rank / 2 + 1,
    };
    let mut command = Command::new(program);
    command
        .args([rank.to_string(), n_ranks.to_string()])
        .args([if id.is_empty() { "-" } else { id }, if rank == 0 { "id-chaos" } else { "chaos" }])
        .env("RSCCL_HOST", format!("host-{host}"))
        .env("RSCCL_NICS", format!("mlx5_0=127.0.{host}.1,mlx5_1=127.0.{host}.2"))
        .env("RSCCL_SHM_DISABLE", if matches!(over, Over::Tcp) { "1" } else { "0" })
        .env("RSCCL_TIMEOUT_S", "10")
        .env("SEED", seed.to_string());
    Process::start(&mut command)
}

/// What one death came to.
#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    during_init: u64,
    slowest: Duration,
    late: u64,
    not_joined: u64,
}

fn round(program: &Path, random: &mut Random, tally: &mut Tally) {
    let over = [Over::Shm, Over::Tcp, Over::Both][usize::try_from(random.below(3)).unwrap()];
    let n_ranks = usize::try_from(2 + random.below(5)).unwrap();
    let victim = usize::try_from(random.below(n_ranks as u64)).unwrap();
    let seed = random.below(1 << 30);
    let wait =
        Duration::from_micros(random.below(LATEST_DEATH_US[usize::try_from(tally.rounds % 3).unwrap()]));
    let case = format!("{over:?}, {n_ranks} ranks, rank {victim} dies after {wait:?}, data {seed}");
    let first = start(program, 0, n_ranks, "", over, seed);
    let id = first.line(&case).1;
    let rest = (1..n_ranks).map(|rank| start(program, rank, n_ranks, &id, over, seed));
    let mut ranks: Vec<Process> = std::iter::once(first).chain(rest).collect();
    for rank in &ranks {
        assert_eq!(rank.line(&case).1, "INIT", "{case}");
    }
    wait_until(now() + wait);
    ranks[victim].child.kill().unwrap();
    let died = now();
    let before = ranks[victim].lines.iter().map(|(_, line)| line).collect::<Vec<_>>();
    assert!(before.iter().all(|line| line == "READY"), "{case}: {before:?}");
    let mut in_init = false;
    for (rank, process) in ranks.iter().enumerate().filter(|(rank, _)| *rank != victim) {
        let case = format!("{case}: rank {rank}");
        let (mut when, mut line) = process.line(&case);
        let was_ready = line == "READY";
        if was_ready {
            (when, line) = process.line(&case);
        }
        in_init |= !was_ready;
        judge(&case, &line, victim, was_ready);
        let took = when.saturating_duration_since(died);
        if line.contains(NOT_JOINED) {
            tally.not_joined += 1;
        } else {
            assert!(took < ERROR_WAIT + LOAD_WAIT, "{case}: {took:?}");
            tally.slowest = tally.slowest.max(took);
            tally.late += u64::from(took > ERROR_WAIT);
        }
        let (_, line) = process.line(&case);
        assert_eq!(line, "CLEAN", "{case}");
    }
    tally.rounds += 1;
    tally.during_init += u64::from(in_init);
}

/// After init, every survivor names the dead rank. During it, a rank may only know that the root, in rank 0, is gone.
fn judge(case: &str, line: &str, victim: usize, was_ready: bool) {
    assert!(line.starts_with("ERROR "), "{case}: {line}");
    let named = line.contains(&format!("rank {victim} "));
    let root = victim == 0 && line.contains("bootstrap root");
    let early = !was_ready && line.contains(&format!("rank {victim}"));
    assert!(named || root || early, "{case}: {line}");
    let is_late = SILENCE.iter().any(|words| line.contains(words)) && !line.contains(NOT_JOINED);
    assert!(!is_late, "{case}: {line}");
}

#[test]
fn ranks_die_at_any_moment() {
    let program = fault_program(&folder("chaos"));
    let seed = setting("RSCCL_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()) + 1);
    let rounds = setting("RSCCL_CHAOS_ROUNDS");
    println!("RSCCL_CHAOS_SEED={seed}");
    let mut random = Random::new(seed);
    let (before, start, mut tally) = (Before::now(), now(), Tally::default());
    while rounds.map_or(start.elapsed() < BUDGET, |rounds| tally.rounds < rounds) {
        round(&program, &mut random, &mut tally);
    }
    before.nothing_is_left();
    let Tally { rounds, during_init, slowest, late, not_joined } = tally;
    println!(
        "{rounds} deaths, {during_init} of them during init: 0 hangs, 0 wrong results, 0 left files or sockets; \
             survivors' errors after at most {:.0} ms, {late} of them after more than {} ms; {not_joined} more of ranks that died before they joined",
        slowest.as_secs_f64() * 1000.0,
        ERROR_WAIT.as_millis()
    );
}
