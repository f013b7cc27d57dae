//! What the profiler plugin costs a collective: one program speaks version 5 of the interface to a plugin that does
//! nothing, to the collector, and to other plugins that are given as built libraries, in turns.
//!
//! `cargo run --release -p ringscope-collector --example bench_plugin -- [--plugin NAME=PATH]…`; `--help` says more.
//!
//! A collective is an implicit group, an API call, its task and two channels: twelve callbacks. The collector runs alone, so that it writes
//! the record too. Prints a table and one line of JSON. Exits with 1 if a target is missed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "rig/driver.rs"]
mod driver;
#[path = "rig/folder.rs"]
mod folder;

use std::path::{Path, PathBuf};
use std::process::Command;

use driver::{Driver, cpu};
use folder::{Result, cc, collector, in_folder};

/// Rounds of each, in turns. One is 50 batches of 1 000 collectives without pause and 500 at 5 000 per second.
const ROUNDS: usize = 30;
/// Callbacks of a collective.
const CALLBACKS: f64 = 12.0;
/// What a collective may cost above the plugin that does nothing, without pause, nanoseconds.
const TARGET_HOT_NS: f64 = 100.0;
/// The same at 5 000 collectives per second.
const TARGET_PACED_NS: f64 = 200.0;

const HELP: &str = "\
What a profiler plugin costs a collective: the collector beside a plugin that does nothing, and beside others.

Usage: cargo xtask bench plugin [-- [--plugin NAME=PATH]...]

  --plugin NAME=PATH   also measure this built library, which must offer version 5 of NCCL's profiler interface
                       (ncclProfiler_v5); can be given several times

Example, with NVIDIA's inspector as its own Makefile builds it:
  cargo xtask bench plugin -- --plugin inspector=nccl/plugins/profiler/inspector/libnccl-profiler-inspector.so";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let others = others(&arguments)?;
    let figures = in_folder("plugin", |folder| measure(folder, others))?;
    print(&figures);
    if is_good(&figures) { Ok(()) } else { Err("a target is missed".into()) }
}

/// A plugin by the name that it has in the table, and its library.
type Plugin = (String, PathBuf);

/// The plugins that the arguments name.
fn others(arguments: &[String]) -> Result<Vec<Plugin>> {
    let mut plugins: Vec<Plugin> = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = match argument.strip_prefix("--plugin") {
            Some("") => rest.next().map(String::as_str),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        let Some((name, path)) = value.and_then(|value| value.split_once('=')) else {
            return Err(
                format!("{argument}: the arguments are --plugin NAME=PATH; --help has an example").into()
            );
        };
        if name.is_empty()
            || ["nothing", "ringscope"].contains(&name)
            || plugins.iter().any(|(other, _)| other == name)
        {
            return Err(format!("--plugin {name}={path}: the table needs another name for it").into());
        }
        let path =
            Path::new(path).canonicalize().map_err(|error| format!("--plugin {name}={path}: {error}"))?;
        plugins.push((name.to_owned(), path));
    }
    Ok(plugins)
}

/// One plugin and its rounds.
struct Figures {
    name: String,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy)]
struct Round {
    hot: f64,
    paced: f64,
    allocations: f64,
    threads: f64,
}

fn measure(dir: &Path, others: Vec<Plugin>) -> Result<Vec<Figures>> {
    let shared = ["-shared", "-fPIC"];
    cc(dir, "driver", "plugin.c", &["-rdynamic", "-ldl"])?;
    cc(dir, "nothing.so", "nothing.c", &shared)?;
    cc(dir, "libcuda.so.1", "cuda.c", &shared)?;
    let mut plugins =
        vec![("nothing".to_owned(), dir.join("nothing.so")), ("ringscope".to_owned(), collector()?)];
    plugins.extend(others);
    let mut drivers = Vec::new();
    for (name, path) in plugins {
        drivers.push((start(dir, &path)?, Figures { name, rounds: Vec::with_capacity(ROUNDS) }));
    }
    for (driver, _) in &mut drivers {
        round(driver)?;
    }
    for _ in 0..ROUNDS {
        for (driver, figures) in &mut drivers {
            figures.rounds.push(round(driver)?);
        }
    }
    Ok(drivers.into_iter().map(|(_, figures)| figures).collect())
}

fn start(dir: &Path, plugin: &Path) -> Result<Driver> {
    let mut program = Command::new(dir.join("driver"));
    program
        .arg(plugin)
        .env("LD_LIBRARY_PATH", dir)
        .env("RINGSCOPE_DIR", dir.join("segments"))
        // Collectives, sends and channels, as the collector asks for.
        .env("NCCL_PROFILE_EVENT_MASK", "70")
        .env("NCCL_INSPECTOR_ENABLE", "1")
        .env("NCCL_INSPECTOR_DUMP_DIR", dir.join("inspector"));
    let mut driver = Driver::start(program)?;
    // What is wrong it has said on stderr.
    if driver.line()?.trim() == "ready" { Ok(driver) } else { Err("a plugin cannot be measured".into()) }
}

fn round(driver: &mut Driver) -> Result<Round> {
    let [hot, paced, allocations, threads] = driver.round()?;
    Ok(Round { hot, paced, allocations, threads })
}

impl Figures {
    /// Median of a figure, less that of `other` in the same round.
    fn above(&self, other: &Self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().zip(&other.rounds).map(|(own, other)| of(own) - of(other)).collect())
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn is_good(figures: &[Figures]) -> bool {
    let (nothing, ours) = (&figures[0], &figures[1]);
    ours.above(nothing, |round| round.hot) <= TARGET_HOT_NS
        && ours.above(nothing, |round| round.paced) <= TARGET_PACED_NS
        && ours.rounds.iter().all(|round| round.allocations < 0.5 && round.threads < 1.5)
}

fn print(figures: &[Figures]) {
    let nothing = &figures[0];
    println!("{}, {ROUNDS} rounds in turns; medians, ns per collective of {CALLBACKS} callbacks\n", cpu());
    println!(
        "{:<18}{:>8}{:>12}{:>14}{:>8}{:>12}{:>13}{:>9}",
        "plugin", "hot", "above none", "per callback", "paced", "above none", "allocations", "threads"
    );
    for plugin in figures {
        let (hot, paced) = (plugin.median(|round| round.hot), plugin.median(|round| round.paced));
        let above_hot = plugin.above(nothing, |round| round.hot);
        println!(
            "{:<18}{hot:>8.1}{above_hot:>12.1}{:>14.1}{paced:>8.0}{:>12.0}{:>13}{:>9}",
            plugin.name,
            above_hot / CALLBACKS,
            plugin.above(nothing, |round| round.paced),
            plugin.rounds.iter().map(|round| round.allocations).sum::<f64>(),
            plugin.rounds.last().map_or(0.0, |round| round.threads),
        );
    }
    println!(
        "\nlimits for ringscope: {TARGET_HOT_NS} hot, {TARGET_PACED_NS} paced, no allocation, one thread\n"
    );
    let ours = &figures[1];
    println!(
        r#"{{"bench":"plugin","cpu":"{}","rounds":{ROUNDS},"hot_above_ns":{:.2},"paced_above_ns":{:.2},"is_good":{}}}"#,
        cpu(),
        ours.above(nothing, |round| round.hot),
        ours.above(nothing, |round| round.paced),
        is_good(figures)
    );
}
