//! B9: 16-bit floats, added in 32 bits and rounded once, beside rounding after every addition. Numbers alone: one process.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::report::{Limit, Report};
use super::group::alone;

/// Workers; how many times as far off as ours a sum is that is rounded each time; the part of such sums that another
/// order of the workers changes.
const PUBLISHED: [(u64, f64, f64); 3] = [(4, 1.58, 0.436), (8, 2.22, 0.617), (16, 3.02, 0.731)];

/// Runs it.
pub(super) fn run(programs: &Path, is_small: bool, report: &mut Report) -> Result<()> {
    let elements = if is_small { 50_000 } else { 1_000_000 };
    let workers = PUBLISHED.map(|(workers, _, _)| workers);
    let found = alone(programs, &json!({ "do": "halves", "elements": elements, "workers": workers }))?;
    for ((n, ratio, changed), found) in PUBLISHED.into_iter().zip(found.as_array().context("a list")?) {
        let number = |name: &str| found[name].as_f64().with_context(|| format!("no {name} in {found}"));
        let within = Limit::RatioWithin(0.97, 1.03);
        let measured = number("error_each")? / number("error_once")?;
        let what = format!("f16, {n} workers: error of rounding each sum by that of rounding once");
        report.number("B9", what, (ratio, measured), 3, within);
        let what = format!("f16, {n} workers, rounding each sum: part that another order changes");
        report.number("B9", what, (changed, number("changed_each")?), 4, within);
        let once = number("changed_once")?;
        let what = format!("f16, {n} workers, rounding once: part that another order changes");
        report.add("B9", what, "< 0.0001", format!("{once:.6}"), once < 1e-4);
        let what = format!("f16, {n} workers with 40000: the sum, and the average");
        let sum = if found["sum_is_finite"] == Value::Bool(false) { "inf" } else { "finite" };
        report.equal("B9", what, "inf 40000".to_owned(), format!("{sum} {}", number("average")?));
    }
    Ok(())
}
