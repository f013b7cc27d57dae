//! The ring of one channel.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::{Circle, EmptyElement, PathElement, Polygon, Text};
use plotters::prelude::{Color as _, DrawingBackend, RGBColor};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{IntoTextStyle as _, ShapeStyle};

use super::labels::{Taken, anchor, shorten};
use super::layout::{Layout, arrow_head, between, to_f64};
use super::{Format, Theme, font, png};
use crate::api::{CommunicatorDetail, Hop, Ring};

/// What to draw.
#[derive(Clone, Copy, Debug)]
pub struct RingPlot<'a> {
    /// Whose ring.
    pub communicator: &'a CommunicatorDetail,
    /// The ring.
    pub ring: &'a Ring,
    /// Channels of the communicator.
    pub channels: usize,
    /// Hosts to mark.
    pub degraded_hosts: &'a BTreeSet<String>,
    /// Colours.
    pub theme: Theme,
    /// Width and height.
    pub size_px: u32,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// plotters would not take the font.
    #[error("the font cannot be used")]
    Font,
    /// plotters failed.
    #[error("the picture cannot be drawn: {0}")]
    Draw(String),
    /// The PNG could not be made.
    #[error("the picture cannot be encoded: {0}")]
    Encode(#[from] ::png::EncodingError),
}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self::Draw(error.to_string())
    }
}

type Area<B> = DrawingArea<B, Shift>;
type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

