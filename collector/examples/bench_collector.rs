//! What the collector costs a call: one program that calls `ncclAllReduce` of a library that does nothing, with and
//! without `libringscope.so`, in turns, so that the machine's moods meet both alike.
//!
//! `cargo run --release -p ringscope-collector --example bench_collector`
//!
//! Measured is issuing: what is preloaded, record, counters and forwarding. Other programs call on 200 communicators in
//! turns, call while a second thread does, or load a CUDA driver that does nothing, so that an event follows each call and
//! the polling thread confirms it. And what 32 ranks in a process keep resident. Prints a table and one line of JSON. Exits
//! with 1 if a target is missed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "rig/driver.rs"]
mod driver;
#[path = "rig/folder.rs"]
mod folder;

use std::path::{Path, PathBuf};
use std::process::Command;

use driver::{Driver, cpu};
use folder::{Result, build, cc, collector, in_folder};

/// As NCCL is linked: what it needs itself, a program with it has in any case.
const STUB: [&str; 7] = [
    "-shared",
    "-fPIC",
    "-Wl,-soname,libnccl.so.2",
    "-Wl,--no-as-needed",
    "-l:libpthread.so.0",
    "-l:libdl.so.2",
    "-l:libgcc_s.so.1",
];
/// Rounds of each, in turns. One is 200 000 calls in a batch and 20 000 timed singly.
const ROUNDS: usize = 60;
/// Times that the memory of 32 ranks is looked at.
const RESIDENT_RUNS: usize = 25;
/// What a call may cost more at the median of the batches, nanoseconds.
const TARGET_MEDIAN_NS: f64 = 20.0;
/// The same where calls go to 200 communicators in turns.
const TARGET_MANY_NS: f64 = 40.0;
/// The same while another thread calls on its own communicator, as a part of what one thread alone pays: no dearer, but
/// for what two busy cores take from each other.
const TARGET_TWO: f64 = 1.1;
/// What 32 ranks in one process may keep resident more, kB.
const TARGET_RESIDENT_KB: f64 = 1536.0;
/// What a call with an event behind it may cost more, nanoseconds: a tenth of the microsecond that `cuEventRecord` costs.
const TARGET_EVENTS_NS: f64 = 100.0;
/// What a call may cost more at the 99th percentile of single calls, nanoseconds.
const TARGET_P99_NS: f64 = 100.0;

fn main() -> Result<()> {
    let figures = in_folder("collector", measure)?;
    figures.print();
    if figures.is_good() { Ok(()) } else { Err("a target is missed".into()) }
}

fn measure(dir: &Path) -> Result<Figures> {
    let library = Libraries::build()?;
    cc(dir, "libnccl.so.2", "stub.c", &STUB)?;
    cc(dir, "driver", "driver.c", &["-L.", "-l:libnccl.so.2", "-Wl,-rpath,$ORIGIN"])?;
    cc(dir, "libcuda.so.1", "stub_cuda.c", &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"])?;
    let mut bare = Driver::start(program(dir, None))?;
    let mut with = Driver::start(program(dir, Some(&library)))?;
    let mut events = Driver::start(with_events(dir, &library))?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    round(&mut bare)?;
    round(&mut with)?;
    round(&mut events)?;
    let mut with_events = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        rounds.push((round(&mut bare)?, round(&mut with)?));
        with_events.push(round(&mut events)?);
    }
    drop((bare, with, events));
    let many = in_turns(dir, &library, "many")?;
    let two = in_turns(dir, &library, "two")?;
    let mut resident_kb = Vec::with_capacity(RESIDENT_RUNS);
    for _ in 0..RESIDENT_RUNS {
        resident_kb.push((resident(program(dir, None))?, resident(program(dir, Some(&library)))?));
    }
    let seccomp = program(dir, Some(&library)).arg("seccomp").status()?;
    Ok(Figures { rounds, with_events, many, two, resident_kb, makes_system_calls: !seccomp.success() })
}

/// Rounds without and with the collector of programs that do this.
fn in_turns(dir: &Path, library: &Libraries, what: &str) -> Result<Vec<(Round, Round)>> {
    let start = |library| {
        let mut program = program(dir, library);
        program.arg(what);
        Driver::start(program)
    };
    let (mut bare, mut with) = (start(None)?, start(Some(library))?);
    round(&mut bare)?;
    round(&mut with)?;
    (0..ROUNDS).map(|_| Ok((round(&mut bare)?, round(&mut with)?))).collect()
}

