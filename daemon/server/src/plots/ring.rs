//! The ring of one channel.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::PI;

use plotters::element::{Circle, PathElement, Polygon};
use plotters::prelude::{Color as _, DrawingBackend, RGBColor};
use plotters::style::ShapeStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use ringscope_api::{CommunicatorDetail, Hop, Ring};

use super::canvas::{
    Area, Drawn, Picture, PlotError, Size, legend, pixel, pixels, render, round_i32, round_u32, text,
};
use super::labels::{Taken, anchor, shorten};
use super::layout::{Layout, arrow_head, between, to_f64};
use super::{Format, Theme};

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

impl RingPlot<'_> {
    /// The picture.
    ///
    /// # Errors
    /// A [`PlotError`].
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        render(self, format)
    }

    fn draw_whole<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let size = f64::from(self.size_px);
        let layout = Layout::new(self.ring, (size * 0.5, size * 0.53), size * 0.30);
        self.titles(area)?;
        let mut taken = Taken::default();
        for angle in layout.angles.values() {
            taken.dot(layout.point(*angle, layout.radius), layout.dot * 1.3);
        }
        self.hosts(area, &layout)?;
        self.host_names(area, &layout, &mut taken)?;
        for hop in &self.ring.order {
            self.hop(area, &layout, hop)?;
        }
        for hop in &self.ring.order {
            self.rank(area, &layout, hop)?;
            self.rank_number(area, &layout, hop)?;
        }
        self.hop_labels(area, &layout, &mut taken)?;
        self.legend(area)
    }

    /// The ring without any text, in the middle of `area`. Of one with very many ranks only what is not as usual: hosts
    /// that are degraded, odd hops, and hops that lead across.
    pub(super) fn sketch<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let size = f64::from(self.size_px);
        let mut layout = Layout::new(self.ring, (size * 0.5, size * 0.5), size * 0.38);
        let order = &self.ring.order;
        if order.len() <= SKETCHED_RANKS_MAX {
            self.hosts(area, &layout)?;
            for hop in order {
                self.hop(area, &layout, hop)?;
            }
            return order.iter().try_for_each(|hop| self.rank(area, &layout, hop));
        }
        let circle = pixels(&layout.arc(0.0, 2.0 * PI, layout.radius));
        area.draw(&PathElement::new(circle, self.theme.faint().stroke_width(1)))?;
        layout.hosts.retain_mut(|arc| {
            // One host of a thousand would not be seen.
            (arc.from, arc.to) = (arc.from - SEEN_ANGLE / 2.0, arc.to + SEEN_ANGLE / 2.0);
            self.degraded_hosts.contains(&arc.host)
        });
        self.hosts(area, &layout)?;
        let usual = 2.0 * 2.0 * PI / to_f64(order.len());
        let leads_across = |hop: &&Hop| {
            let angle = |rank| layout.angles.get(rank).copied().unwrap_or(0.0);
            let apart = (angle(&hop.next) - angle(&hop.rank)).abs();
            !hop.odd.is_empty() || apart.min(2.0 * PI - apart) > usual
        };
        let unusual: Vec<&Hop> = order.iter().filter(leads_across).take(SKETCHED_RANKS_MAX).collect();
        for hop in unusual {
            self.hop(area, &layout, hop)?;
            if let Some(angle) = layout.angles.get(&hop.rank).filter(|_| !hop.odd.is_empty()) {
                let at = pixel(layout.point(*angle, layout.radius));
                area.draw(&Circle::new(at, round_i32(size * 0.02), self.theme.alarm().filled()))?;
            }
        }
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
        text(area, &first, (size * 0.5, size * 0.035), size * 0.028, self.theme.text(), middle)?;
        text(area, &second, (size * 0.5, size * 0.075), size * 0.020, self.theme.faint(), middle)?;
        if self.ring.complete {
            return Ok(());
        }
        let problem = self.ring.problem.as_deref().unwrap_or("parts of it are not known");
        let third = format!("incomplete: {}", shorten(problem, 90));
        text(area, &third, (size * 0.5, size * 0.108), size * 0.018, self.theme.alarm(), middle)
    }

    fn hosts<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout) -> Drawn<B> {
        let (distance, thickness) = self.host_band(layout);
        for (index, arc) in layout.hosts.iter().enumerate() {
            let mut outline = layout.arc(arc.from, arc.to, distance);
            outline.extend(layout.arc(arc.from, arc.to, distance + thickness).into_iter().rev());
            let colour = self.host_colour(index, &arc.host);
            area.draw(&Polygon::new(pixels(&outline), colour.filled()))?;
        }
        Ok(())
    }

    fn host_names<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, taken: &mut Taken) -> Drawn<B> {
        let size = f64::from(self.size_px);
        let (distance, thickness) = self.host_band(layout);
        let font_px = (size * 0.019).max(11.0);
        let mut arcs: Vec<_> = layout.hosts.iter().collect();
        // Names of degraded hosts get their places first; one that finds none is left out.
        arcs.sort_by_key(|arc| !self.degraded_hosts.contains(&arc.host));
        for arc in arcs {
            let degraded = self.degraded_hosts.contains(&arc.host);
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
                text(area, &label, at, font_px, colour, pos)?;
            }
        }
        Ok(())
    }

    /// Distance from the centre and thickness of the arcs of hosts.
    fn host_band(&self, layout: &Layout) -> (f64, f64) {
        let size = f64::from(self.size_px);
        (layout.radius + layout.dot + size * 0.028, size * 0.012)
    }

    fn host_colour(&self, index: usize, host: &str) -> RGBColor {
        if self.degraded_hosts.contains(host) { self.theme.alarm() } else { self.theme.host(index) }
    }

    fn hop<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, hop: &Hop) -> Drawn<B> {
        let (Some(from), Some(to)) = (layout.angles.get(&hop.rank), layout.angles.get(&hop.next)) else {
            return Ok(());
        };
        if hop.rank == hop.next {
            return Ok(());
        }
        let colour = match hop.odd.is_empty() {
            true => self.theme.transport(hop.transport.as_deref()),
            false => self.theme.alarm(),
        };
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
        let index = layout.host_index.get(&hop.rank).copied().unwrap_or(0);
        let at = layout.point(*angle, layout.radius);
        let colour = self.host_colour(index, &hop.host);
        area.draw(&Circle::new(pixel(at), round_i32(layout.dot), colour.filled()))
    }

    fn rank_number<B: DrawingBackend>(&self, area: &Area<B>, layout: &Layout, hop: &Hop) -> Drawn<B> {
        let Some(angle) = layout.angles.get(&hop.rank) else { return Ok(()) };
        let at = layout.point(*angle, layout.radius);
        let centred = Pos::new(HPos::Center, VPos::Center);
        let number = hop.rank.to_string();
        let inside_px = layout.dot * if number.len() > 2 { 0.8 } else { 1.1 };
        if inside_px >= f64::from(self.size_px) * 0.010 {
            // Digits have no descent: their middle is above that of the line.
            let at = (at.0, at.1 + inside_px * 0.08);
            return text(area, &number, at, inside_px, self.theme.ground(), centred);
        }
        // No room inside: outside, as many as there is room for.
        let font_px = f64::from(self.size_px) * 0.0125;
        let room = 2.0 * PI * layout.radius / (font_px * 1.3);
        let every = (0..8)
            .map(|power| 1_u32 << power)
            .find(|every| to_f64(layout.angles.len()) / f64::from(*every) <= room);
        if every.is_some_and(|every| hop.rank.is_multiple_of(every)) {
            let at = layout.point(*angle, layout.radius + layout.dot + font_px * 0.75);
            return text(area, &number, at, font_px, self.theme.faint(), centred);
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
                text(area, &label, at, font_px, colour, pos)?;
            }
        }
        Ok(())
    }

    fn legend<B: DrawingBackend>(&self, area: &Area<B>) -> Drawn<B> {
        let size = f64::from(self.size_px);
        legend(
            area,
            &transports([self.ring], self.theme),
            (size * 0.5, size * 0.968),
            size * 0.017,
            self.theme,
        )
    }
}

