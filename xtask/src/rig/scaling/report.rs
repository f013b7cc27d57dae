//! What becomes of a table: criteria, what is printed, files.

#![expect(clippy::print_stdout, reason = "the tables are what stdout is for")]

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::report::{Limit, Report};
use super::hosts::folder;
use super::measure::Case;
use super::table::{Row, Table, name, who};
use super::text::text;
use crate::process::say;

impl Table {
    /// Whether each step took what its formula says. A small run says only whether steps come to their end.
    pub(super) fn judge(&self, is_small: bool, report: &mut Report) {
        for Row { case, predicted_s, measured, .. } in self.rows() {
            let Some(measured) = measured else { continue };
            let limit = match is_small {
                true => Limit::AtLeast(self.plan.compute_s),
                false if case.shape.hosts <= JUDGED_HOSTS => Limit::RatioWithin(0.9, 1.1),
                false => Limit::None,
            };
            let what = format!("{}, {}: s", who(case.way, case.shape), case.mode.words());
            report.number(NAME, what, (*predicted_s, measured.median_s), 3, limit);
        }
    }

    /// To stdout.
    pub(super) fn print(&self) {
        println!("{}", text(self));
    }

    /// As files: tables, numbers and the picture.
    pub(super) fn write(&self, figure: String) -> Result<()> {
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let json = serde_json::to_string_pretty(&self.json())?;
        let files = [("scaling.md", text(self)), ("scaling.json", json), ("scaling.svg", figure)];
        for (name, content) in files {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        say(&format!("scaling: tables, numbers and figure: {}", folder.join("scaling.*").display()));
        Ok(())
    }

    fn json(&self) -> Value {
        let rows = self.rows().iter().map(|row| {
            let Case { way, shape, mode } = row.case;
            json!({
                "hosts": shape.hosts,
                "ranks_per_host": shape.ranks_per_host,
                "way": name(way),
                "overlaps": mode.overlaps,
                "fuses": mode.fuses,
                "predicted_s": row.predicted_s,
                "measured_s": row.measured.map(|spread| [spread.least_s, spread.median_s, spread.most_s]),
                "simulated_s": row.simulated_s,
            })
        });
        json!({
            "gradient_bytes": self.plan.gradient_bytes,
            "compute_s": self.plan.compute_s,
            "rate_mbit": self.plan.rate_mbit,
            "fusion_bytes": self.plan.fusion_bytes,
            "rounds": self.plan.n_rounds,
            "alpha_s": self.costs.between.alpha_s,
            "inside_alpha_s": self.costs.inside.alpha_s,
            "inside_bytes_per_s": self.costs.inside.bytes_per_s,
            "push_pull_s": self.costs.push_pull_s,
            "push_pull_more_s": self.costs.push_pull_more_s,
            "carried_bytes_per_s": self.carried_bytes_per_s,
            "steps": rows.collect::<Vec<_>>(),
        })
    }
}

/// Of criteria.
const NAME: &str = "scaling";
/// Up to there, a step must take what its formula says to a tenth: with more, two cores have a say.
const JUDGED_HOSTS: usize = 4;

#[cfg(test)]
mod tests {
    use super::super::formulas::{Shape, Way};
    use super::super::measure::Spread;
    use super::super::options::{Mode, Options, Plan};
    use super::super::simulate::MODE;
    use super::*;

    const SPREAD: Spread = Spread { median_s: 1.2, least_s: 1.1, most_s: 1.5 };

    /// All cases of so many hosts measured at the same.
    fn table(hosts: usize, spread: Spread) -> Table {
        let plan = Options::default().plan(false, None);
        let cases = Plan::ways(hosts)
            .into_iter()
            .flat_map(|(way, shape)| Mode::ALL.map(|mode| (Case { way, shape, mode }, spread)));
        Table::new(&plan, plan.assumed(), None, &cases.collect::<Vec<_>>(), &[])
    }

    #[test]
    fn what_was_measured_stands_beside_what_was_predicted() {
        let text = text(&table(2, SPREAD));
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| 2 x ")).collect();
        assert_eq!(rows.len(), 12, "six ways, in seconds and in percent: {text}");
        assert!(rows[0].starts_with("| 2 x 1 | ring | 0.9"), "{text}");
        assert!(rows[0].contains(", 1.200 (1.100 to 1.500) |"), "{text}");
        assert!(rows[6].ends_with(", 50.0 |"), "half of what one rank alone does: {text}");
        assert!(text.contains("\n| 1024 | "), "{text}");
    }

    #[test]
    fn a_step_that_takes_other_than_its_formula_says_is_missed_up_to_four_hosts() {
        let is_met = |hosts: usize, is_small: bool, spread: Spread| {
            let mut report = Report::default();
            table(hosts, spread).judge(is_small, &mut report);
            report.is_met()
        };
        assert!(!is_met(4, false, SPREAD));
        assert!(is_met(8, false, SPREAD), "what more hosts take is told, and not judged");
        assert!(is_met(4, true, SPREAD), "a small run only has to come to its end");
        let too_fast = Spread { median_s: 0.5, ..SPREAD };
        assert!(!is_met(2, true, too_fast), "nothing is faster than what is computed");
    }

    #[test]
    fn where_nothing_was_measured_only_formulas_and_simulation_are_shown() {
        let plan = Options::default().plan(false, None);
        let case = Case { way: Way::Ring, shape: Shape { hosts: 1024, ranks_per_host: 1 }, mode: MODE };
        let table = Table::new(&plan, plan.assumed(), None, &[], &[(case, 6.0)]);
        assert!(!text(&table).contains("measured (least"));
        assert!(text(&table).lines().any(|line| line.starts_with("| 1024 |") && line.contains(", 10.0 |")));
        assert_eq!(table.json()["steps"].as_array().map(Vec::len), Some(4 * (2 + 10 * 6)));
    }
}
