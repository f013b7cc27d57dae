//! Hosts as a map of cells that stays readable from one to thousands. Pure.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ringscope_api::{Condition, HostSummary};

use super::parts::Palette;

/// How hosts lie in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Columns of the terminal for a cell.
    pub(super) cell_width: u16,
    /// Cells in a row.
    pub(super) columns: usize,
    /// Hosts that a cell stands for; the worst of them is shown.
    pub(super) hosts_per_cell: usize,
}

impl Grid {
    /// The widest cells with which all hosts fit.
    pub(super) fn fit(n_hosts: usize, name_width: usize, area: Rect) -> Self {
        let named = u16::try_from(name_width + NAME_EXTRA).unwrap_or(u16::MAX);
        for cell_width in [named, 2, 1] {
            let columns = usize::from(area.width / cell_width);
            if columns > 0 && n_hosts.div_ceil(columns) <= usize::from(area.height) {
                return Self { cell_width, columns, hosts_per_cell: 1 };
            }
        }
        let cells = usize::from(area.width) * usize::from(area.height);
        Self {
            cell_width: 1,
            columns: usize::from(area.width).max(1),
            hosts_per_cell: n_hosts.div_ceil(cells.max(1)).max(1),
        }
    }
}

/// What a cell says of a host; the greatest is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    /// No job.
    Idle,
    /// Works; how much of the fastest, in eighths.
    Busy(u8),
    Unknown,
    Degraded,
    /// Hung or failed.
    Stands,
}

impl Mark {
    pub(super) fn of(host: &HostSummary, fastest: f64) -> Self {
        match host.standing.condition {
            Condition::Failed | Condition::Hung => Self::Stands,
            Condition::Degraded => Self::Degraded,
            Condition::Unknown => Self::Unknown,
            Condition::Healthy if host.n_processes == 0 => Self::Idle,
            Condition::Healthy => Self::Busy(eighths(host.completed_bytes_per_s, fastest)),
        }
    }

    /// Told apart without colour too.
    pub(super) const fn symbol(self) -> char {
        match self {
            Self::Idle => '·',
            Self::Busy(0) => '▁',
            Self::Busy(1..=2) => '▂',
            Self::Busy(3..=4) => '▄',
            Self::Busy(5..=6) => '▆',
            Self::Busy(_) => '█',
            Self::Unknown => '?',
            Self::Degraded => '!',
            Self::Stands => 'X',
        }
    }

    pub(super) fn style(self, palette: Palette) -> Style {
        match self {
            Self::Idle => palette.dim(),
            Self::Busy(_) => palette.ok(),
            Self::Unknown => palette.warning(),
            Self::Degraded => palette.warning().add_modifier(Modifier::BOLD),
            Self::Stands => palette.critical().add_modifier(Modifier::BOLD),
        }
    }
}

/// Draws the hosts; the chosen one is reversed.
pub(super) fn draw(
    hosts: &[&HostSummary],
    grid: Grid,
    chosen: Option<usize>,
    area: Rect,
    buffer: &mut Buffer,
    palette: Palette,
) {
    let fastest = hosts.iter().map(|host| host.completed_bytes_per_s).fold(0.0, f64::max);
    for (place, cell) in hosts.chunks(grid.hosts_per_cell).enumerate() {
        let (row, column) = (place / grid.columns, place % grid.columns);
        let (Ok(row), Ok(column)) = (u16::try_from(row), u16::try_from(column)) else { return };
        if row >= area.height {
            return;
        }
        let (x, y) = (area.x + column * grid.cell_width, area.y + row);
        let Some(mark) = cell.iter().map(|host| Mark::of(host, fastest)).max() else { return };
        let mut style = mark.style(palette);
        if chosen.is_some_and(|chosen| chosen / grid.hosts_per_cell == place) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        let text = match cell {
            [host] if grid.cell_width > 2 => format!("{} {}", mark.symbol(), host.host),
            _ => mark.symbol().to_string(),
        };
        buffer.set_stringn(x, y, text, usize::from(grid.cell_width), style);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 8")]
fn eighths(part: f64, whole: f64) -> u8 {
    if whole <= 0.0 { 0 } else { (part / whole * 8.0).round().clamp(0.0, 8.0) as u8 }
}

/// The symbol, and the spaces beside a name.
const NAME_EXTRA: usize = 4;
