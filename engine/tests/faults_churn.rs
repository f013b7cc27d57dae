//! Faults in jobs that make, split, shrink and use communicators without end, several ranks to a process: outside the
//! faithful mode every survivor has an error; in it each waits, or has the error that NCCL's has, and the user's abort
//! frees it. In every second round of the faithful mode a profiler plugin hears of all that.
//!
//! `RSCCL_CHAOS_ROUNDS` is the number of faults of each mode (`cargo xtask chaos --churn` sets it); without it, as many as
//! fit into the time budget. `RSCCL_CHAOS_SEED` repeats a run, `RSCCL_CHAOS_FAITHFUL` is the version of NCCL.

#![allow(clippy::print_stdout, reason = "a run says what it came to")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::leftovers::Before;
use common::process::{HANG_WAIT, Process, Random, now, setting, text_setting, wait_until};
use common::{compile, events, folder};

/// Time for the rounds where their number is not given.
const BUDGET: Duration = Duration::from_secs(10);
/// Latest moments of a fault, in turn: while the communicator is made, about its end, and at work.
const LATEST_FAULT_US: [u64; 3] = [10_000, 60_000, 300_000];
/// How often a rank is asked before it counts as waiting, a millisecond or more apart.
const ASKS: &str = "60";
/// The user's abort frees a rank so soon; on a machine that does other work, later, and how often is printed.
const FREE_WAIT_US: u64 = 100_000;
/// Silence of a stopped process counts as its death after this, outside the faithful mode.
const TIMEOUT_S: &str = "3";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Over {
    Shm,
    Tcp,
    /// Two processes on each host.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The kernel ends a process.
    Kill,
    /// A process is stopped, and ended once the others are free.
    Stop,
    /// A rank gives its communicators up.
    Abort,
    /// A process ends by `exit` without a destroy.
    Exit,
}

#[derive(Clone, Debug)]
struct Case {
    over: Over,
    fault: Fault,
    n_processes: usize,
    n_threads: usize,
    victim: usize,
    moment: Duration,
    seed: u64,
    faithful: Option<String>,
    plugin: Option<PathBuf>,
}

/// Survivors of one kind of fault.
#[derive(Debug, Default)]
struct Outcome {
    waited: u64,
    /// While a communicator was made, for which all ranks meet over sockets.
    failed_to_make: u64,
    /// In a call, or later.
    had_an_error: u64,
}

/// What survivors made of the faults.
#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    /// By fault and transport.
    outcomes: BTreeMap<(Fault, Over), Outcome>,
    /// Microseconds from the user's abort to the end of the call that waited.
    freed_us: Vec<u64>,
    /// Ranks that were in a destroy, which nothing aborts.
    in_destroy: u64,
}

impl Case {
    fn draw(random: &mut Random, round: u64, faithful: Option<String>, plugin: Option<PathBuf>) -> Self {
        let n_processes = 2 + random.index(3);
        let latest = LATEST_FAULT_US[usize::try_from(round % 3).unwrap()];
        Self {
            over: [Over::Shm, Over::Tcp, Over::Both][random.index(3)],
            fault: [Fault::Kill, Fault::Stop, Fault::Abort, Fault::Exit][random.index(4)],
            n_processes,
            n_threads: 1 + random.index(2),
            victim: random.index(n_processes),
            moment: Duration::from_micros(random.below(latest)),
            seed: random.below(1 << 30),
            faithful,
            plugin,
        }
    }

