//! B8: a pull of a round gets that round's sum, however late it comes. With one buffer for a key and no round in its
//! messages, as BytePS has it, it gets what the next round has left there.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::report::Report;
use super::b7::{ELEMENTS, MOST_US, naive, wrong};
use super::group::{Ground, Plan};
use super::theory::Shape;

/// Runs it.
pub(super) fn run(programs: &Path, rounds: u64, report: &mut Report) -> Result<()> {
    let ground = Ground::lay(programs, "b8", SHAPE.n_hosts(), RATE_MBIT)?;
    let mut group = ground.group("b8", SHAPE.n_hosts())?;
    group.join(SHAPE, &Plan::of(4 * ELEMENTS, 4 * ELEMENTS / 3))?;
    let sleeps = |worker: usize| {
        let sleep_ms = if worker == SLEEPER { SLEEP_MS } else { 0 };
        json!({ "n": SLEEPY_ROUNDS, "values": "whole", "sleep_ms": sleep_ms })
    };
    let ours = |mut delayed: Value| {
        delayed["do"] = json!("delayed");
        delayed
    };
    let answers = group.ask(0..SHAPE.n, |worker| ours(sleeps(worker)))?;
    let what = format!("{SLEEPY_ROUNDS} rounds, a worker sleeps {SLEEP_MS} ms before each pull: wrong sums");
    report.equal("B8", what, 0, wrong(&answers));
    let delayed = json!({ "n": rounds, "values": "fractions", "most_us": MOST_US });
    let answers = group.ask_workers(&ours(delayed))?;
    let what =
        format!("{rounds} rounds, all workers wait up to {MOST_US} us before push and pull: wrong sums");
    report.equal("B8", what, 0, wrong(&answers));
    group.leave()?;
    let delayed: Vec<Value> = (0..SHAPE.n).map(sleeps).collect();
    let n_wrong = wrong(&naive(&mut group, SHAPE.n, &delayed)?);
    let what = format!("{SLEEPY_ROUNDS} rounds, the same sleeper, one buffer and no rounds: wrong sums");
    report.add("B8", what, "> 0", n_wrong, n_wrong > 0);
    group.job.finish()?;
    ground.clear()
}

const SHAPE: Shape = Shape::of(4, 2);
const RATE_MBIT: u32 = 400;
const SLEEPER: usize = 1;
const SLEEP_MS: u64 = 100;
const SLEEPY_ROUNDS: u64 = 20;
