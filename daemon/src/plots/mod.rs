//! Pictures of the model, drawn by plotters: no browser, no system fonts.

mod font;
mod labels;
mod layout;
mod png;
mod ring;
mod theme;

pub use ring::{PlotError, RingPlot};
pub use theme::Theme;

/// What a picture is made into.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names are the formats")]
pub enum Format {
    Svg,
    Png,
}

impl Format {
    /// Its MIME type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Svg => "image/svg+xml",
            Self::Png => "image/png",
        }
    }
}
