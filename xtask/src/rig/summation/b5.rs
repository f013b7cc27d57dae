//! B5: one sender that serves all servers in proportion to what each still has to get, with credits, beside one sender
//! for each connection, as ps-lite has them: there the kernel shares the link evenly among connections, so those with
//! more to carry are late.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::report::{Limit, Report};
use super::calibration::Links;
use super::group::{Ground, PARTITION_BYTES, Plan, median_seconds, told};
use super::theory::Shape;

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    let model_bytes: u64 = if is_small { 6_000_000 } else { 24_000_000 };
    let ground = Ground::lay(programs, "b5", SHAPE.n_hosts(), RATE_MBIT)?;
    let links = Links::calibrate(&ground, RATE_MBIT, model_bytes)?;
    let best = SHAPE.best() * links.seconds(model_bytes);
    let mut group = ground.group("b5", SHAPE.n_hosts())?;
    let mut measure = |more: Value| {
        group.join(SHAPE, &Plan::of(model_bytes, PARTITION_BYTES).with(more))?;
        let rounds = group.rounds(json!({ "n": 6 }))?;
        group.leave()?;
        Ok::<_, anyhow::Error>(median_seconds(rounds.get(1..).unwrap_or(&[])))
    };
    let one = measure(told(RATE_MBIT))?;
    let unbounded = 2 * model_bytes;
    let each =
        json!({ "barrier": true, "sender_per_connection": true, "credit_bytes_per_server": unbounded });
    let many = measure(each)?;
    group.job.finish()?;
    let limit = Limit::RatioAtMost(1.15);
    report.number("B5", format!("{SHAPE}, one sender in proportion: s"), (best, one), 3, limit);
    report.number(
        "B5",
        format!("{SHAPE}, a sender for each connection: s"),
        (PUBLISHED * best, many),
        3,
        Limit::None,
    );
    let what = "a sender for each connection takes times as long";
    report.number("B5", what, (PUBLISHED, many / one), 3, Limit::AtLeast(1.15));
    ground.clear()
}

const SHAPE: Shape = Shape::of(4, 2);
const RATE_MBIT: u32 = 100;
/// Times the best, of a prototype with a thread for each connection.
const PUBLISHED: f64 = 1.4;
