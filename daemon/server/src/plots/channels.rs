//! Init and final channels of each host of a communicator, as bars: what is odd first, what is alike together.

use std::collections::BTreeMap;

use plotters::element::Rectangle;
use plotters::prelude::{Color as _, DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use ringscope_api::CommunicatorDetail;

use super::canvas::{Area, Drawn, Picture, PlotError, Size, legend, pixel, render, text};
use super::labels::shorten;
use super::layout::to_f64;
use super::{Format, Theme};

/// What to draw.
#[derive(Clone, Debug)]
pub struct ChannelsPlot<'a> {
    /// Whose channels.
    pub communicator: &'a CommunicatorDetail,
    /// Where they come from.
    pub source: String,
    /// Colours.
    pub theme: Theme,
    /// Width and height.
    pub size: Size,
}

/// Bars of one host, or of several that are alike.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    counts: Counts,
    culprit: bool,
}

/// The lowest counts of the ranks of a host. `None`: not known.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct Counts {
    init: Option<u32>,
    last: Option<u32>,
}

impl ChannelsPlot<'_> {
    /// The picture.
    ///
    /// # Errors
    /// A [`PlotError`].
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        render(self, format)
    }

    fn by_host(&self) -> BTreeMap<&str, Counts> {
        let mut hosts: BTreeMap<&str, Counts> = BTreeMap::new();
        let lowest = |known: Option<u32>, told: Option<u32>| known.into_iter().chain(told).min();
        for rank in &self.communicator.ranks {
            let counts = hosts.entry(&rank.host).or_default();
            counts.init = lowest(counts.init, rank.init_channels);
            counts.last = lowest(counts.last, rank.final_channels);
        }
        hosts
    }

    /// Culprits first, then the others from the least to the most init channels; as soon as there are more hosts than
    /// `rows_max`, those that are alike share a row.
    fn rows(&self, rows_max: usize) -> Vec<Row> {
        let hosts = self.by_host();
        let is_culprit = |host: &str| self.communicator.summary.culprits.iter().any(|one| one == host);
        let mut by_kind: BTreeMap<(bool, Counts), Vec<&str>> = BTreeMap::new();
        for (host, counts) in &hosts {
            by_kind.entry((!is_culprit(host), *counts)).or_default().push(host);
        }
        let mut room = rows_max.saturating_sub(by_kind.len());
        let n_hosts = hosts.len();
        let mut rows = Vec::new();
        for ((innocent, counts), hosts) in by_kind {
            let row = |name: String| Row { name, counts, culprit: !innocent };
            if n_hosts <= rows_max || hosts.len() == 1 || hosts.len() - 1 <= room.min(ODD_MAX) {
                room = room.saturating_sub(hosts.len() - 1);
                rows.extend(hosts.into_iter().map(|host| row(host.to_owned())));
            } else {
                rows.push(row(format!("{} hosts", hosts.len())));
            }
        }
        rows.truncate(rows_max);
        rows
    }

    fn titles(&self) -> [String; 2] {
        let summary = &self.communicator.summary;
        let name = summary.name.as_ref().map_or(String::new(), |name| format!("{} ", shorten(name, 24)));
        let shown = |count: Option<u32>| count.map_or("?".to_owned(), |count| count.to_string());
        let held_back = match summary.culprits.as_slice() {
            [] => "nobody is held back".to_owned(),
            [host] => format!("held back by {host}"),
            [host, others @ ..] => format!("held back by {host} and {} more", others.len()),
        };
        [
            format!("Channels · {} · {name}{}", shorten(&summary.job, 40), summary.id),
            format!(
                "{} ranks on {} hosts · init {} → final {} · {held_back}",
                summary.n_ranks,
                summary.hosts.len(),
                shown(summary.base),
                shown(summary.final_channels)
            ),
        ]
    }

    fn bars<B: DrawingBackend>(&self, area: &Area<B>, em: f64, rows: &[Row]) -> Drawn<B> {
        let (width, height) = area.dim_in_pixel();
        let (width, height) = (f64::from(width), f64::from(height));
        let names = em * 13.0;
        let most = rows.iter().flat_map(|row| [row.counts.init, row.counts.last]).flatten().max();
        let px_per_channel = (width - names - em * 5.0) / f64::from(most.unwrap_or(1).max(1));
        let row_px = (height / to_f64(rows.len())).min(em * 3.2);
        let font_px = em.min(row_px * 0.5);
        for (index, row) in rows.iter().enumerate() {
            let y = row_px * (to_f64(index) + 0.5);
            let colour = if row.culprit { self.theme.alarm() } else { self.theme.text() };
            let mark = if row.culprit { "⚠ " } else { "" };
            let name = format!("{mark}{}", shorten(&row.name, 18));
            let right = Pos::new(HPos::Right, VPos::Center);
            text(area, &name, (names - em * 0.6, y), font_px.max(em * 0.6), colour, right)?;
            let bars =
                [(row.counts.init, -1.0, self.init_colour(row)), (row.counts.last, 0.0, self.theme.host(1))];
            for (count, side, colour) in bars {
                let top = y + side * row_px * 0.36;
                let end = names + px_per_channel * f64::from(count.unwrap_or(0));
                let corners = [pixel((names, top)), pixel((end, top + row_px * 0.32))];
                area.draw(&Rectangle::new(corners, colour.filled()))?;
                let label = count.map_or("?".to_owned(), |count| count.to_string());
                let at = (end + em * 0.4, top + row_px * 0.16);
                let left = Pos::new(HPos::Left, VPos::Center);
                text(area, &label, at, font_px * 0.8, self.theme.faint(), left)?;
            }
        }
        Ok(())
    }

    fn init_colour(&self, row: &Row) -> RGBColor {
        if row.culprit { self.theme.alarm() } else { self.theme.host(0) }
    }
}

impl Picture for ChannelsPlot<'_> {
    fn size(&self) -> Size {
        self.size
    }

    fn theme(&self) -> Theme {
        self.theme
    }

    fn draw_on<B: DrawingBackend>(&self, area: &Area<B>, times: u32) -> Result<(), PlotError>
    where
        B::ErrorType: 'static,
    {
        let em = self.size.em() * f64::from(times);
        let [title, subtitle] = self.titles();
        let inner = self.size.frame(area, em, [&title, &subtitle, &self.source], self.theme)?;
        let (width, height) = inner.dim_in_pixel();
        let middle = f64::from(width) / 2.0;
        if self.by_host().values().all(|counts| *counts == Counts::default()) {
            let centred = Pos::new(HPos::Center, VPos::Center);
            let at = (middle, f64::from(height) / 2.0);
            text(&inner, NOTHING_KNOWN, at, em * 1.2, self.theme.faint(), centred)?;
            return Ok(());
        }
        let (head, body) = inner.split_vertically(super::canvas::round_u32(em * 2.0));
        let rows = self.rows(super::canvas::round_u32(f64::from(height) / em / 1.4) as usize);
        let mut entries = vec![
            ("init: what the host's own search found".to_owned(), self.theme.host(0)),
            ("final: what is in use".to_owned(), self.theme.host(1)),
        ];
        if rows.iter().any(|row| row.culprit) {
            entries.push(("init of a culprit".to_owned(), self.theme.alarm()));
        }
        legend(&head, &entries, (middle, em * 0.7), em * 0.95, self.theme)?;
        self.bars(&body, em, &rows)?;
        Ok(())
    }
}

/// Hosts that are alike and still have rows of their own, where there are more hosts than rows.
const ODD_MAX: usize = 8;
/// Of a communicator of which no log has told.
const NOTHING_KNOWN: &str = "the library's log does not say how many channels there are";