/// How many hops of these rings go by which transport, and its colour.
pub(super) fn transports<'r>(
    rings: impl IntoIterator<Item = &'r Ring>,
    theme: Theme,
) -> Vec<(String, RGBColor)> {
    let mut counts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut n_odd = 0;
    for hop in rings.into_iter().flat_map(|ring| &ring.order) {
        *counts.entry(hop.transport.as_deref()).or_default() += 1;
        n_odd += usize::from(!hop.odd.is_empty());
    }
    let known = counts.into_iter().take(LEGEND_MAX).map(|(transport, hops)| {
        (format!("{}: {hops} hops", transport.unwrap_or("not known")), theme.transport(transport))
    });
    known.chain((n_odd > 0).then(|| (format!("odd: {n_odd} hops"), theme.alarm()))).collect()
}

impl Picture for RingPlot<'_> {
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
        RingPlot { size_px: self.size_px * times, ..*self }.draw_whole(area)?;
        Ok(())
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

/// An angle that shows in a sketch.
const SEEN_ANGLE: f64 = 0.06;
/// Ranks of a ring that a sketch shows one by one.
const SKETCHED_RANKS_MAX: usize = 256;
/// Longer names of hosts would leave the picture.
const HOST_CHARS_MAX: usize = 18;
/// Up to so many ranks every hop is labelled.
const LABELLED_RANKS_MAX: usize = 12;
/// More labels than this would hide the ring.
const LABELLED_HOPS_MAX: usize = 32;
/// NCCL has fewer transports.
const LEGEND_MAX: usize = 6;
