//! Costs of dilation, against the same program run natively in the same minute.

use std::fmt::Display;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use clock::{ClockPage, Injector, Prober, VirtualCpu};
use scale::Tdf;
use serde_json::json;

use crate::cores::first_and_last;
use crate::stats::median;
use crate::{Error, Notify, Row};

/// Native and dilated blocks alternate so often; the median of the paired ratios counts.
const BLOCKS: usize = 20;
/// Real time over which the rate of a dilated clock is measured.
const RATE_OVER: Duration = Duration::from_secs(60);

/// The reference of a measurement of dilation.
#[derive(Clone, Copy)]
enum Against {
    /// The program itself, without dilation.
    Native,
    /// Something else without dilation, by its name for `dilate-exec --measure`.
    Other(&'static str),
}

/// An operation, measured dilated and against a reference.
struct Operation {
    name: &'static str,
    /// Its name in the output of `dilate-exec --measure`.
    what: &'static str,
    against: Against,
    /// How many make a block.
    count: u32,
    /// How many times the reference it may cost.
    goal: Option<f64>,
    place: Place,
}

/// Which cores the measured program and the injector use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Any.
    Anywhere,
    /// As in a run: the program on the nodes' core, the injector on the other.
    Apart,
}

const fn operation(name: &'static str, what: &'static str, count: u32, goal: Option<f64>) -> Operation {
    Operation { name, what, against: Against::Native, count, goal, place: Place::Anywhere }
}

const fn against(what: &'static str, operation: Operation) -> Operation {
    Operation { against: Against::Other(what), ..operation }
}

const fn apart(operation: Operation) -> Operation {
    Operation { place: Place::Apart, ..operation }
}

const OPERATIONS: &[Operation] = &[
    operation("clock-gettime", "clock", 300_000, Some(1.25)),
    operation("untrapped-call", "untrapped", 100_000, Some(1.15)),
    // Under a filter of one instruction: what is left is dilation's own.
    against("filtered", operation("untrapped-call-beside-an-empty-filter", "untrapped", 100_000, None)),
    operation("checked-call", "checked", 100_000, None),
    // As a C library makes it, which stops trapping.
    operation("stat", "site", 50_000, None),
    operation("trapped-call", "trapped", 20_000, None),
    // One filter in both, and a handler that does nothing.
    against("handled", operation("trapped-call-beside-an-empty-handler", "trapped", 20_000, Some(1.15))),
    apart(operation("exec-static", "static", 60, Some(1.4))),
    apart(operation("exec-dynamic", "/bin/true", 40, Some(1.6))),
    operation("exec-static-on-any-core", "static", 60, None),
    operation("exec-dynamic-on-any-core", "/bin/true", 40, None),
    // By 32 processes.
    apart(operation("execs-at-once", "at-once", 320, None)),
];

/// Measures by how much dilation slows system calls and execs, against native ones, and how far a dilated clock is
/// off. Takes some three minutes, and no root.
///
/// # Errors
///
/// If a program cannot be dilated here, or the measuring program fails.
pub fn measure(notify: Notify) -> Result<Vec<Row>, Error> {
    let tdf: Tdf = "10".parse().map_err(Error::failed)?;
    let bench = Bench::new(tdf, notify)?;
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        let mut pairs = Vec::new();
        for block in 0..=BLOCKS {
            let pair = bench.pair(operation)?;
            // The first one warms up.
            if block > 0 {
                pairs.push(pair);
            }
        }
        rows.push(ratio(operation, &pairs));
    }
    let ppm = bench.rate_error()?.abs();
    let params = json!({"tdf": 10, "real_s": RATE_OVER.as_secs()});
    rows.push(Row::new("clock-rate-error", params, ppm, "ppm").goal(10.0));
    Ok(rows)
}

struct Bench {
    tdf: Tdf,
    exec: OwnedFd,
    /// Free to run anywhere.
    anywhere: Injector,
    /// On the last core.
    apart: Injector,
    /// The core of the measured program where the injector is on the last.
    core: usize,
}

impl Bench {
    fn new(tdf: Tdf, notify: Notify) -> Result<Bench, Error> {
        let exec = clock::dilate_exec_file().map_err(wrong)?;
        let page = ClockPage::new(tdf).map_err(wrong)?;
        let (core, other) = first_and_last()?;
        let injector = |core| Injector::start(&page, core, notify).map_err(wrong);
        let (anywhere, apart) = (injector(None)?, injector(other)?);
        page.start();
        Ok(Bench { tdf, exec, anywhere, apart, core })
    }

    /// Costs of the reference and of the dilated operation, in ns.
    fn pair(&self, operation: &Operation) -> Result<(f64, f64), Error> {
        let reference = match operation.against {
            Against::Native => operation.what,
            Against::Other(what) => what,
        };
        let count = operation.count.to_string();
        let mut native = Command::new(format!("/proc/self/fd/{}", self.exec.as_raw_fd()));
        native.args(["--measure", reference, &count]);
        let mut dilated = self.launch(operation.place, &["/proc/self/exe", "--measure", operation.what, &count])?;
        if operation.place == Place::Apart {
            host::cores::pin_command(&mut native, self.core);
            host::cores::pin_command(&mut dilated, self.core);
        }
        Ok((run(&mut native)?, run(&mut dilated)?))
    }

    /// `/proc/self/exe` is dilate-exec itself, in the process that executes it.
    fn launch(&self, place: Place, command: &[&str]) -> Result<Command, Error> {
        let injector = if place == Place::Apart { &self.apart } else { &self.anywhere };
        let admitted = injector.admit(VirtualCpu::undivided(self.tdf)).map_err(wrong)?;
        Ok(clock::launch(self.exec.as_fd(), admitted, command))
    }

    fn rate_error(&self) -> Result<f64, Error> {
        let mut command = self.launch(Place::Anywhere, &["/proc/self/exe", "--probe"])?;
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

/// The figure of pairs of (reference, dilated) costs in ns.
fn ratio(operation: &Operation, pairs: &[(f64, f64)]) -> Row {
    let ratio = median(pairs.iter().map(|(reference, dilated)| dilated / reference).collect());
    let reference_ns = median(pairs.iter().map(|p| p.0).collect());
    let ns = median(pairs.iter().map(|p| p.1).collect());
    let unit = match operation.against {
        Against::Native => "x native",
        Against::Other(_) => "x reference",
    };
    let params = json!({"tdf": 10, "blocks": pairs.len(), "reference_ns": reference_ns, "ns": ns});
    let row = Row::new(operation.name, params, ratio, unit).against(1.0);
    match operation.goal {
        Some(goal) => row.goal(goal),
        None => row,
    }
}

/// Runs a measuring process; ns per operation.
fn run(command: &mut Command) -> Result<f64, Error> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(wrong)?;
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_string(&mut text).map_err(wrong)?;
    }
    let status = clock::wait(&mut child).map_err(wrong)?;
    let hundredths: f64 = text.trim().parse().map_err(|_| wrong(format!("the measuring program: {status}")))?;
    Ok(hundredths / 100.0)
}

fn wrong(error: impl Display) -> Error {
    Error::failed(format!("the clock cannot be measured: {error}"))
}
