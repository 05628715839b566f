//! `diorama-trials tcp-dilation table3`: does one TCP connection send its packets at the same times under every TDF?
//!
//! Figures 2 to 4 and table 3 of "To Infinity and Beyond: Time-Warped Network Emulation" (NSDI 2006, section 3.1).

use std::fmt::Write;
use std::fs;
use std::path::Path;

use fidelity::statistics::{self, quantile};
use record::{RunDir, Samples, Variant};
use report::{Line, lines_page};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;
use crate::suspects::Suspects;

/// Virtual seconds after the first packet that are compared, which is also what the paper's figures show.
const SECONDS: f64 = 1.0;

/// Of the times between packets, the longest that the chart of their distribution shows, virtual ms.
const LONGEST_MS: f64 = 3.0;

/// Goals, in per cent of TDF 1: mean and CoV without loss, goodput with it.
const MEAN_GOAL: f64 = 1.0;
const COV_GOAL: f64 = 5.0;
const GOODPUT_GOAL: f64 = 2.0;

/// Arguments of `diorama-trials tcp-dilation table3`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How often each TDF runs, in turn; medians are compared
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The TDFs beside 1
    #[arg(long, value_delimiter = ',', default_value = "10,100")]
    tdf: Vec<u32>,
}

const LOSSES: [(&str, &str); 2] = [("none", "0%"), ("1 %", "{every: 100}")];

/// One run of one connection.
struct Flow {
    /// When packets left, in seconds since the first, and their place in the connection, in bytes.
    packets: Vec<(f64, f64)>,
    /// Mbit that the receiver's program had in the first second.
    goodput: f64,
}

/// Of the times between packets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spacing {
    /// ms.
    mean: f64,
    /// Standard deviation over mean.
    cov: f64,
    /// Between the quartiles, ms.
    iqr: f64,
    packets: usize,
    /// Mbit/s.
    goodput: f64,
}

/// All runs of one TDF and one loss.
struct Group {
    tdf: u32,
    flows: Vec<Flow>,
}

/// Runs every TDF with and without loss, and prints a table for each.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let file = results::experiment("tcp-dilation")?.join("packets.yaml");
    let out = results::fresh(Path::new("runs"), "tcp-packets")?;
    let mut text = String::new();
    for (name, loss) in LOSSES {
        let tdfs = std::iter::once(1).chain(args.tdf.iter().copied());
        let mut groups: Vec<Group> = tdfs.map(|tdf| Group { tdf, flows: Vec::new() }).collect();
        let mut suspects = Suspects::default();
        for round in 1..=args.rounds {
            for Group { tdf, flows } in &mut groups {
                eprintln!("loss {name}, TDF {tdf}, {round} of {}", args.rounds);
                let directory = out.join(format!("{}-{tdf}-{round}", name.replace(" %", "-percent")));
                let variant = if *tdf == 1 { Variant::Baseline } else { Variant::Scaled };
                let tdf = tdf.to_string();
                let set = [("tdf", tdf.as_str()), ("links.0.ab.loss", loss)];
                let result = driver.run_with(&file, variant, &set, &directory, false)?;
                suspects.add(&directory, &result);
                flows.push(read(&directory)?);
            }
        }
        let lossless = loss == LOSSES[0].1;
        let table = format!("{}{suspects}", table(&groups, lossless)?);
        let _ = write!(text, "loss: {name}\n\n{table}\n");
        let write = |page: &str, html: String| {
            let page = out.join(page);
            fs::write(&page, html).map_err(|e| Failure::failed(format!("cannot write {}: {e}", page.display())))
        };
        let title = format!("One connection, packet by packet, loss: {name}");
        let lines: Vec<_> = groups.iter().map(sequence).collect();
        let page = if lossless { "figure2.html" } else { "figure3.html" };
        write(page, lines_page(&title, "virtual second", "MB sent", &lines, &table))?;
        let title = format!("The times between the packets of one connection, loss: {name}");
        let lines: Vec<_> = groups.iter().map(distribution).collect();
        let page = if lossless { "figure4-lossless.html" } else { "figure4-loss.html" };
        write(page, lines_page(&title, "virtual ms", "share of packets", &lines, &table))?;
    }
    println!("Times between the packets of a connection's first {SECONDS} virtual s, on {}\n\n{text}", Machine::here());
    println!(
        "time-sequence charts: {0}/figure2.html (no loss), {0}/figure3.html (1 %); distributions: {0}/figure4-*.html",
        out.display()
    );
    Ok(())
}

fn read(directory: &Path) -> Result<Flow, Failure> {
    let rows = |name: &str| -> Result<Vec<(f64, f64)>, Failure> {
        let rows = RunDir::at(directory).samples(name).map_err(Failure::failed)?;
        Ok(first_second(rows.iter().filter_map(|r| Some((r.virtual_s?, r.value)))))
    };
    // The receiver's rows begin at tenths of a second: the eleventh is out, give or take what a float is off.
    let received = rows("received")?.into_iter().filter(|(at, _)| *at < SECONDS - 0.05);
    Ok(Flow { packets: rows("sent")?, goodput: received.map(|(_, bytes)| bytes).sum::<f64>() * 8e-6 / SECONDS })
}

/// What is less than [`SECONDS`] after the first row, by time since that.
fn first_second(rows: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut first = None;
    rows.map(|(at, value)| (at - *first.get_or_insert(at), value)).filter(|(at, _)| *at < SECONDS).collect()
}

