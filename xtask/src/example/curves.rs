//! Curves of losses over steps, as a picture: on top of each other, and below how far each is from the first one.

use std::fmt::Write as _;

/// Of the picture, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 580.0;
/// Room for the labels.
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 16.0;
/// Upper and lower edges of the two charts.
const LOSSES: (f64, f64) = (48.0, 348.0);
const DISTANCES: (f64, f64) = (404.0, 524.0);
/// Lines between two marked powers of ten, at most, before only every other one is marked.
const MOST_MARKS: f64 = 6.0;
/// The first curves are on top of each other: the wider is drawn first, so that all are seen. What lies behind them all is
/// last here.
const STROKES: [Stroke; 4] = [
    Stroke { class: "first", width: 9.0 },
    Stroke { class: "second", width: 4.5 },
    Stroke { class: "third", width: 1.5 },
    Stroke { class: "behind", width: 1.2 },
];
/// The page's colours, on its grounds: a picture in a document follows the reader's choice by itself.
const STYLE: &str = "\
<style>
text { fill: #1c2128 } .faint { fill: #646e7b } .ground { fill: #fff } .grid { stroke: #e4e8ed }
.first { stroke: #b6d3f5 } .second { stroke: #2f6db5 } .third { stroke: #d96c00 } .behind { stroke: #7a8594 }
polyline, .key { fill: none; stroke-linejoin: round }
@media (prefers-color-scheme: dark) {
text { fill: #e6ebf1 } .faint { fill: #919caa } .ground { fill: #11151c } .grid { stroke: #262d37 }
.first { stroke: #24476f } .second { stroke: #6aa9f0 } .third { stroke: #ffa657 } .behind { stroke: #7a8594 }
}
</style>
";

/// How a curve is drawn.
struct Stroke {
    class: &'static str,
    width: f64,
}

/// Curves with their names, on logarithmic scales; at most four.
pub(super) fn svg(title: &str, curves: &[(&str, &[f64])]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n{STYLE}\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"15\">{title}</text>\n"
    );
    Chart::of(LOSSES, curves).draw(&mut svg, "loss, by step", curves);
    let distances = distances(curves);
    let distances: Vec<_> = distances.iter().map(|(name, distances)| (*name, distances.as_slice())).collect();
    let first = curves.first().map_or("the first", |(name, _)| name);
    let what = format!("how far that is from {first}; along the lower edge: not at all, the same bits");
    Chart::of(DISTANCES, &distances).with_zero().draw(&mut svg, &what, &distances);
    legend(&mut svg, curves);
    svg + "</svg>\n"
}

/// By curve and step: from the first curve. Nothing for that one.
fn distances<'a>(curves: &[(&'a str, &[f64])]) -> Vec<(&'a str, Vec<f64>)> {
    let first = curves.first().map_or(&[][..], |(_, losses)| losses);
    let of = |losses: &[f64]| losses.iter().zip(first).map(|(loss, other)| (loss - other).abs()).collect();
    let by_curve = curves.iter().enumerate();
    by_curve
        .map(|(index, (name, losses))| (*name, if index == 0 { Vec::new() } else { of(losses) }))
        .collect()
}

/// A place in the picture and what its axes reach.
struct Chart {
    top: f64,
    bottom: f64,
    steps: usize,
    /// Powers of ten.
    lowest: f64,
    highest: f64,
    /// Whether the lower edge is zero.
    has_zero: bool,
}

impl Chart {
    fn of((top, bottom): (f64, f64), curves: &[(&str, &[f64])]) -> Self {
        let values =
            || curves.iter().flat_map(|(_, values)| values.iter().copied()).filter(|value| *value > 0.0);
        let lowest = values().fold(f64::INFINITY, f64::min).log10().floor();
        let highest = values().fold(0.0, f64::max).log10().ceil();
        let steps = curves.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
        let is_known = lowest.is_finite() && highest > lowest;
        let (lowest, highest) = if is_known { (lowest, highest) } else { (-1.0, 1.0) };
        Self { top, bottom, steps, lowest, highest, has_zero: false }
    }

    /// With room for zero, and for its label, below the smallest value.
    fn with_zero(self) -> Self {
        Self { lowest: self.lowest - 2.0, has_zero: true, ..self }
    }

    fn x(&self, step: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a number of steps")]
        let share = step as f64 / self.steps.saturating_sub(1).max(1) as f64;
        LEFT + share * (RIGHT - LEFT)
    }

    /// Of a power of ten.
    fn y(&self, exponent: f64) -> f64 {
        let share = (self.highest - exponent) / (self.highest - self.lowest);
        self.top + share * (self.bottom - self.top)
    }

