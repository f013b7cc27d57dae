//! Tensors between two processes of this host: one-sided writes and reads into mapped memory, beside gRPC (tonic) and beside
//! messages over TCP, in one run.
//!
//! One process starts the other. Rounds go over the ways in turns, so that whatever else the machine does hits all of them
//! alike. A round is one tensor of each size on each way, and one back: the time is half of that, without what the two ends take
//! to mark a tensor before it goes and to look at it when it has come. Processor time is all of both processes', polling too.

#![expect(clippy::print_stdout, reason = "a report")]

#[path = "common/grpc.rs"]
mod grpc;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use rtensor::clock::Deadline;
use rtensor::device::{self, Counts, Device, Kind, Role};
use rtensor::error::{Error, Result};
use rtensor::link::{Declaration, EdgeId, Hold, Link};
use rtensor::tensor::{DataType, Shape};

const SIZES_KIB: [u64; 5] = [64, 256, 1024, 4096, 16384];
const LIMIT_BYTES: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Parser, Clone)]
#[command(about = "Tensors between two processes: local, TCP and gRPC")]
struct Arguments {
    /// Rounds.
    #[arg(long, default_value_t = 40)]
    rounds: u32,
    /// Set by the first process for the second.
    #[arg(long, hide = true)]
    peer: Option<String>,
}

/// A way of moving tensors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Local,
    Tcp,
    Grpc,
}

const WAYS: [Way; 3] = [Way::Local, Way::Tcp, Way::Grpc];

/// How a tensor is placed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Placed {
    Static,
    Dynamic,
}

const PLACED: [Placed; 2] = [Placed::Static, Placed::Dynamic];

/// One end of a way: an edge there and one back for every size and placement.
struct End {
    link: Link,
    edges: BTreeMap<(Placed, u64), (EdgeId, EdgeId)>,
}

/// What was measured of a way, placement and size.
#[derive(Clone, Default)]
struct Measured {
    times: Vec<Duration>,
    processor: Duration,
    copied_bytes: u64,
    moved_bytes: u64,
}

