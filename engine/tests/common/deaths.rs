//! Members of summation groups that die at random moments, and what the others make of it.
//!
//! `RSUM_CHAOS_ROUNDS` is the number of deaths; without it there are few. `RSUM_CHAOS_SEED` repeats a run.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::process::{Process, Random, now, setting, wait_until};
use super::sum::Group;

/// Deaths where their number is not given.
const ROUNDS: u64 = 12;
/// Survivors name the dead one so soon after the death.
const ERROR_WAIT: Duration = Duration::from_secs(1);
/// What a machine that does other work besides may take longer; how often one does is printed.
const LOAD_WAIT: Duration = Duration::from_secs(60);
/// Latest moments of a death, in turn: while the first connections are made, in the first rounds, and at work.
const LATEST_DEATH_US: [u64; 3] = [2_000, 30_000, 200_000];

/// A group, and who dies in it.
#[derive(Clone, Copy, Debug)]
struct Case {
    n_workers: usize,
    n_servers: usize,
    over_memory: bool,
    continues: bool,
    /// The worker whose values the others get, where that is all that they do.
    broadcasts_from: Option<usize>,
    /// Workers before servers.
    victim: usize,
    death: Duration,
    /// While the processes still meet: the others learn that from the rendezvous, from the making of the communicator, or
    /// from the group, so all that is asked is that none hangs.
    early: bool,
}

/// Somebody who has just died.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// Of which group, from 0.
    pub(crate) group: u64,
    /// Its rank there.
    pub(crate) rank: usize,
    pub(crate) is_server: bool,
    pub(crate) at: Instant,
}

/// What sees the groups from outside.
pub(crate) trait Onlooker {
    /// A member's command as it is to be run.
    fn dress(&self, group: u64, command: Command) -> Command;
    /// Waits until it names the dead one; when it did.
    fn names(&self, death: Death, case: &str) -> Instant;
}

/// What the deaths came to.
#[derive(Debug, Default)]
struct Tally {
    deaths: u64,
    early: u64,
    of_servers: u64,
    /// Of those that gave the rendezvous.
    of_roots: u64,
    /// In groups that broadcast; and of the worker whose values the others get.
    broadcasts: u64,
    of_sources: u64,
    went_on: u64,
    /// From a death to a survivor's word, one for each survivor.
    survivors: Vec<Duration>,
    /// The same to the onlooker's, one for each death.
    onlooker: Vec<Duration>,
}

impl Case {
    fn draw(random: &mut Random, round: u64) -> Self {
        let (n_workers, n_servers) = (2 + random.index(2), random.index(3));
        let latest = LATEST_DEATH_US[usize::try_from(round % 3).unwrap()];
        let broadcasts_from = (random.below(2) == 0).then(|| random.index(n_workers));
        // Half of the deaths in broadcasts are aimed: at whose values the others get, or at who gives the rendezvous.
        let victim = match (broadcasts_from, random.below(4)) {
            (Some(source), 0) => source,
            (Some(_), 1) => 0,
            _ => random.index(n_workers + n_servers),
        };
        Self {
            n_workers,
            n_servers,
            over_memory: random.below(2) == 0,
            continues: random.below(3) > 0,
            broadcasts_from,
            victim,
            death: Duration::from_micros(random.below(latest)),
            early: random.below(4) == 0,
        }
    }

    /// Workers before servers.
    fn start(&self, program: &Path, dress: impl Fn(Command) -> Command) -> Vec<Process> {
        let group = Group::new(program, self.n_workers, self.n_servers);
        let on_loss = if self.continues { "continue" } else { "stop" };
        let shm = if self.over_memory { "0" } else { "1" };
        // Early, the rest may wait for it, and who is too slow for it only ends as well. Later it is longer than an error
        // may take: nobody is to learn of a death from silence.
        let timeout = if self.early { "2" } else { "120" };
        let environment =
            [("RSUM_ON_LOSS", on_loss), ("RSCCL_SHM_DISABLE", shm), ("RSCCL_TIMEOUT_S", timeout)];
        let source = self.broadcasts_from.map(|source| source.to_string());
        let arguments = source.as_ref().map_or(vec![on_loss], |source| vec!["broadcast", source]);
        let workers =
            (0..self.n_workers).map(|worker| group.worker_command(worker, &arguments, &environment));
        let servers = (0..self.n_servers).map(|_| group.server_command(&[], &environment));
        workers.chain(servers).map(|command| Process::start(&mut dress(command))).collect()
    }
}

/// One group's life and its member's death.
struct Round<'a> {
    case: Case,
    text: String,
    processes: Vec<Process>,
    tally: &'a mut Tally,
}

