//! `diorama-trials behaviours`: every clock and every kind of wait, by small programs, natively and under
//! `diorama dilate`.
//!
//! The programs of waits, errors and signals are those of the clock's own tests.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::Page;
use crate::way::{Said, Way, amiss};

/// The programs, from where make is run.
const CLOCKS: &str = "crates/trials/conformance/clocks.c";
const WAITS: &str = "crates/clock/tests/programs/waits.c";
/// Programs that print what does not depend on the time: the same lines in all ways.
const ALIKE: [(&str, &str); 2] = [
    ("errors of calls with bad arguments", "crates/clock/tests/programs/faults.c"),
    ("signals and what they interrupt", "crates/clock/tests/programs/signals.c"),
];

/// Arguments of `diorama-trials behaviours`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    page: Page,
}

/// How a program is linked, and run.
const RUNS: [(&str, bool, Way); 3] =
    [("native", false, Way::Native), ("dilated", false, Way::Dilated), ("dilated, static", true, Way::Dilated)];

/// One clock or one wait, in ns as the program itself saw them.
#[derive(Debug, PartialEq)]
struct Measured {
    name: String,
    took: f64,
    nominal: f64,
    /// A clock of this grain may show so much too little.
    grain: f64,
}

/// Runs the verb. A wait that ends early or late, and a line that is not the same, is a failure of this command.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let directory = tempfile::tempdir().map_err(Failure::failed)?;
    let mut text = String::new();
    let mut wrong = Vec::new();
    for (title, source) in [("clock, by what", CLOCKS), ("wait", WAITS)] {
        let columns = RUNS.iter().map(|(how, stat, way)| {
            eprintln!("{source}: {how}");
            let said = said(&driver, source, *stat, *way, directory.path())?;
            let measured = parse(&said.text).map_err(|line| Failure::failed(format!("{source}, {how}: `{line}`")))?;
            wrong.extend(measured.iter().filter_map(|m| Some(format!("{}, {how}: {}", m.name, m.amiss()?))));
            wrong.extend(undilated(&measured, &said, *way).map(|why| format!("{source}, {how}: {why}")));
            Ok(measured)
        });
        let columns = columns.collect::<Result<Vec<_>, Failure>>()?;
        table(&mut text, title, &columns);
    }
    let _ = writeln!(text, "| the same lines | lines | dilated | dilated, static |\n| --- | ---: | --- | --- |");
    for (title, source) in ALIKE {
        eprintln!("{source}");
        let [native, dynamic, stat] =
            RUNS.map(|(_, stat, way)| said(&driver, source, stat, way, directory.path()).map(|said| said.text));
        let native = native?;
        let same = |text: String| if text == native { "the same" } else { "**not the same**" };
        let (dynamic, stat) = (same(dynamic?), same(stat?));
        if native.is_empty() || dynamic != stat || dynamic != "the same" {
            wrong.push(format!("{title}: not the same lines"));
        }
        let _ = writeln!(text, "| {title} | {} | {dynamic} | {stat} |", native.lines().count());
    }
    let _ = writeln!(text, "\nOn {}.", Machine::here());
    args.page.publish("behaviours", &text)?;
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(format!("not as it should be:\n  {}", wrong.join("\n  ")))),
    }
}

impl Measured {
    fn amiss(&self) -> Option<String> {
        let ms = |ns: f64| ns / 1e6;
        let why = amiss(ms(self.nominal), ms(self.grain), ms(self.took))?;
        Some(format!("{why}, {:.3} of {:.3} ms", ms(self.took), ms(self.nominal)))
    }
}

/// The lines `NAME TOOK NOMINAL [GRAIN]` in ns; names that have spaces are followed by tabs.
fn parse(text: &str) -> Result<Vec<Measured>, String> {
    let line = |line: &str| {
        let mut words = line.split(if line.contains('\t') { '\t' } else { ' ' });
        let name = words.next()?.to_owned();
        let numbers = words.map(str::parse).collect::<Result<Vec<f64>, _>>().ok()?;
        let [took, nominal] = *numbers.get(..2)? else { return None };
        Some(Measured { name, took, nominal, grain: numbers.get(2).copied().unwrap_or(0.0) })
    };
    text.lines().map(|l| line(l).ok_or_else(|| l.to_owned())).collect()
}

