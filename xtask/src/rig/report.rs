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
    is_met: bool,
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
        self.lines.push(Line { experiment, what: what.into(), predicted, measured, is_met });
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
        let width = |of: fn(&Line) -> &str, head: &str| {
            self.lines.iter().map(|line| of(line).chars().count()).chain([head.len()]).max().unwrap_or(0)
        };
        let what = width(|line| &line.what, "what");
        let predicted = width(|line| &line.predicted, "predicted");
        let measured = width(|line| &line.measured, "measured");
        println!("    {:what$}  {:>predicted$}  {:>measured$}", "what", "predicted", "measured");
        for line in &self.lines {
            let verdict = if line.is_met { "" } else { "  MISSED" };
            let (name, said, found) = (&line.what, &line.predicted, &line.measured);
            println!("{}  {name:what$}  {said:>predicted$}  {found:>measured$}{verdict}", line.experiment);
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
                    "met": line.is_met,
                })
            })
            .collect();
        json!({ "met": self.is_met(), "criteria": criteria })
    }
}
