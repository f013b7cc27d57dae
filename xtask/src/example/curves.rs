//! Curves of losses over steps, as a picture.

use std::fmt::Write as _;

/// Of the picture, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Room for the labels.
const LEFT: f64 = 56.0;
const BELOW: f64 = 44.0;
const MARGIN: f64 = 16.0;
/// Line and colour of each curve. The first is the widest, so that curves on top of each other are all seen.
const STROKES: [(&str, &str); 3] = [("8", "#bcd4f0"), ("4", "#2f6db5"), ("1.4", "#e07b00")];

/// Curves with their names, on a logarithmic scale; at most three.
pub(super) fn svg(curves: &[(&str, &[f64])]) -> String {
    let frame = Frame::of(curves);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <title>Loss by step</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    frame.scales(&mut svg);
    for ((name, losses), (width, colour)) in curves.iter().zip(STROKES) {
        let points: Vec<String> =
            losses.iter().enumerate().map(|(step, &loss)| frame.point(step, loss)).collect();
        let points = points.join(" ");
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"{points}\"><title>{name}</title></polyline>"
        );
    }
    legend(&mut svg, curves);
    svg + "</svg>\n"
}

/// What the axes reach.
struct Frame {
    steps: usize,
    /// Powers of ten.
    lowest: f64,
    highest: f64,
}

impl Frame {
    fn of(curves: &[(&str, &[f64])]) -> Self {
        let losses =
            || curves.iter().flat_map(|(_, losses)| losses.iter().copied()).filter(|loss| *loss > 0.0);
        let lowest = losses().fold(f64::INFINITY, f64::min).log10().floor();
        let highest = losses().fold(0.0, f64::max).log10().ceil();
        let steps = curves.iter().map(|(_, losses)| losses.len()).max().unwrap_or(0);
        let is_known = lowest.is_finite() && highest > lowest;
        let (lowest, highest) = if is_known { (lowest, highest) } else { (-1.0, 1.0) };
        Self { steps, lowest, highest }
    }

    fn x(&self, step: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a number of steps")]
        let share = step as f64 / self.steps.saturating_sub(1).max(1) as f64;
        LEFT + share * (WIDTH - LEFT - MARGIN)
    }

    /// Of a power of ten.
    fn y(&self, exponent: f64) -> f64 {
        let share = (self.highest - exponent) / (self.highest - self.lowest);
        MARGIN + share * (HEIGHT - MARGIN - BELOW)
    }

    /// A loss that is no number, or not above zero, stands at the bottom.
    fn point(&self, step: usize, loss: f64) -> String {
        let exponent = if loss > 0.0 { loss.log10() } else { self.lowest };
        format!("{:.1},{:.1}", self.x(step), self.y(exponent))
    }

    fn scales(&self, svg: &mut String) {
        let mut exponent = self.lowest;
        while exponent <= self.highest {
            let y = self.y(exponent);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - MARGIN,
                LEFT - 8.0,
                y + 4.0,
                10_f64.powf(exponent)
            );
            exponent += 1.0;
        }
        let last = self.steps.saturating_sub(1);
        for step in [0, last / 2, last] {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{step}</text>",
                self.x(step),
                HEIGHT - BELOW + 18.0
            );
        }
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">loss, by step</text>", HEIGHT - 8.0);
    }
}

fn legend(svg: &mut String, curves: &[(&str, &[f64])]) {
    let mut y = MARGIN + 16.0;
    for ((name, _), (width, colour)) in curves.iter().zip(STROKES) {
        let (line, text) = (WIDTH - 150.0, WIDTH - 112.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{line} {y}h30\" stroke=\"{colour}\" stroke-width=\"{width}\"/><text x=\"{text}\" y=\"{}\">{name}</text>",
            y + 4.0
        );
        y += 20.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_drawn_from_edge_to_edge() {
        let picture = svg(&[("one", &[1.0, 0.1]), ("other", &[1.0, 0.01])]);
        assert_eq!(picture.matches("<polyline").count(), 2, "{picture}");
        assert!(picture.contains("points=\"56.0,16.0 744.0,196.0\""), "{picture}");
        assert!(picture.contains("points=\"56.0,16.0 744.0,376.0\""), "{picture}");
    }

    #[test]
    fn losses_that_are_no_numbers_are_drawn_at_the_bottom() {
        assert!(svg(&[("one", &[f64::NAN, 0.0])]).contains("points=\"56.0,376.0 744.0,376.0\""));
        assert!(svg(&[]).ends_with("</svg>\n"));
    }
}
