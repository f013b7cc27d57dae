//! Draws the overview. Pure: all it knows is the state.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, Wrap};
use ringscope_api::Condition;
use ringscope_api::clock::Timestamp;
use ringscope_api::words::{duration, plural, rate};
use ringscope_judge::health;

use super::headline::{SMALL_LINES, headline};
use super::map::{self, Grid};
use super::parts::{
    FINDING_HEAD, FINDING_HEAD_WIDTH, Palette, finding_line, line_style, n_wrapped, pane, window,
};
use super::state::{Open, Pane, State};
use super::{detail, groups};

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, now: Timestamp, colour: bool) {
    let palette = Palette { colour };
    let (sentence, n_lines) = headline(state, now, palette, frame.area());
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(n_lines), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(sentence).wrap(Wrap { trim: true }), head);
    match &state.open {
        Some(Open::Host(_) | Open::Job(_) | Open::Group(_)) => detail::draw(frame, state, now, palette, body),
        None => overview(frame, state, now, palette, body),
    }
    footer(frame, state, now, palette, foot);
    if state.help {
        help(frame, body);
    }
}

fn overview(frame: &mut Frame<'_>, state: &mut State, now: Timestamp, palette: Palette, area: Rect) {
    if area.height < SMALL_LINES {
        return match state.pane {
            Pane::Hosts => hosts(frame, state, palette, area),
            Pane::Findings => findings(frame, state, now, palette, area),
            Pane::Jobs => jobs(frame, state, palette, area),
            Pane::Groups => groups::draw(frame, state, palette, area),
        };
    }
    let lines = |n: usize, most: u16| {
        Constraint::Length(u16::try_from(n).unwrap_or(u16::MAX).clamp(1, most).saturating_add(2))
    };
    let has_groups = !state.snapshot.groups.is_empty();
    let of_groups =
        if has_groups { lines(state.groups().len(), area.height / 8) } else { Constraint::Length(0) };
    let [speed, jobs_area, groups_area, hosts_area, findings_area] = Layout::vertical([
        Constraint::Length(SPEED_LINES),
        lines(state.jobs().len(), area.height / 5),
        of_groups,
        Constraint::Fill(3),
        Constraint::Fill(2),
    ])
    .areas(area);
    throughput(frame, state, palette, speed);
    jobs(frame, state, palette, jobs_area);
    if has_groups {
        groups::draw(frame, state, palette, groups_area);
    }
    hosts(frame, state, palette, hosts_area);
    findings(frame, state, now, palette, findings_area);
}

fn throughput(frame: &mut Frame<'_>, state: &State, palette: Palette, area: Rect) {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let last = state.throughput.back().copied().unwrap_or_default() as f64;
    let block = Block::new().title(format!("Completed now: {}   {}", rate(last), state.daemon));
    let width = usize::from(area.width);
    let data: Vec<u64> =
        state.throughput.iter().skip(state.throughput.len().saturating_sub(width)).copied().collect();
    frame.render_widget(Sparkline::default().data(&data).style(palette.ok()).block(block), area);
}

fn jobs(frame: &mut Frame<'_>, state: &State, palette: Palette, area: Rect) {
    let block = pane(state, Pane::Jobs, format!("Jobs {}", state.snapshot.jobs.len()), palette);
    let shown = state.jobs();
    let (first, chosen) = window(state, Pane::Jobs, block.inner(area).height);
    let rows = shown.iter().enumerate().skip(first).map(|(place, job)| {
        let trouble = match (job.findings.critical + job.findings.warning, job.n_killed) {
            (0, 0) => String::new(),
            (n, 0) => plural(n as usize, "finding"),
            (_, killed) => format!("{killed} killed"),
        };
        Row::new([
            job.id.clone(),
            health::job_words(job),
            plural(job.hosts.len(), "host"),
            rate(job.completed_bytes_per_s),
            trouble,
        ])
        .style(line_style(chosen == Some(place), Style::new()))
    });
    let widths = [
        Constraint::Fill(3),
        Constraint::Length(15),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Fill(1),
    ];
    frame.render_widget(Table::new(rows, widths).block(block), area);
}

