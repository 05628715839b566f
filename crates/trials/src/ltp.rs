//! `diorama-trials ltp`: the Linux Test Project's tests of system calls that have to do with time, natively and
//! dilated.

use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::PermissionsExt};

use crate::choice::Choice;
use crate::driver::Driver;
use crate::failure::Failure;
use crate::page::Page;
use crate::suite::{Counts, How, Suite, Test, place};

/// Below LTP's directory: its list of tests, and where they are.
const TESTS: &str = "runtest/syscalls";
const PROGRAMS: &str = "testcases/bin";
/// Outcomes of a test's checks: in its summary, and on a line each.
const ENDS: [(&str, &str); 4] = [("passed", "TPASS"), ("failed", "TFAIL"), ("broken", "TBROK"), ("skipped", "TCONF")];

/// Arguments of `diorama-trials ltp`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// LTP as its `make install` has left it, with testcases/bin and runtest/syscalls
    #[arg(long, value_name = "DIRECTORY")]
    path: PathBuf,
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    page: Page,
}

/// Runs the verb. A test that does not end as it does natively is a failure of this command, unless a limit is known to
/// be why.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let choice = Choice::read("ltp.txt")?;
    let root = place(&args.path, TESTS, "give the directory that LTP's `make install` has filled, /opt/ltp")?;
    let list = fs::read_to_string(root.join(TESTS)).map_err(|e| Failure::failed(format!("{TESTS}: {e}")))?;
    let programs = root.join(PROGRAMS);
    let (tests, absent): (Vec<_>, Vec<_>) = read_list(&list).into_iter().partition(|(_, line)| there(&programs, line));
    let suite = Suite {
        name: "ltp",
        version: format!("LTP {}", version(&root)),
        tests: tests.into_iter().map(|(name, line)| Test { name, command: shell(line) }).collect(),
        absent: absent
            .into_iter()
            .map(|(name, _)| name)
            .filter(|n| choice.takes(n))
            .map(|n| format!("`{n}`"))
            .collect(),
        choice,
        environment: vec![("LTPROOT", root.clone().into()), ("LTP_COLORIZE_OUTPUT", "0".into())],
        programs: vec![programs],
        count,
    };
    suite.publish("LTP", &args.how, &args.page, &driver)
}

fn shell(line: String) -> Vec<String> {
    vec!["sh".into(), "-c".into(), line]
}

/// The tests of a file of LTP's `runtest`: a name and a line for a shell.
fn read_list(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let test = |line: &str| {
        let (name, command) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), command.trim().to_owned()))
    };
    lines.filter_map(test).collect()
}

/// Whether the program that a line begins with was built.
fn there(programs: &Path, line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    fs::metadata(programs.join(first)).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The version that LTP says; an installation need not say one.
fn version(root: &Path) -> String {
    let said = fs::read_to_string(root.join("Version")).or_else(|_| fs::read_to_string(root.join("VERSION")));
    said.ok()
        .and_then(|text| Some(text.lines().next()?.trim().to_owned()))
        .unwrap_or_else(|| "of unknown version".into())
}

/// The numbers of a test's summary; a test of the older kind has none, but a line for each check.
fn count(said: &str) -> Counts {
    let summary = said.rsplit_once("Summary:\n").map(|(_, summary)| summary);
    let number = |name: &str, word: &str| match summary {
        Some(summary) => {
            let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
            summary.lines().find_map(value).unwrap_or(0)
        }
        None => said.lines().filter(|line| check(line, word)).count() as u64,
    };
    ENDS.map(|(name, word)| (name.to_owned(), number(name, word))).into()
}

/// Whether a line says how a check ended: `file.c:12: TPASS: …`, or `name 1 TPASS : …`.
fn check(line: &str, word: &str) -> bool {
    line.split_whitespace().take(3).any(|w| w.trim_end_matches(':') == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_name_and_a_line_for_a_shell() {
        let list =
            "#DESCRIPTION:Kernel system calls\n\nabort01 abort01\nnftw6401\tnftw64 -x  1\n# fork12 fork12\nodd\n";
        let tests = [("abort01", "abort01"), ("nftw6401", "nftw64 -x  1")].map(|(n, l)| (n.to_string(), l.to_string()));
        assert_eq!(read_list(list), tests);
    }

    #[test]
    fn a_summary_counts_and_so_do_lines() {
        let numbers = |text: &str| ENDS.map(|(name, _)| count(text)[name]);
        let new = "tst_test.c:1: TINFO: Timeout\na.c:3: TPASS: one\na.c:4: TPASS: two\n\nSummary:\n\
                   passed   12\nfailed   1\nbroken   0\nskipped  3\nwarnings 9\n";
        assert_eq!(numbers(new), [12, 1, 0, 3]);
        let old = "a01    1  TPASS  :  one TFAIL of it\na01    2  TFAIL  :  a.c:9: two\n\
                   a01    0  TINFO  :  TPASS\nx.c:9: TCONF: no\n";
        assert_eq!(numbers(old), [1, 1, 0, 1]);
        assert_eq!(numbers("Segmentation fault\n"), [0; 4]);
    }
}
