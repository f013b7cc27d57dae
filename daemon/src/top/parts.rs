//! What all panes are made of: colours, frames, lines. Pure.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Block;
use ringscope_api::clock::Timestamp;
use ringscope_api::words::{duration, plural};
use ringscope_api::{Condition, Finding, Severity};
use ringscope_judge::health;
use ringscope_server::runbook;

use super::state::{Pane, State};

/// Lines of what is open.
pub(super) type Lines<'a> = Vec<Line<'a>>;

/// The colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Palette {
    pub(super) colour: bool,
}

impl Palette {
    fn style(self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    pub(super) fn ok(self) -> Style {
        self.style(Color::Green)
    }

    pub(super) fn warning(self) -> Style {
        self.style(Color::Yellow)
    }

    pub(super) fn critical(self) -> Style {
        self.style(Color::Red)
    }

    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) fn condition(self, condition: Condition) -> Style {
        match condition {
            Condition::Healthy => self.ok(),
            Condition::Unknown | Condition::Degraded => self.warning(),
            Condition::Hung | Condition::Failed => self.critical(),
        }
    }

    pub(super) fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Critical => self.critical().add_modifier(Modifier::BOLD),
            Severity::Warning => self.warning(),
            Severity::Info => self.dim(),
        }
    }
}

pub(super) fn pane(state: &State, pane: Pane, title: String, palette: Palette) -> Block<'static> {
    let focused = state.pane == pane;
    let style = if focused { Style::new().add_modifier(Modifier::BOLD) } else { palette.dim() };
    let mark = if focused { "▸ " } else { "  " };
    Block::bordered().border_style(style).title(Span::styled(format!("{mark}{title} "), style))
}

/// The first line to show so that the chosen one is seen, and the chosen one if it is to be marked.
pub(super) fn window(state: &State, pane: Pane, height: u16) -> (usize, Option<usize>) {
    let chosen = state.chosen(pane);
    let first = (chosen + 1).saturating_sub(usize::from(height.max(1)));
    if state.pane == pane { (first, Some(chosen)) } else { (0, None) }
}

pub(super) fn line_style(chosen: bool, style: Style) -> Style {
    if chosen { style.add_modifier(Modifier::REVERSED) } else { style }
}

/// One finding on one line.
pub(super) fn finding_line<'a>(
    (finding, times): (&'a Finding, usize),
    now: Timestamp,
    palette: Palette,
    chosen: bool,
) -> Line<'a> {
    let line = Line::from(vec![
        Span::styled(format!("{:<9}", finding.severity.label()), palette.severity(finding.severity)),
        Span::raw(format!("{:>10}  ", duration(now.since(finding.first_seen)))),
        Span::raw(finding.message.as_str()),
        Span::styled(if times > 1 { format!("  ({times} times)") } else { String::new() }, palette.dim()),
    ]);
    line.style(line_style(chosen, Style::new()))
}

/// Lines that it takes, broken between words, and within words that are longer than a line.
pub(super) fn n_wrapped(line: &Line<'_>, width: u16) -> u16 {
    let width = usize::from(width.max(1));
    let (mut lines, mut used) = (1_usize, 0_usize);
    for word in line.to_string().split_whitespace() {
        let length = word.chars().count();
        if used == 0 {
            used = length;
        } else if used + 1 + length <= width {
            used += 1 + length;
        } else {
            lines += 1;
            used = length;
        }
        while used > width {
            lines += 1;
            used -= width;
        }
    }
    u16::try_from(lines).unwrap_or(u16::MAX)
}

/// Findings with what to do about the worst.
pub(super) fn findings<'a>(
    lines: &mut Lines<'a>,
    findings: impl Iterator<Item = &'a Finding>,
    now: Timestamp,
    palette: Palette,
) {
    let findings = health::folded(findings);
    lines.push(title(plural(findings.len(), "firing finding")));
    for finding in findings.iter().take(FINDINGS_SHOWN) {
        lines.push(finding_line(*finding, now, palette, false));
    }
    if findings.len() > FINDINGS_SHOWN {
        lines.push(Line::from(format!("  and {} more", findings.len() - FINDINGS_SHOWN)));
    }
    let worst = findings
        .first()
        .and_then(|(worst, _)| runbook::entries().iter().find(|entry| entry.finding == worst.finding));
    if let Some(entry) = worst {
        lines.push(title(format!("{}: what to do", entry.title)));
        let steps = entry.checks.iter().chain(&entry.actions).enumerate();
        lines.extend(steps.map(|(n, step)| Line::from(format!("  {}. {step}", n + 1))));
    }
}

/// In place of what is open: why it could not be had, or that it is still to come.
pub(super) fn missing(state: &State, palette: Palette) -> Line<'static> {
    match &state.snapshot.open_error {
        Some((open, why)) if state.open.as_ref() == Some(open) => {
            Line::from(Span::styled(why.clone(), palette.critical()))
        }
        _ => Line::from("…"),
    }
}

pub(super) fn title(text: String) -> Line<'static> {
    Line::from(Span::styled(text, Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)))
}

/// Of the parts of a finding's line those before its sentence, and their columns.
pub(super) const FINDING_HEAD: usize = 2;
pub(super) const FINDING_HEAD_WIDTH: u16 = 21;
/// Findings of what is open; the page has them all.
const FINDINGS_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_within_those_that_are_too_long() {
        for (text, width, expected) in [
            ("", 10, 1),
            ("one two", 7, 1),
            ("one two", 6, 2),
            ("one two six", 7, 2),
            ("incommensurable", 10, 2),
            ("an incommensurable", 10, 3),
            ("a b", 0, 2),
        ] {
            assert_eq!(n_wrapped(&Line::from(text), width), expected, "{text:?} at {width}");
        }
    }
}
