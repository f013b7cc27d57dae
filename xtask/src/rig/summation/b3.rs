//! B3: placements of real models by the time they take over the best one, computed; and two of them measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::report::{Limit, Report};
use super::super::stage::PLACEMENT;
use super::calibration::Links;
use super::group::{Ground, Plan, median_seconds};
use super::theory::{Shape, as_f64};

/// Model, shape, strategy, time over the best one as published or computed before, and what ours may be at most.
const COMPUTED: [(&str, Shape, &str, f64, Limit); 13] = [
    ("vgg-16", Shape::of(4, 2), "shipped", 1.21, Limit::None),
    ("vgg-16", Shape::of(4, 2), "hash-mod-d", 1.06, Limit::None),
    ("vgg-16", Shape::of(4, 2), "greedy", 1.005, Limit::AtMost(1.02)),
    ("vgg-16", Shape::of(8, 4), "shipped", 1.24, Limit::None),
    ("vgg-16", Shape::of(8, 4), "hash-mod-d", 1.25, Limit::None),
    ("vgg-16", Shape::of(8, 4), "greedy", 1.008, Limit::AtMost(1.02)),
    ("resnet-50", Shape::of(4, 2), "shipped", 1.25, Limit::None),
    ("resnet-50", Shape::of(4, 2), "greedy", 1.0, Limit::AtMost(1.02)),
    ("resnet-50", Shape::of(8, 4), "shipped", 1.75, Limit::None),
    ("resnet-50", Shape::of(8, 4), "greedy", 1.001, Limit::AtMost(1.02)),
    ("bert-large", Shape::of(8, 4), "shipped", 1.12, Limit::None),
    ("bert-large", Shape::of(8, 4), "hash-mod-d", 1.25, Limit::None),
    ("bert-large", Shape::of(8, 4), "greedy", 1.0, Limit::AtMost(1.02)),
];

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    for (model, shape, strategy, published, limit) in COMPUTED {
        let computed = over_best(programs, model, shape, strategy)?;
        report.number(
            "B3",
            format!("{model} {shape} {strategy}: time over the best"),
            (published, computed),
            3,
            limit,
        );
    }
    let shape = Shape::of(4, 2);
    let ground = Ground::lay(programs, "b3", shape.n_hosts(), RATE_MBIT)?;
    let links = Links::calibrate(&ground, RATE_MBIT, 24_000_000)?;
    let mut group = ground.group("b3", shape.n_hosts())?;
    let mut took = Vec::new();
    for strategy in ["shipped", "greedy"] {
        let more = json!({ "barrier": true, "nic_mbit": RATE_MBIT, "model": MEASURED });
        let plan = Plan { strategy, partition_bytes: PARTITION_BYTES, elements: Vec::new(), more };
        let predicted = group.join(shape, &plan)?;
        let busiest = predicted.iter().filter_map(|node| node["sent"].as_u64()).max().unwrap_or(0);
        let rounds = group.rounds(json!({ "n": if is_small { 1 } else { 3 } }))?;
        group.leave()?;
        let seconds = median_seconds(&rounds);
        let what = format!("{MEASURED} {shape} {strategy}, measured: s");
        report.number("B3", what, (links.seconds(busiest), seconds), 2, Limit::None);
        took.push((as_f64(busiest), seconds));
    }
    if let [(shipped_bytes, shipped), (greedy_bytes, greedy)] = took[..] {
        let what = format!("{MEASURED} {shape}, measured: shipped by greedy");
        let numbers = (shipped_bytes / greedy_bytes, shipped / greedy);
        report.number("B3", what, numbers, 3, Limit::AtLeast(1.15));
    }
    group.job.finish()?;
    ground.clear()
}

/// As `cargo xtask placement` says.
fn over_best(programs: &Path, model: &str, shape: Shape, strategy: &str) -> Result<f64> {
    let mut command = Command::new(programs.join("examples").join(PLACEMENT));
    command.args(["--json", "--model", model, "--strategy", strategy]);
    command.args(["--machines", &format!("{},{}", shape.n, shape.k)]);
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let found: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?}"))?;
    found["strategies"][0]["over_optimal"].as_f64().with_context(|| format!("no time in {found}"))
}

const MEASURED: &str = "resnet-50";
const RATE_MBIT: u32 = 200;
/// Of the strategies that are compared.
const PARTITION_BYTES: u64 = 4_096_000;
