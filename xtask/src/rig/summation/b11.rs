//! B11: servers come and go between rounds. Sums have the same bits for every number of servers, and each round's bytes
//! follow Equations 1 and 2 for the number that there is.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::report::Report;
use super::group::{Ground, Plan};
use super::theory::{Shape, as_f64};

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    let model_bytes: u64 = if is_small { 2_400_000 } else { 12_000_000 };
    let n_hosts = N + SERVERS.into_iter().max().unwrap_or(0);
    let ground = Ground::lay(programs, "b11", n_hosts, RATE_MBIT)?;
    let mut group = ground.group("b11", n_hosts)?;
    let mut seen: Vec<BTreeSet<u64>> = Vec::new();
    for k in SERVERS {
        let shape = Shape::of(N, k);
        group.join(shape, &Plan::of(model_bytes, PARTITION_BYTES))?;
        let rounds = group.rounds(json!({ "n": ROUNDS, "check": true }))?;
        let traffic = group.leave()?;
        seen.push(rounds.iter().flat_map(|round| round.fingerprints.clone()).collect());
        let carried = |rank: usize, traffic: &Value| -> Result<f64> {
            let bytes = traffic["sent"].as_u64().context("sent")?;
            let off = as_f64(bytes) / as_f64(ROUNDS * model_bytes) - shape.carried(rank);
            Ok(off.abs() / (as_f64(shape.parts_off(rank) as u64 * PARTITION_BYTES) / as_f64(model_bytes)))
        };
        let off = traffic.iter().enumerate().map(|(rank, traffic)| carried(rank, traffic));
        let most = off.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
        let what = format!("{shape}: farthest off Eq. 1 and 2, by what whole parts allow");
        report.add("B11", what, "<= 1", format!("{most:.3}"), most <= 1.0);
    }
    let all: BTreeSet<u64> = seen.iter().flatten().copied().collect();
    let what = format!("k = {SERVERS:?}, {ROUNDS} rounds each of the same inputs: different sums");
    report.equal("B11", what, ROUNDS, all.len() as u64);
    group.job.finish()?;
    ground.clear()
}

const N: usize = 4;
const SERVERS: [usize; 4] = [0, 2, 4, 1];
const ROUNDS: u64 = 3;
const RATE_MBIT: u32 = 400;
const PARTITION_BYTES: u64 = 64_000;
