//! Two workers and some servers over loopback, each a process, against iperf3 between the rounds.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Parser as _};
use rsccl::summation::bench::{Place, Rank as Member, meet};
use rsccl::summation::tensor::{DataType, Declaration};

use crate::spread;

pub(crate) const WORKERS: usize = 2;
const SERVERS: [usize; 2] = [1, 2];
const PARTS_BYTES: [u64; 2] = [1_000_000, 4_000_000];
/// Of iperf3, which takes whole seconds.
const IPERF_S: &str = "1";
const IPERF_PORT: &str = "25201";
/// The congestion controls that ranks have on loopback, the first of them that the kernel lets them have.
const CONTROLS: [&str; 2] = ["cubic", "reno"];
/// Of the times in `/proc/<pid>/stat`: USER_HZ.
const TICKS_PER_SECOND: f64 = 100.0;
/// Sums double in each round: before they overflow, the gradient begins anew.
const ROUNDS_BEFORE_REFILL: usize = 100;
/// Until iperf3's server listens.
const IPERF_START: Duration = Duration::from_millis(300);

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Rounds through all cases
    #[arg(long, default_value_t = 9, value_name = "N")]
    rounds: usize,
    /// Of the gradient, in 10^6 bytes
    #[arg(long, default_value_t = 64, value_name = "N")]
    megabytes: u64,
    /// Bytes that go out at a stretch [default: the pipeline's]
    #[arg(long, value_name = "N")]
    frame_bytes: Option<u64>,
    /// Without iperf3 beside
    #[arg(long)]
    alone: bool,
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

/// A rank of a group, which this program starts itself.
#[derive(Args, Debug)]
pub(crate) struct Rank {
    #[arg(long)]
    meeting: String,
    #[arg(long)]
    servers: usize,
    #[arg(long)]
    rank: usize,
    #[arg(long)]
    partition_bytes: u64,
    #[arg(long)]
    elements: u64,
    #[arg(long)]
    frame_bytes: Option<u64>,
}

/// A group of processes.
struct Case {
    n_servers: usize,
    partition_bytes: u64,
    workers: Vec<Worker>,
    servers: Vec<Child>,
    seconds: Vec<f64>,
    /// Processor time of all ranks in the same rounds.
    core_seconds: f64,
}

pub(crate) struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    words: BufReader<ChildStdout>,
}

impl Options {
    pub(crate) fn run(&self) -> Result<(), String> {
        let bytes = self.megabytes * 1_000_000;
        let mut cases = Vec::new();
        for n_servers in SERVERS {
            for partition_bytes in PARTS_BYTES {
                cases.push(Case::start(n_servers, partition_bytes, bytes, self.frame_bytes)?);
            }
        }
        let mut iperf = if self.alone { None } else { Some(Iperf::start()?) };
        for round in 0..=self.rounds {
            for case in &mut cases {
                let before = case.core_seconds_so_far()?;
                let seconds = case.round()?;
                if round > 0 {
                    case.seconds.push(seconds);
                    case.core_seconds += case.core_seconds_so_far()? - before;
                }
            }
            iperf.as_mut().filter(|_| round > 0).map_or(Ok(()), Iperf::measure)?;
        }
        println!(
            "{WORKERS} workers, {} MB, loopback TCP, {} rounds; goodput is of all bytes that cross a socket",
            self.megabytes, self.rounds
        );
        println!(
            "core s/GB is processor time of all ranks, and the bound is what {} cores allow by it",
            cores()
        );
        println!(
            "{:<28} {:>10} {:>18} {:>8} {:>10} {:>10} {:>8}",
            "", "median", "least to most", "Gbit/s", "of iperf3", "core s/GB", "bound"
        );
        let limit = iperf.as_ref().map_or(f64::NAN, Iperf::report);
        cases.into_iter().try_for_each(|case| case.finish(bytes, limit))
    }
}

