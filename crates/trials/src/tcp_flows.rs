//! `diorama-trials tcp-dilation figure5` and `figure10`: what many connections get of one bottleneck, under TDF 1 and
//! others.
//!
//! Figures 5 and 10 of "To Infinity and Beyond: Time-Warped Network Emulation" (NSDI 2006).

use std::fmt::Write;
use std::fs;
use std::path::Path;

use record::{RunDir, RunResult, Variant};
use report::{Line, lines_page};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;
use crate::suspects::Suspects;

/// Arguments of both.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How often each point is measured under TDF 1, whose runs differ most; the other TDFs run once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The TDFs beside 1
    #[arg(long, value_delimiter = ',', default_value = "10")]
    tdf: Vec<u32>,
    /// Only these values of the horizontal axis
    #[arg(long, value_delimiter = ',')]
    at: Vec<u32>,
}

/// A figure: something is varied, and groups of connections share what there is.
pub struct Figure {
    /// The verb, and the name of the directory of its results.
    name: &'static str,
    title: &'static str,
    /// In the folder of the experiment.
    file: &'static str,
    /// What is varied, with its unit.
    axis: &'static str,
    at: &'static [u32],
    /// What makes the experiment have one of these values.
    set: fn(u32) -> (&'static str, String),
    /// Metrics, each of which has a sample for every connection, in Mbit/s; and what is said of them.
    groups: &'static [(&'static str, &'static str)],
    /// The unit of what is shown, and how many Mbit/s of a connection are one.
    unit: (&'static str, f64),
}

/// Three groups of twenty connections at several bandwidths of the bottleneck.
pub const FIGURE_5: Figure = Figure {
    name: "figure5",
    title: "Sixty connections of three round trips over one bottleneck",
    file: "flows.yaml",
    axis: "bandwidth, Mbit/s",
    at: &[10, 50, 100, 200],
    set: |mbit| ("links.bottleneck.bandwidth", format!("{mbit}Mbit/s")),
    groups: &[("near", "20 ms"), ("middle", "40 ms"), ("far", "60 ms")],
    unit: ("Mbit/s", 1.0),
};

/// Fifty connections over 150 Mbit/s at several round trips. Of 3 Mbit/s, which is an equal share, as in the paper.
pub const FIGURE_10: Figure = Figure {
    name: "figure10",
    title: "Fifty connections over 150 Mbit/s at several round trips",
    file: "long.yaml",
    axis: "round trip, ms",
    at: &[0, 100, 200, 400, 800],
    set: |ms| ("links.bottleneck.delay", format!("{}us", 500 * ms)),
    groups: &[("flows", "")],
    unit: ("of an equal share", 150.0 / 50.0),
};

/// What the connections of a group got in one setting, in the unit of the figure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    mean: f64,
    /// Standard deviation over the connections, of all runs.
    deviation: f64,
    /// Whether a run that it rests on is suspect.
    suspect: bool,
}

/// By group, and then by value of the axis.
type Curves = Vec<Vec<Share>>;

impl Figure {
    /// Runs every setting, prints the table, and writes the chart.
    pub fn reproduce(&self, args: &Args) -> Result<(), Failure> {
        let driver = Driver::new()?;
        let file = results::experiment("tcp-dilation")?.join(self.file);
        let out = results::fresh(Path::new("runs"), &format!("tcp-{}", self.name))?;
        let at: Vec<u32> = self.at.iter().copied().filter(|x| args.at.is_empty() || args.at.contains(x)).collect();
        if at.is_empty() {
            return Err(Failure::input(format!("--at: {} has {:?}", self.axis, self.at)));
        }
        let tdfs: Vec<u32> = std::iter::once(1).chain(args.tdf.iter().copied()).collect();
        let mut suspects = Suspects::default();
        let mut curves: Vec<Curves> = vec![vec![Vec::new(); self.groups.len()]; tdfs.len()];
        for x in &at {
            for (tdf, curves) in tdfs.iter().zip(&mut curves) {
                let rounds = if *tdf == 1 { args.rounds } else { 1 };
                let mut all = vec![Vec::new(); self.groups.len()];
                let mut suspect = false;
                for round in 1..=rounds {
                    eprintln!("{}: {x}, TDF {tdf}, {round}", self.axis);
                    let directory = out.join(format!("{x}-{tdf}-{round}"));
                    let (result, shares) = self.measure(&driver, &file, &directory, *x, *tdf)?;
                    suspect |= suspects.add(&directory, &result);
                    all.iter_mut().zip(shares).for_each(|(all, shares)| all.extend(shares));
                }
                for (curve, all) in curves.iter_mut().zip(&all) {
                    let none = || Failure::failed(format!("{}, TDF {tdf}: fewer than two connections", self.axis));
                    curve.push(share(all, suspect).ok_or_else(none)?);
                }
            }
        }
        let table = format!("{}{suspects}", self.table(&at, &tdfs, &curves));
        println!("{} ({}), on {}\n\n{table}", self.title, self.unit.0, Machine::here());
        let lines = tdfs.iter().zip(&curves).flat_map(|(tdf, curves)| {
            let line = |((_, group), curve): (&(&str, &str), &Vec<Share>)| Line {
                name: format!("{group} TDF {tdf}").trim().to_owned(),
                points: at.iter().zip(curve).map(|(x, s)| (f64::from(*x), s.mean)).collect(),
                spread: curve.iter().map(|s| s.deviation).collect(),
            };
            self.groups.iter().zip(curves).map(line).collect::<Vec<_>>()
        });
        let y = format!("{} of a connection, with the standard deviation over connections", self.unit.0);
        let html = lines_page(self.title, self.axis, &y, &lines.collect::<Vec<_>>(), &table);
        let page = out.join(RunDir::REPORT);
        fs::write(&page, html).map_err(|e| Failure::failed(format!("cannot write {}: {e}", page.display())))?;
        println!("chart: {}", page.display());
        Ok(())
    }

