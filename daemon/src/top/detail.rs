//! Draws what is open. Pure.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Wrap};
use ringscope_api::clock::Timestamp;
use ringscope_api::words::{duration, plural, rate, size};
use ringscope_api::{Condition, HostDetail, HostSummary, Nic};
use ringscope_judge::health;

use super::parts::{Lines, Palette, findings, missing, title};
use super::state::{Open, State};

/// Draws what is open.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: Timestamp, palette: Palette, area: Rect) {
    let (title, lines) = match &state.open {
        Some(Open::Host(name)) => (format!(" Host {name} "), host(state, name, now, palette)),
        Some(Open::Group(id)) => {
            (format!(" Summation group {id} "), super::groups::open(state, id, now, palette))
        }
        Some(Open::Job(name)) => (format!(" Job {name} "), job(state, name, now, palette)),
        None => return,
    };
    // Wrapped lines are more than these; beyond the end there is only emptiness.
    let scroll = state.scroll.min(u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(1));
    let text = Paragraph::new(lines).block(Block::bordered().title(title)).wrap(Wrap { trim: false });
    frame.render_widget(text.scroll((scroll, 0)), area);
}

fn host<'a>(state: &'a State, name: &str, now: Timestamp, palette: Palette) -> Lines<'a> {
    let snapshot = &state.snapshot;
    let Some(summary) = snapshot.hosts.iter().find(|host| host.host == name) else {
        return vec![Line::from("The daemon has not heard of it.")];
    };
    let mut lines = vec![host_line(summary, now)];
    let mine = snapshot.findings.iter().filter(|finding| health::concerns(finding, name));
    findings(&mut lines, mine, now, palette);
    match snapshot.open_host.as_ref().filter(|open| open.summary.host == name) {
        Some(open) => hardware(&mut lines, open, palette),
        None => lines.push(missing(state, palette)),
    }
    lines
}

fn host_line(host: &HostSummary, now: Timestamp) -> Line<'static> {
    let channels = match (host.init_channels, host.final_channels) {
        (Some(init), Some(last)) => format!("found {}, runs on {last}   ", plural(init as usize, "channel")),
        _ => String::new(),
    };
    let jobs = if host.jobs.is_empty() { "no job".to_owned() } else { host.jobs.join(", ") };
    Line::from(format!(
        "{jobs}   {channels}completed {}   heard {} ago",
        rate(host.completed_bytes_per_s),
        duration(now.since(host.last_seen))
    ))
}

fn hardware(lines: &mut Lines<'_>, open: &HostDetail, palette: Palette) {
    if let Some(hardware) = &open.hardware {
        let down = open.summary.n_nics_down.unwrap_or(0);
        lines.push(title(format!("{} · {down} down", plural(hardware.nics.len(), "NIC"))));
        lines.extend(hardware.nics.iter().map(|nic| nic_line(nic, palette)));
        if let Some(gpus) = &hardware.gpus {
            lines.push(title(plural(gpus.len(), "GPU")));
        }
    } else {
        lines.push(title("Hardware: not read".to_owned()));
    }
    lines.push(title(plural(open.ranks.len(), "rank")));
    lines.extend(open.ranks.iter().map(|rank| {
        let count = |n: Option<u32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        Line::from(format!(
            "{:>6}  {}  {}  pid {}  {}  channels {} → {}",
            rank.rank,
            rank.job,
            rank.comm,
            rank.pid,
            rank.standing.condition.label(),
            count(rank.init_channels),
            count(rank.final_channels),
        ))
    }));
}

fn nic_line(nic: &Nic, palette: Palette) -> Line<'static> {
    let state = if nic.up {
        Span::styled("up    ", palette.ok())
    } else {
        Span::styled("DOWN  ", palette.critical())
    };
    let speed = nic.rate_bytes_per_s.map_or_else(|| "rate not said".to_owned(), rate);
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), size);
    let rest = format!(
        "{:<14} {}  sent {}  received {}  {}",
        speed,
        nic.state,
        bytes(nic.sent_bytes),
        bytes(nic.received_bytes),
        nic.link_layer
    );
    Line::from(vec![Span::raw(format!("  {:<12}", nic.name)), state, Span::raw(rest)])
}

fn job<'a>(state: &'a State, name: &str, now: Timestamp, palette: Palette) -> Lines<'a> {
    let snapshot = &state.snapshot;
    let Some(job) = snapshot.jobs.iter().find(|job| job.id == name) else {
        return vec![Line::from("The daemon has not heard of it.")];
    };
    let mut lines = vec![
        Line::from(format!(
            "{}   {}   {} seen, {} killed   completed {} of {} issued, {} now",
            health::job_words(job),
            plural(job.hosts.len(), "host"),
            plural(job.n_processes as usize, "rank"),
            job.n_killed,
            size(job.completed_bytes),
            size(job.issued_bytes),
            rate(job.completed_bytes_per_s),
        )),
        Line::from(format!(
            "{} of {} in use   started {}",
            job.active_communicators,
            plural(job.n_communicators as usize, "communicator"),
            health::moment(job.first_seen, now)
        )),
    ];
    let mine = snapshot
        .findings
        .iter()
        .filter(|finding| finding.job == name || finding.job.is_empty() && job.hosts.contains(&finding.host));
    findings(&mut lines, mine, now, palette);
    lines.push(title(plural(job.hosts.len(), "host")));
    let here = snapshot.hosts.iter().filter(|host| job.hosts.contains(&host.host));
    lines.extend(health::worst_first(here).into_iter().map(|host| {
        let condition = host.standing.condition;
        let reason = host.reasons.first().unwrap_or(&host.standing.reason);
        let (style, words) = match condition {
            Condition::Healthy => (Style::new(), condition.label().to_owned()),
            _ => (palette.condition(condition), format!("{}: {reason}", condition.label())),
        };
        let speed = rate(host.completed_bytes_per_s);
        Line::from(Span::styled(format!("  {:<16} {speed:>10}  {words}", host.host), style))
    }));
    lines
}