    fn start_process(&self, program: &Path, process: usize, id: &str) -> Process {
        let host = if self.over == Over::Shm { 1 } else { process / 2 + 1 };
        let first = (process * self.n_threads).to_string();
        let (threads, ranks) = (self.n_threads.to_string(), (self.n_processes * self.n_threads).to_string());
        let mut command = Command::new(program);
        command
            .args([&first, &threads, &ranks, id, &self.seed.to_string()])
            .env("RSCCL_HOST", format!("host-{host}"))
            .env("RSCCL_NICS", format!("mlx5_0=127.0.{host}.1,mlx5_1=127.0.{host}.2"))
            .env("RSCCL_SHM_DISABLE", if self.over == Over::Tcp { "1" } else { "0" })
            .env("RSCCL_FAITHFUL", self.faithful.as_deref().unwrap_or("off"))
            .env("RSCCL_TIMEOUT_S", TIMEOUT_S)
            .stdin(Stdio::piped());
        if let Some(plugin) = &self.plugin {
            command.env("NCCL_PROFILER_PLUGIN", plugin).env("PLUGIN_LOG", told(plugin));
        }
        Process::start(&mut command)
    }

    fn start(&self, program: &Path) -> Vec<Process> {
        let first = self.start_process(program, 0, "-");
        let id = first.line(&self.text(0)).1;
        let rest = (1..self.n_processes).map(|process| self.start_process(program, process, &id));
        std::iter::once(first).chain(rest).collect()
    }

    fn text(&self, process: usize) -> String {
        format!("{self:?}: process {process}")
    }

    /// What happens to the victim.
    fn strike(&self, process: &mut Process) {
        match self.fault {
            Fault::Kill => process.child.kill().unwrap(),
            Fault::Stop => {
                let pid = process.child.id().to_string();
                assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
            }
            Fault::Abort => tell(process, &format!("abort {}", self.victim * self.n_threads)),
            Fault::Exit => tell(process, "exit"),
        }
    }

    /// Processes whose ranks are not at fault, and of one whose single rank has aborted, the others.
    fn survivors(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.n_processes).filter(|process| *process != self.victim || self.fault == Fault::Abort)
    }
}

impl Outcome {
    /// One "ERROR rank code where …"; whether it came while a communicator was made.
    fn count(&mut self, error: &str) -> bool {
        let is_in_making = is_in_making(error);
        *(if is_in_making { &mut self.failed_to_make } else { &mut self.had_an_error }) += 1;
        is_in_making
    }
}

/// Whether an end, "ERROR rank code where …" or "FREED rank microseconds where", came while a communicator was made.
fn is_in_making(end: &str) -> bool {
    end.split(' ').nth(3).is_some_and(|place| ["init", "split", "shrink"].contains(&place))
}

fn tell(process: &mut Process, command: &str) {
    // Who has ended hears nothing.
    let _ = writeln!(process.child.stdin.as_mut().unwrap(), "{command}");
}

/// What a process has said until its ranks have ended.
fn hear_out(process: &Process, case: &str) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        let (_, line) = process.line(case);
        assert!(!line.starts_with("WRONG") && !line.starts_with("LEAK"), "{case}: {line}, after {said:?}");
        if line == "CLEAN" {
            return said;
        }
        said.push(line);
    }
}

/// Outside the faithful mode: each survivor has an error by itself.
fn all_have_errors(case: &Case, processes: &[Process], tally: &mut Tally) {
    for at in case.survivors() {
        let said = hear_out(&processes[at], &case.text(at));
        let errors = said.iter().filter(|line| line.starts_with("ERROR ")).count();
        let aborted = usize::from(at == case.victim && case.fault == Fault::Abort);
        assert_eq!(errors, case.n_threads - aborted, "{}: {said:?}", case.text(at));
        let outcome = tally.outcomes.entry((case.fault, case.over)).or_default();
        said.iter().filter(|line| line.starts_with("ERROR ")).for_each(|line| {
            outcome.count(line);
        });
    }
}

/// What the ranks of a process are in, by rank: steps, where, error. None any more once all have ended.
type States = BTreeMap<usize, (u64, String, i32)>;

/// A process that is asked, and what its ranks have said of their ends.
struct Asked<'a> {
    process: &'a mut Process,
    case: String,
    ends: Vec<String>,
    is_over: bool,
}