/// Whether the longest time that a program saw pass did not last as long outside. Then its clock was not dilated; if it
/// was, a wait that is not is early.
fn undilated(measured: &[Measured], said: &Said, way: Way) -> Option<String> {
    let longest = measured.iter().map(|m| m.nominal).fold(0.0, f64::max);
    let needed = longest / 1e9 * way.pace();
    let real = said.real.as_secs_f64();
    (real < needed).then(|| format!("not dilated, {needed:.2} s took {real:.2} s"))
}

/// A row for each, a column for each run, in ms.
fn table(text: &mut String, title: &str, columns: &[Vec<Measured>]) {
    let _ = writeln!(
        text,
        "| {title} | asked, ms | native | dilated | dilated, static |\n| --- | ---: | ---: | ---: | ---: |"
    );
    for (i, first) in columns[0].iter().enumerate() {
        let _ = write!(text, "| {} | {:.0} |", first.name, first.nominal / 1e6);
        for column in columns {
            let _ = match column.get(i).filter(|m| m.name == first.name) {
                None => write!(text, " **missing** |"),
                Some(m) => match m.amiss() {
                    None => write!(text, " {:.2} |", m.took / 1e6),
                    Some(why) => write!(text, " **{why}** |"),
                },
            };
        }
        text.push('\n');
    }
    text.push('\n');
}

/// Compiles a program and runs it.
fn said(driver: &Driver, source: &str, stat: bool, way: Way, directory: &Path) -> Result<Said, Failure> {
    let program = compile(Path::new(source), stat, directory)?;
    let mut command = way.command(driver, &program.display().to_string());
    // Where it may make files.
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped());
    driver.listen(command, source)
}

/// Compiles a C program into a directory, linked statically or not.
pub fn compile(source: &Path, stat: bool, directory: &Path) -> Result<PathBuf, Failure> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let program = directory.join(format!("{name}-{}", if stat { "static" } else { "dynamic" }));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-pthread"]).args(stat.then_some("-static"));
    let status = cc.arg("-o").arg(&program).arg(source).arg("-lrt").status();
    let failed = |why: String| Failure::failed(format!("{} does not compile: {why}", source.display()));
    match status {
        Err(e) => Err(failed(format!("cc: {e}: scripts/setup installs gcc"))),
        Ok(status) if !status.success() => Err(failed("the compiler's message is above".into())),
        Ok(_) => Ok(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_lag_by_its_grain_and_a_wait_may_not_be_early() {
        let measured = parse("poll 10000000 10000000\nCLOCK_TAI, raw call\t190000000\t200000000\t10000000\n").unwrap();
        assert_eq!((measured[0].name.as_str(), measured[1].name.as_str()), ("poll", "CLOCK_TAI, raw call"));
        assert!(measured.iter().all(|m| m.amiss().is_none()), "{measured:?}");
        let amiss = |line: &str| parse(line).unwrap()[0].amiss().unwrap_or_default();
        assert!(amiss("poll 9999999 10000000").starts_with("early"));
        assert!(amiss("poll 90000000 10000000").starts_with("late"));
        assert!(amiss("a\t189999999\t200000000\t10000000").starts_with("early"));
        assert!(parse("CLOCK_TAI runs backwards").is_err());
    }

    #[test]
    fn what_takes_no_longer_outside_is_not_dilated() {
        let measured = parse("alarm 1000000000 1000000000").unwrap();
        let said = |s| Said { text: String::new(), real: std::time::Duration::from_secs(s) };
        assert_eq!(undilated(&measured, &said(10), Way::Dilated), None);
        assert!(undilated(&measured, &said(9), Way::Dilated).is_some());
        assert_eq!(undilated(&measured, &said(1), Way::Native), None);
    }
}
