//! Summation groups: a line each, and one that is open. Pure.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};
use ringscope_api::clock::Timestamp;
use ringscope_api::words::{duration, list, plural, rate, size};
use ringscope_api::{SummationGroupDetail, SummationGroupState, SummationService, SummationWait};
use ringscope_judge::health;

use super::parts::{Lines, Palette, findings, line_style, missing, pane, title, window};
use super::state::{Pane, State};

/// The pane of all groups.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, palette: Palette, area: Rect) {
    let shown = state.groups();
    let block =
        pane(state, Pane::Groups, format!("Summation groups {}", state.snapshot.groups.len()), palette);
    let (first, chosen) = window(state, Pane::Groups, block.inner(area).height);
    let rows = shown.iter().enumerate().skip(first).map(|(place, group)| {
        let style = match group.state {
            SummationGroupState::Failed => palette.critical(),
            _ if group.n_findings > 0 => palette.warning(),
            _ => Style::new(),
        };
        Row::new([
            group.id.clone(),
            group.job.clone(),
            group.state.label().to_owned(),
            format!("{}+{}", group.n_workers, group.n_servers),
            format!("{:.0} rounds/s", group.rounds_per_s),
            share_words(group.worst_share_ratio),
            group.oldest_wait.as_ref().map_or_else(String::new, wait_words),
        ])
        .style(line_style(chosen == Some(place), style))
    });
    let widths = [
        Constraint::Length(12),
        Constraint::Fill(2),
        Constraint::Length(9),
        Constraint::Length(7),
        Constraint::Length(16),
        Constraint::Length(12),
        Constraint::Fill(3),
    ];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

/// One group, its findings, for whom it waits, who comes last, and what its services own.
pub(super) fn open<'a>(state: &'a State, id: &str, now: Timestamp, palette: Palette) -> Lines<'a> {
    let snapshot = &state.snapshot;
    let Some(group) = snapshot.groups.iter().find(|group| group.id == id) else {
        return vec![Line::from("The daemon has not heard of it.")];
    };
    let mut lines = vec![
        Line::from(format!(
            "{}   job {}   {} and {}   {:.0} rounds/s   pushed {}, pulled {}",
            group.state.label(),
            group.job,
            plural(group.n_workers as usize, "worker"),
            plural(group.n_servers as usize, "server"),
            group.rounds_per_s,
            rate(group.push_bytes_per_s),
            rate(group.pull_bytes_per_s),
        )),
        Line::from(format!(
            "{}   {}   membership {}   since {}",
            size(group.model_bytes),
            if group.asynchronous { "asynchronous" } else { "synchronous" },
            group.membership_epoch,
            health::moment(group.started_at, now)
        )),
    ];
    let mine = snapshot.findings.iter().filter(|finding| finding.group.as_deref() == Some(id));
    findings(&mut lines, mine, now, palette);
    match snapshot.open_group.as_ref().filter(|open| open.group.id == id) {
        Some(open) => members(&mut lines, open, palette),
        None => lines.push(missing(state, palette)),
    }
    lines
}

fn members(lines: &mut Lines<'_>, open: &SummationGroupDetail, palette: Palette) {
    if let Some(lost) = &open.lost {
        let words = format!("{} {} ({}) was lost: {}", lost.role.label(), lost.index, lost.host, lost.why);
        lines.push(Line::from(Span::styled(words, palette.critical())));
    }
    lines.push(title(format!("{} not over", plural(open.waits.len(), "round"))));
    let waits = open.waits.iter().take(LINES_MAX);
    lines.extend(waits.map(|wait| Line::from(format!("  {}   {}", wait_words(wait), wait.tensor))));
    lines.push(title("Workers, those that come last most often first".to_owned()));
    let mut workers: Vec<_> = open.workers.iter().collect();
    workers
        .sort_by(|one, other| other.last_share.total_cmp(&one.last_share).then(one.index.cmp(&other.index)));
    lines.extend(workers.iter().take(LINES_MAX).map(|worker| {
        let late = duration(Duration::from_nanos(worker.mean_late_ns));
        Line::from(format!(
            "  {:>3}  {:<16} last in {:>3.0} % of rounds, {late} after the first on average",
            worker.index,
            worker.host,
            worker.last_share * 100.0
        ))
    }));
    lines
        .push(title(format!("{}, the most for their optimum first", plural(open.services.len(), "service"))));
    let mut services: Vec<&SummationService> = open.services.iter().collect();
    services.sort_by(|one, other| ratio(other).total_cmp(&ratio(one)).then(one.service.cmp(&other.service)));
    lines.extend(services.iter().take(LINES_MAX).map(|service| service_line(service)));
}

fn service_line(service: &SummationService) -> Line<'static> {
    Line::from(format!(
        "  {:<6} {:>3}  {:<16} owns {:>5.1} %, best {:>5.1} %   receives {}, sends {}{}",
        service.role.label(),
        service.index,
        service.host,
        service.share * 100.0,
        service.optimal_share * 100.0,
        rate(service.pushed_bytes_per_s),
        rate(service.pulled_bytes_per_s),
        if service.lost { "   LOST" } else { "" },
    ))
}

fn ratio(service: &SummationService) -> f64 {
    if service.optimal_share > 0.0 { service.share / service.optimal_share } else { 0.0 }
}

/// "waits 3.2 s for workers 1 and 3".
fn wait_words(wait: &SummationWait) -> String {
    let noun = if wait.workers.len() == 1 { "worker" } else { "workers" };
    let age = duration(Duration::from_nanos(wait.age_ns));
    let why = if wait.for_push { "" } else { " to take answers" };
    format!("waits {age} for {noun} {}{why}", list(&wait.workers, NAMED))
}

/// "share +33 %" of a ratio that can be seen.
#[expect(clippy::cast_possible_truncation, reason = "a percentage, which a cast saturates")]
fn share_words(ratio: f64) -> String {
    match ((ratio - 1.0) * 100.0).round() as i64 {
        ..1 => String::new(),
        percent => format!("share +{percent} %"),
    }
}

/// Lines of each list; the page has them all.
const LINES_MAX: usize = 12;
/// Workers named in a line.
const NAMED: usize = 4;