impl Case {
    fn start(
        n_servers: usize,
        partition_bytes: u64,
        bytes: u64,
        frame_bytes: Option<u64>,
    ) -> Result<Self, String> {
        let meeting = meet()?;
        let elements = (bytes / size_of::<f32>() as u64).to_string();
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let spawn = |rank: usize| {
            let mut command = Command::new(&program);
            command.args(["rank", "--meeting", &meeting, "--servers", &n_servers.to_string()]);
            command.args(["--rank", &rank.to_string(), "--elements", &elements]);
            command.args(["--partition-bytes", &partition_bytes.to_string()]);
            command
                .args(frame_bytes.iter().flat_map(|bytes| ["--frame-bytes".to_owned(), bytes.to_string()]));
            command.env("RSCCL_SHM_DISABLE", "1").env("RSCCL_NICS", "lo=127.0.0.1");
            command.env("RSCCL_HOST", format!("host-{rank}")).env("NCCL_PROFILER_PLUGIN", "none");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.spawn().map_err(|error| format!("{}: {error}", program.display()))
        };
        let workers: Vec<Worker> =
            (0..WORKERS).map(|rank| Worker::new(spawn(rank)?)).collect::<Result<_, _>>()?;
        let servers = (WORKERS..WORKERS + n_servers).map(spawn).collect::<Result<_, _>>()?;
        let mut case =
            Self { n_servers, partition_bytes, workers, servers, seconds: Vec::new(), core_seconds: 0.0 };
        case.workers.iter_mut().try_for_each(|worker| worker.word().map(drop))?;
        Ok(case)
    }

    /// Seconds of the slower worker.
    fn round(&mut self) -> Result<f64, String> {
        self.workers.iter_mut().try_for_each(Worker::order)?;
        let seconds: Vec<f64> = self.workers.iter_mut().map(Worker::word).collect::<Result<_, _>>()?;
        Ok(seconds.into_iter().fold(0.0, f64::max))
    }

    /// Processor time of all ranks since they began.
    fn core_seconds_so_far(&self) -> Result<f64, String> {
        let ranks = self.workers.iter().map(|worker| &worker.child).chain(&self.servers);
        ranks.map(|child| core_seconds(child.id())).sum()
    }

    fn finish(mut self, bytes: u64, limit_gbit_per_s: f64) -> Result<(), String> {
        self.workers.iter_mut().for_each(|worker| worker.orders = None);
        let all = self.workers.iter_mut().map(|worker| &mut worker.child).chain(&mut self.servers);
        for child in all {
            let status = child.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("a rank ended with {status}"));
            }
        }
        // Servers own half of the gradient as soon as there is one, and all of it with two: each worker pushes what
        // others own, and pulls as much.
        let elsewhere = if self.n_servers == 1 { 0.75 } else { 1.0 };
        let crossing = 2.0 * WORKERS as f64 * elsewhere * bytes as f64;
        let core_seconds_per_gb = self.core_seconds / self.seconds.len() as f64 / crossing * 1e9;
        let (median, least, most) = spread(self.seconds);
        let gbit_per_s = crossing * 8.0 / median / 1e9;
        println!(
            "{:<28} {:>7.1} ms {:>9.1} to {:>5.1} {gbit_per_s:>8.1} {:>8.0} % {core_seconds_per_gb:>10.2} {:>8.1}",
            format!("{} servers, parts of {} MB", self.n_servers, self.partition_bytes / 1_000_000),
            median * 1e3,
            least * 1e3,
            most * 1e3,
            gbit_per_s / limit_gbit_per_s * 100.0,
            bound_gbit_per_s(core_seconds_per_gb)
        );
        Ok(())
    }
}

impl Worker {
    /// From a command of this program that does what it is ordered to, and says how long it took.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self::new(child.map_err(|error| error.to_string())?)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// There are no more orders: it leaves with the others.
    pub(crate) fn dismiss(&mut self) {
        self.orders = None;
    }

    /// Waits for its end, which is to be a good one.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("a rank ended with {status}")) }
    }

    fn new(mut child: Child) -> Result<Self, String> {
        let orders = child.stdin.take();
        let words = BufReader::new(child.stdout.take().ok_or("a rank has no output")?);
        Ok(Self { child, orders, words })
    }

    pub(crate) fn order(&mut self) -> Result<(), String> {
        let orders = self.orders.as_mut().ok_or("a rank takes no orders")?;
        orders.write_all(b"\n").map_err(|error| error.to_string())
    }

    pub(crate) fn word(&mut self) -> Result<f64, String> {
        let mut line = String::new();
        self.words.read_line(&mut line).map_err(|error| error.to_string())?;
        line.trim().parse().map_err(|_| format!("a rank said {line:?}"))
    }
}