fn sequence(group: &Group) -> Line {
    let packets = group.flows.first().map(|f| f.packets.as_slice()).unwrap_or_default();
    let points = packets.iter().map(|(at, place)| (*at, place * 1e-6)).collect();
    Line { name: format!("TDF {}", group.tdf), points, spread: Vec::new() }
}

/// How many of the times between packets are shorter than so many ms.
fn distribution(group: &Group) -> Line {
    let mut gaps: Vec<f64> = group.flows.iter().flat_map(gaps_ms).collect();
    gaps.sort_by(f64::total_cmp);
    // As many points as the chart is wide.
    let step = gaps.len().div_ceil(1000).max(1);
    let share = |i: usize| (i + 1) as f64 / gaps.len() as f64;
    let points = (0..gaps.len()).step_by(step).map(|i| (gaps[i], share(i))).filter(|(gap, _)| *gap <= LONGEST_MS);
    Line { name: format!("TDF {}", group.tdf), points: points.collect(), spread: Vec::new() }
}

/// The times between packets, ms.
fn gaps_ms(flow: &Flow) -> impl Iterator<Item = f64> {
    flow.packets.windows(2).map(|p| (p[1].0 - p[0].0) * 1e3)
}

/// `None` of fewer than three packets.
fn spacing(flow: &Flow) -> Option<Spacing> {
    let gaps: Vec<f64> = gaps_ms(flow).collect();
    let n = gaps.len() as f64;
    if n < 2.0 {
        return None;
    }
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let sorted = Samples::new(gaps).ok()?;
    let iqr = quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?;
    Some(Spacing { mean, cov: deviation / mean, iqr, packets: flow.packets.len(), goodput: flow.goodput })
}

/// A line for each run, and the error of each group's medians against those of TDF 1, marked if it is beyond its goal.
fn table(groups: &[Group], lossless: bool) -> Result<String, Failure> {
    let mut text =
        format!("{:>5} {:>8} {:>9} {:>7} {:>9} {:>9}\n", "TDF", "packets", "mean ms", "CoV", "IQR ms", "Mbit/s");
    let mut base: Option<Spacing> = None;
    for Group { tdf, flows } in groups {
        let all: Option<Vec<Spacing>> = flows.iter().map(spacing).collect();
        let all = all.filter(|all| !all.is_empty());
        let all = all.ok_or_else(|| Failure::failed(format!("TDF {tdf} sent next to nothing: see its logs")))?;
        for s in &all {
            let Spacing { mean, cov, iqr, packets, goodput } = s;
            let _ = writeln!(text, "{tdf:>5} {packets:>8} {mean:>9.4} {cov:>7.3} {iqr:>9.4} {goodput:>9.2}");
        }
        let median = |of: fn(&Spacing) -> f64| statistics::median(all.iter().map(of).collect()).unwrap_or(f64::NAN);
        let own =
            Spacing { mean: median(|s| s.mean), cov: median(|s| s.cov), goodput: median(|s| s.goodput), ..all[0] };
        let Some(base) = base else {
            base = Some(own);
            continue;
        };
        let error = |own: f64, base: f64, goal: Option<f64>| {
            let percent = 100.0 * (own - base) / base;
            let mark = if goal.is_some_and(|goal| percent.abs() > goal) { "!" } else { "" };
            format!("{percent:+.1} %{mark}")
        };
        let _ = writeln!(
            text,
            "      against TDF 1: mean {}, CoV {}, goodput {}",
            error(own.mean, base.mean, lossless.then_some(MEAN_GOAL)),
            error(own.cov, base.cov, lossless.then_some(COV_GOAL)),
            error(own.goodput, base.goodput, (!lossless).then_some(GOODPUT_GOAL)),
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(gaps_ms: &[f64]) -> Flow {
        let mut at = 0.0;
        let rest = gaps_ms.iter().map(|gap| {
            at += gap * 1e-3;
            (at, 0.0)
        });
        Flow { packets: std::iter::once((0.0, 0.0)).chain(rest).collect(), goodput: 10.0 }
    }

    #[test]
    fn spacing_is_that_of_the_times_between_packets() {
        let s = spacing(&flow(&[1.0, 3.0, 1.0, 3.0])).unwrap();
        assert!((s.mean - 2.0).abs() < 1e-9 && (s.iqr - 2.0).abs() < 1e-9, "{s:?}");
        // The standard deviation of a sample: sqrt(4/3).
        assert!((s.cov - (4.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-9, "{s:?}");
        assert_eq!(spacing(&flow(&[1.0])), None);
    }

    #[test]
    fn only_the_first_second_counts() {
        let rows = first_second([(5.0, 1.0), (5.5, 2.0), (6.5, 3.0)].into_iter());
        assert_eq!(rows, [(0.0, 1.0), (0.5, 2.0)]);
    }

    #[test]
    fn errors_beyond_the_goal_are_marked() {
        let group = |tdf, gaps: &[f64]| Group { tdf, flows: vec![flow(gaps)] };
        let groups = || [group(1, &[1.0, 3.0, 1.0, 3.0]), group(10, &[2.0, 6.0, 2.0, 6.0])];
        let text = table(&groups(), true).unwrap();
        assert!(text.contains("mean +100.0 %!,") && text.matches('!').count() == 1, "{text}");
        assert!(!table(&groups(), false).unwrap().contains('!'));
    }
}
