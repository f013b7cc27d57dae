//! How many machines help: a training step whose compute is pretended and whose gradients are really summed, on 1, 2, 4 and 8
//! hosts, beside closed forms; and closed forms and simulation on to 1 024 hosts.
//!
//! [`model`] and [`options`] say what a step is, [`formulas`] what it should take, [`hosts`] and `step.c` carry it out,
//! [`measure`] goes through all cases in turns, [`simulate`] asks the engine's simulations, [`table`] is what
//! is known then, [`text`], [`figure`] and [`report`] show and judge it.

mod figure;
mod formulas;
mod hosts;
mod measure;
mod model;
mod options;
mod report;
mod simulate;
mod table;
mod text;

use std::path::Path;

use anyhow::Result;

use super::report::Report;
use hosts::Ground;
use measure::Measured;
pub(super) use options::Options;
use options::Plan;
use table::Table;

/// Runs it.
pub(super) fn run(
    programs: &Path,
    options: &Options,
    (is_small, is_json, rounds): (bool, bool, Option<u64>),
    criteria: &mut Report,
) -> Result<()> {
    let plan = options.plan(is_small, rounds);
    let (measured, steps) = if plan.measures { measured(programs, &plan)? } else { (None, Vec::new()) };
    let costs = measured.map_or_else(|| plan.assumed(), |measured| measured.costs);
    let carried = measured.map(|measured| measured.carried_bytes_per_s);
    // What was measured is kept, whatever becomes of the simulations.
    let table = Table::new(&plan, costs, carried, &steps, &[]);
    table.write(figure::svg(&table))?;
    let simulated = simulate::all(programs, &plan, &costs, is_small)?;
    let table = Table::new(&plan, costs, carried, &steps, &simulated);
    table.judge(is_small, criteria);
    table.write(figure::svg(&table))?;
    if !is_small && !is_json {
        table.print();
    }
    Ok(())
}

type Steps = Vec<(measure::Case, measure::Spread)>;

fn measured(programs: &Path, plan: &Plan) -> Result<(Option<Measured>, Steps)> {
    // As many helpers as workers at most.
    let most = 2 * plan.measured_hosts().last().copied().unwrap_or(1).max(2);
    let n_ranks =
        plan.measured_hosts().into_iter().flat_map(Plan::ways).map(|(_, shape)| shape.n_ranks()).sum();
    hosts::check_memory(n_ranks, plan.gradient_bytes)?;
    let ground = Ground::lay(programs, most, plan.rate_mbit)?;
    let costs = measure::costs(&ground, plan)?;
    let steps = measure::steps(&ground, plan)?;
    ground.clear()?;
    Ok((Some(costs), steps))
}