impl Asked<'_> {
    fn states(&mut self) -> States {
        let mut states = States::new();
        if self.is_over {
            return states;
        }
        tell(self.process, &format!("state {ASKS}"));
        loop {
            let line = self.hear();
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "ASKED" => return states,
                "STATE" => {
                    let state = (words[2].parse().unwrap(), words[3].to_owned(), words[4].parse().unwrap());
                    states.insert(words[1].parse().unwrap(), state);
                }
                _ if self.is_over => return States::new(),
                _ => {}
            }
        }
    }

    /// The next line; ends are kept.
    fn hear(&mut self) -> String {
        let (_, line) = self.process.line(&self.case);
        // As NCCL's, a root whose own rank gave up before anybody came waits on.
        let has_left_a_root = line.starts_with("LEAK") && self.ends.iter().any(|end| is_in_making(end));
        let is_wrong = line.starts_with("WRONG") || (line.starts_with("LEAK") && !has_left_a_root);
        assert!(!is_wrong, "{}: {line}, after {:?}", self.case, self.ends);
        if line.starts_with("ERROR ") || line.starts_with("FREED ") {
            self.ends.push(line.clone());
        }
        self.is_over |= line == "CLEAN" || has_left_a_root;
        line
    }
}

/// In the faithful mode nobody is told. Once nothing changes any more, the user gives up.
fn all_wait_until_given_up(case: &Case, processes: &mut [Process], tally: &mut Tally) {
    let of = |(at, process)| Asked { process, case: case.text(at), ends: Vec::new(), is_over: false };
    let mut asked: Vec<Asked<'_>> = processes.iter_mut().enumerate().map(of).collect();
    let victim = asked.remove(case.victim);
    let stopped = match case.fault {
        Fault::Abort => {
            asked.push(victim);
            None
        }
        Fault::Stop => Some(victim.process),
        Fault::Kill | Fault::Exit => None,
    };
    let before = until_all_stand_still(case, &mut asked);
    let ranks: Vec<_> = before.iter().flat_map(States::values).collect();
    let waiting = ranks.iter().filter(|(_, _, code)| [0, 7].contains(code)).count();
    assert!(case.over != Over::Shm || waiting == ranks.len(), "{case:?}: told over memory: {ranks:?}");
    let outcome = tally.outcomes.entry((case.fault, case.over)).or_default();
    outcome.waited += waiting as u64;
    outcome.had_an_error += (ranks.len() - waiting) as u64;
    for end in asked.iter().flat_map(|one| &one.ends).filter(|end| end.starts_with("ERROR ")) {
        let is_in_making = outcome.count(end);
        assert!(case.over != Over::Shm || is_in_making, "{case:?}: told over memory: {end}");
    }
    asked.iter_mut().filter(|one| !one.is_over).for_each(|one| tell(one.process, "give-up"));
    // A destroy waits for the ranks of its host, and nothing but their end ends that.
    stopped.into_iter().for_each(|process| process.child.kill().unwrap());
    asked.iter_mut().for_each(|one| all_are_free(one, tally));
}

fn until_all_stand_still(case: &Case, asked: &mut [Asked<'_>]) -> Vec<States> {
    let deadline = now() + HANG_WAIT;
    let mut before = Vec::new();
    loop {
        let after: Vec<States> = asked.iter_mut().map(Asked::states).collect();
        if after == before {
            return after;
        }
        assert!(now() < deadline, "{case:?} goes on: {after:?}");
        before = after;
    }
}

fn all_are_free(asked: &mut Asked<'_>, tally: &mut Tally) {
    let known = asked.ends.len();
    while !asked.is_over {
        asked.hear();
    }
    for end in asked.ends.iter().skip(known) {
        let words: Vec<&str> = end.split(' ').collect();
        match words[0] {
            "FREED" if words[3] == "destroy" => tally.in_destroy += 1,
            "FREED" => tally.freed_us.push(words[2].parse().unwrap()),
            _ => {}
        }
    }
}

/// The plugin writes into a file of this name with the process id after it.
fn told(plugin: &Path) -> PathBuf {
    plugin.with_file_name("told")
}

/// The plugin was loaded in each process, and let go with the communicator that each makes first, alone.
fn the_plugin_was_told(case: &Case, processes: &[Process]) {
    let Some(plugin) = &case.plugin else { return };
    for process in processes {
        let path = told(plugin).with_extension(process.child.id().to_string());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("finalize 1"), "{case:?}: {text}");
        std::fs::remove_file(path).unwrap();
    }
}