/// What 32 ranks keep resident, kB.
fn resident(mut program: Command) -> Result<f64> {
    let output = program.arg("rss").output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// What is preloaded, and the collector that it opens.
struct Libraries {
    preload: PathBuf,
    collector: PathBuf,
}

impl Libraries {
    fn build() -> Result<Self> {
        Ok(Self { preload: build("ringscope-preload", "libringscope_preload.so")?, collector: collector()? })
    }
}

fn program(dir: &Path, libraries: Option<&Libraries>) -> Command {
    let mut command = Command::new(dir.join("driver"));
    command.env("RINGSCOPE_DIR", dir.join("segments"));
    if let Some(libraries) = libraries {
        command.env("LD_PRELOAD", &libraries.preload).env("RINGSCOPE_COLLECTOR", &libraries.collector);
    }
    command
}

/// The same program with a driver that it loads itself.
fn with_events(dir: &Path, libraries: &Libraries) -> Command {
    let mut command = program(dir, Some(libraries));
    command.arg("events").env("LD_LIBRARY_PATH", dir);
    command
}

/// One round's answer; nanoseconds per call.
#[derive(Clone, Copy)]
struct Round {
    batch: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    allocations: f64,
}

fn round(driver: &mut Driver) -> Result<Round> {
    let [batch, p50, p99, p999, allocations] = driver.round()?;
    Ok(Round { batch, p50, p99, p999, allocations })
}

struct Figures {
    /// Without and with the collector.
    rounds: Vec<(Round, Round)>,
    /// With the collector and a driver.
    with_events: Vec<Round>,
    /// On 200 communicators in turns.
    many: Vec<(Round, Round)>,
    /// While another thread calls.
    two: Vec<(Round, Round)>,
    /// Without and with the collector.
    resident_kb: Vec<(f64, f64)>,
    makes_system_calls: bool,
}

/// Smallest, median and largest of a set of numbers.
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    Spread { min: values[0], median: values[values.len() / 2], max: values[values.len() - 1] }
}

/// What the collector adds, round by round.
fn cost(rounds: &[(Round, Round)]) -> Spread {
    spread(rounds.iter().map(|(bare, with)| with.batch - bare.batch))
}

impl Figures {
    fn spread(&self, of: impl Fn(&(Round, Round)) -> f64) -> Spread {
        spread(self.rounds.iter().map(of))
    }

    fn median_cost(&self) -> f64 {
        self.spread(|(bare, with)| with.batch - bare.batch).median
    }

    /// What events add to a bare call, round by round.
    fn events_cost(&self) -> Spread {
        spread(self.rounds.iter().zip(&self.with_events).map(|((bare, _), with)| with.batch - bare.batch))
    }

    fn resident_kb(&self) -> Spread {
        // Which pages of the C library a program gets with those that it touches is a matter of luck.
        let bare = self.resident_kb.iter().map(|(bare, _)| *bare).sum::<f64>() / RESIDENT_RUNS as f64;
        spread(self.resident_kb.iter().map(|(_, with)| with - bare))
    }

    fn p99_cost(&self) -> f64 {
        self.spread(|(bare, with)| with.p99 - bare.p99).median
    }

    fn allocations(&self) -> f64 {
        self.rounds.iter().map(|(_, with)| with).chain(&self.with_events).map(|with| with.allocations).sum()
    }

    fn is_good(&self) -> bool {
        self.median_cost() <= TARGET_MEDIAN_NS
            && self.p99_cost() < TARGET_P99_NS
            && self.events_cost().median <= TARGET_EVENTS_NS
            && cost(&self.many).median <= TARGET_MANY_NS
            && cost(&self.two).median <= TARGET_TWO * self.median_cost()
            && self.resident_kb().median <= TARGET_RESIDENT_KB
            && self.allocations() < 0.5
            && !self.makes_system_calls
    }

    fn print(&self) {
        println!("{}, {ROUNDS} rounds of 200000 calls in turns\n", cpu());
        println!("{:<38}{:>9}{:>9}{:>9}", "ns per call", "median", "min", "max");
        let row = |name: &str, spread: Spread| {
            println!("{name:<38}{:>9.1}{:>9.1}{:>9.1}", spread.median, spread.min, spread.max);
        };
        row("batch, bare", self.spread(|(bare, _)| bare.batch));
        row("batch, with the collector", self.spread(|(_, with)| with.batch));
        row("batch, difference (≤ 20)", self.spread(|(bare, with)| with.batch - bare.batch));
        row("single calls, p50 difference", self.spread(|(bare, with)| with.p50 - bare.p50));
        row("single calls, p99 difference (< 100)", self.spread(|(bare, with)| with.p99 - bare.p99));
        row("single calls, p99.9 difference", self.spread(|(bare, with)| with.p999 - bare.p999));
        row("with events, difference (≤ 100)", self.events_cost());
        row("200 communicators, difference (≤ 40)", cost(&self.many));
        row("beside a second thread, difference", cost(&self.two));
        row("32 ranks resident, kB (≤ 1536)", self.resident_kb());
        let system_calls = if self.makes_system_calls { "some" } else { "0" };
        println!(
            "\nallocations {}, system calls {system_calls} (1000000 calls under seccomp)\n",
            self.allocations()
        );
        println!("{}", self.json());
    }

    fn json(&self) -> String {
        let one = cost(&self.rounds);
        format!(
            concat!(
                r#"{{"bench":"collector","cpu":"{}","rounds":{},"bare_median_ns":{:.2},"with_median_ns":{:.2},"#,
                r#""cost_median_ns":{:.2},"cost_min_ns":{:.2},"cost_max_ns":{:.2},"cost_p99_ns":{:.2},"#,
                r#""events_cost_median_ns":{:.2},"many_cost_median_ns":{:.2},"two_cost_median_ns":{:.2},"#,
                r#""resident_kb":{},"#,
                r#""allocations":{},"makes_system_calls":{},"is_good":{}}}"#
            ),
            cpu(),
            ROUNDS,
            self.spread(|(bare, _)| bare.batch).median,
            self.spread(|(_, with)| with.batch).median,
            one.median,
            one.min,
            one.max,
            self.p99_cost(),
            self.events_cost().median,
            cost(&self.many).median,
            cost(&self.two).median,
            self.resident_kb().median,
            self.allocations(),
            self.makes_system_calls,
            self.is_good(),
        )
    }
}
