//! Tables in Markdown.

use std::fmt::Write as _;

use super::formulas::Costs;
use super::measure::{Case, Spread};
use super::options::{Mode, powers_of_two};
use super::simulate::MOST_HOSTS;
use super::table::{Row, Table, columns, name};

/// All that a table knows.
pub(super) fn text(table: &Table) -> String {
    let mut text = format!("{}\n{}\n", table.heading(), costs(table));
    if table.rows().iter().any(|row| row.measured.is_some()) {
        text += "\nseconds of a step: predicted, measured (least to most of the rounds)\n\n";
        text += &by_mode(table, seconds);
        text += "\nefficiency, percent: predicted, measured\n\n";
        text += &by_mode(table, |row| percents(table, row));
    }
    text += "\nefficiency with overlap and fusion, percent: formula, simulated\n\n";
    text + &by_hosts(table)
}

fn costs(table: &Table) -> String {
    let Costs { between, inside, push_pull_s, push_pull_more_s } = table.costs;
    let us = |seconds: f64| format!("{:.0} us", 1e6 * seconds);
    let mb = |rate: f64| format!("{:.2} MB/s", rate / 1e6);
    let carried = table.carried_bytes_per_s.map(|rate| format!(", and carried {}", mb(rate)));
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
fn by_mode(table: &Table, cell: impl Fn(&Row) -> Option<String>) -> String {
    let mut text = "| hosts x ranks | way |".to_owned();
    for mode in Mode::ALL {
        let _ = write!(text, " {} |", mode.words());
    }
    text += "\n|---|---|---|---|---|---|\n";
    for of_way in table.rows().chunks(Mode::ALL.len()) {
        let cells: Option<Vec<String>> = of_way.iter().map(&cell).collect();
        let Some(cells) = cells else { continue };
        let Case { way, shape, .. } = of_way[0].case;
        let (hosts, ranks, cells) = (shape.hosts, shape.ranks_per_host, cells.join(" | "));
        let _ = writeln!(text, "| {hosts} x {ranks} | {} | {cells} |", name(way));
    }
    text
}

fn seconds(row: &Row) -> Option<String> {
    let Spread { median_s, least_s, most_s } = row.measured?;
    Some(format!("{:.3}, {median_s:.3} ({least_s:.3} to {most_s:.3})", row.predicted_s))
}

fn percents(table: &Table, row: &Row) -> Option<String> {
    Some(format!("{}, {}", percent(table, row.predicted_s), percent(table, row.measured?.median_s)))
}

/// A row for each number of hosts, a column for each way.
fn by_hosts(table: &Table) -> String {
    let columns = columns();
    let mut text = "| hosts |".to_owned();
    for column in &columns {
        let _ = write!(text, " {} |", column.name);
    }
    text = text + "\n|---|" + &"---|".repeat(columns.len()) + "\n";
    for hosts in powers_of_two(MOST_HOSTS).into_iter().skip(1) {
        let _ = write!(text, "| {hosts} |");
        for column in &columns {
            let row = table.rows().iter().find(|row| column.has(row) && row.case.shape.hosts == hosts);
            let _ = write!(text, " {} |", row.map_or_else(String::new, |row| far(table, row)));
        }
        text += "\n";
    }
    text
}

fn far(table: &Table, row: &Row) -> String {
    let simulated = row.simulated_s.map(|step_s| format!(", {}", percent(table, step_s)));
    percent(table, row.predicted_s) + &simulated.unwrap_or_default()
}

fn percent(table: &Table, step_s: f64) -> String {
    format!("{:.1}", 100.0 * table.efficiency(step_s))
}
