//! Steps over the engine's simulated fabrics, up to 1 024 hosts: all-reduces by its schedules (`examples/simulate.rs`), push-pulls by its
//! placement (`examples/simulate_summation.rs`). Each message is simulated by itself; they line up as in the formulas. Steps with
//! overlap and fusion alone.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;

use super::formulas::{Costs, Message, Shape, Way, line_up, real_bytes as real};
use super::measure::Case;
use super::options::{Mode, Plan, powers_of_two};
use crate::process::say;

/// Simulated up to there, and drawn.
pub(super) const MOST_HOSTS: usize = 1024;
/// In a small run.
const FEW_HOSTS: usize = 16;
/// Simulations at once; one takes up to 900 MB.
const MOST_THREADS: usize = 4;
/// What is simulated.
pub(super) const MODE: Mode = Mode { overlaps: true, fuses: true };

/// Seconds of steps.
pub(super) fn all(programs: &Path, plan: &Plan, costs: &Costs, is_small: bool) -> Result<Vec<(Case, f64)>> {
    let folder = programs.join("examples");
    let most = if is_small { FEW_HOSTS } else { MOST_HOSTS };
    let cases = powers_of_two(most).into_iter().skip(1).flat_map(Plan::ways).collect();
    say(&format!("scaling: simulating up to {most} hosts"));
    // The longest ones are last: who is free takes the next from there.
    let (left, found) = (Mutex::new(cases), Mutex::new(Vec::new()));
    let work = || -> Result<()> {
        while let Some((way, shape)) = next(&left) {
            let step_s = step(&folder, plan, costs, (way, shape))?;
            let of_case = step_s.map(|step_s| (Case { way, shape, mode: MODE }, step_s));
            found.lock().map_err(|_| anyhow!("a simulation panicked"))?.extend(of_case);
        }
        Ok(())
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        let ends =
            threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a simulation panicked"))?);
        ends.collect::<Result<()>>()
    })?;
    found.into_inner().map_err(|_| anyhow!("a simulation panicked"))
}

fn next(left: &Mutex<Vec<(Way, Shape)>>) -> Option<(Way, Shape)> {
    left.lock().ok()?.pop()
}

fn step(folder: &Path, plan: &Plan, costs: &Costs, (way, shape): (Way, Shape)) -> Result<Option<f64>> {
    match way {
        Way::Summation { helpers } => summed(folder, plan, costs, (shape, helpers)),
        Way::Ring | Way::Hierarchical => reduced(folder, plan, costs, (way, shape)),
    }
}

/// By all-reduces. What one takes is linear in its size here: the smallest and the largest are simulated.
fn reduced(folder: &Path, plan: &Plan, costs: &Costs, (way, shape): (Way, Shape)) -> Result<Option<f64>> {
    let messages = plan.messages(MODE);
    let sizes = || messages.iter().map(|message| message.bytes);
    let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { return Ok(None) };
    let least_s = all_reduce(folder, costs, (way, shape), least)?;
    let most_s = if most > least { all_reduce(folder, costs, (way, shape), most)? } else { least_s };
    let per_byte_s = (most_s - least_s) / real(most - least).max(1.0);
    let end_s = line_up(&messages, |message| least_s + per_byte_s * real(message.bytes - least));
    Ok(Some(end_s.max(plan.compute_s)))
}

fn all_reduce(folder: &Path, costs: &Costs, (way, shape): (Way, Shape), bytes: u64) -> Result<f64> {
    let algorithm = if way == Way::Ring { "ring" } else { "hierarchical" };
    let mut command = Command::new(folder.join("simulate"));
    command.args(["--json", "--algo", algorithm, "--ranks", &shape.n_ranks().to_string()]);
    command.args(["--hosts", &shape.hosts.to_string(), "--bytes", &bytes.to_string()]);
    command.args(["--alpha-us", &us(costs.between.alpha_s), "--gbps", &gbps(costs.between.bytes_per_s)]);
    command.args(["--intra-alpha-us", &us(costs.inside.alpha_s)]);
    command.args(["--intra-gbps", &gbps(costs.inside.bytes_per_s)]);
    number(&mut command, "predicted_s")
}

/// By push-pulls of all messages in one simulation. Workers that share a host count as one there.
fn summed(
    folder: &Path,
    plan: &Plan,
    costs: &Costs,
    (shape, helpers): (Shape, usize),
) -> Result<Option<f64>> {
    if shape.ranks_per_host > 1 {
        return Ok(None);
    }
    let mut command = Command::new(folder.join("simulate_summation"));
    command.args(["--json", "--machines", &format!("{},{helpers}", shape.hosts)]);
    command.args(["--gbps", &gbps(costs.between.bytes_per_s), "--alpha-us", &us(costs.push_pull_s / 2.0)]);
    for Message { ready_s, bytes } in plan.messages(MODE) {
        command.args(["--message", &format!("{bytes}@{}", us(ready_s))]);
    }
    let end_s = number(&mut command, "end_s")?;
    Ok(Some(end_s.max(plan.compute_s)))
}

fn number(command: &mut Command, name: &str) -> Result<f64> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let found: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}"))?;
    found[name].as_f64().with_context(|| format!("{command:?}: no {name} in {found}"))
}

fn us(seconds: f64) -> String {
    format!("{:.3}", seconds * 1e6)
}

fn gbps(bytes_per_s: f64) -> String {
    format!("{:.9}", bytes_per_s * 8.0 / 1e9)
}