/// The plugin of the newest interface that a version of NCCL knows.
fn plugin_for(version: &str, folder: &Path) -> PathBuf {
    let newest = events::NEWEST.into_iter().find(|(name, _)| *name == version);
    let plugin = folder.join("plugin.so");
    events::build(&plugin, newest.unwrap().1);
    plugin
}

fn round(case: &Case, program: &Path, tally: &mut Tally) {
    let mut processes = case.start(program);
    for (at, process) in processes.iter().enumerate() {
        process.wait_for("BEGIN", &case.text(at));
    }
    wait_until(now() + case.moment);
    case.strike(&mut processes[case.victim]);
    if case.faithful.is_some() {
        all_wait_until_given_up(case, &mut processes, tally);
    } else {
        all_have_errors(case, &processes, tally);
    }
    the_plugin_was_told(case, &processes);
    tally.rounds += 1;
}

fn churn(name: &str, faithful: Option<String>) {
    let folder = folder(&format!("churn-{name}"));
    let program = folder.join("churn");
    compile("churn.c", &program, &["-lrsccl", "-pthread"]);
    let plugin = faithful.as_deref().map(|version| plugin_for(version, &folder));
    let seed = setting("RSCCL_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()) + 1);
    let rounds = setting("RSCCL_CHAOS_ROUNDS");
    println!("{name}: RSCCL_CHAOS_SEED={seed}");
    let (mut random, before) = (Random::new(seed), Before::now());
    let (start, mut tally) = (now(), Tally::default());
    while rounds.map_or(start.elapsed() < BUDGET, |rounds| tally.rounds < rounds) {
        let with_plugin = plugin.clone().filter(|_| tally.rounds % 2 == 1);
        let case = Case::draw(&mut random, tally.rounds, faithful.clone(), with_plugin);
        round(&case, &program, &mut tally);
    }
    before.nothing_is_left();
    tally.print(name);
}

impl Tally {
    fn print(mut self, name: &str) {
        println!("{name}: {} faults: 0 hangs, 0 wrong results, 0 left files or sockets", self.rounds);
        println!(
            "  fault over transport: survivors that waited, had an error, could not make a communicator"
        );
        for ((fault, over), Outcome { waited, failed_to_make, had_an_error }) in &self.outcomes {
            println!("  {fault:?} over {over:?}: {waited}, {had_an_error}, {failed_to_make}");
        }
        self.freed_us.sort_unstable();
        if let Some(most) = self.freed_us.last() {
            let median = self.freed_us[self.freed_us.len() / 2];
            let late = self.freed_us.iter().filter(|us| **us > FREE_WAIT_US).count();
            println!(
                "  freed by the user's abort: {} ranks, after {median} us in the median, {most} us at most, {late} after more \
                 than {FREE_WAIT_US} us; {} more were in a destroy",
                self.freed_us.len(),
                self.in_destroy
            );
        }
    }
}

/// One after the other, since both look at the open files of this process.
#[test]
fn survivors_have_an_error_or_are_freed_by_the_users_abort() {
    churn("off", None);
    let version = text_setting("RSCCL_CHAOS_FAITHFUL").unwrap_or_else(|| "2.28".to_owned());
    churn(&format!("faithful-{version}"), Some(version));
}
