//! What being watched costs a step: what each event costs, times how many there are, beside how long the step takes.
//!
//! A step is a push-pull of all gradients and nothing else, by processes on this machine; a job computes besides, so its
//! steps are longer and the part of the watcher is smaller. Events are measured in processor time, which other work on the
//! machine lengthens less than a clock's. What the busiest member spends, and what all spend on the cores of this machine, is
//! held against the time of the step.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Parser as _};
use rsccl::summation::bench::{Event, Observed, Seat, samples_per_s};
use rsccl::summation::worker::Settings;

use crate::spread;
use crate::steps::{Group, Model, PARTITION_BYTES, SERVERS, WORKERS, this_program};

/// Of so many results a worker fingerprints one: the default of `RSUM_FINGERPRINTS`.
const ONE_OF: u64 = 16;
/// What may be spent of a step.
const LIMIT: f64 = 0.01;
/// Bytes of results that are fingerprinted in one measurement.
const RESULT_BYTES: u64 = 32_000_000;

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Measurements of each event, and steps, with and without a watcher in turns
    #[arg(long, default_value_t = 31, value_name = "N")]
    rounds: usize,
    /// The watcher [default: libringscope.so of this build]
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
}

#[derive(clap::Parser)]
struct Defaults {
    #[command(flatten)]
    options: Options,
}

impl Default for Options {
    fn default() -> Self {
        Defaults::parse_from([""]).options
    }
}

/// One member whose events are measured, in a process of its own.
#[derive(Args, Debug)]
pub(crate) struct Events {
    #[arg(long)]
    library: PathBuf,
    #[arg(long)]
    model: Model,
    #[arg(long)]
    server: bool,
    #[arg(long)]
    rounds: usize,
}

/// What an event costs, and how often it happens in a step.
struct Cost {
    name: String,
    /// More than without a watcher; least, most.
    ns: (f64, f64, f64),
    per_step: f64,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), String> {
        let library = self.library.clone().map_or_else(built, Ok)?;
        let folder = std::env::temp_dir().join(format!("bench-observer-{}", std::process::id()));
        let done = Model::ALL.into_iter().try_for_each(|model| self.show(model, &library, &folder));
        let _ = std::fs::remove_dir_all(&folder);
        done
    }

    fn show(&self, model: Model, library: &Path, folder: &Path) -> Result<(), String> {
        let declarations = model.declarations()?;
        let (n_tensors, n_parts) = (declarations.tensors().len(), declarations.n_parts());
        println!(
            "{}: {WORKERS} workers and {SERVERS} servers, {n_tensors} tensors in {n_parts} parts, {:.1} MB; {} rounds",
            model.name(),
            declarations.total_bytes() as f64 / 1e6,
            self.rounds
        );
        let Steps { with, without, core_s } = self.steps(model, library, folder)?;
        let step_s = without.0;
        println!("{:<34} {:>10} {:>22}", "step of push-pulls alone, ms", "median", "least to most");
        for (name, (median, least, most)) in [("nobody watches", without), ("watched", with)] {
            let [median, least, most] = [median, least, most].map(|seconds| seconds * 1e3);
            println!("  {name:<32} {median:>10.3} {least:>12.3} to {most:>7.3}");
        }
        println!("  {:<32} {:>10.3}", "processor time of all, unwatched", core_s * 1e3);
        let (mut total_us, mut most_us) = (0.0, 0.0_f64);
        for (who, n, is_server) in [("worker", WORKERS, false), ("server", SERVERS, true)] {
            let costs = self.costs(model, library, folder, is_server)?;
            let us = report(who, &costs, step_s);
            println!(
                "  {:<32} {us:>10.3} µs a step {:>9.4} % of it",
                format!("each {who}"),
                us / step_s / 1e4
            );
            total_us += n as f64 * us;
            most_us = most_us.max(us);
        }
        let n_cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let (of_step, of_machine) = (most_us / 1e6 / step_s, total_us / 1e6 / n_cores / step_s);
        println!(
            "of a step: the busiest member {:.3} % (1 % of one of {:.2} ms); all {} on {n_cores} cores {:.3} %; the limit is {} %. {:.3} % of their processor time\n",
            of_step * 100.0,
            most_us / LIMIT / 1e3,
            WORKERS + SERVERS,
            of_machine * 100.0,
            LIMIT * 100.0,
            total_us / 1e4 / core_s
        );
        let is_good = of_step <= LIMIT && of_machine <= LIMIT;
        if is_good { Ok(()) } else { Err(format!("{}: being watched takes more than 1 %", model.name())) }
    }

    fn steps(&self, model: Model, library: &Path, folder: &Path) -> Result<Steps, String> {
        let mut with = Group::start(model, Some((library, folder)))?;
        let mut without = Group::start(model, None)?;
        let (mut seconds, mut core_ns) = ((Vec::new(), Vec::new()), 0);
        for round in 0..=self.rounds {
            let watched = with.step()?;
            let before_ns = without.core_ns()?;
            let unwatched = without.step()?;
            if round > 0 {
                seconds.0.push(watched);
                seconds.1.push(unwatched);
                core_ns += without.core_ns()? - before_ns;
            }
        }
        with.finish()?;
        without.finish()?;
        let core_s = core_ns as f64 / 1e9 / self.rounds.max(1) as f64;
        Ok(Steps { with: spread(seconds.0), without: spread(seconds.1), core_s })
    }

    fn costs(&self, model: Model, library: &Path, folder: &Path, server: bool) -> Result<Vec<Cost>, String> {
        let mut command = this_program()?;
        command.args(["events", "--model", model.name(), "--rounds", &self.rounds.to_string()]);
        command.arg("--library").arg(library).args(server.then_some("--server"));
        let output = command.env("RINGSCOPE_DIR", folder).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        String::from_utf8_lossy(&output.stdout).lines().map(Cost::parse).collect()
    }
}

