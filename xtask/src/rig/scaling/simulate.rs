//! Steps over the engine's simulated fabrics, up to 1 024 hosts: all-reduces by its schedules (`examples/simulate.rs`), push-pulls by its
//! placement (`examples/simulate_summation.rs`). Each message is simulated by itself; they line up as in the formulas. Steps with
//! overlap and fusion alone.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::formulas::{Costs, Message, Shape, Way, line_up};
use super::measure::Case;
use super::options::{Mode, Plan, powers_of_two};
use crate::process::say;

/// Simulated up to there, and drawn.
pub(super) const MOST_HOSTS: usize = 1024;
/// In a small run.
const FEW_HOSTS: usize = 16;
/// What is simulated.
pub(super) const MODE: Mode = Mode { overlaps: true, fuses: true };

/// Seconds of steps.
pub(super) fn all(programs: &Path, plan: &Plan, costs: &Costs, is_small: bool) -> Result<Vec<(Case, f64)>> {
    let folder = programs.join("examples");
    let most = if is_small { FEW_HOSTS } else { MOST_HOSTS };
    let mut found = Vec::new();
    for n_hosts in powers_of_two(most).into_iter().skip(1) {
        say(&format!("scaling: simulating {n_hosts} hosts"));
        for (way, shape) in Plan::ways(n_hosts) {
            let step_s = match way {
                Way::Summation { helpers } => summed(&folder, plan, costs, (shape, helpers))?,
                Way::Ring | Way::Hierarchical => reduced(&folder, plan, costs, (way, shape))?,
            };
            found.extend(step_s.map(|step_s| (Case { way, shape, mode: MODE }, step_s)));
        }
    }
    Ok(found)
}

/// By all-reduces, each of which is simulated once for its size.
fn reduced(folder: &Path, plan: &Plan, costs: &Costs, (way, shape): (Way, Shape)) -> Result<Option<f64>> {
    let messages = plan.messages(MODE);
    let mut of_size = BTreeMap::new();
    for Message { bytes, .. } in &messages {
        if !of_size.contains_key(bytes) {
            of_size.insert(*bytes, all_reduce(folder, costs, (way, shape), *bytes)?);
        }
    }
    let end_s = line_up(&messages, |message| of_size.get(&message.bytes).copied().unwrap_or(f64::NAN));
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
