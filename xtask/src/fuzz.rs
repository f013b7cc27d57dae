//! `cargo xtask fuzz`: each fuzz target for a while, from seeds of the fixtures on.

mod seeds;

use anyhow::{Result, bail};

use crate::process::{command, root, run, say};
use crate::tools;

/// The targets in `fuzz/fuzz_targets`.
const TARGETS: [&str; 8] = ["token", "cookie", "ingest", "body", "import", "nccl_log", "batch", "segment"];
/// Longest input tried: a segment has that many bytes in use.
const MAX_INPUT_BYTES: u32 = 300_000;

/// Runs these targets, or all.
pub(crate) fn run_all(targets: &[String], seconds: u32) -> Result<()> {
    if let Some(other) = targets.iter().find(|target| !TARGETS.contains(&target.as_str())) {
        bail!("there is no fuzz target {other:?}; there are {}", TARGETS.join(", "));
    }
    tools::ensure_cargo_fuzz()?;
    seeds::write(&root())?;
    for target in TARGETS {
        if !targets.is_empty() && targets.iter().all(|wanted| wanted != target) {
            continue;
        }
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
