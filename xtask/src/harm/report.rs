//! The table, as lines for people or JSON for programs.

#![expect(clippy::print_stdout, reason = "the table is what stdout is for")]

use anyhow::Result;
use serde_json::json;

use super::case::{Row, Test, Verdict};
use super::command::Ended;

/// What became of a row.
pub(super) struct Line<'a> {
    row: &'a Row,
    verdict: Verdict,
}

impl<'a> Line<'a> {
    /// A row that could not be run is not as bare.
    pub(super) fn of(row: &'a Row, verdict: Result<Verdict>) -> Self {
        let verdict = verdict.unwrap_or_else(|error| Verdict {
            differences: vec![format!("cannot be run: {error:#}")],
            ..Verdict::default()
        });
        Self { row, verdict }
    }

    pub(super) fn is_same(&self) -> bool {
        self.verdict.differences.is_empty()
    }

    pub(super) fn is_run(&self) -> bool {
        self.verdict.not_run.is_none()
    }

    pub(super) fn print(&self, is_json: bool) {
        if is_json {
            return println!("{}", self.json());
        }
        let Verdict { bare, with, differences, not_run, .. } = &self.verdict;
        let verdict = match not_run {
            Some(why) => format!("not run: {why}"),
            None if self.is_same() => "same".to_owned(),
            None => format!("differs: {}", differences.join("; ")),
        };
        println!(
            "{:<22} {:>18}  {:>18}  {verdict}{}",
            self.row.name,
            short(bare),
            short(with),
            self.figures()
        );
    }

    /// Each figure bare and with, and what it may be.
    fn figures(&self) -> String {
        let limits = match self.row.test {
            Test::Program(case) => case.figures,
            Test::Special(_) => &[],
        };
        let one = |(name, with): (&String, &f64)| {
            let bare = self.verdict.bare.figures.get(name).map(|bare| format!("{bare:.4} / "));
            let limit = limits.iter().find(|(limited, _)| limited == name);
            let limit = limit.map(|(_, limit)| format!(" ({})", limit.short()));
            format!("  {name} {}{with:.4}{}", bare.unwrap_or_default(), limit.unwrap_or_default())
        };
        self.verdict.with.figures.iter().map(one).collect()
    }

    fn json(&self) -> serde_json::Value {
        let Verdict { bare, with, differences, not_run, .. } = &self.verdict;
        let side = |ended: &Ended| json!({ "status": ended.status, "seconds": ended.seconds, "figures": ended.figures });
        json!({
            "name": self.row.name,
            "bare": side(bare),
            "with": side(with),
            "same": self.is_run() && self.is_same(),
            "not_run": not_run,
            "differences": differences,
        })
    }
}

/// The head of the table.
pub(super) fn head(is_json: bool) {
    if !is_json {
        println!("{:<22} {:>18}  {:>18}  verdict", "row", "bare", "with");
    }
}

/// What the table does not show.
pub(super) fn foot(is_json: bool, n_not_run: usize, n_rows: usize) {
    if !is_json && n_not_run > 0 {
        println!("{n_not_run} of {n_rows} rows cannot be run here: nothing is known of them");
    }
}

/// A row by name.
pub(super) fn name(row: &Row) {
    let quick = if row.is_quick { "quick" } else { "" };
    println!("{:<22} {quick:<6} {}", row.name, row.about);
}

fn short(ended: &Ended) -> String {
    if ended.status.is_empty() { "-".to_owned() } else { format!("{} {:.2} s", ended.status, ended.seconds) }
}
