//! What the collector costs a call: one program that calls `ncclAllReduce` of a library that does nothing, with and
//! without `libringscope.so`, in turns, so that the machine's moods meet both alike.
//!
//! `cargo run --release -p ringscope-collector --example bench_collector`
//!
//! Measured is issuing: record, counters and forwarding. In a third program a CUDA driver that does nothing is loaded, so
//! that an event follows each call and the polling thread confirms it. Prints a table and one line of JSON. Exits with 1
//! if a target is missed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rounds of each, in turns. One is 200 000 calls in a batch and 20 000 timed singly.
const ROUNDS: usize = 60;
/// What a call may cost more at the median of the batches, nanoseconds.
const TARGET_MEDIAN_NS: f64 = 25.0;
/// What a call with an event behind it may cost more, nanoseconds: a tenth of the microsecond that `cuEventRecord` costs.
const TARGET_EVENTS_NS: f64 = 100.0;
/// What a call may cost more at the 99th percentile of single calls, nanoseconds.
const TARGET_P99_NS: f64 = 200.0;

fn main() -> Result<()> {
    let dir = std::env::temp_dir().join(format!("ringscope-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let figures = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    let figures = figures?;
    figures.print();
    if figures.is_good() { Ok(()) } else { Err("a target is missed".into()) }
}

fn measure(dir: &Path) -> Result<Figures> {
    let library = library()?;
    cc(dir, "libnccl.so.2", "stub.c", &["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"])?;
    cc(dir, "driver", "driver.c", &["-L.", "-l:libnccl.so.2", "-Wl,-rpath,$ORIGIN"])?;
    cc(dir, "libcuda.so.1", "stub_cuda.c", &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"])?;
    let mut bare = Driver::start(driver(dir, None))?;
    let mut with = Driver::start(driver(dir, Some(&library)))?;
    let mut events = Driver::start(with_events(dir, &library))?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    bare.round()?;
    with.round()?;
    events.round()?;
    let mut with_events = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        rounds.push((bare.round()?, with.round()?));
        with_events.push(events.round()?);
    }
    let seccomp = driver(dir, Some(&library)).arg("seccomp").status()?;
    Ok(Figures { rounds, with_events, makes_system_calls: !seccomp.success() })
}

/// Builds the library in this example's profile folder, which is to be `release`.
fn library() -> Result<PathBuf> {
    let build = ["build", "--quiet", "--release", "--package", "ringscope-collector", "--lib"];
    if !Command::new(env!("CARGO")).current_dir(env!("CARGO_MANIFEST_DIR")).args(build).status()?.success() {
        return Err("cargo could not build libringscope.so".into());
    }
    let here = std::env::current_exe()?;
    let profile = here.parent().and_then(Path::parent).ok_or("no target folder")?;
    if !profile.ends_with("release") {
        return Err("run it with --release".into());
    }
    Ok(profile.join("libringscope.so").canonicalize()?)
}

fn cc(dir: &Path, output: &str, source: &str, arguments: &[&str]) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench").join(source);
    let mut command = Command::new("cc");
    command.current_dir(dir).args(["-O2", "-Wall", "-Wextra", "-o", output]).arg(source).args(arguments);
    if command.status()?.success() { Ok(()) } else { Err(format!("cc could not build {output}").into()) }
}

fn driver(dir: &Path, preload: Option<&Path>) -> Command {
    let mut command = Command::new(dir.join("driver"));
    command.env("RINGSCOPE_DIR", dir.join("segments"));
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    command
}

/// The same program with a driver that it loads itself.
fn with_events(dir: &Path, preload: &Path) -> Command {
    let mut command = driver(dir, Some(preload));
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

struct Driver {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Driver {
    fn start(mut program: Command) -> Result<Self> {
        let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let ask = child.stdin.take().ok_or("no stdin")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        Ok(Self { child, ask, answers })
    }

    fn round(&mut self) -> Result<Round> {
        self.ask.write_all(b"\n")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let numbers: Vec<f64> =
            line.split_ascii_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
        let [batch, p50, p99, p999, allocations] = numbers[..] else {
            return Err(format!("the driver answered {line:?}").into());
        };
        Ok(Round { batch, p50, p99, p999, allocations })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Figures {
    /// Without and with the collector.
    rounds: Vec<(Round, Round)>,
    /// With the collector and a driver.
    with_events: Vec<Round>,
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
            && self.allocations() < 0.5
            && !self.makes_system_calls
    }

    fn print(&self) {
        println!("{}, {ROUNDS} rounds of 200000 calls in turns\n", cpu());
        println!("{:<34}{:>9}{:>9}{:>9}", "ns per call", "median", "min", "max");
        let row = |name: &str, spread: Spread| {
            println!("{name:<34}{:>9.1}{:>9.1}{:>9.1}", spread.median, spread.min, spread.max);
        };
        row("batch, bare", self.spread(|(bare, _)| bare.batch));
        row("batch, with the collector", self.spread(|(_, with)| with.batch));
        row("batch, difference (≤ 25)", self.spread(|(bare, with)| with.batch - bare.batch));
        row("single calls, p50 difference", self.spread(|(bare, with)| with.p50 - bare.p50));
        row("single calls, p99 difference (< 200)", self.spread(|(bare, with)| with.p99 - bare.p99));
        row("single calls, p99.9 difference", self.spread(|(bare, with)| with.p999 - bare.p999));
        row("with events, difference (≤ 100)", self.events_cost());
        let system_calls = if self.makes_system_calls { "some" } else { "0" };
        println!(
            "\nallocations {}, system calls {system_calls} (1000000 calls under seccomp)\n",
            self.allocations()
        );
        println!("{}", self.json());
    }

    fn json(&self) -> String {
        let cost = self.spread(|(bare, with)| with.batch - bare.batch);
        format!(
            concat!(
                r#"{{"bench":"collector","cpu":"{}","rounds":{},"bare_median_ns":{:.2},"with_median_ns":{:.2},"#,
                r#""cost_median_ns":{:.2},"cost_min_ns":{:.2},"cost_max_ns":{:.2},"cost_p99_ns":{:.2},"#,
                r#""events_cost_median_ns":{:.2},"#,
                r#""allocations":{},"makes_system_calls":{},"is_good":{}}}"#
            ),
            cpu(),
            ROUNDS,
            self.spread(|(bare, _)| bare.batch).median,
            self.spread(|(_, with)| with.batch).median,
            cost.median,
            cost.min,
            cost.max,
            self.p99_cost(),
            self.events_cost().median,
            self.allocations(),
            self.makes_system_calls,
            self.is_good(),
        )
    }
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name")).unwrap_or_default();
    line.split(": ").nth(1).unwrap_or("unknown CPU").replace('"', "")
}
