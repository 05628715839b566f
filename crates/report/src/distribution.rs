//! Distribution functions drawn over one another.

use std::fmt::Write;

use fidelity::statistics::quantile;
use record::Samples;

use crate::numbers;
use crate::page::Text;
use crate::ticks;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 52.0;
/// Points per curve: finer than a screen shows.
const POINTS: usize = 500;
/// The axis ends here, because a single straggler would squeeze everything else to the left.
const SHOWN: f64 = 0.999;
/// Above this ratio of the 99th to the 25th percentile a linear axis hides the lower half.
const SPREAD_FOR_LOG: f64 = 20.0;

/// Horizontal positions of values.
struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    fn over(curves: &[(String, Samples)]) -> Axis {
        let all = curves.iter().flat_map(|(_, s)| s.sorted().iter().copied()).collect();
        let all = Samples::new(all).expect("samples are finite");
        let of = |p| quantile(&all, p).unwrap_or(0.0);
        let low = of(0.0);
        let high = curves.iter().filter_map(|(_, s)| quantile(s, SHOWN)).fold(f64::MIN, f64::max);
        let log = low > 0.0 && of(0.99) / of(0.25) > SPREAD_FOR_LOG;
        let spread = high - low;
        match log {
            true => Axis { low, high: high.max(low * 1.01), log },
            // Close to zero, start there: lengths can then be compared.
            false if low >= 0.0 && low < spread => Axis { low: 0.0, high: high.max(1e-300), log },
            // All samples alike: show some room on both sides.
            false if spread <= low.abs() * 1e-9 => {
                let room = if low == 0.0 { 1.0 } else { low.abs() * 0.01 };
                Axis { low: low - room, high: low + room, log }
            }
            false => Axis { low: low - 0.05 * spread, high: high + 0.05 * spread, log },
        }
    }

    fn x(&self, value: f64) -> f64 {
        let at = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        LEFT + at.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    /// Round values: 1, 2 and 5 times powers of ten.
    fn ticks(&self) -> Vec<f64> {
        let slack = (self.high - self.low) * 1e-9;
        let inside = |v: &f64| *v >= self.low - slack && *v <= self.high + slack;
        if self.log {
            let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
            let steps: &[f64] = match self.high / self.low {
                r if r > 1e4 => &[1.0],
                r if r > 1e2 => &[1.0, 3.0],
                _ => &[1.0, 2.0, 5.0],
            };
            return decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d))).filter(inside).collect();
        }
        ticks::round(self.low, self.high, 7)
    }
}

/// A figure with one curve per entry of `curves`: what part of the samples is at most x.
pub(crate) fn figure(title: &str, unit: &str, curves: &[(String, Samples)]) -> String {
    let curves: Vec<_> = curves.iter().filter(|(_, s)| !s.sorted().is_empty()).cloned().collect();
    if curves.is_empty() {
        return String::new();
    }
    let axis = Axis::over(&curves);
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    let y = |p: f64| bottom - p * (bottom - TOP);
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        Text(&description(title, unit, &curves))
    );
    for percent in [0, 25, 50, 75, 90, 100] {
        let at = y(f64::from(percent) / 100.0);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{percent} %</text>",
            LEFT - 8.0,
            at + 4.5
        );
    }
    for tick in axis.ticks() {
        let at = axis.x(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            ticks::label(tick)
        );
    }
    let scale = if axis.log { ", logarithmic" } else { "" };
    let _ = writeln!(
        svg,
        "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} ({}{scale})</text>",
        (LEFT + right) / 2.0,
        bottom + 40.0,
        Text(title),
        Text(unit)
    );
    // The first curve, what the others are held against, is broader and lies below: one that follows it stays visible.
    for (index, (_, samples)) in curves.iter().enumerate() {
        let _ = writeln!(svg, "<path class=\"line s{}\" d=\"{}\"/>", index % 6, path(samples, &axis, y));
    }
    svg += "</svg>\n";
    let mut legend = String::new();
    for (index, (label, samples)) in curves.iter().enumerate() {
        let _ = writeln!(
            legend,
            "<li><svg viewBox=\"0 0 40 12\" aria-hidden=\"true\"><path class=\"line s{}\" d=\"M0 6H40\"/></svg>{} \
             <span class=\"quiet\">(n = {})</span></li>",
            index % 6,
            Text(label),
            samples.sorted().len()
        );
    }
    format!(
        "<figure>\n<ul class=\"legend\">\n{legend}</ul>\n{svg}<figcaption>\
         Part of the samples that is at most x. The axis ends at the \
         largest 99.9th percentile.</figcaption>\n</figure>\n"
    )
}