fn hosts(frame: &mut Frame<'_>, state: &mut State, palette: Palette, area: Rect) {
    let chosen = state.chosen(Pane::Hosts);
    let shown = state.hosts();
    let stand = health::host_words(shown.iter().copied());
    let count = if shown.len() == state.snapshot.hosts.len() {
        shown.len().to_string()
    } else {
        format!("{} of {}", shown.len(), state.snapshot.hosts.len())
    };
    let title = format!("Hosts {count} · {stand} · {}", state.sort.label());
    let block = pane(state, Pane::Hosts, title, palette);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [cells, words] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inner);
    let name_width = shown.iter().map(|host| host.host.chars().count()).max().unwrap_or(0);
    let grid = Grid::fit(shown.len(), name_width, cells);
    let focused = state.pane == Pane::Hosts;
    map::draw(&shown, grid, focused.then_some(chosen), cells, frame.buffer_mut(), palette);
    let line = match shown.get(chosen) {
        _ if !focused => Line::from(Span::styled(LEGEND, palette.dim())),
        None => Line::from("no host"),
        Some(host) if host.standing.condition != Condition::Healthy => {
            Line::from(format!("› {}", health::reason(host)))
        }
        Some(host) => Line::from(format!(
            "› {}: {}, {}",
            host.host,
            rate(host.completed_bytes_per_s),
            plural(host.n_processes as usize, "rank"),
        )),
    };
    frame.render_widget(Paragraph::new(line), words);
    let columns = grid.columns * grid.hosts_per_cell;
    state.map_columns = columns;
}

/// Where few fire, each has as many lines as leave room for all of them.
fn findings(frame: &mut Frame<'_>, state: &State, now: Timestamp, palette: Palette, area: Rect) {
    let shown = state.findings();
    let block = pane(state, Pane::Findings, format!("Firing findings {}", shown.len()), palette);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if shown.is_empty() {
        let none = Line::from(Span::styled("none", palette.dim()));
        return frame.render_widget(Paragraph::new(none), inner);
    }
    let most = (inner.height / u16::try_from(shown.len()).unwrap_or(u16::MAX)).max(1);
    let (first, chosen) = window(state, Pane::Findings, inner.height);
    let mut rest = inner;
    for (place, finding) in shown.iter().enumerate().skip(first) {
        let mut head = finding_line(*finding, now, palette, chosen == Some(place));
        let sentence = Line { spans: head.spans.split_off(FINDING_HEAD), ..head.clone() };
        let [left, right] =
            Layout::horizontal([Constraint::Length(FINDING_HEAD_WIDTH), Constraint::Min(1)]).areas(rest);
        let height = n_wrapped(&sentence, right.width).min(most).min(rest.height);
        if height == 0 {
            break;
        }
        let sentence = Paragraph::new(sentence);
        let sentence = if height > 1 { sentence.wrap(Wrap { trim: true }) } else { sentence };
        frame.render_widget(Paragraph::new(head), Rect { height, ..left });
        frame.render_widget(sentence, Rect { height, ..right });
        rest = Rect { y: rest.y + height, height: rest.height - height, ..rest };
    }
}

fn footer(frame: &mut Frame<'_>, state: &State, now: Timestamp, palette: Palette, area: Rect) {
    let line = if let Some((since, why)) = &state.away {
        let words =
            format!("No answer for {}: what is shown is from {}. {why}", duration(now.since(*since)), since);
        Line::from(Span::styled(words, palette.critical().add_modifier(Modifier::REVERSED)))
    } else if state.typing {
        Line::from(format!("/{}▏", state.filter))
    } else if state.open.is_some() {
        Line::from(Span::styled("esc back   ↑↓ scroll   q quit   ? help", palette.dim()))
    } else {
        let filter = if state.filter.is_empty() {
            String::new()
        } else {
            format!("filter “{}” (esc clears)   ", state.filter)
        };
        Line::from(vec![
            Span::raw(filter),
            Span::styled("q quit   tab pane   enter open   / filter   s sort   ? help", palette.dim()),
        ])
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = area.width.min(56);
    let height = area.height.min(14);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let text = HELP.lines().map(Line::from).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title("Keys")), place);
}

/// Lines of the throughput with its title.
const SPEED_LINES: u16 = 3;
const LEGEND: &str = "X hung or failed  ! degraded  ? unknown  · idle  ▁▄█ bytes completed";
const HELP: &str = "q, ctrl-c   quit
tab         next pane
arrows      move, or scroll
enter       open the host, the job or the group
esc         back, or clear the filter
/           filter by host, job, group, kind or NIC
s           sort hosts: name, worst, slowest
r           ask the daemon now
?           this

Hosts: X hung or failed  ! degraded  ? unknown  · idle
       ▁▂▄▆█ bytes completed beside the fastest";
