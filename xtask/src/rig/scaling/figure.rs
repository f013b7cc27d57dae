//! The picture: efficiency by hosts, with one rank a host and with two. Lines are formulas, circles what was measured, from
//! the least to the most of the rounds, and crosses what was simulated.

use std::fmt::Write as _;

use super::measure::Spread;
use super::options::Mode;
use super::simulate::{MODE, MOST_HOSTS};
use super::table::{Column, Row, Table, columns};

/// Of the picture, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 640.0;
/// Room for the labels.
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 24.0;
/// Of the two charts upper and lower edges, what each shows, and the class of each line in the order of [`columns`].
const CHARTS: [(f64, f64, &str, [&str; 3]); 2] = [
    (72.0, 292.0, "one rank on each host", ["ring", "half", "most"]),
    (368.0, 588.0, "two ranks on each host", ["ring", "inner", "half"]),
];
/// Sent neither early nor together.
const PLAIN: Mode = Mode { overlaps: false, fuses: false };
/// A picture in a document follows the reader's choice of colours by itself.
const STYLE: &str = "\
<style>
text { fill: #1c2128 } .faint { fill: #646e7b } .ground { fill: #fff } .grid { stroke: #e4e8ed }
.ring { stroke: #d96c00 } .inner { stroke: #2e8b57 } .half { stroke: #7a52b3 } .most { stroke: #2f6db5 }
.dot { fill: #fff }
polyline, .key { fill: none; stroke-linejoin: round; stroke-width: 2 }
.plain { stroke-width: 1.5; stroke-dasharray: 3 4 } .mark { stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6ebf1 } .faint { fill: #919caa } .ground { fill: #11151c } .grid { stroke: #262d37 }
.ring { stroke: #ffa657 } .inner { stroke: #5fc98b } .half { stroke: #b794f6 } .most { stroke: #6aa9f0 }
.dot { fill: #11151c }
}
</style>
";

/// The picture of a table.
pub(super) fn svg(table: &Table) -> String {
    let heading = table.heading();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<title>Efficiency by hosts</title>\n{STYLE}\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"15\">Efficiency of a training step, by hosts</text>\n\
         <text class=\"faint\" x=\"{LEFT}\" y=\"46\">{heading}</text>\n"
    );
    let mut left = &columns()[..];
    for (top, bottom, what, classes) in CHARTS {
        let (columns, behind) = left.split_at(classes.len().min(left.len()));
        left = behind;
        Chart { top, bottom, classes, table }.draw(&mut svg, what, columns);
    }
    svg + "</svg>\n"
}

/// A place in the picture, and what is shown there.
struct Chart<'a> {
    top: f64,
    bottom: f64,
    classes: [&'static str; 3],
    table: &'a Table,
}

impl Chart<'_> {
    fn draw(&self, svg: &mut String, what: &str, columns: &[Column]) {
        self.scales(svg, what);
        for (index, (column, class)) in columns.iter().zip(self.classes).enumerate() {
            let of_mode = |mode: Mode| {
                let rows = self.table.rows().iter();
                rows.filter(move |row| row.case.mode == mode && (column.is_of(row) || is_alone(column, row)))
            };
            self.line(svg, &format!("{class} plain"), &of_mode(PLAIN).collect::<Vec<_>>(), column.name);
            let rows: Vec<&Row> = of_mode(MODE).collect();
            self.line(svg, class, &rows, column.name);
            rows.iter().for_each(|row| self.marks(svg, class, row));
            self.key(svg, index, class, column.name);
        }
        self.meanings(svg, columns.len());
    }

    fn line(&self, svg: &mut String, class: &str, rows: &[&Row], name: &str) {
        let points =
            rows.iter().map(|row| format!("{:.1},{:.1}", x(row.case.shape.hosts), self.y(row.predicted_s)));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ =
            writeln!(svg, "<polyline class=\"{class}\" points=\"{points}\"><title>{name}</title></polyline>");
    }

    /// What was measured, and simulated.
    fn marks(&self, svg: &mut String, class: &str, row: &Row) {
        let x = x(row.case.shape.hosts);
        if let Some(simulated_s) = row.simulated_s {
            let (left, top) = (x - 3.5, self.y(simulated_s) - 3.5);
            let _ = writeln!(svg, "<path class=\"{class} mark\" d=\"M{left:.1} {top:.1}l7 7m-7 0l7 -7\"/>");
        }
        if let Some(Spread { median_s, least_s, most_s }) = row.measured {
            let (least, most, middle) = (self.y(most_s), self.y(least_s), self.y(median_s));
            let _ = writeln!(
                svg,
                "<path class=\"{class} mark\" d=\"M{x:.1} {most:.1}V{least:.1}\"/>\
                 <circle class=\"{class} mark dot\" cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"4\"/>"
            );
        }
    }

    fn scales(&self, svg: &mut String, what: &str) {
        for percent in [0_u8, 25, 50, 75, 100] {
            let y = self.of_share(f64::from(percent) / 100.0);
            let (end, base) = (LEFT - 8.0, y + 4.0);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text x=\"{end}\" y=\"{base:.1}\" text-anchor=\"end\">{percent} %</text>"
            );
        }
        for hosts in super::options::powers_of_two(MOST_HOSTS) {
            let (x, y) = (x(hosts), self.bottom + 18.0);
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{hosts}</text>");
        }
        let y = self.bottom + 36.0;
        let _ = writeln!(svg, "<text class=\"faint\" x=\"{LEFT}\" y=\"{y:.1}\">hosts, {what}</text>");
    }

    /// Along the left of the lower edge, where no curve comes.
    fn key(&self, svg: &mut String, index: usize, class: &str, name: &str) {
        let y = self.bottom - 76.0 + 18.0 * real(index);
        let (line, text, base) = (LEFT + 12.0, LEFT + 48.0, y + 4.0);
        let _ = writeln!(
            svg,
            "<path class=\"key {class}\" d=\"M{line} {y}h28\"/><text x=\"{text}\" y=\"{base}\">{name}</text>"
        );
    }

    fn meanings(&self, svg: &mut String, n_keys: usize) {
        let (x, y) = (LEFT + 12.0, self.bottom - 72.0 + 18.0 * real(n_keys));
        let _ = writeln!(
            svg,
            "<text class=\"faint\" x=\"{x}\" y=\"{y}\">dashed: without overlap and fusion · o measured · x simulated</text>"
        );
    }

    fn y(&self, step_s: f64) -> f64 {
        self.of_share(self.table.efficiency(step_s))
    }

    fn of_share(&self, share: f64) -> f64 {
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

/// One host begins every line: there is nothing that helpers could do.
fn is_alone(column: &Column, row: &Row) -> bool {
    row.case.shape.hosts == 1 && row.case.shape.ranks_per_host == column.ranks_per_host
}

fn x(hosts: usize) -> f64 {
    LEFT + 16.0 + real(hosts).log2() / real(MOST_HOSTS).log2() * (RIGHT - LEFT - 32.0)
}

#[expect(clippy::cast_precision_loss, reason = "hosts, and lines of a key")]
fn real(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::super::formulas::{Shape, Way};
    use super::super::measure::Case;
    use super::super::options::Options;
    use super::*;

    fn picture(measured: &[(Case, Spread)], simulated: &[(Case, f64)]) -> String {
        let plan = Options::default().plan(false, None);
        svg(&Table::new(&plan, plan.assumed(), None, measured, simulated))
    }

    #[test]
    fn every_way_has_a_line_for_both_modes_and_what_was_not_measured_has_no_mark() {
        let picture = picture(&[], &[]);
        assert_eq!(picture.matches("<polyline").count(), 12);
        assert_eq!(picture.matches("plain\" points").count(), 6);
        assert!(!picture.contains("<circle") && !picture.contains("l7 7m"));
        // One host is at 100 %, at the left of the upper edge.
        assert!(picture.contains("points=\"72.0,72.0 "), "{picture}");
    }

    #[test]
    fn what_was_measured_and_simulated_stands_at_its_hosts_and_its_efficiency() {
        let case = Case { way: Way::Ring, shape: Shape { hosts: 32, ranks_per_host: 1 }, mode: MODE };
        // Half of the compute of 0.6 s.
        let spread = Spread { median_s: 1.2, least_s: 1.0, most_s: 2.4 };
        let picture = picture(&[(case, spread)], &[(case, 1.2)]);
        assert!(picture.contains("cx=\"396.0\" cy=\"182.0\""), "{picture}");
        assert!(picture.contains("d=\"M396.0 160.0V237.0\""), "{picture}");
        assert!(picture.contains("d=\"M392.5 178.5l7 7m-7 0l7 -7\""), "{picture}");
        assert_eq!(picture.matches("<circle").count(), 1);
    }
}
