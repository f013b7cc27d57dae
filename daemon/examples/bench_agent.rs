//! What one reading of a busy host costs the agent: 64 processes' segments and logs, beside a plain `pread` of the bytes
//! that are in use.
//!
//! Every tick each process has issued and finished operations in each of its communicators and has some in flight.
//! Written with the same layout as the collector's; no process is started.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and fails by panicking")]
#![expect(clippy::cast_precision_loss, reason = "durations are printed")]

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringscope_agent::Tracker;
use ringscope_api::clock::monotonic;
use ringscope_wire::Primitive;
use ringscope_wire::segment::Segment;
use ringscope_wire::segment::layout::{
    COMMUNICATOR_ACTIVE, Communicator, Counters, Fixed, HEADER_BYTES, LAP_BITS, LAP_SHIFT, LINKS_PER_REGION,
    Link, Live, MAGIC, MAX_RECORDS, OPERATION_COMPLETED, OPERATION_ISSUED, Record, STATE_ON,
    TICKS_MONOTONIC_NS, VERSION, link_key,
};
use rustix::fs::{FlockOperation, flock};
use zerocopy::{FromZeros as _, IntoBytes as _};

const PROCESSES: u32 = 64;
const COMMUNICATORS: usize = 4;
const PRIMITIVES: usize = 5;
/// Peers over the network, each in a region of its own: the worst that the table can be.
const LINKS: usize = 8;
/// Completed between two readings, per process: 400 a second.
const NEW_RECORDS: u64 = 100;
const IN_FLIGHT: u64 = 8;
const CHANNELS: u32 = 16;
const WARM_UP: usize = 20;
const TICKS: usize = 400;
/// At most, for one tick's reading at the median.
const LIMIT: Duration = Duration::from_millis(2);

fn main() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut processes: Vec<Writer> = (0..PROCESSES).map(|index| Writer::create(dir.path(), index)).collect();
    let hour = Duration::from_secs(3600);
    let mut tracker = Tracker::new(dir.path().to_owned(), "node1".to_owned(), hour, hour);
    let (mut reading, mut telling, mut plain, mut on_core) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for tick in 0..WARM_UP + TICKS {
        processes.iter_mut().for_each(Writer::work);
        let (started, core) = (monotonic(), cpu());
        tracker.poll(started);
        let (read, core) = (monotonic(), cpu() - core);
        let changes = tracker.changes();
        let keys: Vec<&str> = changes.iter().map(|process| process.key.as_str()).collect();
        tracker.queued(keys.into_iter(), tick as u64 + 1);
        let told = monotonic();
        assert_eq!(changes.len(), processes.len(), "every process has changed");
        let before = monotonic();
        bytes = processes.iter().map(Writer::pread).sum::<usize>();
        let after = monotonic();
        if tick >= WARM_UP {
            reading.push(read - started);
            on_core.push(core);
            telling.push(told - read);
            plain.push(after - before);
        }
    }
    println!(
        "{PROCESSES} processes, {COMMUNICATORS} communicators x {PRIMITIVES} primitives, {LINKS} links, {IN_FLIGHT} in \
         flight and {NEW_RECORDS} new records each; {TICKS} ticks; {} KiB in use\n",
        bytes >> 10
    );
    println!("ms per tick                          median      p99      min");
    row("pread of what is in use", &mut plain);
    row("reading segments and logs (≤ 2)", &mut reading);
    row("  of that on a core", &mut on_core);
    row("finding and noting what changed", &mut telling);
    let verdict = if reading[TICKS / 2] <= LIMIT { "met" } else { "missed" };
    println!("\nat most {} ms: {verdict}", LIMIT.as_millis());
}

fn row(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let ms = |duration: Duration| duration.as_nanos() as f64 / 1e6;
    let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!("{name:<34} {:>8.3} {:>8.3} {:>8.3}", ms(median), ms(p99), ms(times[0]));
}

/// Time that this thread has been on a core, which other tenants of the machine do not change much.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).expect("not negative");
    Duration::new(seconds, u32::try_from(time.tv_nsec).expect("below a second"))
}

/// One process, as its collector would write it.
struct Writer {
    path: PathBuf,
    file: File,
    ticket: u64,
    calls: u64,
}

