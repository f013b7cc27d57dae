//! What was predicted, measured and simulated, as tables in Markdown, as JSON, and as criteria.

#![expect(clippy::print_stdout, reason = "the tables are what stdout is for")]

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::super::report::{Limit, Report};
use super::formulas::{Costs, Shape, Way};
use super::hosts::folder;
use super::measure::{Case, Spread};
use super::options::{Mode, Plan, powers_of_two};
use super::simulate::{MODE, MOST_HOSTS};
use crate::process::say;

/// All that is known of all cases.
#[derive(Debug)]
pub(super) struct Table {
    plan: Plan,
    costs: Costs,
    carried_bytes_per_s: Option<f64>,
    /// By hosts, then as [`Plan::ways`] has them, then by mode.
    rows: Vec<Row>,
}

/// One case: seconds of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) case: Case,
    pub(super) predicted_s: f64,
    pub(super) measured: Option<Spread>,
    pub(super) simulated_s: Option<f64>,
}

impl Table {
    /// Beside what formulas say, up to the hosts that are drawn.
    pub(super) fn new(
        plan: &Plan,
        costs: Costs,
        carried_bytes_per_s: Option<f64>,
        measured: &[(Case, Spread)],
        simulated: &[(Case, f64)],
    ) -> Self {
        let row = |case: Case| {
            let messages = plan.messages(case.mode);
            Row {
                case,
                predicted_s: case.way.step_s(case.shape, &costs, &messages, plan.compute_s),
                measured: measured.iter().find(|(of, _)| *of == case).map(|(_, spread)| *spread),
                simulated_s: simulated.iter().find(|(of, _)| *of == case).map(|(_, step_s)| *step_s),
            }
        };
        let cases = powers_of_two(MOST_HOSTS)
            .into_iter()
            .flat_map(Plan::ways)
            .flat_map(|(way, shape)| Mode::ALL.into_iter().map(move |mode| Case { way, shape, mode }));
        Self { plan: plan.clone(), costs, carried_bytes_per_s, rows: cases.map(row).collect() }
    }

    /// All cases.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Of what a rank alone does in a time, the part that each of many does.
    pub(super) fn efficiency(&self, step_s: f64) -> f64 {
        self.plan.compute_s / step_s
    }

    /// In a line: what is trained, and over what.
    pub(super) fn heading(&self) -> String {
        let Plan { gradient_bytes, compute_s, rate_mbit, .. } = self.plan;
        format!(
            "{} MiB of gradients, {:.0} ms of compute, links of {rate_mbit} Mbit/s",
            gradient_bytes >> 20,
            1e3 * compute_s
        )
    }

    /// Whether each step took what its formula says. A small run says only whether steps come to their end.
    pub(super) fn judge(&self, is_small: bool, report: &mut Report) {
        for Row { case, predicted_s, measured, .. } in &self.rows {
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

    /// To stdout, and as files.
    pub(super) fn publish(&self, figure: &str, is_small: bool) -> Result<()> {
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let text = self.text();
        let json = serde_json::to_string_pretty(&self.json())?;
        for (name, content) in
            [("scaling.md", text.as_str()), ("scaling.json", &json), ("scaling.svg", figure)]
        {
            let path = folder.join(name);
            fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        }
        if !is_small {
            println!("{text}");
        }
        say(&format!("scaling: tables, figure and numbers are {}", folder.join("scaling.*").display()));
        Ok(())
    }

    /// All tables.
    fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.heading(), self.costs_text());
        if self.rows.iter().any(|row| row.measured.is_some()) {
            text += "\nseconds of a step: predicted, measured (least to most of the rounds)\n\n";
            text += &self.by_mode(Self::seconds);
            text += "\nefficiency, percent: predicted, measured\n\n";
            text += &self.by_mode(Self::percents);
        }
        text += "\nefficiency with overlap and fusion, percent: formula, simulated\n\n";
        text + &self.by_hosts()
    }

    fn costs_text(&self) -> String {
        let Costs { between, inside, push_pull_s, push_pull_more_s } = self.costs;
        let us = |seconds: f64| format!("{:.0} us", 1e6 * seconds);
        let mb = |rate: f64| format!("{:.2} MB/s", rate / 1e6);
        let carried = self.carried_bytes_per_s.map(|rate| format!(", and carried {}", mb(rate)));
        format!(
            "a link carries {} of payload by its rate{}; a hop costs {} between hosts, {} inside one, which carries {}; \
             a push-pull of nothing takes {}, one more adds {}",
            mb(between.bytes_per_s),
            carried.unwrap_or_default(),
            us(between.alpha_s),
            us(inside.alpha_s),
            mb(inside.bytes_per_s),
            us(push_pull_s),
            us(push_pull_more_s)
        )
    }

