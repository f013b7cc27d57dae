//! How fast the log parser reads a gibibyte, and how much memory it takes: NCCL's lines of the corpus among those of a
//! training program, next to counting the line feeds of the same bytes, which is as fast as reading can be.
//!
//! `cargo run --release -p ringscope --example bench_log -- [--mib 1024] [--rounds 3] [--fuzz-lines N]`
//!
//! The bytes are made on the fly, 64 MiB at a time; only reading is timed. `only NCCL` has no line of another writer.
//! With `--fuzz-lines` it reads that many mutated and random lines instead, and says what it kept of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark fails by them")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program of its own, with its own clock"
)]
#![allow(missing_docs, reason = "not a library")]
#![allow(clippy::cast_precision_loss, reason = "figures to be read")]

#[path = "bench_ingest/proc.rs"]
#[allow(dead_code, reason = "the other benchmark needs all of it")]
mod proc;
#[path = "bench_log/text.rs"]
mod text;

use std::time::Instant;

use clap::Parser;
use ringscope_logs::nccl_log::{NcclLog, assemble};
use text::{Mix, Source};

/// What the parser must reach on one core.
const LIMIT_MB_PER_S: f64 = 300.0;
/// What it may hold.
const LIMIT_RSS_MIB: f64 = 64.0;
/// As the tail of a log is read.
const CHUNK_BYTES: usize = 64 * 1024;
const BLOCK_BYTES: usize = 16 << 20;

#[derive(Parser)]
struct Arguments {
    /// Bytes of each round
    #[arg(long, default_value_t = 1024)]
    mib: usize,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Read this many mutated and random lines instead
    #[arg(long)]
    fuzz_lines: Option<u64>,
}

fn main() {
    let arguments = Arguments::parse();
    if let Some(lines) = arguments.fuzz_lines {
        fuzz(lines);
        return;
    }
    println!("{} MiB each, one thread; {}", arguments.mib, proc::cpu_model());
    println!(
        "mix                  MB/s  MB/s on a core  line feeds MB/s  ratio  lines  records  communicators  RSS growth MiB"
    );
    let mut slowest = f64::INFINITY;
    let mut largest = 0.0_f64;
    for mix in [Mix::Training, Mix::OnlyNccl] {
        for _ in 0..arguments.rounds {
            let figures = measure(mix, arguments.mib << 20);
            println!(
                "{:<18} {:>6.0} {:>15.0} {:>16.0} {:>6.2} {} {} {} {:.1}",
                format!("{mix:?}"),
                figures.mb_per_s,
                figures.mb_per_core_s,
                figures.limit_mb_per_s,
                figures.mb_per_s / figures.limit_mb_per_s,
                figures.lines,
                figures.records,
                figures.communicators,
                figures.rss_mib,
            );
            slowest = slowest.min(figures.mb_per_core_s);
            largest = largest.max(figures.rss_mib);
        }
    }
    let met = |met: bool| if met { "met" } else { "not met" };
    println!(
        "slowest on a core {slowest:.0} MB/s, at least {LIMIT_MB_PER_S}: {}",
        met(slowest >= LIMIT_MB_PER_S)
    );
    println!("most memory {largest:.1} MiB, at most {LIMIT_RSS_MIB}: {}", met(largest <= LIMIT_RSS_MIB));
}

struct Figures {
    mb_per_s: f64,
    /// Without the time in which other programs had the core.
    mb_per_core_s: f64,
    limit_mb_per_s: f64,
    lines: u64,
    records: u64,
    communicators: usize,
    rss_mib: f64,
}

fn measure(mix: Mix, bytes: usize) -> Figures {
    let mut source = Source::new(mix);
    let mut block = Vec::with_capacity(BLOCK_BYTES + (1 << 20));
    block.resize(block.capacity(), 1);
    let before = proc::rss_bytes(std::process::id());
    let mut log = NcclLog::new();
    let (mut reading_s, mut core, mut counting_s, mut done, mut peak) = (0.0, 0.0, 0.0, 0, before);
    let mut line_feeds = 0;
    while done < bytes {
        source.fill(&mut block, BLOCK_BYTES.min(bytes - done));
        done += block.len();
        let start = Instant::now();
        line_feeds += memchr::memchr_iter(b'\n', &block).count() as u64;
        counting_s += start.elapsed().as_secs_f64();
        let (start, start_core_s) = (Instant::now(), core_s());
        block.chunks(CHUNK_BYTES).for_each(|chunk| log.feed(chunk));
        reading_s += start.elapsed().as_secs_f64();
        core += core_s() - start_core_s;
        peak = peak.max(proc::rss_bytes(std::process::id()));
    }
    let counts = log.counts();
    assert_eq!(counts.lines, line_feeds, "every line is counted");
    Figures {
        mb_per_s: done as f64 / 1e6 / reading_s,
        mb_per_core_s: done as f64 / 1e6 / core,
        limit_mb_per_s: done as f64 / 1e6 / counting_s,
        lines: counts.lines,
        records: counts.info + counts.warn,
        communicators: log.communicators().count(),
        rss_mib: (peak - before) as f64 / f64::from(1 << 20),
    }
}

/// Seconds that this thread has been on a core.
fn core_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Mutated lines of the corpus, and random ones.
fn fuzz(lines: u64) {
    let before = proc::rss_bytes(std::process::id());
    let mut source = Source::new(Mix::Mutated);
    let mut log = NcclLog::new();
    let mut block = Vec::new();
    let mut peak = before;
    let start = Instant::now();
    while log.counts().lines < lines {
        source.fill(&mut block, 1 << 20);
        // Chunks of changing length, so that they end anywhere.
        let mut rest = &block[..];
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.len().min(1 + source.below(CHUNK_BYTES)));
            log.feed(chunk);
            rest = after;
        }
        peak = peak.max(proc::rss_bytes(std::process::id()));
    }
    log.finish();
    let assembled = assemble(&[&log]);
    println!("{:?} in {:.0} s", log.counts(), start.elapsed().as_secs_f64());
    println!("{} communicators assembled; shapes {}", assembled.communicators.len(), log.unparsed().len());
    println!("RSS growth {:.1} MiB; lacks: {:#?}", (peak - before) as f64 / f64::from(1 << 20), log.lacks());
}
