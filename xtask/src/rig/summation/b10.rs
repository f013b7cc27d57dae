//! B10: asynchronous sums of made-up schedules, beside a parameter server that applies updates itself. One process: the
//! store decides, and the order of its calls is the schedule.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::json;

use super::super::report::{Limit, Report};
use super::group::alone;

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    let schedules = if is_small { 100 } else { 1000 };
    let found = alone(programs, &json!({ "do": "asynchronous", "schedules": schedules }))?;
    let count = |name: &str| found[name].as_u64().with_context(|| format!("no {name} in {found}"));
    let pushes = count("pushes")?;
    let words = format!("{schedules} schedules of each kind, {pushes} pushes in all");
    let what = format!("{words}: states that differ from a parameter server's in a bit, updates of 8 bits");
    report.equal("B10", what, 0, count("differing")?);
    let ulp = found["most_ulp"].as_f64().context("most_ulp")?;
    report.number(
        "B10",
        "any updates: units in the last place off, by push",
        (2.0, ulp),
        3,
        Limit::AtMost(2.0),
    );
    report.equal(
        "B10",
        "pushes of a worker that was too far ahead (bounds 0 to 3)",
        0,
        count("beyond_bound")?,
    );
    report.equal("B10", "pushes held up though the bound allowed them", 0, count("held_up_wrongly")?);
    let held_up = count("held_up")?;
    report.add("B10", "pushes held up by the bound", "> 0", held_up, held_up > 0);
    let staleness = &found["staleness"];
    let buckets = staleness["buckets"].as_array().context("buckets")?;
    let all: u64 = buckets.iter().filter_map(|bucket| bucket.as_u64()).sum();
    let words: Vec<String> = buckets.iter().map(ToString::to_string).collect();
    let what = format!("pushes by staleness, up to {} and more", staleness["bounds"]);
    report.add("B10", what, format!("{pushes} in all"), words.join(" "), all == pushes);
    Ok(())
}
