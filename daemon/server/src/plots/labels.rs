//! Where texts fit without covering each other.

use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::layout::to_f64;

/// The part of the picture that is taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    boxes: Vec<Rect>,
}

#[derive(Clone, Copy, Debug)]
struct Rect {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Taken {
    /// Takes the place of a dot.
    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64) {
        self.boxes.push(Rect { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius });
    }

    /// Takes the first of these places where the text covers nothing.
    pub(super) fn first_free(
        &mut self,
        text: &str,
        font_px: f64,
        places: impl IntoIterator<Item = ((f64, f64), Pos)>,
    ) -> Option<((f64, f64), Pos)> {
        let (at, pos, rect) = places
            .into_iter()
            .map(|(at, pos)| (at, pos, extent(text, font_px, at, &pos)))
            .find(|(.., rect)| self.boxes.iter().all(|other| !rect.overlaps(*other)))?;
        self.boxes.push(rect);
        Some((at, pos))
    }
}

impl Rect {
    fn overlaps(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// Text beside a circle grows away from its centre; `angle` is where it lies.
pub(super) fn anchor(angle: f64) -> Pos {
    let (x, y) = (angle.sin(), -angle.cos());
    let horizontal = match x {
        x if x > 0.2 => HPos::Left,
        x if x < -0.2 => HPos::Right,
        _ => HPos::Center,
    };
    let vertical = match y {
        y if y > 0.9 => VPos::Top,
        y if y < -0.9 => VPos::Bottom,
        _ => VPos::Center,
    };
    Pos::new(horizontal, vertical)
}

/// At most so many characters, the last of them an ellipsis if there were more.
pub(super) fn shorten(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max - 1).collect();
    format!("{kept}…")
}

fn extent(text: &str, font_px: f64, (x, y): (f64, f64), pos: &Pos) -> Rect {
    let width = to_f64(text.chars().count()) * font_px * CHAR_WIDTH;
    let left = match pos.h_pos {
        HPos::Left => x,
        HPos::Center => x - width / 2.0,
        HPos::Right => x - width,
    };
    let top = match pos.v_pos {
        VPos::Top => y,
        VPos::Center => y - font_px / 2.0,
        VPos::Bottom => y - font_px,
    };
    Rect { left, top, right: left + width, bottom: top + font_px }
}

/// Mean width of a character of DejaVu Sans, in ems.
const CHAR_WIDTH: f64 = 0.62;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_place_is_not_given_again() {
        let mut taken = Taken::default();
        let places = || (0..3).map(|row| ((0.0, f64::from(row) * 5.0), Pos::new(HPos::Left, VPos::Top)));
        assert_eq!(taken.first_free("abc", 10.0, places()).unwrap().0, (0.0, 0.0));
        assert_eq!(taken.first_free("abc", 10.0, places()).unwrap().0, (0.0, 10.0));
        assert!(taken.first_free("abc", 10.0, places()).is_none());
    }
}
