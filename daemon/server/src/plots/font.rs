//! The font that every picture uses: carried along, for a server has none.

use std::sync::OnceLock;

use plotters::style::{FontStyle, register_font};

/// Makes the font known to plotters; without it every text fails.
pub(super) fn register() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, DEJAVU_SANS).is_ok())
}

/// Name under which it is registered; in an SVG the viewer's own sans-serif stands in.
pub(super) const FAMILY: &str = "sans-serif";
/// DejaVu Sans 2.37; its licence lies beside it.
static DEJAVU_SANS: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");
