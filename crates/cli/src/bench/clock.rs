//! `diorama bench clock`: what dilation costs, against the same program run natively in the same minute.

use std::fmt::Display;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use clock::{ClockPage, CpuRate, Injector, Prober};
use scale::Tdf;
use serde_json::json;

use super::Figure;
use crate::failure::Failure;

/// Native and dilated blocks alternate so often; the median of the paired ratios counts.
const BLOCKS: usize = 20;
/// Real time over which the rate of a dilated clock is measured.
const RATE_OVER: Duration = Duration::from_secs(5);

/// An operation: its name, what `dilate-exec --measure` calls it, how many make a block, and how many times the native
/// cost it may take.
const OPERATIONS: &[(&str, &str, u32, Option<f64>)] = &[
    ("clock-gettime", "clock", 300_000, Some(1.5)),
    ("untrapped-call", "untrapped", 100_000, Some(1.2)),
    ("checked-call", "checked", 100_000, None),
    ("trapped-call", "trapped", 20_000, None),
    ("exec-static", "static", 60, Some(2.0)),
    ("exec-dynamic", "/bin/true", 40, Some(2.0)),
];

/// Measures the mechanism here and now.
pub fn measure() -> Result<Vec<Figure>, Failure> {
    let tdf: Tdf = "10".parse().map_err(Failure::failed)?;
    let bench = Bench::new(tdf)?;
    let mut figures = Vec::new();
    for &(name, what, count, goal) in OPERATIONS {
        let mut pairs = Vec::new();
        for block in 0..=BLOCKS {
            let pair = (bench.native(what, count)?, bench.dilated(what, count)?);
            // The first one warms up.
            if block > 0 {
                pairs.push(pair);
            }
        }
        figures.push(ratio(name, json!({"tdf": 10}), &pairs, goal));
    }
    figures.push(bench.floor()?);
    let ppm = bench.rate_error()?.abs();
    figures.push(Figure {
        name: "clock-rate-error".to_owned(),
        params: json!({"tdf": 10, "real_s": RATE_OVER.as_secs()}),
        value: ppm,
        unit: "ppm".to_owned(),
        reference: None,
        error_percent: None,
        goal: Some(10.0),
        ok: Some(ppm <= 10.0),
    });
    Ok(figures)
}

struct Bench {
    tdf: Tdf,
    exec: OwnedFd,
    injector: Injector,
}

impl Bench {
    fn new(tdf: Tdf) -> Result<Bench, Failure> {
        let exec = clock::dilate_exec_file().map_err(wrong)?;
        let page = ClockPage::new(tdf).map_err(wrong)?;
        let injector = Injector::start(&page, None, |sentence| eprintln!("diorama: {sentence}")).map_err(wrong)?;
        page.start();
        Ok(Bench { tdf, exec, injector })
    }

    fn native(&self, what: &str, count: u32) -> Result<f64, Failure> {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.exec.as_raw_fd()));
        run(command.args(["--measure", what, &count.to_string()]))
    }

    fn dilated(&self, what: &str, count: u32) -> Result<f64, Failure> {
        run(&mut self.launch(&["/proc/self/exe", "--measure", what, &count.to_string()])?)
    }

    /// `/proc/self/exe` is dilate-exec itself, in the process that executes it.
    fn launch(&self, command: &[&str]) -> Result<Command, Failure> {
        let admitted = self.injector.admit(CpuRate::undivided(self.tdf)).map_err(wrong)?;
        Ok(clock::launch(self.exec.as_fd(), admitted, command))
    }

    /// An untrapped call under a filter of one instruction, natively: what no seccomp filter can undercut.
    fn floor(&self) -> Result<Figure, Failure> {
        let pair = |_| Ok((self.native("untrapped", 100_000)?, self.native("filtered", 100_000)?));
        let pairs = (0..BLOCKS).map(pair).collect::<Result<Vec<_>, Failure>>()?;
        Ok(ratio("any-filter-at-all", json!({}), &pairs, None))
    }

    fn rate_error(&self) -> Result<f64, Failure> {
        let mut command = self.launch(&["/proc/self/exe", "--probe"])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(wrong("the prober has no pipes"));
        };
        let mut prober = Prober::new(input, output);
        let first = prober.read().map_err(wrong)?;
        std::thread::sleep(RATE_OVER);
        let last = prober.read().map_err(wrong)?;
        drop(prober);
        clock::wait(&mut child).map_err(wrong)?;
        Ok(clock::clock_error_ppm(first, last, self.tdf))
    }
}

/// The figure of pairs of (native, other) costs in ns.
fn ratio(name: &str, mut params: serde_json::Value, pairs: &[(f64, f64)], goal: Option<f64>) -> Figure {
    let ratio = median(pairs.iter().map(|(native, other)| other / native).collect());
    params["blocks"] = pairs.len().into();
    params["native_ns"] = median(pairs.iter().map(|p| p.0).collect()).into();
    params["ns"] = median(pairs.iter().map(|p| p.1).collect()).into();
    Figure {
        name: name.to_owned(),
        params,
        value: ratio,
        unit: "x native".to_owned(),
        reference: Some(1.0),
        error_percent: Some(100.0 * (ratio - 1.0)),
        goal,
        ok: goal.map(|goal| ratio <= goal),
    }
}

/// Runs a measuring process; ns per operation.
fn run(command: &mut Command) -> Result<f64, Failure> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut text).map_err(wrong)?;
    }
    let status = clock::wait(&mut child).map_err(wrong)?;
    let hundredths: f64 = text.trim().parse().map_err(|_| wrong(format!("the measuring program: {status}")))?;
    Ok(hundredths / 100.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn wrong(error: impl Display) -> Failure {
    Failure::failed(format!("the clock cannot be measured: {error}"))
}
