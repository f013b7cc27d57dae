//! Pictures of the model, drawn by plotters: no browser, no system fonts.

mod canvas;
mod channels;
mod font;
mod labels;
mod layout;
mod over_time;
mod png;
mod ring;
mod rings;
mod scale;
mod theme;

pub use canvas::{PlotError, Size};
pub use channels::ChannelsPlot;
pub use over_time::{PlotLine, TimePlot};
pub use ring::RingPlot;
pub use rings::RingsPlot;
pub use scale::Unit;
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

    /// How names of its files end.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }
}
