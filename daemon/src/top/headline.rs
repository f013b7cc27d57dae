//! The one sentence in the first lines, and what to do about it. Pure.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ringscope_api::HealthLevel as Level;
use ringscope_api::clock::Timestamp;
use ringscope_judge::health;

use super::parts::{Lines, Palette, n_wrapped};
use super::state::State;

/// The sentence, with the advice where that leaves room for all panes; and how many lines of the screen they take.
pub(super) fn headline(
    state: &State,
    now: Timestamp,
    palette: Palette,
    screen: Rect,
) -> (Lines<'static>, u16) {
    let health = &state.snapshot.health;
    let is_old = state.away.is_some();
    let as_of =
        if is_old { format!("As of {}: ", health::moment(state.snapshot.at, now)) } else { String::new() };
    let style = match health.level {
        Level::Warning => palette.warning(),
        Level::Critical => palette.critical(),
        // What was well then need not be so now.
        Level::Ok if !is_old => palette.ok(),
        Level::Empty | Level::Idle | Level::Unknown | Level::Ok => palette.dim(),
    };
    let bold = |text: String, style: Style| Span::styled(text, style.add_modifier(Modifier::BOLD));
    let mut lines = vec![Line::from(vec![
        Span::styled(as_of, palette.dim()),
        bold(format!("{}.", health.sentence), style),
        Span::raw(health::since(health, now)),
    ])];
    let mut n_lines = n_wrapped(&lines[0], screen.width).min((screen.height / 3).max(LINES_MIN));
    if let Some(advice) = &health.advice {
        let line = Line::from(vec![bold("What to do: ".to_owned(), Style::new()), Span::raw(advice.clone())]);
        let with_advice = n_lines.saturating_add(n_wrapped(&line, screen.width));
        // One line is the footer's.
        if with_advice.saturating_add(SMALL_LINES + 1) <= screen.height {
            lines.push(line);
            n_lines = with_advice;
        }
    }
    (lines, n_lines.max(LINES_MIN))
}

/// Below so many lines of the screen, only the pane that is moved in is shown.
pub(super) const SMALL_LINES: u16 = 16;
/// Lines that are kept free, so that the panes do not jump with each sentence.
const LINES_MIN: u16 = 2;