impl RingPlot<'_> {
    /// The picture.
    ///
    /// # Errors
    /// A [`PlotError`].
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        if !font::register() {
            return Err(PlotError::Font);
        }
        match format {
            Format::Svg => {
                let mut text = String::new();
                self.draw_on(
                    &SVGBackend::with_string(&mut text, (self.size_px, self.size_px)).into_drawing_area(),
                )?;
                Ok(text.into_bytes())
            }
            Format::Png => {
                let drawn_px = self.size_px * 2;
                let large = RingPlot { size_px: drawn_px, ..*self };
                let width = usize::try_from(drawn_px).unwrap_or(0);
                let RGBColor(red, green, blue) = self.theme.ground();
                let mut pixels = [red, green, blue].repeat(width * width);
                large.draw_on(
                    &BitMapBackend::with_buffer(&mut pixels, (drawn_px, drawn_px)).into_drawing_area(),
                )?;
                Ok(png::encode(&png::halve(&pixels, width), self.size_px, self.size_px)?)
            }
        }
    }

    fn draw_on<B: DrawingBackend>(&self, area: &Area<B>) -> Result<(), PlotError>
    where
        B::ErrorType: 'static,
    {
        let size = f64::from(self.size_px);
        let layout = Layout::new(self.ring, (size * 0.5, size * 0.53), size * 0.30);
        area.fill(&self.theme.ground())?;
        self.titles(area)?;
        let mut taken = Taken::default();
        for angle in layout.angles.values() {
            taken.dot(layout.point(*angle, layout.radius), layout.dot * 1.3);
        }
        self.hosts(area, &layout, &mut taken)?;
        for hop in &self.ring.order {
            self.hop(area, &layout, hop)?;
        }
        for hop in &self.ring.order {
            self.rank(area, &layout, hop)?;
        }
        self.hop_labels(area, &layout, &mut taken)?;
        self.legend(area)?;
        area.present()?;
        Ok(())
    }

    fn titles<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let size = f64::from(self.size_px);
        let summary = &self.communicator.summary;
        let name = summary.name.as_ref().map_or(String::new(), |name| format!("{} ", shorten(name, 24)));
        let shown = |count: Option<u32>| count.map_or("?".to_owned(), |count| count.to_string());
        let first = format!("{} · {name}{}", shorten(&summary.job, 40), summary.id);
        let second = format!(
            "channel {} of {} · {} ranks on {} hosts · init {} → final {}",
            self.ring.channel,
            self.channels,
            summary.n_ranks,
            summary.hosts.len(),
            shown(summary.base),
            shown(summary.final_channels),
        );
        let middle = Pos::new(HPos::Center, VPos::Center);
        self.text(area, &first, (size * 0.5, size * 0.035), size * 0.028, self.theme.text(), middle)?;
        self.text(area, &second, (size * 0.5, size * 0.075), size * 0.020, self.theme.faint(), middle)?;
        if self.ring.complete {
            return Ok(());
        }
        let problem = self.ring.problem.as_deref().unwrap_or("parts of it are not known");
        let third = format!("incomplete: {}", shorten(problem, 90));
        self.text(area, &third, (size * 0.5, size * 0.108), size * 0.018, self.theme.alarm(), middle)
    }

    fn hosts<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, taken: &mut Taken) -> Drawn<B> {
        let size = f64::from(self.size_px);
        let distance = layout.radius * 1.0 + layout.dot + size * 0.028;
        let thickness = size * 0.012;
        let font_px = (size * 0.019).max(11.0);
        let mut arcs: Vec<_> = layout.hosts.iter().enumerate().collect();
        // Names of degraded hosts get their places first; one that finds none is left out.
        arcs.sort_by_key(|(_, arc)| !self.degraded_hosts.contains(&arc.host));
        for (index, arc) in arcs {
            let degraded = self.degraded_hosts.contains(&arc.host);
            let colour = if degraded { self.theme.alarm() } else { self.theme.host(index) };
            let mut outline = layout.arc(arc.from, arc.to, distance);
            outline.extend(layout.arc(arc.from, arc.to, distance + thickness).into_iter().rev());
            area.draw(&Polygon::new(pixels(&outline), colour.filled()))?;
            let name = shorten(&arc.host, HOST_CHARS_MAX);
            let label = if degraded { format!("⚠ {name}") } else { name };
            let colour = if degraded { self.theme.alarm() } else { self.theme.text() };
            let angle = f64::midpoint(arc.from, arc.to);
            let nearest = distance + thickness + size * 0.014;
            let places = (0..3).map(|row| {
                let at = layout.point(angle, nearest + f64::from(row) * font_px * 1.2);
                (at, anchor(angle))
            });
            if let Some((at, pos)) = taken.first_free(&label, font_px, places) {
                self.text(area, &label, at, font_px, colour, pos)?;
            }
        }
        Ok(())
    }

    fn hop<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, hop: &Hop) -> Drawn<B> {
        let (Some(from), Some(to)) = (layout.angles.get(&hop.rank), layout.angles.get(&hop.next)) else {
            return Ok(());
        };
        if hop.rank == hop.next {
            return Ok(());
        }
        let colour = self.theme.transport(hop.transport.as_deref());
        let (start, end) =
            between(layout.point(*from, layout.radius), layout.point(*to, layout.radius), layout.dot * 1.1);
        let width =
            (layout.dot * 0.22).clamp(f64::from(self.size_px) * 0.0016, f64::from(self.size_px) * 0.0036);
        let head = (layout.dot * 0.9).clamp(f64::from(self.size_px) * 0.006, f64::from(self.size_px) * 0.016);
        let stroke = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: round_u32(width) };
        area.draw(&PathElement::new(pixels(&[start, end]), stroke))?;
        area.draw(&Polygon::new(pixels(&arrow_head(start, end, head)), colour.filled()))
    }

    fn rank<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, hop: &Hop) -> Drawn<B> {
        let Some(angle) = layout.angles.get(&hop.rank) else { return Ok(()) };
        let index = layout.hosts.iter().position(|arc| arc.host == hop.host).unwrap_or(0);
        let degraded = self.degraded_hosts.contains(&hop.host);
        let colour = if degraded { self.theme.alarm() } else { self.theme.host(index) };
        let at = layout.point(*angle, layout.radius);
        area.draw(&Circle::new(pixel(at), round_i32(layout.dot), colour.filled()))?;
        let centred = Pos::new(HPos::Center, VPos::Center);
        let number = hop.rank.to_string();
        let inside_px = layout.dot * if number.len() > 2 { 0.8 } else { 1.1 };
        if inside_px >= f64::from(self.size_px) * 0.010 {
            // Digits have no descent: their middle is above that of the line.
            let at = (at.0, at.1 + inside_px * 0.08);
            return self.text(area, &number, at, inside_px, self.theme.ground(), centred);
        }
        // No room inside: outside, as many as there is room for.
        let font_px = f64::from(self.size_px) * 0.0125;
        let room = 2.0 * PI * layout.radius / (font_px * 1.3);
        let every = (0..8)
            .map(|power| 1_u32 << power)
            .find(|every| to_f64(layout.angles.len()) / f64::from(*every) <= room);
        if every.is_some_and(|every| hop.rank.is_multiple_of(every)) {
            let at = layout.point(*angle, layout.radius + layout.dot + font_px * 0.75);
            return self.text(area, &number, at, font_px, self.theme.faint(), centred);
        }
        Ok(())
    }

    /// Transport and NIC of the hops between hosts, and of all if they are few, inside the circle.
    fn hop_labels<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, taken: &mut Taken) -> Drawn<B> {
        let hosts: BTreeMap<u32, &str> =
            self.ring.order.iter().map(|hop| (hop.rank, hop.host.as_str())).collect();
        let few = self.ring.order.len() <= LABELLED_RANKS_MAX;
        let labelled: Vec<&Hop> = self
            .ring
            .order
            .iter()
            .filter(|hop| few || hosts.get(&hop.next).is_some_and(|host| *host != hop.host))
            .collect();
        if labelled.len() > LABELLED_HOPS_MAX {
            return Ok(());
        }
        let font_px = (f64::from(self.size_px) * 0.0155).max(10.0);
        for hop in labelled {
            let (Some(from), Some(to)) = (layout.angles.get(&hop.rank), layout.angles.get(&hop.next)) else {
                continue;
            };
            let transport = hop.transport.as_deref().unwrap_or("?");
            let label = match &hop.nic {
                Some(nic) => format!("{transport} {}", shorten(nic, 14)),
                None => transport.to_owned(),
            };
            let (start, end) = (layout.point(*from, layout.radius), layout.point(*to, layout.radius));
            let colour = self.theme.transport(hop.transport.as_deref());
            if let Some((at, pos)) =
                taken.first_free(&label, font_px, label_places(layout.centre, start, end, font_px))
            {
                self.text(area, &label, at, font_px, colour, pos)?;
            }
        }
        Ok(())
    }

    /// How many hops go by which transport.
    fn legend<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for hop in &self.ring.order {
            *counts.entry(hop.transport.as_deref().unwrap_or("not known")).or_default() += 1;
        }
        let size = f64::from(self.size_px);
        let font_px = size * 0.017;
        let entries: Vec<(String, RGBColor)> = counts
            .into_iter()
            .take(LEGEND_MAX)
            .map(|(transport, hops)| {
                let known = Some(transport).filter(|transport| *transport != "not known");
                (format!("{transport}: {hops} hops"), self.theme.transport(known))
            })
            .collect();
        let width = |text: &str| to_f64(text.chars().count()) * font_px * 0.6 + size * 0.05;
        let mut x = (size - entries.iter().map(|(text, _)| width(text)).sum::<f64>()) / 2.0 + size * 0.025;
        for (text, colour) in entries {
            let y = size * 0.968;
            area.draw(&Circle::new(pixel((x, y)), round_i32(size * 0.006), colour.filled()))?;
            let left = Pos::new(HPos::Left, VPos::Center);
            self.text(area, &text, (x + size * 0.013, y), font_px, self.theme.text(), left)?;
            x += width(&text);
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "reads as one of the family")]
    fn text<B: DrawingBackend>(
        &self,
        area: &Area<B>,
        text: &str,
        at: (f64, f64),
        font_px: f64,
        colour: RGBColor,
        pos: Pos,
    ) -> Drawn<B> {
        let style = (font::FAMILY, font_px).into_text_style(area).pos(pos).color(&colour);
        area.draw(&(EmptyElement::at(pixel(at)) + Text::new(text.to_owned(), (0, 0), style)))
    }
}