impl Writer {
    fn create(dir: &Path, index: u32) -> Self {
        let pid = 1000 + index;
        let path = dir.join(format!("{pid}-77.seg"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).expect("create");
        file.set_len(size_of::<Segment>() as u64).expect("size");
        flock(&file, FlockOperation::NonBlockingLockExclusive).expect("lock");
        let log = format!("{}/nccl-run{index}-%h-%p.log", dir.display());
        let writer = Self { path, file, ticket: 0, calls: 0 };
        writer.write(0, fixed(pid, index, &log).as_bytes());
        let live = offset_of!(Segment, live);
        writer.write(live + offset_of!(Live, state), &STATE_ON.to_le_bytes());
        let slots = u32::try_from(COMMUNICATORS).expect("few");
        writer.write(live + offset_of!(Live, n_communicators), &slots.to_le_bytes());
        for slot in 0..COMMUNICATORS {
            writer.communicator(slot, index);
        }
        writer.links();
        std::fs::write(dir.join(format!("nccl-run{index}-node1-{pid}.log")), log_lines(pid, index))
            .expect("log");
        writer
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, offset as u64).expect("write");
    }

    fn communicator(&self, slot: usize, index: u32) {
        let at = slot_at(slot);
        self.write(at + offset_of!(Communicator, generation), &1_u32.to_le_bytes());
        self.write(at + offset_of!(Communicator, pointer), &(0xa000 + slot as u64).to_le_bytes());
        self.write(at + offset_of!(Communicator, comm_hash), &(0xfeed + slot as u64).to_le_bytes());
        self.write(at + offset_of!(Communicator, created_ticks), &(slot as u64 + 1).to_le_bytes());
        self.write(at + offset_of!(Communicator, rank), &index.to_le_bytes());
        self.write(at + offset_of!(Communicator, n_ranks), &PROCESSES.to_le_bytes());
        self.write(at + offset_of!(Communicator, state), &COMMUNICATOR_ACTIVE.to_le_bytes());
    }

    fn links(&self) {
        let mut regions = 0_u64;
        for link in 0..LINKS {
            let place = link * 8 * LINKS_PER_REGION;
            regions |= 1 << (place / LINKS_PER_REGION);
            let slot = u16::try_from(link % COMMUNICATORS).expect("few");
            let key = link_key(1, slot, 0, u32::try_from(link).expect("few"));
            self.write(link_at(place), &key.to_le_bytes());
        }
        self.write(offset_of!(Segment, live) + offset_of!(Live, link_regions), &regions.to_le_bytes());
    }

    /// What a process does between two readings.
    fn work(&mut self) {
        self.calls += NEW_RECORDS / (COMMUNICATORS * PRIMITIVES) as u64;
        for slot in 0..COMMUNICATORS {
            for primitive in 0..PRIMITIVES {
                let counters = offset_of!(Communicator, counters) + primitive * size_of::<Counters>();
                for field in [
                    offset_of!(Counters, issued_calls),
                    offset_of!(Counters, issued_bytes),
                    offset_of!(Counters, completed_calls),
                    offset_of!(Counters, completed_bytes),
                    offset_of!(Counters, busy_ticks),
                ] {
                    self.write(slot_at(slot) + counters + field, &self.calls.to_le_bytes());
                }
            }
        }
        for link in 0..LINKS {
            let sent = link_at(link * 8 * LINKS_PER_REGION) + offset_of!(Link, sent_bytes);
            self.write(sent, &self.calls.to_le_bytes());
        }
        let done = self.ticket.saturating_sub(IN_FLIGHT);
        (done..self.ticket).for_each(|ticket| self.record(ticket, OPERATION_COMPLETED));
        let last = self.ticket + NEW_RECORDS;
        for ticket in self.ticket..last {
            let state = if ticket + IN_FLIGHT < last { OPERATION_COMPLETED } else { OPERATION_ISSUED };
            self.record(ticket, state);
        }
        self.ticket = last;
        self.write(offset_of!(Segment, live) + offset_of!(Live, next_ticket), &last.to_le_bytes());
    }