/// The empirical distribution function as steps; of many samples, at evenly spaced ranks.
fn path(samples: &Samples, axis: &Axis, y: impl Fn(f64) -> f64) -> String {
    let sorted = samples.sorted();
    let n = sorted.len();
    let mut d = format!("M{LEFT} {:.1}", y(0.0));
    let ranks: Vec<usize> = if n <= POINTS {
        (0..n).collect()
    } else {
        let mut ranks: Vec<usize> = (0..POINTS).map(|i| i * (n - 1) / (POINTS - 1)).collect();
        // The last per cent, where curves part, in as much detail again.
        ranks.extend((0..POINTS / 5).map(|i| n - 1 - i * (n / 100) / (POINTS / 5)));
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    };
    for rank in ranks {
        if sorted[rank] > axis.high {
            break;
        }
        let _ = write!(d, "H{:.1}V{:.1}", axis.x(sorted[rank]), y((rank + 1) as f64 / n as f64));
    }
    let _ = write!(d, "H{:.1}", WIDTH - RIGHT);
    d
}

fn description(title: &str, unit: &str, curves: &[(String, Samples)]) -> String {
    let medians =
        curves.iter().map(|(label, s)| format!("{label} {}", numbers::figure(quantile(s, 0.5).unwrap_or(0.0))));
    format!("Distribution of {title}; medians in {unit}: {}", medians.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = f64>) -> Samples {
        Samples::new(values.into_iter().collect()).unwrap()
    }

    fn axis(values: impl IntoIterator<Item = f64>) -> Axis {
        Axis::over(&[("a".into(), samples(values))])
    }

    #[test]
    fn the_axis_suits_the_spread() {
        let narrow = axis((1..=1000).map(f64::from));
        assert!(!axis((100..=1000).map(f64::from)).log);
        assert_eq!(narrow.low, 0.0, "near zero it starts at zero");
        let wide = axis((0..1000).map(|i| 1.01f64.powi(i)));
        assert!(wide.log && wide.x(wide.low) == LEFT && (wide.x(wide.high) - (WIDTH - RIGHT)).abs() < 1e-9);
        assert!(!axis([-5.0, 0.0, 1000.0]).log, "no logarithm of zero");
        let far = axis([1000.0, 1001.0, 1002.0]);
        assert!(far.low > 900.0, "far from zero it starts at the samples");
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        for values in
            [vec![0.013, 0.2], vec![3.0, 97.0], vec![1e-7, 3e-7], vec![0.0, 1e9], vec![-3.0, 4.0], vec![5.0], vec![0.0]]
        {
            let axis = axis(values.clone());
            let ticks = axis.ticks();
            assert!((2..=13).contains(&ticks.len()), "{values:?}: {ticks:?}");
            assert!(ticks.iter().all(|t| axis.x(*t).is_finite()), "{values:?}: {ticks:?}");
        }
        assert_eq!(axis([10.0, 97.0]).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let decades = axis((0..=600).map(|i| 10f64.powf(f64::from(i) / 100.0)));
        assert!(decades.ticks().contains(&1000.0), "{:?}", decades.ticks());
    }

    #[test]
    fn a_curve_climbs_from_none_to_all_at_the_samples() {
        let two = samples([10.0, 20.0]);
        let axis = Axis { low: 0.0, high: 20.0, log: false };
        let right = WIDTH - RIGHT;
        let half = (LEFT + right) / 2.0;
        assert_eq!(
            path(&two, &axis, |p| 100.0 - 100.0 * p),
            format!("M{LEFT} 100.0H{half:.1}V50.0H{right:.1}V0.0H{right:.1}")
        );
        let many = samples((0..100_000).map(f64::from));
        let axis = Axis::over(&[("a".into(), many.clone())]);
        assert!(path(&many, &axis, |p| p).matches('V').count() < 1000, "a page is not a copy of the samples");
    }

    #[test]
    fn without_samples_there_is_no_figure() {
        assert_eq!(figure("x", "ms", &[("a".into(), samples([]))]), "");
        assert!(figure("x", "ms", &[("a".into(), samples([])), ("b".into(), samples([1.0]))]).contains("n = 1)"));
    }
}
