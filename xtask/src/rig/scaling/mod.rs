//! How many machines help: a training step whose compute is pretended and whose gradients are really summed, on 1, 2, 4 and 8
//! hosts, beside closed forms; and closed forms and simulation on to 1 024 hosts.
//!
//! [`model`] and [`options`] say what a step is, [`formulas`] what it should take, [`hosts`] and `step.c` carry it out,
//! [`measure`] goes through all cases in turns, [`simulate`] asks the engine's simulations, [`report`] and [`figure`] show it.

mod figure;
mod formulas;
mod hosts;
mod measure;
mod model;
mod options;
mod report;
mod simulate;

use std::path::Path;

use anyhow::Result;

use super::report::Report;
use hosts::Ground;
use measure::Measured;
pub(super) use options::Options;
use options::Plan;

/// Runs it.
pub(super) fn run(
    programs: &Path,
    options: &Options,
    (is_small, rounds): (bool, Option<u64>),
    criteria: &mut Report,
) -> Result<()> {
    let plan = options.plan(is_small, rounds);
    let (measured, steps) = if plan.measures { measured(programs, &plan)? } else { (None, Vec::new()) };
    let costs = measured.map_or_else(|| plan.assumed(), |measured| measured.costs);
    let simulated = simulate::all(programs, &plan, &costs, is_small)?;
    let table =
        report::Table::new(&plan, costs, measured.map(|found| found.carried_bytes_per_s), &steps, &simulated);
    table.judge(is_small, criteria);
    table.publish(&figure::svg(&table), is_small)
}

type Steps = Vec<(measure::Case, measure::Spread)>;

fn measured(programs: &Path, plan: &Plan) -> Result<(Option<Measured>, Steps)> {
    // As many helpers as workers at most.
    let most = 2 * plan.measured_hosts().last().copied().unwrap_or(1).max(2);
    let ground = Ground::lay(programs, most, plan.rate_mbit)?;
    let costs = measure::costs(&ground, plan)?;
    let steps = measure::steps(&ground, plan)?;
    ground.clear()?;
    Ok((Some(costs), steps))
}
