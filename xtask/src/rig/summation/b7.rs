//! B7: equal contributions give equal bits, however late workers are; a server that adds as contributions come does not.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::network::address;
use super::super::report::Report;
use super::group::{Ground, Group, Plan};
use super::theory::Shape;

/// Runs it.
pub(super) fn run(programs: &Path, rounds: u64, report: &mut Report) -> Result<()> {
    let ground = Ground::lay(programs, "b7", SHAPE.n_hosts(), RATE_MBIT)?;
    let mut group = ground.group("b7", SHAPE.n_hosts())?;
    group.join(SHAPE, &Plan::of(4 * ELEMENTS, 4 * ELEMENTS / 3))?;
    let delayed = json!({ "n": rounds, "values": "fractions", "same": true, "most_us": MOST_US });
    let mut ours = delayed.clone();
    ours["do"] = json!("delayed");
    let answers = group.ask_workers(&ours)?;
    group.leave()?;
    let what = format!("{rounds} rounds of one input, {SHAPE}: different sums of all workers");
    report.equal("B7", what, 1, fingerprints(&answers).len());
    let what = format!("{rounds} rounds of one input, {SHAPE}: sums that are not the sum in order of ranks");
    report.equal("B7", what, 0, wrong(&answers));
    let naive = naive(&mut group, SHAPE.n, &[delayed])?;
    let n_different = fingerprints(&naive).len();
    let what =
        format!("{rounds} rounds of one input, a server that adds as contributions come: different sums");
    report.add("B7", what, "> 1", n_different, n_different > 1);
    group.job.finish()?;
    ground.clear()
}

/// Rounds of workers by a server on the last host that does as BytePS's; `delayed` by worker, the last one for the others.
pub(super) fn naive(group: &mut Group, n_workers: usize, delayed: &[Value]) -> Result<Vec<Value>> {
    let server = group.job.n_ranks() - 1;
    let address = address(server, 0);
    let serves =
        group.ask_one(server, &json!({ "do": "naive_serve", "address": address, "n_workers": n_workers }))?;
    group.ask(0..n_workers, |worker| {
        json!({
            "do": "naive_delayed",
            "address": address,
            "port": serves["port"],
            "worker": worker,
            "n_workers": n_workers,
            "elements": ELEMENTS,
            "delayed": delayed.get(worker).or(delayed.last()),
        })
    })
}

/// Sums that were wrong, of all workers.
pub(super) fn wrong(answers: &[Value]) -> u64 {
    answers.iter().map(|answer| answer["wrong"].as_u64().unwrap_or(u64::MAX)).sum()
}

fn fingerprints(answers: &[Value]) -> BTreeSet<u64> {
    let of = |answer: &Value| answer["fingerprints"].as_array().cloned().unwrap_or_default();
    answers.iter().flat_map(of).filter_map(|fingerprint| fingerprint.as_u64()).collect()
}

const SHAPE: Shape = Shape::of(4, 2);
const RATE_MBIT: u32 = 400;
/// Floats of the tensor.
pub(super) const ELEMENTS: u64 = 3000;
/// Before each push and each pull, at most.
pub(super) const MOST_US: u64 = 400;