#[expect(clippy::print_stderr, reason = "where errors go")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.peer {
        Some(addresses) => answer(&arguments, addresses),
        None => measure(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench_tensors: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The second process: sends every tensor back.
fn answer(arguments: &Arguments, addresses: &str) -> Result<()> {
    let mut ends = connect(Role::Call, addresses)?;
    for round in 0..arguments.rounds {
        for (way, placed, kib) in turns(round) {
            let Some(end) = ends.get_mut(&way) else { continue };
            let before = Spent::now(&end.link);
            let looked = receive(end, placed, kib, false, round)?;
            let marked = send(end, placed, kib, false, round)?;
            let spent = Spent::now(&end.link).since(&before);
            let (own, processor) = ((looked + marked).as_nanos(), spent.processor.as_nanos());
            println!("{own} {processor} {} {}", spent.counts.copied_bytes, spent.counts.moved_bytes);
        }
    }
    ends.values_mut().try_for_each(|end| end.link.finish(Deadline::after(PATIENCE)))
}

fn measure(arguments: &Arguments) -> Result<()> {
    let addresses = free_addresses()?;
    let mut peer = start_peer(arguments, &addresses)?;
    let failed = |error| Error::system("starting the second process", error);
    let output = peer.stdout.take().ok_or_else(|| failed(std::io::Error::other("it has no output")))?;
    let mut told = BufReader::new(output).lines();
    let mut ends = connect(Role::Listen, &addresses)?;
    let mut all: BTreeMap<(Placed, u64, Way), Measured> = BTreeMap::new();
    for round in 0..arguments.rounds {
        for (way, placed, kib) in turns(round) {
            let Some(end) = ends.get_mut(&way) else { continue };
            let before = Spent::now(&end.link);
            let began = now();
            let marked = send(end, placed, kib, true, round)?;
            let looked = receive(end, placed, kib, true, round)?;
            let took = now().saturating_duration_since(began).saturating_sub(marked + looked);
            let spent = Spent::now(&end.link).since(&before);
            let line = told.next().transpose().map_err(failed)?.unwrap_or_default();
            let mut theirs = line.split(' ').map(|number| number.parse::<u64>().unwrap_or(0));
            let mut next = || theirs.next().unwrap_or(0);
            let measured = all.entry((placed, kib, way)).or_default();
            measured.times.push(took.saturating_sub(Duration::from_nanos(next())) / 2);
            measured.processor += spent.processor + Duration::from_nanos(next());
            measured.copied_bytes += spent.counts.copied_bytes + next();
            measured.moved_bytes += spent.counts.moved_bytes + next();
        }
    }
    ends.values_mut().try_for_each(|end| end.link.finish(Deadline::after(PATIENCE)))?;
    peer.wait().map_err(failed)?;
    report(&all, arguments.rounds);
    Ok(())
}

/// All ways, placements and sizes, every round beginning with another way.
fn turns(round: u32) -> impl Iterator<Item = (Way, Placed, u64)> {
    let first = usize::try_from(round).unwrap_or(0) % WAYS.len();
    let ways: Vec<Way> = WAYS.iter().cycle().skip(first).take(WAYS.len()).copied().collect();
    let sizes = SIZES_KIB.into_iter().flat_map(|kib| PLACED.map(|placed| (placed, kib)));
    sizes.flat_map(move |(placed, kib)| ways.clone().into_iter().map(move |way| (way, placed, kib)))
}

fn shape(kib: u64) -> Result<Shape> {
    Shape::new(DataType::F32, &[kib * 256])
}

/// The time that marking the tensor took, which is not the transfer's.
fn send(end: &mut End, placed: Placed, kib: u64, is_first: bool, round: u32) -> Result<Duration> {
    let Some((there, back)) = end.edges.get(&(placed, kib)).copied() else { return Ok(Duration::ZERO) };
    let edge = if is_first { there } else { back };
    end.link.wait_to_send(edge, Deadline::after(PATIENCE))?;
    if placed == Placed::Dynamic {
        end.link.begin(edge, &shape(kib)?)?;
    }
    let tensor = end.link.tensor_mut(edge)?;
    let began = now();
    mark(tensor, round);
    let marked = now().saturating_duration_since(began);
    end.link.send(edge)?;
    if !is_first {
        // Over messages this end has to take part until the tensor has gone, or was read.
        end.link.flush(Deadline::after(PATIENCE))?;
        if placed == Placed::Dynamic {
            end.link.wait_to_send(edge, Deadline::after(PATIENCE))?;
        }
    }
    Ok(marked)
}

/// The time that looking at the tensor took, which is not the transfer's.
fn receive(end: &mut End, placed: Placed, kib: u64, is_first: bool, round: u32) -> Result<Duration> {
    let Some((there, back)) = end.edges.get(&(placed, kib)).copied() else { return Ok(Duration::ZERO) };
    let edge = if is_first { back } else { there };
    end.link.wait(edge, Deadline::after(PATIENCE))?;
    let began = now();
    let (_, bytes) = end.link.tensor(edge)?;
    if bytes.len() as u64 != kib << 10 || !is_marked(bytes, round) {
        return Err(Error::Usage(format!("a tensor of {kib} KiB is torn")));
    }
    end.link.release(edge)?;
    Ok(now().saturating_duration_since(began))
}

/// Writes the round into every page.
fn mark(bytes: &mut [u8], round: u32) {
    let mark = round.to_le_bytes();
    bytes.chunks_mut(4096).filter_map(|page| page.first_chunk_mut()).for_each(|place| *place = mark);
}

fn is_marked(bytes: &[u8], round: u32) -> bool {
    let mark = round.to_le_bytes();
    bytes.chunks(4096).filter_map(|page| page.first_chunk()).all(|place| *place == mark)
}

fn connect(role: Role, addresses: &str) -> Result<BTreeMap<Way, End>> {
    let mut ends = BTreeMap::new();
    for (way, address) in WAYS.into_iter().zip(addresses.split(',')) {
        let deadline = Deadline::after(PATIENCE);
        let device: Box<dyn Device> = match way {
            Way::Local => device::connect(Kind::Local, role, address, deadline)?,
            Way::Tcp => device::connect(Kind::Tcp, role, address, deadline)?,
            Way::Grpc => Box::new(grpc::connect(role, [address, &grpc::next_port(address)?], deadline)?),
        };
        let mut link = Link::new(device);
        link.set_arena_bytes(4 * LIMIT_BYTES)?;
        let mut edges = BTreeMap::new();
        for (placed, kib) in PLACED.into_iter().flat_map(|placed| SIZES_KIB.map(|kib| (placed, kib))) {
            let name =
                |way: &str| format!("{way} {} {kib}", if placed == Placed::Static { "s" } else { "d" });
            let (there, back) = (name("there"), name("back"));
            // The answer tells of the release there, and the next question of that here.
            let (sent, held_by) = if role == Role::Listen { (&there, &back) } else { (&back, &there) };
            let hold = if placed == Placed::Static { Hold::By(held_by.clone()) } else { Hold::Release };
            let (sender, receiver) = match placed {
                Placed::Static => (
                    Declaration::static_sender(sent.clone(), shape(kib)?, hold),
                    Declaration::static_receiver(held_by.clone(), shape(kib)?),
                ),
                Placed::Dynamic => (
                    Declaration::dynamic_sender(sent.clone(), LIMIT_BYTES, hold),
                    Declaration::dynamic_receiver(held_by.clone(), LIMIT_BYTES),
                ),
            };
            let (sender, receiver) = (link.declare(sender)?, link.declare(receiver)?);
            let pair = if role == Role::Listen { (sender, receiver) } else { (receiver, sender) };
            edges.insert((placed, kib), pair);
        }
        link.ready(deadline)?;
        ends.insert(way, End { link, edges });
    }
    Ok(ends)
}

fn start_peer(arguments: &Arguments, addresses: &str) -> Result<Child> {
    let failed = |error| Error::system("starting the second process", error);
    Command::new(std::env::current_exe().map_err(failed)?)
        .args(["--rounds", &arguments.rounds.to_string(), "--peer", addresses])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)
}