/// Where the label of a hop may be: towards the centre from a hop along the circle, beside one that goes across.
fn label_places(
    centre: (f64, f64),
    start: (f64, f64),
    end: (f64, f64),
    font_px: f64,
) -> Vec<((f64, f64), Pos)> {
    let middle = (f64::midpoint(start.0, end.0), f64::midpoint(start.1, end.1));
    let (dx, dy) = (middle.0 - centre.0, middle.1 - centre.1);
    let off_centre = dx.hypot(dy);
    let along = (end.0 - start.0).hypot(end.1 - start.1);
    if off_centre > along * 0.6 {
        let angle = dx.atan2(-dy);
        let place = |row: f64| {
            let inwards = (off_centre - font_px * row).max(0.0) / off_centre;
            ((centre.0 + dx * inwards, centre.1 + dy * inwards), anchor(angle + PI))
        };
        return [1.0, 2.2, 3.4, 4.6].map(place).to_vec();
    }
    let (ux, uy) = ((end.0 - start.0) / along.max(1e-9), (end.1 - start.1) / along.max(1e-9));
    let place = |share: f64| {
        let on_line = (start.0 + (end.0 - start.0) * share, start.1 + (end.1 - start.1) * share);
        // To the right of the direction of travel, so that the hop back has the other side.
        let beside = (on_line.0 - uy * font_px * 0.8, on_line.1 + ux * font_px * 0.8);
        let horizontal = if uy > 0.3 {
            HPos::Right
        } else if uy < -0.3 {
            HPos::Left
        } else {
            HPos::Center
        };
        (beside, Pos::new(horizontal, VPos::Center))
    };
    [0.3, 0.2, 0.4, 0.15, 0.7].map(place).to_vec()
}

fn pixels(points: &[(f64, f64)]) -> Vec<(i32, i32)> {
    points.iter().copied().map(pixel).collect()
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    (round_i32(x), round_i32(y))
}

#[expect(clippy::cast_possible_truncation, reason = "coordinates of a picture; the cast saturates")]
fn round_i32(value: f64) -> i32 {
    value.round() as i32
}

fn round_u32(value: f64) -> u32 {
    round_i32(value).max(1).unsigned_abs()
}

/// Longer names of hosts would leave the picture.
const HOST_CHARS_MAX: usize = 18;
/// Up to so many ranks every hop is labelled.
const LABELLED_RANKS_MAX: usize = 12;
/// More labels than this would hide the ring.
const LABELLED_HOPS_MAX: usize = 32;
/// NCCL has fewer transports.
const LEGEND_MAX: usize = 6;