    /// A value that is no number, or not above zero, stands at the bottom.
    fn point(&self, step: usize, value: f64) -> String {
        let exponent = if value > 0.0 { value.log10() } else { self.lowest };
        format!("{:.1},{:.1}", self.x(step), self.y(exponent))
    }

    fn draw(&self, svg: &mut String, what: &str, curves: &[(&str, &[f64])]) {
        self.scales(svg, what);
        let mut drawn: Vec<_> = curves.iter().zip(STROKES).collect();
        // What lies behind comes first.
        let is_one_behind = drawn.len() == STROKES.len();
        drawn.rotate_right(usize::from(is_one_behind));
        for ((name, values), Stroke { class, width }) in drawn {
            let points = values.iter().enumerate().map(|(step, &value)| self.point(step, value));
            let points = points.collect::<Vec<_>>().join(" ");
            if !points.is_empty() {
                let _ = writeln!(
                    svg,
                    "<polyline class=\"{class}\" stroke-width=\"{width}\" points=\"{points}\"><title>{name}</title></polyline>"
                );
            }
        }
    }

    fn scales(&self, svg: &mut String, what: &str) {
        let stride = if self.highest - self.lowest > MOST_MARKS { 2.0 } else { 1.0 };
        let mut exponent = self.highest;
        while exponent > self.lowest {
            self.mark(svg, exponent, &power(exponent));
            exponent -= stride;
        }
        let lowest = if self.has_zero { "0".to_owned() } else { power(self.lowest) };
        self.mark(svg, self.lowest, &lowest);
        let last = self.steps.saturating_sub(1);
        for step in [0, last / 2, last] {
            let (x, y) = (self.x(step), self.bottom + 18.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{step}</text>");
        }
        let y = self.bottom + 36.0;
        let _ = writeln!(svg, "<text class=\"faint\" x=\"{LEFT}\" y=\"{y:.1}\">{what}</text>");
    }

    fn mark(&self, svg: &mut String, exponent: f64, label: &str) {
        let (y, x, base) = (self.y(exponent), LEFT - 8.0, self.y(exponent) + 4.0);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/><text x=\"{x}\" y=\"{base:.1}\" text-anchor=\"end\">{label}</text>"
        );
    }
}

fn power(exponent: f64) -> String {
    if exponent < -3.0 { format!("1e{exponent}") } else { 10_f64.powf(exponent).to_string() }
}

fn legend(svg: &mut String, curves: &[(&str, &[f64])]) {
    let mut y = LOSSES.0 + 16.0;
    for ((name, losses), Stroke { class, width }) in curves.iter().zip(STROKES) {
        let (line, text, base) = (RIGHT - 250.0, RIGHT - 212.0, y + 4.0);
        let last = losses.last().copied().unwrap_or(f64::NAN);
        let _ = writeln!(
            svg,
            "<path class=\"key {class}\" d=\"M{line} {y}h30\" stroke-width=\"{width}\"/>\
             <text x=\"{text}\" y=\"{base}\">{name}, the last {last:.6}</text>"
        );
        y += 20.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_drawn_from_edge_to_edge() {
        let picture = svg("Losses", &[("one", &[1.0, 0.1]), ("other", &[1.0, 0.01])]);
        assert!(picture.contains("points=\"64.0,48.0 744.0,198.0\""), "{picture}");
        assert!(picture.contains("points=\"64.0,48.0 744.0,348.0\""), "{picture}");
    }

    #[test]
    fn what_is_the_same_as_the_first_curve_lies_along_the_lower_edge_of_the_distances() {
        let picture = svg("Losses", &[("one", &[1.0, 0.5]), ("same", &[1.0, 0.5]), ("other", &[1.0, 0.25])]);
        assert!(picture.contains("points=\"64.0,524.0 744.0,524.0\"><title>same"), "{picture}");
        assert!(picture.contains("the lower edge"), "{picture}");
        assert_eq!(picture.matches("<polyline").count(), 5, "three losses, two distances");
    }

    #[test]
    fn the_last_of_four_curves_lies_behind_the_others() {
        let curves = ["one", "two", "three", "four"].map(|name| (name, &[1.0, 0.5][..]));
        let picture = svg("Losses", &curves);
        assert!(picture.find("<title>four").unwrap() < picture.find("<title>one").unwrap());
    }

    #[test]
    fn losses_that_are_no_numbers_are_drawn_at_the_bottom() {
        assert!(svg("", &[("one", &[f64::NAN, 0.0])]).contains("points=\"64.0,348.0 744.0,348.0\""));
        assert!(svg("", &[]).ends_with("</svg>\n"));
    }
}
