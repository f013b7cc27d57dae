//! The rings of all channels of a communicator, small and side by side.

use std::collections::BTreeSet;

use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use ringscope_api::{CommunicatorDetail, Ring};

use super::canvas::{Area, Picture, PlotError, Size, legend, render, text};
use super::labels::shorten;
use super::layout::to_f64;
use super::ring::{RingPlot, transports};
use super::{Format, Theme};

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub struct RingsPlot<'a> {
    /// Whose rings.
    pub communicator: &'a CommunicatorDetail,
    /// One a channel; at most [`RingsPlot::CHANNELS_MAX`] are drawn, the others counted.
    pub rings: &'a [Ring],
    /// Hosts to mark.
    pub degraded_hosts: &'a BTreeSet<String>,
    /// Colours.
    pub theme: Theme,
    /// Width and height.
    pub size_px: u32,
}

impl RingsPlot<'_> {
    /// NCCL has no more (MAXCHANNELS).
    pub const CHANNELS_MAX: usize = 64;

    /// The picture.
    ///
    /// # Errors
    /// A [`PlotError`].
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        render(self, format)
    }

    fn subtitle(&self, n_shown: usize) -> String {
        let n_broken = self.rings.iter().filter(|ring| !ring.complete).count();
        let summary = &self.communicator.summary;
        let mut words = match self.rings.len() {
            0 => "no rings are known".to_owned(),
            n if n > n_shown => format!("the first {n_shown} of {n} channels"),
            n => format!("{n} channels"),
        };
        words.push_str(&format!(" · {} ranks on {} hosts", summary.n_ranks, summary.hosts.len()));
        if n_broken > 0 {
            words.push_str(&format!(" · {n_broken} incomplete"));
        }
        words
    }
}

impl Picture for RingsPlot<'_> {
    fn size(&self) -> Size {
        Size { width_px: self.size_px, height_px: self.size_px }
    }

    fn theme(&self) -> Theme {
        self.theme
    }

    fn draw_on<B: DrawingBackend>(&self, area: &Area<B>, times: u32) -> Result<(), PlotError>
    where
        B::ErrorType: 'static,
    {
        let size = f64::from(self.size_px * times);
        let shown = &self.rings[..self.rings.len().min(Self::CHANNELS_MAX)];
        let summary = &self.communicator.summary;
        let name = summary.name.as_ref().map_or(String::new(), |name| format!("{} ", shorten(name, 24)));
        let title = format!("{} · {name}{}", shorten(&summary.job, 40), summary.id);
        let middle = Pos::new(HPos::Center, VPos::Center);
        text(area, &title, (size * 0.5, size * 0.035), size * 0.028, self.theme.text(), middle)?;
        let subtitle = self.subtitle(shown.len());
        text(area, &subtitle, (size * 0.5, size * 0.075), size * 0.020, self.theme.faint(), middle)?;
        let columns = (1_u32..).find(|columns| (columns * columns) as usize >= shown.len()).unwrap_or(1);
        let (left, top, extent) = (size * 0.07, size * 0.095, size * 0.86);
        let cell = extent / f64::from(columns);
        let ring_px = super::canvas::round_u32(cell * 0.86);
        for (index, ring) in shown.iter().enumerate() {
            let (column, row) = (index % columns as usize, index / columns as usize);
            let (x, y) = (left + cell * to_f64(column), top + cell * to_f64(row));
            let (x_px, y_px) = super::canvas::pixel((x + cell * 0.07, y + cell * 0.12));
            let part = area.clone().shrink((x_px, y_px), (ring_px, ring_px));
            RingPlot {
                communicator: self.communicator,
                ring,
                channels: self.rings.len(),
                degraded_hosts: self.degraded_hosts,
                theme: self.theme,
                size_px: ring_px,
            }
            .sketch(&part)?;
            let label = match ring.complete {
                true => ring.channel.to_string(),
                false => format!("{} incomplete", ring.channel),
            };
            let colour = if ring.complete { self.theme.faint() } else { self.theme.alarm() };
            let font_px = (cell * 0.1).min(size * 0.02).max(f64::from(times) * 9.0);
            text(area, &label, (x + cell / 2.0, y + cell * 0.07), font_px, colour, middle)?;
        }
        let entries = transports(shown, self.theme);
        legend(area, &entries, (size * 0.5, size * 0.98), size * 0.017, self.theme)?;
        Ok(())
    }
}
