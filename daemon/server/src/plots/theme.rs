//! Colours.

use plotters::style::RGBColor;

/// On what ground a picture is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(super) const fn ground(self) -> RGBColor {
        match self {
            Self::Light => RGBColor(255, 255, 255),
            Self::Dark => RGBColor(17, 21, 28),
        }
    }

    pub(super) const fn text(self) -> RGBColor {
        match self {
            Self::Light => RGBColor(28, 33, 40),
            Self::Dark => RGBColor(230, 235, 241),
        }
    }

    pub(super) const fn faint(self) -> RGBColor {
        match self {
            Self::Light => RGBColor(100, 110, 123),
            Self::Dark => RGBColor(145, 156, 170),
        }
    }

    /// Lines behind a chart.
    pub(super) const fn grid(self) -> RGBColor {
        match self {
            Self::Light => RGBColor(228, 232, 237),
            Self::Dark => RGBColor(38, 45, 55),
        }
    }

    /// Marks what is degraded; no host has it.
    pub(super) const fn alarm(self) -> RGBColor {
        match self {
            Self::Light => RGBColor(207, 34, 46),
            Self::Dark => RGBColor(255, 98, 92),
        }
    }

    /// Colour of the host with this index; they come round again.
    pub(super) const fn host(self, index: usize) -> RGBColor {
        let (r, g, b) = match self {
            Self::Light => HOSTS_LIGHT[index % HOSTS_LIGHT.len()],
            Self::Dark => HOSTS_DARK[index % HOSTS_DARK.len()],
        };
        RGBColor(r, g, b)
    }

    /// Colour of a hop by the first word of its transport.
    pub(super) fn transport(self, transport: Option<&str>) -> RGBColor {
        let dark = self == Self::Dark;
        let (r, g, b) = match transport.and_then(|name| name.split('/').next()) {
            Some("NET") if dark => (255, 166, 87),
            Some("NET") => (191, 87, 0),
            Some("P2P") if dark => (110, 190, 255),
            Some("P2P") => (9, 105, 218),
            Some("SHM") if dark => (126, 214, 138),
            Some("SHM") => (26, 127, 55),
            _ => return self.faint(),
        };
        RGBColor(r, g, b)
    }
}

/// Told apart by the colour-blind too (after Okabe and Ito), without red.
const HOSTS_LIGHT: [(u8, u8, u8); 6] =
    [(0, 114, 178), (0, 158, 115), (146, 98, 189), (178, 128, 0), (60, 150, 200), (110, 119, 129)];
const HOSTS_DARK: [(u8, u8, u8); 6] =
    [(86, 156, 230), (64, 196, 150), (188, 148, 232), (226, 190, 80), (120, 210, 240), (150, 160, 172)];