impl Rank {
    /// Says 0 when it has started, and then, for each line, the seconds of a round.
    pub(crate) fn run(&self) -> Result<(), String> {
        let (name, elements) = ("gradient".to_owned(), self.elements);
        let gradient = Declaration { name, elements, data_type: DataType::F32 };
        let member = Member::join(Place {
            meeting: &self.meeting,
            n_workers: WORKERS,
            n_servers: self.servers,
            rank: self.rank,
            partition_bytes: self.partition_bytes,
            tensors: &[gradient],
            codec: None,
            frame_bytes: self.frame_bytes,
        })?;
        if self.rank < WORKERS {
            let n_bytes = usize::try_from(self.elements).unwrap_or(0) * size_of::<f32>();
            let mut gradient = vec![0x38; n_bytes];
            println!("0");
            for (round, line) in (1..).zip(std::io::stdin().lines()) {
                line.map_err(|error| error.to_string())?;
                let start = Instant::now();
                member.push_pull(&mut gradient)?;
                println!("{}", start.elapsed().as_secs_f64());
                if usize::is_multiple_of(round, ROUNDS_BEFORE_REFILL) {
                    gradient.fill(0x38);
                }
            }
        }
        member.leave()
    }
}

/// iperf3's server, and what its client has found.
struct Iperf {
    server: Child,
    /// Each way of using it with what it got through, and its processor time.
    uses: Vec<(String, Vec<String>, Vec<IperfRun>)>,
}

/// One run of iperf3.
#[derive(Clone, Copy)]
struct IperfRun {
    gbit_per_s: f64,
    core_seconds_per_gb: f64,
}

impl Iperf {
    fn start() -> Result<Self, String> {
        let mut command = Command::new("iperf3");
        command.args(["--server", "--bind", "127.0.0.1", "--port", IPERF_PORT]).stdout(Stdio::null());
        let server = command.spawn().map_err(|error| format!("iperf3: {error}"))?;
        std::thread::sleep(IPERF_START);
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut uses = vec![
            ("iperf3, one way".to_owned(), text(&[]), Vec::new()),
            ("iperf3, both ways at once".to_owned(), text(&["--bidir"]), Vec::new()),
        ];
        let controls = CONTROLS.map(|control| (control, text(&["--congestion", control])));
        let mut allowed = controls.into_iter().filter(|(_, arguments)| measure(arguments).is_ok());
        uses.extend(
            allowed.next().map(|(control, with)| (format!("iperf3, one way, {control}"), with, Vec::new())),
        );
        Ok(Self { server, uses })
    }

    fn measure(&mut self) -> Result<(), String> {
        for (_, arguments, found) in &mut self.uses {
            found.push(measure(arguments)?);
        }
        Ok(())
    }

    /// The best median.
    fn report(&self) -> f64 {
        let line = |name: &str, found: &[IperfRun]| {
            let (median, least, most) = spread(found.iter().map(|found| found.gbit_per_s).collect());
            let (cost, ..) = spread(found.iter().map(|found| found.core_seconds_per_gb).collect());
            println!(
                "{name:<28} {:>10} {least:>9.1} to {most:>5.1} {median:>8.1} {:>10} {cost:>10.2} {:>8.1}",
                "",
                "",
                bound_gbit_per_s(cost)
            );
            median
        };
        self.uses.iter().map(|(name, _, found)| line(name, found)).fold(0.0, f64::max)
    }
}

impl Drop for Iperf {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// What all of a client's streams got through, and what that took both processes.
fn measure(more: &[String]) -> Result<IperfRun, String> {
    let mut command = Command::new("iperf3");
    command.args(["--client", "127.0.0.1", "--port", IPERF_PORT, "--time", IPERF_S, "--json"]).args(more);
    let output = command.output().map_err(|error| format!("iperf3: {error}"))?;
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("iperf3: {error}"))?;
    let sums = ["sum_received", "sum_received_bidir_reverse"];
    let rate = |name: &str| found["end"][name]["bits_per_second"].as_f64();
    let rates: Vec<f64> = sums.into_iter().filter_map(rate).collect();
    if rates.is_empty() {
        return Err(format!("iperf3 said {}", found["error"]));
    }
    let used = |side: &str| found["end"]["cpu_utilization_percent"][side].as_f64().unwrap_or(f64::NAN);
    let gbit_per_s = rates.iter().sum::<f64>() / 1e9;
    let n_cores = (used("host_total") + used("remote_total")) / 100.0;
    Ok(IperfRun { gbit_per_s, core_seconds_per_gb: n_cores * 8.0 / gbit_per_s })
}

/// Processor time of a process, all its threads.
pub(crate) fn core_seconds(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // After the name, which may have spaces, the 12th and 13th are utime and stime.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn bound_gbit_per_s(core_seconds_per_gb: f64) -> f64 {
    cores() as f64 / core_seconds_per_gb * 8.0
}