impl Round<'_> {
    fn survivors(&self) -> impl Iterator<Item = (usize, &Process)> {
        self.processes.iter().enumerate().filter(|(index, _)| *index != self.case.victim)
    }

    fn is_worker(&self, index: usize) -> bool {
        index < self.case.n_workers
    }

    fn die_early(&mut self) {
        wait_until(now() + self.case.death);
        self.processes[self.case.victim].child.kill().unwrap();
        for (index, worker) in self.survivors().filter(|(index, _)| self.is_worker(*index)) {
            worker.wait_for_end(&format!("{}: {index}", self.text));
        }
        self.tally.early += 1;
    }

    /// A server's rank is known by what it says; a worker's is its number.
    fn victims_rank(&self) -> usize {
        let process = &self.processes[self.case.victim];
        if self.is_worker(self.case.victim) {
            return self.case.victim;
        }
        let (_, line) = process.wait_for("joined as rank", &self.text);
        line.split(' ').nth(4).unwrap().parse().unwrap()
    }

    fn die(&mut self, group: u64, onlooker: Option<&dyn Onlooker>) {
        let Case { n_workers, victim, death, .. } = self.case;
        self.processes.iter().take(n_workers).for_each(|worker| drop(worker.wait_for("READY", &self.text)));
        let rank = self.victims_rank();
        wait_until(now() + death);
        self.processes[victim].child.kill().unwrap();
        let died = now();
        let is_server = !self.is_worker(victim);
        if let Some(onlooker) = onlooker {
            let named = onlooker.names(Death { group, rank, is_server, at: died }, &self.text);
            self.tally.onlooker.push(named.saturating_duration_since(died));
        }
        self.survivors_name(rank, died);
        self.tally.of_servers += u64::from(is_server);
        self.go_on();
    }

    fn survivors_name(&mut self, rank: usize, died: Instant) {
        let mut times = Vec::new();
        for (index, process) in self.survivors() {
            let word = if self.is_worker(index) { "LOST" } else { "the group has failed" };
            let (when, line) = process.wait_for(word, &self.text);
            assert!(line.contains(&format!("rank {rank} (")), "{}: {index} says {line}", self.text);
            let took = when.saturating_duration_since(died);
            assert!(took < ERROR_WAIT + LOAD_WAIT, "{}: {index} took {took:?}", self.text);
            times.push(took);
        }
        self.tally.survivors.extend(times);
    }

    /// The rest sums on, or ends, as it was told to.
    fn go_on(&mut self) {
        let Case { continues, victim, broadcasts_from, .. } = self.case;
        let text = self.text.clone();
        for (index, process) in self.survivors().filter(|(index, _)| continues && self.is_worker(*index)) {
            let (_, line) = process.wait_for("SUMS", &text);
            assert!(line.ends_with("epoch 1"), "{text}: {index} says {line}");
            process.wait_for("DONE", &text);
        }
        for index in (0..self.processes.len()).filter(|index| *index != victim) {
            let is_well = self.is_worker(index) || continues;
            let process = &mut self.processes[index];
            let status = process.child.wait().unwrap();
            let said: Vec<String> = process.lines.iter().map(|(_, line)| line).collect();
            assert_eq!(status.success(), is_well, "{text}: {index} ended with {status}: {said:?}");
        }
        self.tally.went_on += u64::from(continues);
        self.tally.of_roots += u64::from(victim == 0);
        self.tally.broadcasts += u64::from(broadcasts_from.is_some());
        self.tally.of_sources += u64::from(broadcasts_from == Some(victim));
    }
}

/// Kills, as often as the environment says, and prints what came of it.
pub(crate) fn kill_members(program: &Path, onlooker: Option<&dyn Onlooker>) {
    let seed = setting("RSUM_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()) + 1);
    let rounds = setting("RSUM_CHAOS_ROUNDS").unwrap_or(ROUNDS);
    println!("RSUM_CHAOS_SEED={seed}");
    let (mut random, mut tally) = (Random::new(seed), Tally::default());
    for number in 0..rounds {
        let case = Case::draw(&mut random, number);
        let dress = |command| match onlooker {
            Some(onlooker) => onlooker.dress(number, command),
            None => command,
        };
        let processes = case.start(program, dress);
        let text = format!("group {number}, {case:?}");
        let mut round = Round { case, text, processes, tally: &mut tally };
        if case.early {
            round.die_early()
        } else {
            round.die(number, onlooker)
        }
        tally.deaths += 1;
    }
    tally.print();
}

impl Tally {
    fn print(self) {
        let Self {
            deaths,
            early,
            of_servers,
            of_roots,
            broadcasts,
            of_sources,
            went_on,
            survivors,
            onlooker,
        } = self;
        println!(
            "{deaths} deaths: {early} while they met, {of_servers} of servers and {} of workers at work ({of_roots} of \
             those that gave the rendezvous); 0 hangs, 0 wrong sums; {went_on} groups went on with right sums",
            deaths - early - of_servers
        );
        println!(
            "{broadcasts} of them in groups that did nothing but broadcast, {of_sources} of those of the worker whose values the \
             others get; 0 wrong values"
        );
        println!("named by survivors {}", times(survivors));
        if !onlooker.is_empty() {
            println!("named by the onlooker {}", times(onlooker));
        }
    }
}

/// In words.
fn times(mut all: Vec<Duration>) -> String {
    all.sort_unstable();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    let late = all.iter().filter(|time| **time > ERROR_WAIT).count();
    format!(
        "{} times: after {:.0} ms in the median, {:.0} ms in 9 of 10 cases, {:.0} ms at most; {late} times after more than {} ms",
        all.len(),
        ms(all.get(all.len() / 2)),
        ms(all.get(all.len() * 9 / 10)),
        ms(all.last()),
        ERROR_WAIT.as_millis()
    )
}
