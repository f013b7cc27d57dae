//! What the thread that asks CUDA events takes of a core: a program whose calls are each followed by an event, with a library
//! that does nothing and a driver whose queries cost nothing and whose events complete after 1.5 ms.
//!
//! `cargo run --release -p ringscope-collector --example bench_poller [-- LIBRARY]`: the collector as it is built now, or
//! another build of it. Prints a table. Exits with 1 if a target is missed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "rig/folder.rs"]
mod folder;

use std::path::{Path, PathBuf};
use std::process::Command;

use folder::{Result, cc, collector, in_folder};

/// What the thread may take, per cent of a core.
const TARGET_PERCENT: f64 = 0.5;
/// Rounds of five seconds, of which the median counts.
const ROUNDS: usize = 3;
/// Communicators, and microseconds between calls; 0 for none.
const LOADS: [(u32, u32); 6] = [(1, 1000), (8, 1000), (64, 1000), (1, 100), (64, 100), (8, 0)];

fn main() -> Result<()> {
    let given = std::env::args().nth(1).map(PathBuf::from);
    let library = given.map_or_else(collector, |library| Ok(library.canonicalize()?))?;
    if in_folder("poller", |folder| measure(folder, &library))? {
        Ok(())
    } else {
        Err("a target is missed".into())
    }
}

fn measure(dir: &Path, library: &Path) -> Result<bool> {
    cc(dir, "libnccl.so.2", "stub.c", &["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"])?;
    cc(dir, "libcuda.so.1", "poller_cuda.c", &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"])?;
    cc(dir, "poller", "poller.c", &["-L.", "-l:libnccl.so.2", "-ldl", "-Wl,-rpath,$ORIGIN"])?;
    println!(
        "{:>13}{:>13}{:>21}{:>16}{:>12}",
        "communicators", "us per call", "% of a core (≤ 0.5)", "min to max", "queries/s"
    );
    let mut is_good = true;
    for (communicators, pause_us) in LOADS {
        let mut rounds = (0..ROUNDS)
            .map(|_| round(dir, library, communicators, pause_us))
            .collect::<Result<Vec<(f64, f64)>>>()?;
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (percent, queries) = rounds[ROUNDS / 2];
        if queries <= 0.0 && pause_us > 0 {
            return Err("no event was asked: the collector does without this driver".into());
        }
        let pause = if pause_us == 0 { "none".to_owned() } else { pause_us.to_string() };
        let spread = format!("{:.2} to {:.2}", rounds[0].0, rounds[ROUNDS - 1].0);
        println!("{communicators:>13}{pause:>13}{percent:>21.2}{spread:>16}{queries:>12.0}");
        is_good &= percent <= TARGET_PERCENT;
    }
    Ok(is_good)
}

/// Per cent of a core, and queries per second.
fn round(dir: &Path, library: &Path, communicators: u32, pause_us: u32) -> Result<(f64, f64)> {
    let output = Command::new(dir.join("poller"))
        .args([communicators.to_string(), pause_us.to_string()])
        .env("LD_LIBRARY_PATH", dir)
        .env("LD_PRELOAD", library)
        .env("RINGSCOPE_DIR", dir.join("segments"))
        .output()?;
    let said = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> =
        said.split_ascii_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let [percent, queries] = numbers[..] else { return Err(format!("the program said {said:?}").into()) };
    Ok((percent, queries))
}
