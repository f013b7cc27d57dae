//! B4: parts let sums come back while others are still pushed. With as many servers as workers, a model of M bytes in rows
//! of p bytes (one part for each server) takes (M + p)/B.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::super::report::{Limit, Report};
use super::calibration::Links;
use super::group::{Ground, Plan, median_seconds, told};
use super::theory::Shape;

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    let model_bytes: u64 = if is_small { 6_000_000 } else { 24_000_000 };
    let ground = Ground::lay(programs, "b4", SHAPE.n_hosts(), RATE_MBIT)?;
    let links = Links::calibrate(&ground, RATE_MBIT, model_bytes)?;
    let mut group = ground.group("b4", SHAPE.n_hosts())?;
    let mut all = Vec::new();
    for row_bytes in [model_bytes, 4_000_000, 1_000_000, 64_000] {
        // One tensor for each server, so that a row has a part for each, the unpartitioned model too.
        let n_servers = SHAPE.k as u64;
        let plan = Plan {
            strategy: "parameter-server",
            partition_bytes: row_bytes / n_servers,
            elements: vec![model_bytes / 4 / n_servers; SHAPE.k],
            more: told(RATE_MBIT),
        };
        group.join(SHAPE, &plan)?;
        let rounds = group.rounds(json!({ "n": 3 }))?;
        group.leave()?;
        let seconds = median_seconds(&rounds);
        let predicted = links.seconds(model_bytes + row_bytes);
        let what = format!("{SHAPE} parameter server, {model_bytes} B in rows of {row_bytes} B: s");
        report.number("B4", what, (predicted, seconds), 3, Limit::RatioAtMost(MOST));
        all.push(seconds);
    }
    let words: Vec<String> = all.iter().map(|seconds| format!("{seconds:.2}")).collect();
    let falls = all.is_sorted_by(|longer, shorter| longer > shorter);
    report.add("B4", "smaller parts take less time: s", "falling", words.join(" "), falls);
    group.job.finish()?;
    ground.clear()
}

const SHAPE: Shape = Shape::of(4, 4);
const RATE_MBIT: u32 = 100;
/// 5 % for what the formula leaves out, and as much for the messages of small parts.
const MOST: f64 = 1.1;
