//! B2: how long a push-pull takes, beside the best time of its shape, our own ring and our own parameter server on the
//! same links.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::report::{Limit, Report};
use super::calibration::Links;
use super::group::{Ground, PARTITION_BYTES, Plan, median_seconds, told};
use super::theory::{Shape, as_f64, median};

/// How much is measured.
#[derive(Debug)]
pub(super) struct Sizes {
    model_bytes: u64,
    n: usize,
}

/// Everything.
pub(super) const FULL: Sizes = Sizes { model_bytes: 24_000_000, n: 3 };
/// To see that it works.
pub(super) const QUICK: Sizes = Sizes { model_bytes: 6_000_000, n: 1 };

/// Runs it.
pub(super) fn run(programs: &Path, sizes: &Sizes, report: &mut Report) -> Result<()> {
    let ground = Ground::lay(programs, "b2", 8, RATE_MBIT)?;
    let links = Links::calibrate(&ground, RATE_MBIT, sizes.model_bytes)?;
    report.number(
        "B2",
        "goodput of a link by its rate",
        (PUBLISHED, links.goodput()),
        4,
        Limit::AtLeast(0.94),
    );
    let m = links.seconds(sizes.model_bytes);
    let ring = ring(&ground, sizes)?;
    report.number("B2", "own ring of 4: s", (Shape::of(4, 0).ring() * m, ring), 3, Limit::RatioAtMost(1.05));
    let mut took = |strategy: &'static str, shape: Shape, best: f64, limit: Limit| {
        let seconds = push_pull(&ground, strategy, shape, sizes)?;
        report.number("B2", format!("{strategy} {shape}: s"), (best * m, seconds), 3, limit);
        Ok::<_, anyhow::Error>(seconds)
    };
    let best = |shape: Shape| shape.best();
    let two = took("greedy", Shape::of(4, 2), best(Shape::of(4, 2)), Limit::RatioAtMost(1.15))?;
    let four = took("greedy", Shape::of(4, 4), best(Shape::of(4, 4)), Limit::RatioAtMost(1.15))?;
    let one = took("greedy", Shape::of(4, 1), best(Shape::of(4, 1)), Limit::None)?;
    took("greedy", Shape::of(4, 0), best(Shape::of(4, 0)), Limit::None)?;
    took("equal", Shape::of(4, 2), 4.0 / 3.0, Limit::None)?;
    let server = took("parameter-server", Shape::of(4, 1), 4.0, Limit::None)?;
    took("parameter-server", Shape::of(4, 2), 2.0, Limit::None)?;
    let mut faster = |what: &str, shape: Shape, predicted: f64, measured: f64, least: f64| {
        let what = format!("{shape} beside {what}: times as fast");
        report.number("B2", what, (predicted, measured), 3, Limit::AtLeast(least));
    };
    let over_ring = |shape: Shape| shape.ring() / shape.best();
    faster("own ring", Shape::of(4, 2), over_ring(Shape::of(4, 2)), ring / two, 1.15);
    faster("own ring", Shape::of(4, 4), over_ring(Shape::of(4, 4)), ring / four, 1.3);
    let over_server = Shape::of(4, 1).parameter_server() / Shape::of(4, 1).best();
    faster("own parameter server", Shape::of(4, 1), over_server, server / one, 2.5);
    ground.clear()
}

/// The middle of some rounds, after one that fills all buffers.
fn push_pull(ground: &Ground, strategy: &'static str, shape: Shape, sizes: &Sizes) -> Result<f64> {
    let mut group = ground.group(&format!("{strategy}-{}-{}", shape.n, shape.k), shape.n_hosts())?;
    let plan = Plan::by(strategy, sizes.model_bytes, PARTITION_BYTES).with(told(RATE_MBIT));
    group.join(shape, &plan)?;
    let rounds = group.rounds(json!({ "n": 1 + sizes.n, "check": true }))?;
    group.leave()?;
    group.job.finish()?;
    Ok(median_seconds(rounds.get(1..).unwrap_or(&[])))
}

/// The middle of some all-reduces, each the longest of the ranks' times, after one that fills all buffers.
fn ring(ground: &Ground, sizes: &Sizes) -> Result<f64> {
    let mut ranks = ground.ranks("ring", 4)?;
    let command = format!("timed all_reduce {} 0", sizes.model_bytes / 4);
    let mut took = Vec::new();
    for _ in 0..=sizes.n {
        let answers = ranks.ask_all(&command)?;
        let of_ranks = answers.iter().map(|ns| ns.parse().with_context(|| format!("nanoseconds: {ns}")));
        took.push(of_ranks.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0));
    }
    ranks.ask_all("destroy")?;
    ranks.finish()?;
    Ok(median(took.into_iter().skip(1).map(|took| as_f64(took) / 1e9).collect()))
}

const RATE_MBIT: u32 = 100;
/// What a link of the rig carries of payload by its rate.
const PUBLISHED: f64 = 0.955;