/// Median, least, most.
type Spread = (f64, f64, f64);

/// How long they take, watched and not, and the processor time of all unwatched members in a step on average.
struct Steps {
    with: Spread,
    without: Spread,
    core_s: f64,
}

/// Prints what events cost; microseconds of a step.
fn report(who: &str, costs: &[Cost], step_s: f64) -> f64 {
    println!(
        "{:<34} {:>10} {:>22} {:>10} {:>10}",
        format!("of a {who}, ns"),
        "median",
        "least to most",
        "a step",
        "µs"
    );
    let mut total_us = 0.0;
    for Cost { name, ns: (median, least, most), per_step } in costs {
        // Samples are taken by time, not by step.
        let per_step = if name == "sample" { samples_per_s() * step_s } else { *per_step };
        let us = median.max(0.0) * per_step / 1e3;
        total_us += us;
        println!("  {name:<32} {median:>10.1} {least:>12.1} to {most:>7.1} {per_step:>10.2} {us:>10.3}");
    }
    total_us
}

impl Cost {
    fn parse(line: &str) -> Result<Self, String> {
        let wrong = || format!("a member said {line:?}");
        let (name, numbers) = line.split_once(':').ok_or_else(wrong)?;
        let numbers: Vec<f64> = numbers.split_whitespace().filter_map(|one| one.parse().ok()).collect();
        let [median, least, most, per_step] = numbers[..] else { return Err(wrong()) };
        Ok(Self { name: name.to_owned(), ns: (median, least, most), per_step })
    }
}

impl Events {
    /// Says a line for each event: name, nanoseconds (median, least, most), times in a step.
    pub(crate) fn run(&self) -> Result<(), String> {
        let (declarations, tensors) = (self.model.declarations()?, self.model.tensors());
        let seat = Seat {
            n_workers: WORKERS,
            n_servers: SERVERS,
            is_worker: !self.server,
            partition_bytes: PARTITION_BYTES,
            tensors: &tensors,
            one_of: ONE_OF,
        };
        let mut member = Observed::new(&self.library, seat)?;
        let n_parts = f64::from(declarations.n_parts());
        let frame_bytes = Settings::default().frame_bytes;
        let n_frames =
            declarations.parts().map(|part| part.size_bytes.div_ceil(frame_bytes)).sum::<u64>() as f64;
        let n_owned = member.n_owned() as f64;
        // Whole rounds of all parts, which differ in size.
        let n_rounds = (RESULT_BYTES / declarations.total_bytes().max(1)).max(1);
        let n_results = usize::try_from(n_rounds * u64::from(declarations.n_parts())).unwrap_or(1);
        let worker = [
            ("part submitted", Event::PushIssued, 100_000, n_parts),
            ("frame sent", Event::Pushed, 100_000, n_frames),
            ("sum asked for", Event::PullIssued, 100_000, n_parts),
            ("frame received", Event::Pulled, 100_000, n_frames),
            ("sum fingerprinted and told", Event::Result, n_results, n_parts / ONE_OF as f64),
            ("tensor finished and told", Event::Finished, 20_000, tensors.len() as f64),
        ];
        let service = [
            ("contribution", Event::Arrived, 50_000, n_owned * WORKERS as f64),
            ("result made and told", Event::Made, 50_000, n_owned),
        ];
        let mut said = String::new();
        // First, while the rounds that wait are as they were made.
        self.measure(&mut member, &mut said, ("sample", Event::Sample, 500, 0.0));
        let worker = worker.into_iter().filter(|_| !self.server);
        worker.chain(service).for_each(|event| self.measure(&mut member, &mut said, event));
        print!("{said}");
        Ok(())
    }

    fn measure(
        &self,
        member: &mut Observed,
        said: &mut String,
        (name, event, n, per_step): (&str, Event, usize, f64),
    ) {
        let mut time = |is_watched| {
            member.watch(is_watched);
            member.time_ns(event, n) as f64 / n as f64
        };
        time(true);
        let (median, least, most) = spread((0..self.rounds).map(|_| time(true) - time(false)).collect());
        let _ = writeln!(said, "{name}: {median} {least} {most} {per_step}");
    }
}

/// `libringscope.so` beside the folder of this program. Without the file that it opens beside itself nobody would watch.
fn built() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = here.parent().and_then(Path::parent).ok_or("this program lies in no folder")?;
    match ["libringscope_watcher.so", "libringscope.so"].map(|file| folder.join(file)) {
        [watcher, library] if watcher.exists() && library.exists() => Ok(library),
        _ => Err("libringscope.so or libringscope_watcher.so is not built: `cargo xtask bench observer` builds them".to_owned()),
    }
}