    /// A row for each way and hosts that were measured, a column for each mode.
    fn by_mode(&self, cell: impl Fn(&Self, &Row) -> Option<String>) -> String {
        let mut text = "| hosts x ranks | way |".to_owned();
        for mode in Mode::ALL {
            let _ = write!(text, " {} |", mode.words());
        }
        text += "\n|---|---|---|---|---|---|\n";
        for of_way in self.rows.chunks(Mode::ALL.len()) {
            let cells: Option<Vec<String>> = of_way.iter().map(|row| cell(self, row)).collect();
            let Some(cells) = cells else { continue };
            let Case { way, shape, .. } = of_way[0].case;
            let _ = writeln!(
                text,
                "| {} x {} | {} | {} |",
                shape.hosts,
                shape.ranks_per_host,
                name(way),
                cells.join(" | ")
            );
        }
        text
    }

    #[expect(clippy::unused_self, reason = "one of two")]
    fn seconds(&self, row: &Row) -> Option<String> {
        let Spread { median_s, least_s, most_s } = row.measured?;
        Some(format!("{:.3}, {median_s:.3} ({least_s:.3} to {most_s:.3})", row.predicted_s))
    }

    fn percents(&self, row: &Row) -> Option<String> {
        let percent = |step_s: f64| format!("{:.1}", 100.0 * self.efficiency(step_s));
        Some(format!("{}, {}", percent(row.predicted_s), percent(row.measured?.median_s)))
    }

    /// A row for each number of hosts, a column for each way.
    fn by_hosts(&self) -> String {
        let mut text = "| hosts |".to_owned();
        let columns = columns();
        for column in &columns {
            let _ = write!(text, " {} |", column.name);
        }
        text = text + "\n|---|" + &"---|".repeat(columns.len()) + "\n";
        for hosts in powers_of_two(MOST_HOSTS).into_iter().skip(1) {
            let _ = write!(text, "| {hosts} |");
            for column in &columns {
                let row = self.rows.iter().find(|row| column.has(row) && row.case.shape.hosts == hosts);
                let percent = |step_s: f64| format!("{:.1}", 100.0 * self.efficiency(step_s));
                let cell = row.map_or_else(String::new, |row| {
                    let simulated = row.simulated_s.map(|step_s| format!(", {}", percent(step_s)));
                    percent(row.predicted_s) + &simulated.unwrap_or_default()
                });
                let _ = write!(text, " {cell} |");
            }
            text += "\n";
        }
        text
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
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

/// One way of summing over any number of hosts, with overlap and fusion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    ranks_per_host: usize,
    /// By hosts.
    way: fn(usize) -> Way,
}

/// All that are shown.
pub(super) fn columns() -> [Column; 6] {
    let half: fn(usize) -> Way = |hosts| Way::Summation { helpers: hosts.div_ceil(2) };
    [
        Column { name: "ring", ranks_per_host: 1, way: |_| Way::Ring },
        Column { name: "summation, helpers for half", ranks_per_host: 1, way: half },
        Column {
            name: "summation, helpers for all",
            ranks_per_host: 1,
            way: |hosts| Way::Summation { helpers: hosts },
        },
        Column { name: "ring, 2 ranks", ranks_per_host: 2, way: |_| Way::Ring },
        Column { name: "hierarchical, 2 ranks", ranks_per_host: 2, way: |_| Way::Hierarchical },
        Column { name: "summation, 2 ranks, helpers for half", ranks_per_host: 2, way: half },
    ]
}

impl Column {
    /// Whether a row is of this way and its best mode.
    pub(super) fn has(&self, row: &Row) -> bool {
        self.is_of(row) && row.case.mode == MODE
    }

    /// Whether a row is of this way.
    pub(super) fn is_of(&self, row: &Row) -> bool {
        let Shape { hosts, ranks_per_host } = row.case.shape;
        ranks_per_host == self.ranks_per_host && row.case.way == (self.way)(hosts)
    }
}

fn name(way: Way) -> String {
    match way {
        Way::Ring => "ring".to_owned(),
        Way::Hierarchical => "hierarchical".to_owned(),
        Way::Summation { helpers } => format!("summation, {helpers} helping"),
    }
}

fn who(way: Way, shape: Shape) -> String {
    format!("{} x {} {}", shape.hosts, shape.ranks_per_host, name(way))
}

/// Of criteria.
const NAME: &str = "scaling";
/// Up to there, a step must take what its formula says to a tenth: with more, two cores have a say.
const JUDGED_HOSTS: usize = 4;
