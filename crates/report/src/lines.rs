//! A chart with lines drawn over one another.

use std::fmt::Write;

use crate::marks::Marks;
use crate::page::Text;
use crate::ticks;

/// How wide and high a chart is that has the page to itself, and one of two beside one another.
const WHOLE: [f64; 2] = [800.0, 380.0];
const HALF: [f64; 2] = [480.0, 260.0];
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 52.0;
/// The most labels of an axis, but for the one where it begins.
const TICKS: u32 = 6;

/// One line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Name below the chart.
    pub name: String,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
    /// How far each point spreads upwards and downwards; empty: that is not shown.
    pub spread: Vec<f64>,
}

impl Line {
    /// x, lower and upper end of each point's spread.
    fn bars(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        let all = self.points.iter().zip(&self.spread).map(|((x, y), s)| (*x, y - s, y + s));
        all.filter(|(x, from, to)| [x, from, to].iter().all(|v| v.is_finite()))
    }
}

/// A chart whose vertical axis begins at zero, with what its lines are; without points, that alone. `marks` are events
/// of a horizontal axis that is virtual time.
pub(crate) fn chart(title: &str, x: &str, y: &str, lines: &[Line], marks: &Marks) -> String {
    let label = format!("{title}; the table below has all values");
    drawn(WHOLE, &label, [x, y], lines, marks)
}

/// Likewise, of half the width.
pub(crate) fn half_chart(title: &str, x: &str, y: &str, lines: &[Line], marks: &Marks) -> String {
    format!("<div>{}</div>\n", drawn(HALF, title, [x, y], lines, marks))
}

fn drawn([width, height]: [f64; 2], label: &str, [x, y]: [&str; 2], lines: &[Line], marks: &Marks) -> String {
    let all = || lines.iter().flat_map(|l| l.points.iter().copied()).filter(|(x, y)| x.is_finite() && y.is_finite());
    let low = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let highest = lines.iter().flat_map(Line::bars).map(|(_, _, to)| to);
    let top = all().map(|p| p.1).chain(highest).fold(1e-300, f64::max) * 1.05;
    let (bottom, right) = (height - BOTTOM, width - RIGHT);
    let at_x = |v: f64| LEFT + (v - low) / (high - low).max(1e-300) * (right - LEFT);
    let at_y = |v: f64| bottom - v / top * (bottom - TOP);
    let mut body = String::new();
    let mut keys = String::new();
    if low <= high {
        let _ = writeln!(
            body,
            "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
            Text(label)
        );
        for value in ticks::round(0.0, top, TICKS) {
            let _ = writeln!(
                body,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
                 <text x=\"{1:.1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
                at_y(value),
                LEFT - 8.0,
                at_y(value) + 4.5,
                ticks::label(value),
            );
        }
        for across in ticks::round(low, high, TICKS) {
            let _ = writeln!(
                body,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                at_x(across),
                bottom + 18.0,
                ticks::label(across),
            );
        }
        body += &marks.drawn(at_x, [low, high], [TOP, bottom]);
        for (index, line) in lines.iter().enumerate() {
            let points = line.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let points: Vec<_> = points.map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y))).collect();
            let _ = writeln!(body, "<polyline class=\"line s{}\" points=\"{}\"/>", index % 6, points.join(" "));
            for (x, from, to) in line.bars() {
                // Side by side, so that those of two lines can be told apart.
                let x = at_x(x) + 3.0 * index as f64;
                let bar = format!("M{x:.1} {:.1}V{:.1}", at_y(from.max(0.0)), at_y(to));
                let _ = writeln!(body, "<path class=\"line s{}\" d=\"{bar}\"/>", index % 6);
            }
            let _ = writeln!(
                keys,
                "<li><svg viewBox=\"0 0 40 12\" aria-hidden=\"true\">\
                 <path class=\"line s{}\" d=\"M0 6H40\"/></svg>{}</li>",
                index % 6,
                Text(&line.name)
            );
        }
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} (up: {})</text>\n</svg>",
            (LEFT + right) / 2.0,
            bottom + 40.0,
            Text(x),
            Text(y)
        );
    }
    body + &format!("<ul class=\"legend\">{keys}</ul>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_inside_the_chart() {
        let line = |name: &str, k: f64| Line {
            name: name.into(),
            points: (0..5).map(|i| (i.into(), k * f64::from(i))).collect(),
            spread: vec![k; 5],
        };
        let page = chart("a < b", "s", "Mbit", &[line("one", 1.0), line("two", 20.0)], &Marks::default());
        assert_eq!(page.matches("<polyline").count(), 2);
        // Five bars of each line, and a mark in the legend.
        assert_eq!(page.matches("<path class=\"line s1\"").count(), 6);
        assert!(page.contains("a &lt; b") && !page.contains("NaN"));
        assert!(!chart("none", "s", "B", &[], &Marks::default()).contains("<svg"));
    }
}
