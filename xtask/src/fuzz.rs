//! `cargo xtask fuzz`: each fuzz target for a while, the parsers of logs from the logs of the fixtures on.

use std::fs;

use anyhow::{Context as _, Result};

use crate::process::{command, root, run, say};
use crate::tools;

/// The targets in `fuzz/fuzz_targets`.
const TARGETS: [&str; 5] = ["segment", "batch", "ingest", "import", "nccl_log"];
/// Longest input tried: a segment has that many bytes in use.
const MAX_INPUT_BYTES: u32 = 300_000;
/// What of a log is a seed: beginnings have the inits, and short inputs are tried more often.
const SEED_BYTES: usize = 20_000;

pub(crate) fn run_all(seconds: u32) -> Result<()> {
    tools::ensure_cargo_fuzz()?;
    seed("nccl_log", "logs", &["log"])?;
    seed("import", "import", &["json", "xml", "log", "pickle"])?;
    for target in TARGETS {
        say(&format!("{target}: {seconds} s"));
        run(&mut command(
            "cargo",
            [
                "+nightly",
                "fuzz",
                "run",
                target,
                "--",
                &format!("-max_total_time={seconds}"),
                &format!("-max_len={MAX_INPUT_BYTES}"),
                "-print_final_stats=1",
            ],
        ))?;
    }
    Ok(())
}

/// Puts the beginnings of fixtures where the target looks for its corpus.
fn seed(target: &str, folder: &str, ends: &[&str]) -> Result<()> {
    let corpus = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("cannot create {}", corpus.display()))?;
    let fixtures = root().join("fixtures").join(folder);
    for entry in fs::read_dir(&fixtures).with_context(|| format!("cannot list {}", fixtures.display()))? {
        let path = entry?.path();
        let is_one = path.extension().and_then(|end| end.to_str()).is_some_and(|end| ends.contains(&end));
        let Some(name) = path.file_name().filter(|_| is_one) else {
            continue;
        };
        let mut text = fs::read(&path)?;
        text.truncate(SEED_BYTES);
        // The first byte says in which pieces the rest comes.
        text.insert(0, u8::MAX);
        fs::write(corpus.join(name), text)?;
    }
    Ok(())
}