/// A name, and two ports of which the one after is free too.
fn free_addresses() -> Result<String> {
    let failed = |error| Error::system("looking for a free port", error);
    let port = || -> std::io::Result<u16> {
        loop {
            let one = std::net::TcpListener::bind("127.0.0.1:0")?;
            let port = one.local_addr()?.port();
            if port < u16::MAX && std::net::TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
                return Ok(port);
            }
        }
    };
    let (tcp, rpc) = (port().map_err(failed)?, port().map_err(failed)?);
    Ok(format!("bench-{},127.0.0.1:{tcp},127.0.0.1:{rpc}", std::process::id()))
}

/// What a process has spent so far.
struct Spent {
    processor: Duration,
    counts: Counts,
}

impl Spent {
    fn now(link: &Link) -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        let processor = seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0));
        Self { processor, counts: link.counts() }
    }

    fn since(&self, before: &Self) -> Self {
        let counts = Counts {
            copied_bytes: self.counts.copied_bytes - before.counts.copied_bytes,
            moved_bytes: self.counts.moved_bytes - before.counts.moved_bytes,
            ..self.counts
        };
        Self { processor: self.processor.saturating_sub(before.processor), counts }
    }
}

#[expect(clippy::disallowed_methods, reason = "this measures")]
fn now() -> Instant {
    Instant::now()
}

fn report(all: &BTreeMap<(Placed, u64, Way), Measured>, rounds: u32) {
    println!(
        "Microseconds a tensor, median of {rounds} rounds (from the first to the third quartile); × is how much longer \
         than local, of a dynamic tensor beside a plain message, where that is faster.\n"
    );
    println!("| | local | TCP | × | tonic | × | ns of processor a KiB: local | TCP | tonic |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for (placed, kib) in PLACED.into_iter().flat_map(|placed| SIZES_KIB.map(|kib| (placed, kib))) {
        let of = |way| all.get(&(placed, kib, way)).cloned().unwrap_or_default();
        let [local, tcp, rpc] = WAYS.map(|way| Summary::of(&of(way), kib));
        let name = if placed == Placed::Static { "static" } else { "dynamic" };
        // A message needs no metadata: where that is faster, it is what the dynamic way is beside.
        let message =
            |way| Summary::of(&all.get(&(Placed::Static, kib, way)).cloned().unwrap_or_default(), kib).median;
        let by_tcp = tcp.median.min(message(Way::Tcp)) / local.median;
        let by_rpc = rpc.median.min(message(Way::Grpc)) / local.median;
        println!(
            "| {name}, {kib} KiB | {local} | {tcp} | {by_tcp:.1} | {rpc} | {by_rpc:.1} | {:.0} | {:.0} | {:.0} |",
            local.processor, tcp.processor, rpc.processor
        );
    }
    let copied = |way| {
        let mine = all.iter().filter(|((.., other), _)| *other == way).map(|(_, measured)| measured);
        let (copied, moved) = mine.fold((0.0, 0.0), |(copied, moved), measured| {
            (copied + measured.copied_bytes as f64, moved + measured.moved_bytes as f64)
        });
        copied / moved
    };
    println!(
        "\nCopies of a byte in these processes beside the transfer itself: local {:.1}, TCP {:.1} and two by the kernel.",
        copied(Way::Local),
        copied(Way::Tcp)
    );
}

/// Microseconds.
struct Summary {
    median: f64,
    low: f64,
    high: f64,
    processor: f64,
}

impl Summary {
    fn of(measured: &Measured, kib: u64) -> Self {
        let mut times: Vec<f64> = measured.times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times.get(times.len() * part / 4).copied().unwrap_or(f64::NAN);
        // There and back.
        let kibs = (2 * kib * measured.times.len() as u64) as f64;
        let processor = measured.processor.as_secs_f64() * 1e9 / kibs;
        Self { median: at(2), low: at(1), high: at(3), processor }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({:.0}-{:.0})", self.median, self.low, self.high)
    }
}
