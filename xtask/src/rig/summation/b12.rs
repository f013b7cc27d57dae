//! B12: SIGKILL to a server and to a worker at made-up moments while bytes move: every survivor names it within a second.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::super::report::{Limit, Report};
use super::group::{Ground, Plan};
use super::theory::{Shape, median};
use crate::clock::Stopwatch;

/// One death.
#[derive(Debug)]
struct Death {
    /// Until the last survivor knew.
    seconds: f64,
    /// What survivors said who did not name the victim.
    strange: Vec<String>,
}

/// Runs it.
pub(super) fn run(programs: &Path, repeat: u32, report: &mut Report) -> Result<()> {
    let ground = Ground::lay(programs, "b12", SHAPE.n_hosts(), RATE_MBIT)?;
    for (who, victims) in [("server", SHAPE.n..SHAPE.n_hosts()), ("worker", 0..SHAPE.n)] {
        let death = |number: u32| {
            let victim = victims.clone().cycle().nth(number as usize).unwrap_or(0);
            die(&ground, victim, pause(number))
        };
        let deaths = (0..repeat).map(death).collect::<Result<Vec<Death>>>()?;
        let strange: Vec<&String> = deaths.iter().flat_map(|death| &death.strange).collect();
        let what = format!("{SHAPE}, {repeat} deaths of a {who}: survivors who did not name it");
        report.equal("B12", what, 0, strange.len());
        for words in strange.iter().take(3) {
            report.add("B12", format!("one said: {words}"), "", "", false);
        }
        let seconds: Vec<f64> = deaths.iter().map(|death| death.seconds).collect();
        let longest = seconds.iter().copied().fold(0.0, f64::max);
        let what = format!("{SHAPE}, {repeat} deaths of a {who}: the last survivor knew after at most: s");
        report.number("B12", what, (1.0, longest), 3, Limit::AtMost(1.0));
        let what = format!("{SHAPE}, {repeat} deaths of a {who}: the same, in the middle: s");
        report.number("B12", what, (1.0, median(seconds)), 3, Limit::None);
    }
    ground.clear()
}

fn die(ground: &Ground, victim: usize, pause: Duration) -> Result<Death> {
    let mut group = ground.group("b12", SHAPE.n_hosts())?;
    group.join(SHAPE, &Plan::of(MODEL_BYTES, PARTITION_BYTES))?;
    for rank in 0..SHAPE.n_hosts() {
        let command = if rank < SHAPE.n { "endless" } else { "serve" };
        group.job.tell(rank, &json!({ "do": command }).to_string())?;
    }
    std::thread::sleep(pause);
    let watch = Stopwatch::start();
    group.job.kill(victim)?;
    let survivors = (0..SHAPE.n_hosts()).filter(|rank| *rank != victim);
    let told = survivors.map(|rank| group.answer(rank)).collect::<Result<Vec<Value>>>()?;
    let seconds = watch.seconds();
    let names = |said: &&Value| !said["error"].as_str().unwrap_or("").contains(&format!("rank {victim} ("));
    Ok(Death { seconds, strange: told.iter().filter(names).map(ToString::to_string).collect() })
}

/// Another one each time: from the first bytes of a round to those of a later one.
fn pause(number: u32) -> Duration {
    Duration::from_micros(u64::from(number.wrapping_mul(2_654_435_761) % 400_000))
}

const SHAPE: Shape = Shape::of(4, 2);
const RATE_MBIT: u32 = 100;
/// About a quarter of a second of the links.
const MODEL_BYTES: u64 = 2_400_000;
const PARTITION_BYTES: u64 = 64_000;
