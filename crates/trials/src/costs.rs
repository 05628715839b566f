//! `diorama-trials costs`: what dilation and libfaketime cost the same program, side by side.

use std::fmt::Write;
use std::process::Stdio;

use fidelity::statistics;

use crate::behaviours::compile;
use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::Page;
use crate::way::Way;

const PROGRAM: &str = "crates/trials/conformance/costs.c";
/// What is measured: its name in the table, what the program calls it, and how many make a block of some 50 ms.
const OPERATIONS: [(&str, &str, u32); 3] = [
    ("`clock_gettime`", "clock", 1_000_000),
    ("a call without a time (`getppid`)", "call", 300_000),
    ("start of a program (`posix_spawn`, `/bin/true`, `waitpid`)", "exec", 60),
];
/// Blocks of each way alternate, so that what drifts on the machine meets all; the median of their ratios counts.
const BLOCKS: usize = 15;

/// Arguments of `diorama-trials costs`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    page: Page,
}

/// Runs the verb. It measures and judges nothing.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let directory = tempfile::tempdir().map_err(Failure::failed)?;
    let program = compile(PROGRAM.as_ref(), false, directory.path())?.display().to_string();
    let block = |way: Way, what: &str, count: u32| {
        let mut command = way.command(&driver, &program);
        command.args([what, &count.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        driver.listen(command, what).map(|said| said.real.as_secs_f64() * 1e9 / f64::from(count))
    };
    let mut text = "| operation | native | dilated | libfaketime | dilated / native | libfaketime / native |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (name, what, count) in OPERATIONS {
        eprintln!("{name}");
        let mut blocks = Vec::new();
        // The first one warms up.
        for number in 0..=BLOCKS {
            let costs = [
                block(Way::Native, what, count)?,
                block(Way::Dilated, what, count)?,
                block(Way::Faketime, what, count)?,
            ];
            if number > 0 {
                blocks.push(costs);
            }
        }
        let cost = |way: usize| nanoseconds(median(blocks.iter().map(|b| b[way]).collect()));
        let ratio = |way: usize| median(blocks.iter().map(|b| b[way] / b[0]).collect());
        let (native, dilated, faketime) = (cost(0), cost(1), cost(2));
        let _ = writeln!(text, "| {name} | {native} | {dilated} | {faketime} | {:.2} | {:.2} |", ratio(1), ratio(2));
    }
    let _ = writeln!(text, "\nMedians of {BLOCKS} interleaved blocks, on {}.", Machine::here());
    args.page.publish("costs", &text)
}

/// The median; no number, if there is no value.
pub(crate) fn median(values: Vec<f64>) -> f64 {
    statistics::median(values).unwrap_or(f64::NAN)
}

fn nanoseconds(ns: f64) -> String {
    if ns < 1000.0 { format!("{ns:.0} ns") } else { format!("{:.0} µs", ns / 1000.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_block_does_not_count() {
        assert_eq!(median(vec![2.0, 1.0, 900.0]), 2.0);
        assert_eq!((nanoseconds(36.4), nanoseconds(520_400.0)), ("36 ns".into(), "520 µs".into()));
    }
}
