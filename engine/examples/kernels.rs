//! How fast elements are folded here, beside a copy: bytes of elements per second of each kernel, as tab-separated rows.
//!
//! `cargo run --release -p ringscope-engine --example kernels -- [sizes in KiB] [--threads N] [--only TEXT]`
//! A size is the bytes of elements of one operand. The figure is the median of rounds that go through all kernels of a
//! size one after the other; with several threads, of the slowest thread.

#![expect(unsafe_code, reason = "kernels work on raw memory")]
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures and prints")]

use std::sync::Barrier;
use std::time::Instant;

use rsccl::kernel_bench::{Case, cases};

const ROUNDS: usize = 9;
/// Enough for a clock that is read around it.
const BYTES_PER_SAMPLE: usize = 8 << 20;

struct Arguments {
    sizes_kib: Vec<usize>,
    n_threads: usize,
    only: String,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Self {
        let mut arguments = Self { sizes_kib: Vec::new(), n_threads: 1, only: String::new() };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--threads" => arguments.n_threads = words.next().and_then(|n| n.parse().ok()).unwrap_or(1),
                "--only" => arguments.only = words.next().unwrap_or_default(),
                _ => arguments.sizes_kib.extend(word.parse::<usize>()),
            }
        }
        if arguments.sizes_kib.is_empty() {
            arguments.sizes_kib = vec![64, 512, 4096, 65536];
        }
        arguments
    }
}

/// Operands of one thread, each large enough for an accumulator per element byte.
struct Memory {
    operands: Vec<Vec<u8>>,
}

impl Memory {
    fn new(size_bytes: usize, cases: &[Case]) -> Self {
        let widest =
            |case: &Case| case.source_bytes.iter().copied().chain([case.into_bytes]).max().unwrap_or(1);
        let factor = cases.iter().map(|case| widest(case).div_ceil(case.element_bytes)).max().unwrap_or(1);
        let n_operands = cases.iter().map(|case| case.source_bytes.len() + 1).max().unwrap_or(1);
        // Halves, small integers and finite floats of every type: subnormals would slow some processors down.
        Self { operands: vec![vec![0x38; size_bytes * factor]; n_operands] }
    }

    fn run(&mut self, case: &Case, size_bytes: usize) {
        let into = self.operands[0].as_mut_ptr();
        let mut sources: Vec<*const u8> = self.operands[1..].iter().map(|operand| operand.as_ptr()).collect();
        sources.truncate(case.source_bytes.len());
        if case.in_place {
            sources[0] = into;
        }
        // SAFETY: every operand has room for the widest form of all elements.
        unsafe { case.run(into, &sources, size_bytes / case.element_bytes) }
    }

    fn sample_s(&mut self, case: &Case, size_bytes: usize) -> f64 {
        let repeats = (BYTES_PER_SAMPLE / size_bytes).max(1);
        let start = Instant::now();
        (0..repeats).for_each(|_| self.run(case, size_bytes));
        start.elapsed().as_secs_f64() / repeats as f64
    }
}

/// Seconds of each case in each round.
fn measure(size_bytes: usize, only: &str, barrier: &Barrier) -> Vec<Vec<f64>> {
    let cases = chosen(only);
    let mut memory = Memory::new(size_bytes, &cases);
    let mut samples = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (case, samples) in cases.iter().zip(&mut samples) {
            memory.run(case, size_bytes);
            barrier.wait();
            samples.push(memory.sample_s(case, size_bytes));
        }
    }
    samples
}

fn chosen(only: &str) -> Vec<Case> {
    let all = cases().into_iter().enumerate();
    all.filter(|(index, case)| *index == 0 || format!("{} {}", case.name, case.variant).contains(only))
        .map(|(_, case)| case)
        .collect()
}

fn main() {
    let Arguments { sizes_kib, n_threads, only } = Arguments::parse(std::env::args().skip(1));
    println!("size_kib\tthreads\tvariant\tkernel\tgb_per_s\tleast\tmost\tof_copy");
    for size_kib in sizes_kib {
        let barrier = Barrier::new(n_threads);
        let threads: Vec<Vec<Vec<f64>>> = std::thread::scope(|scope| {
            let handles: Vec<_> =
                (0..n_threads).map(|_| scope.spawn(|| measure(size_kib << 10, &only, &barrier))).collect();
            handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
        });
        report(size_kib, &threads, &chosen(&only));
    }
}

fn report(size_kib: usize, threads: &[Vec<Vec<f64>>], cases: &[Case]) {
    let mut copy = f64::NAN;
    for (index, case) in cases.iter().enumerate() {
        let slowest = |round: usize| threads.iter().map(|samples| samples[index][round]).fold(0.0, f64::max);
        let mut rates: Vec<f64> =
            (0..ROUNDS).map(|round| (size_kib << 10) as f64 / slowest(round) / 1e9).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates[ROUNDS / 2];
        if index == 0 {
            copy = median;
        }
        let place = if case.in_place { " in place" } else { "" };
        println!(
            "{size_kib}\t{}\t{}\t{}{place}\t{median:.1}\t{:.1}\t{:.1}\t{:.2}",
            threads.len(),
            case.variant,
            case.name,
            rates[0],
            rates[ROUNDS - 1],
            median / copy
        );
    }
}
