//! What was predicted and what was measured.

#![expect(clippy::print_stdout, reason = "the report is what stdout is for")]

use anyhow::Result;
use serde_json::{Value, json};

/// All criteria of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    experiment: &'static str,
    what: String,
    predicted: String,
    measured: String,
    /// Measured by predicted, and what that may be; empty where there is no such thing.
    ratio: String,
    limit: String,
    is_met: bool,
}

/// What a measured number, or its ratio to the predicted one, may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// The number is at least that.
    AtLeast(f64),
    /// The number is at most that.
    AtMost(f64),
    /// The ratio is at most that.
    RatioAtMost(f64),
    /// Both: from the first to the second.
    RatioWithin(f64, f64),
    /// Anything will do.
    None,
}

impl Report {
    /// One criterion.
    pub(crate) fn add(
        &mut self,
        experiment: &'static str,
        what: impl Into<String>,
        predicted: impl ToString,
        measured: impl ToString,
        is_met: bool,
    ) {
        let (predicted, measured) = (predicted.to_string(), measured.to_string());
        let (what, ratio, limit) = (what.into(), String::new(), String::new());
        self.lines.push(Line { experiment, what, predicted, measured, ratio, limit, is_met });
    }

    /// A number beside the predicted one, with so many digits after the point.
    pub(crate) fn number(
        &mut self,
        experiment: &'static str,
        what: impl Into<String>,
        (predicted, measured): (f64, f64),
        digits: usize,
        limit: Limit,
    ) {
        let ratio = measured / predicted;
        let (is_met, words) = match limit {
            Limit::AtLeast(least) => (measured >= least, format!(">= {least}")),
            Limit::AtMost(most) => (measured <= most, format!("<= {most}")),
            Limit::RatioAtMost(most) => (ratio <= most, format!("ratio <= {most}")),
            Limit::RatioWithin(least, most) => {
                ((least..=most).contains(&ratio), format!("ratio {least} to {most}"))
            }
            Limit::None => (true, String::new()),
        };
        let (predicted, measured) = (format!("{predicted:.digits$}"), format!("{measured:.digits$}"));
        let (what, ratio) = (what.into(), format!("{ratio:.3}"));
        self.lines.push(Line { experiment, what, predicted, measured, ratio, limit: words, is_met });
    }

    /// One that is met when both are the same.
    pub(crate) fn equal<T: PartialEq + ToString>(
        &mut self,
        experiment: &'static str,
        what: impl Into<String>,
        predicted: T,
        measured: T,
    ) {
        let is_met = predicted == measured;
        self.add(experiment, what, predicted, measured, is_met);
    }

    /// Whether none was missed.
    pub(crate) fn is_met(&self) -> bool {
        self.lines.iter().all(|line| line.is_met)
    }

    /// To stdout, as a table or as one JSON object.
    pub(crate) fn print(&self, as_json: bool) -> Result<()> {
        if as_json {
            println!("{}", serde_json::to_string_pretty(&self.json())?);
            return Ok(());
        }
        if self.lines.is_empty() {
            return Ok(());
        }
        let width = |of: fn(&Line) -> &str, head: &str| {
            self.lines.iter().map(|line| of(line).chars().count()).chain([head.len()]).max().unwrap_or(0)
        };
        let what = width(|line| &line.what, "what");
        let predicted = width(|line| &line.predicted, "predicted");
        let measured = width(|line| &line.measured, "measured");
        let limit = width(|line| &line.limit, "limit");
        let experiment = width(|line| line.experiment, "");
        println!(
            "{:experiment$}  {:what$}  {:>predicted$}  {:>measured$}  {:>5}  {:limit$}  verdict",
            "", "what", "predicted", "measured", "ratio", "limit"
        );
        for line in &self.lines {
            let verdict = if line.is_met { "met" } else { "MISSED" };
            let Line {
                experiment: name, what: of, predicted: said, measured: found, ratio, limit: most, ..
            } = line;
            println!(
                "{name:experiment$}  {of:what$}  {said:>predicted$}  {found:>measured$}  {ratio:>5}  {most:limit$}  {verdict}"
            );
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let criteria: Vec<Value> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "experiment": line.experiment,
                    "what": line.what,
                    "predicted": line.predicted,
                    "measured": line.measured,
                    "ratio": line.ratio,
                    "limit": line.limit,
                    "met": line.is_met,
                })
            })
            .collect();
        json!({ "met": self.is_met(), "criteria": criteria })
    }
}