    fn record(&self, ticket: u64, state: u32) {
        let mut record = [0_u8; size_of::<Record>()];
        let slot = ticket % COMMUNICATORS as u64;
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(Record, ticket), &(ticket + 1).to_le_bytes());
        put(offset_of!(Record, issued_ticks), &(1000 + ticket).to_le_bytes());
        put(offset_of!(Record, completed_ticks), &(2000 + ticket).to_le_bytes());
        put(offset_of!(Record, count), &256_u64.to_le_bytes());
        put(offset_of!(Record, numbers), &ticket.to_le_bytes());
        put(offset_of!(Record, what), &(u32::try_from(slot).expect("few") << 20 | 7).to_le_bytes());
        let lap = ((ticket / MAX_RECORDS as u64) & ((1 << LAP_BITS) - 1)) as u32;
        put(offset_of!(Record, state), &(state | lap << LAP_SHIFT | 1 << 8).to_le_bytes());
        self.write(record_at(ticket), &record);
    }

    /// Reads what is in use, and does nothing with it: the limit of what any reader can do.
    fn pread(&self) -> usize {
        let file = File::open(&self.path).expect("open");
        let records = usize::try_from(NEW_RECORDS).expect("few") * size_of::<Record>();
        let mut buffer = vec![0; records.max(COMMUNICATORS * size_of::<Communicator>())];
        let mut total = 0;
        let mut read = |offset: usize, length: usize| {
            file.read_exact_at(&mut buffer[..length], offset as u64).expect("read");
            total += length;
        };
        read(0, HEADER_BYTES);
        read(slot_at(0), COMMUNICATORS * size_of::<Communicator>());
        (0..LINKS).for_each(|link| {
            read(link_at(link * 8 * LINKS_PER_REGION), LINKS_PER_REGION * size_of::<Link>());
        });
        let first = self.ticket - NEW_RECORDS;
        let until_end = MAX_RECORDS as u64 - first % MAX_RECORDS as u64;
        let run = usize::try_from(NEW_RECORDS.min(until_end)).expect("few");
        read(record_at(first), run * size_of::<Record>());
        total
    }
}

fn slot_at(slot: usize) -> usize {
    offset_of!(Segment, communicators) + slot * size_of::<Communicator>()
}

fn link_at(place: usize) -> usize {
    offset_of!(Segment, links) + place * size_of::<Link>()
}

fn record_at(ticket: u64) -> usize {
    let place = usize::try_from(ticket % MAX_RECORDS as u64).expect("small");
    offset_of!(Segment, records) + place * size_of::<Record>()
}

fn fixed(pid: u32, index: u32, log: &str) -> Fixed {
    let mut fixed = Fixed::new_zeroed();
    fixed.magic = MAGIC;
    fixed.version = VERSION;
    fixed.pid = pid;
    fixed.segment_bytes = size_of::<Segment>() as u64;
    fixed.start_time_ns = 77;
    fixed.anchor_wall_ns = 1_700_000_000_000_000_000;
    fixed.tick_kind = TICKS_MONOTONIC_NS;
    let texts: [(&mut [u8], String); 5] = [
        (&mut fixed.host, "node1".to_owned()),
        (&mut fixed.job, "train".to_owned()),
        (&mut fixed.run_id, format!("run{index}")),
        (&mut fixed.executable, "python3".to_owned()),
        (&mut fixed.log_file, log.to_owned()),
    ];
    for (field, text) in texts {
        field[..text.len()].copy_from_slice(text.as_bytes());
    }
    fixed
}

/// The log of a process whose rings are known.
fn log_lines(pid: u32, rank: u32) -> String {
    let mut log = String::new();
    for slot in 0..COMMUNICATORS {
        let comm = format!(
            "comm {:#x} rank {rank} nranks {PROCESSES} cudaDev 0 nvmlDev 0 busId 1b000 commId {:#x}",
            0xa000 + slot,
            0xfeed + slot
        );
        let mut line = |message: String| {
            let _ = writeln!(log, "node1:{pid}:{pid} [0] NCCL INFO {message}");
        };
        line(format!("{comm} - Init START"));
        let (prev, next) = ((rank + PROCESSES - 1) % PROCESSES, (rank + 1) % PROCESSES);
        for channel in 0..CHANNELS {
            line(format!("Ring {channel:02} : {prev} -> {rank} -> {next}"));
            line(format!("Channel {channel:02}/0 : {rank}[0] -> {next}[0] [send] via NET/IB/0"));
        }
        line(format!("{CHANNELS} coll channels, 0 nvls channels"));
        line(format!("{comm} - Init COMPLETE"));
    }
    debug_assert!(Primitive::ALL.len() >= PRIMITIVES);
    log
}