    /// Runs one setting once; says what each connection of each group got, in the unit of the figure.
    fn measure(
        &self,
        driver: &Driver,
        file: &Path,
        directory: &Path,
        x: u32,
        tdf: u32,
    ) -> Result<(RunResult, Vec<Vec<f64>>), Failure> {
        let variant = if tdf == 1 { Variant::Baseline } else { Variant::Scaled };
        let (path, value) = (self.set)(x);
        let result = driver.run_with(file, variant, &[("tdf", &tdf.to_string()), (path, &value)], directory, false)?;
        let shares = self.groups.iter().map(|(metric, _)| {
            let rows = RunDir::at(directory).samples(metric);
            Ok(rows.map_err(Failure::failed)?.iter().map(|row| row.value / self.unit.1).collect())
        });
        Ok((result, shares.collect::<Result<_, Failure>>()?))
    }

    /// A line for each value and group. Marked are a difference that is more than the
    /// standard deviation over connections under TDF 1 (`!`), and what rests on a suspect run (`?`).
    fn table(&self, at: &[u32], tdfs: &[u32], curves: &[Curves]) -> String {
        let mut text = format!("{:>18} {:>8}", self.axis, "");
        for tdf in tdfs {
            let _ = write!(text, "  {:>15}", format!("TDF {tdf}"));
            if *tdf != 1 {
                let _ = write!(text, " {:>10}", "difference");
            }
        }
        text.push('\n');
        let mut beyond = 0;
        for (place, x) in at.iter().enumerate() {
            for (group, (_, name)) in self.groups.iter().enumerate() {
                let _ = write!(text, "{x:>18} {name:>8}");
                let base = curves[0][group][place];
                for (tdf, curves) in tdfs.iter().zip(curves) {
                    let Share { mean, deviation, suspect } = curves[group][place];
                    let mark = if suspect { "?" } else { "" };
                    let _ = write!(text, "  {:>15}", format!("{mean:.3} ± {deviation:.3}{mark}"));
                    if *tdf != 1 {
                        let fine = (mean - base.mean).abs() <= base.deviation;
                        beyond += usize::from(!fine);
                        let mark = if fine { ' ' } else { '!' };
                        let percent = 100.0 * (mean - base.mean) / base.mean;
                        let _ = write!(text, " {:>10}", format!("{percent:+.1} %{mark}"));
                    }
                }
                text.push('\n');
            }
        }
        let _ = writeln!(text, "differences beyond the standard deviation over connections: {beyond}");
        text
    }
}

/// `None` of fewer than two connections.
fn share(all: &[f64], suspect: bool) -> Option<Share> {
    let n = all.len() as f64;
    let mean = all.iter().sum::<f64>() / n;
    let deviation = (all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    (all.len() > 1).then_some(Share { mean, deviation, suspect })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_mean_over_connections_with_its_deviation() {
        let s = share(&[1.0, 3.0, 1.0, 3.0], false).unwrap();
        assert!((s.mean - 2.0).abs() < 1e-9 && (s.deviation - (4.0f64 / 3.0).sqrt()).abs() < 1e-9, "{s:?}");
        assert_eq!(share(&[1.0], false), None);
    }

    #[test]
    fn a_difference_is_marked_when_it_is_beyond_the_deviation() {
        let of = |mean| Share { mean, deviation: 0.1, suspect: mean == 0.35 };
        let curves = |means: [f64; 3]| means.map(|m| vec![of(m)]).to_vec();
        let text = FIGURE_5.table(&[100], &[1, 10], &[curves([1.0, 0.5, 0.3]), curves([1.05, 0.65, 0.35])]);
        assert_eq!(text.matches('!').count(), 1, "{text}");
        assert!(
            text.contains("+30.0 %!") && text.matches("± 0.100?").count() == 1 && text.ends_with(": 1\n"),
            "{text}"
        );
    }

    #[test]
    fn values_are_set_in_the_units_of_the_file() {
        assert_eq!((FIGURE_10.set)(800), ("links.bottleneck.delay", "400000us".into()));
        assert_eq!((FIGURE_5.set)(10), ("links.bottleneck.bandwidth", "10Mbit/s".into()));
    }
}
