//! What all pictures share: made once for SVG, twice as large and halved for PNG, texts by pixel.

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _};
use plotters::element::{Circle, EmptyElement, Text};
use plotters::prelude::{Color as _, DrawingBackend, RGBColor};
use plotters::style::IntoTextStyle as _;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::labels::shorten;
use super::layout::to_f64;
use super::{Format, Theme, font, png};

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

/// Where things are drawn, by pixel.
pub(super) type Area<B> = DrawingArea<B, Shift>;
/// What drawing gives.
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Width and height.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Size {
    pub width_px: u32,
    pub height_px: u32,
}

impl Size {
    /// Size of ordinary text, which grows with the picture.
    pub(super) fn em(self) -> f64 {
        let by_width = f64::from(self.width_px) / 60.0;
        by_width.min(f64::from(self.height_px) / 22.0).clamp(9.0, 40.0)
    }

    /// Writes title, subtitle and source around what is drawn into the area that it gives.
    pub(super) fn frame<B: DrawingBackend>(
        self,
        area: &Area<B>,
        em: f64,
        [title, subtitle, source]: [&str; 3],
        theme: Theme,
    ) -> Result<Area<B>, DrawingAreaErrorKind<B::ErrorType>> {
        let (width, height) = area.dim_in_pixel();
        let left = Pos::new(HPos::Left, VPos::Center);
        let chars = |font_px: f64| round_u32(f64::from(width) / (font_px * 0.56)) as usize;
        let lines = [
            (title, em * 1.5, em * 1.25, theme.text()),
            (subtitle, em * 3.2, em, theme.faint()),
            (source, f64::from(height) - em * 0.9, em * 0.8, theme.faint()),
        ];
        for (words, y, font_px, colour) in lines {
            text(area, &shorten(words, chars(font_px)), (em, y), font_px, colour, left)?;
        }
        let (_, below) = area.split_vertically(round_u32(em * 4.4));
        let (inner, _) = below.split_vertically(round_u32(f64::from(height) - em * 6.2));
        Ok(inner)
    }
}

/// Something that can be drawn in any size.
pub(super) trait Picture {
    /// Its size.
    fn size(&self) -> Size;
    /// Its colours.
    fn theme(&self) -> Theme;
    /// Draws it at `times` its size.
    fn draw_on<B: DrawingBackend>(&self, area: &Area<B>, times: u32) -> Result<(), PlotError>
    where
        B::ErrorType: 'static;
}

/// Draws a picture.
///
/// # Errors
/// A [`PlotError`].
pub(super) fn render(picture: &impl Picture, format: Format) -> Result<Vec<u8>, PlotError> {
    if !font::register() {
        return Err(PlotError::Font);
    }
    let Size { width_px, height_px } = picture.size();
    match format {
        Format::Svg => {
            let mut text = String::new();
            paint(picture, SVGBackend::with_string(&mut text, (width_px, height_px)), 1)?;
            Ok(text.into_bytes())
        }
        Format::Png => {
            let (width, height) = (width_px * 2, height_px * 2);
            let RGBColor(red, green, blue) = picture.theme().ground();
            let mut pixels = [red, green, blue].repeat(width as usize * height as usize);
            paint(picture, BitMapBackend::with_buffer(&mut pixels, (width, height)), 2)?;
            Ok(png::encode(&png::halve(&pixels, width as usize), width_px, height_px)?)
        }
    }
}

fn paint<B: DrawingBackend>(picture: &impl Picture, backend: B, times: u32) -> Result<(), PlotError>
where
    B::ErrorType: 'static,
{
    let area = backend.into_drawing_area();
    area.fill(&picture.theme().ground())?;
    picture.draw_on(&area, times)?;
    area.present()?;
    Ok(())
}

/// Writes a text.
pub(super) fn text<B: DrawingBackend>(
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

/// What the colours mean: one row of entries, its middle at `at`.
pub(super) fn legend<B: DrawingBackend>(
    area: &Area<B>,
    entries: &[(String, RGBColor)],
    at: (f64, f64),
    font_px: f64,
    theme: Theme,
) -> Drawn<B> {
    let ems = |text: &str| to_f64(text.chars().count()) * 0.6 + 3.0;
    let whole_ems: f64 = entries.iter().map(|(text, _)| ems(text)).sum();
    let font_px = font_px.min(f64::from(area.dim_in_pixel().0) / whole_ems.max(1.0));
    let mut x = at.0 - whole_ems * font_px / 2.0 + font_px * 1.5;
    for (label, colour) in entries {
        area.draw(&Circle::new(pixel((x, at.1)), round_i32(font_px * 0.35), colour.filled()))?;
        text(
            area,
            label,
            (x + font_px * 0.75, at.1),
            font_px,
            theme.text(),
            Pos::new(HPos::Left, VPos::Center),
        )?;
        x += ems(label) * font_px;
    }
    Ok(())
}

pub(super) fn pixels(points: &[(f64, f64)]) -> Vec<(i32, i32)> {
    points.iter().copied().map(pixel).collect()
}

pub(super) fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    (round_i32(x), round_i32(y))
}

#[expect(clippy::cast_possible_truncation, reason = "coordinates of a picture; the cast saturates")]
pub(super) fn round_i32(value: f64) -> i32 {
    value.round() as i32
}

pub(super) fn round_u32(value: f64) -> u32 {
    round_i32(value).max(1).unsigned_abs()
}
