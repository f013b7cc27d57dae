//! B6: twelve layers, whose gradients come last to first and all at once. By priority the first layer, which the next
//! forward pass needs first, is there when its own bytes are; first come, first served it is there last.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::super::report::{Limit, Report};
use super::calibration::Links;
use super::group::{Ground, Plan};
use super::theory::{Shape, median};

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    let layer_bytes: u64 = if is_small { 500_000 } else { 2_000_000 };
    let ground = Ground::lay(programs, "b6", SHAPE.n_hosts(), RATE_MBIT)?;
    let links = Links::calibrate(&ground, RATE_MBIT, N_LAYERS * layer_bytes)?;
    let mut group = ground.group("b6", SHAPE.n_hosts())?;
    let first = links.seconds(layer_bytes + CREDIT_BYTES);
    let all = links.seconds(N_LAYERS * layer_bytes);
    let latest = if is_small { 0.1 } else { 0.25 };
    for (by_priority, predicted, limit) in
        [(true, first, Limit::AtMost(latest)), (false, all, Limit::RatioWithin(0.9, 1.15))]
    {
        let layers = 0..N_LAYERS;
        let priorities: Vec<u64> = if by_priority { layers.collect() } else { layers.rev().collect() };
        let plan = Plan {
            strategy: "parameter-server",
            partition_bytes: PARTITION_BYTES,
            elements: vec![layer_bytes / 4; N_LAYERS_USIZE],
            more: json!({
                "barrier": true,
                "priorities": priorities,
                "nic_mbit": RATE_MBIT,
            }),
        };
        group.join(SHAPE, &plan)?;
        let rounds = group.rounds(json!({ "n": 3, "reverse": true, "each": true, "check": is_small }))?;
        group.leave()?;
        let of = |which: fn(&[f64]) -> f64| {
            median(rounds.iter().map(|round| which(&round.tensor_seconds)).collect())
        };
        let (first, last) =
            (of(|seconds| seconds[0]), of(|seconds| seconds.iter().copied().fold(0.0, f64::max)));
        let order = if by_priority { "by priority" } else { "first come, first served" };
        report.number("B6", format!("{order}: layer 0 is there: s"), (predicted, first), 3, limit);
        report.number("B6", format!("{order}: all layers are there: s"), (all, last), 3, Limit::None);
    }
    group.job.finish()?;
    ground.clear()
}

const SHAPE: Shape = Shape::of(4, 4);
const RATE_MBIT: u32 = 100;
const N_LAYERS: u64 = 12;
const N_LAYERS_USIZE: usize = 12;
/// Over all servers: what may be on its way when a more urgent layer comes, by the prototype's settings.
const CREDIT_BYTES: u64 = 256_000;
const PARTITION_BYTES: u64 = 16_000;
