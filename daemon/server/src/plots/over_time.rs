//! Bytes over time: bandwidth per primitive, and issued against completed bytes.

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::element::{PathElement, Polygon};
use plotters::prelude::{Color as _, DrawingBackend, IntoFont as _, RGBColor, TRANSPARENT};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::canvas::{Area, Picture, PlotError, Size, legend, render, round_i32, round_u32, text};
use super::labels::shorten;
use super::scale::{Unit, time_label, time_ticks, value_label, value_ticks};
use super::{Format, Theme, font};

/// What to draw: lines, and between two of them perhaps a shade.
#[derive(Clone, Debug)]
pub struct TimePlot {
    /// Of what and whose.
    pub title: String,
    /// What the values are.
    pub subtitle: String,
    /// Where the values come from.
    pub source: String,
    /// Times of the values, milliseconds since 1970.
    pub times_ms: Vec<u64>,
    /// At most [`TimePlot::LINES_MAX`] are told apart.
    pub lines: Vec<PlotLine>,
    /// What is between the first two lines is shaded under this name.
    pub gap: Option<String>,
    /// What values are counted in.
    pub unit: Unit,
    /// Colours.
    pub theme: Theme,
    /// Width and height.
    pub size: Size,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotLine {
    /// Its name.
    pub name: String,
    /// One value a time; `None` where nothing is known.
    pub values: Vec<Option<f64>>,
}

impl TimePlot {
    /// There are as many colours.
    pub const LINES_MAX: usize = 6;

    /// The picture.
    ///
    /// # Errors
    /// A [`PlotError`].
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        render(self, format)
    }

    fn largest(&self) -> Option<f64> {
        self.lines.iter().flat_map(|line| line.values.iter().flatten()).copied().reduce(f64::max)
    }

    fn entries(&self) -> Vec<(String, RGBColor)> {
        let of_line = |(index, line): (usize, &PlotLine)| {
            let last = line.values.iter().rev().flatten().next();
            let last = last.map_or(String::new(), |last| format!(" {}", self.unit.words(*last)));
            (format!("{}{last}", shorten(&line.name, 24)), self.theme.host(index))
        };
        let lines = self.lines.iter().enumerate().map(of_line);
        lines.chain(self.gap.iter().map(|gap| (gap.clone(), self.theme.alarm()))).collect()
    }

    fn chart<B: DrawingBackend>(&self, area: &Area<B>, em: f64, largest: f64) -> Result<(), PlotError>
    where
        B::ErrorType: 'static,
    {
        let (Some(from), Some(to)) = (self.times_ms.first(), self.times_ms.last()) else { return Ok(()) };
        let range_ms = (to - from).max(1);
        let shown = self.unit.shown(largest);
        let (width, height) = area.dim_in_pixel();
        let ticks = value_ticks(largest / shown.one, (f64::from(height) / em / 4.0).clamp(2.0, 8.0));
        let step = ticks.get(1).copied().unwrap_or(1.0);
        let top = ticks.last().copied().unwrap_or(1.0);
        let n_times = whole(f64::from(width) / em / 9.0).clamp(2, 12);
        let times = time_ticks(*from, from + range_ms, n_times).into_iter().map(ms).collect();
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(round_u32(em * 2.0))
            .y_label_area_size(round_u32(em * 5.0))
            .margin_right(round_u32(em * 2.0))
            .build_cartesian_2d(
                Axis { range: ms(*from)..ms(from + range_ms), ticks: times },
                Axis { range: 0.0..top, ticks },
            )?;
        let label = (font::FAMILY, em * 0.9).into_font().color(&self.theme.faint());
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(self.theme.grid().stroke_width(1))
            .axis_style(self.theme.faint().stroke_width(1))
            .label_style(label)
            .x_labels(64)
            .y_labels(64)
            .x_label_formatter(&|at| time_label(whole(*at), range_ms))
            .y_label_formatter(&|value| format!("{} {}", value_label(*value, step), shown.name))
            .draw()?;
        if self.gap.is_some() {
            self.shade(&mut chart, shown.one)?;
        }
        for (index, line) in self.lines.iter().enumerate() {
            let stroke = self.theme.host(index).stroke_width(round_u32(em * 0.14));
            let pieces = self.pieces(line, shown.one);
            chart.draw_series(pieces.into_iter().map(|piece| PathElement::new(piece, stroke)))?;
        }
        Ok(())
    }

    /// The points of a line where it is known, in pieces without gaps.
    fn pieces(&self, line: &PlotLine, one: f64) -> Vec<Vec<(f64, f64)>> {
        let points: Vec<Option<(f64, f64)>> = (self.times_ms.iter().zip(&line.values))
            .map(|(at, value)| Some((ms(*at), (*value)? / one)))
            .collect();
        points.split(Option::is_none).map(|piece| piece.iter().flatten().copied().collect()).collect()
    }

    fn shade<B: DrawingBackend>(
        &self,
        chart: &mut ChartContext<'_, B, Cartesian2d<Axis, Axis>>,
        one: f64,
    ) -> Result<(), PlotError>
    where
        B::ErrorType: 'static,
    {
        let [upper, lower, ..] = self.lines.as_slice() else { return Ok(()) };
        for (upper, lower) in self.pieces(upper, one).into_iter().zip(self.pieces(lower, one)) {
            if upper.len() < 2 {
                continue;
            }
            let outline: Vec<_> = upper.into_iter().chain(lower.into_iter().rev()).collect();
            chart.draw_series([Polygon::new(outline, self.theme.alarm().mix(0.28))])?;
        }
        Ok(())
    }
}

/// An axis with ticks of our choice: plotters' own round in powers of ten only, which no time does.
#[derive(Clone)]
struct Axis {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        low + round_i32(share * f64::from(high - low))
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl Picture for TimePlot {
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
        let inner = self.size.frame(area, em, [&self.title, &self.subtitle, &self.source], self.theme)?;
        let Some(largest) = self.largest() else {
            let (width, height) = inner.dim_in_pixel();
            let middle = (f64::from(width) / 2.0, f64::from(height) / 2.0);
            let centred = Pos::new(HPos::Center, VPos::Center);
            text(&inner, NO_DATA, middle, em * 1.4, self.theme.faint(), centred)?;
            return Ok(());
        };
        let (width, height) = inner.dim_in_pixel();
        let (head, chart) = inner.split_vertically(round_u32(em * 2.0));
        debug_assert!(height > 0, "frames leave room");
        legend(&head, &self.entries(), (f64::from(width) / 2.0, em * 0.7), em * 0.95, self.theme)?;
        self.chart(&chart, em, largest)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times and counts; the cast saturates"
)]
const fn whole(value: f64) -> u64 {
    value as u64
}

#[expect(clippy::cast_precision_loss, reason = "exact for 285 000 years")]
const fn ms(at: u64) -> f64 {
    at as f64
}

/// What a picture without values says.
pub(super) const NO_DATA: &str = "no data in this time";
