//! `diorama-trials cpython`: CPython's own tests, natively and under `diorama dilate`: each case must end alike.
//!
//! They run in a network namespace of their own that has nothing but loopback, where the one name that they look up is
//! this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::driver::{Driver, apart};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::Page;

/// Debian's own, which its package of tests belongs to.
const PYTHON: &str = "/usr/bin/python3";
/// Those that are about clocks, waits, threads, signals and sockets.
const TESTS: [&str; 13] = [
    "test_time",
    "test_select",
    "test_selectors",
    "test_poll",
    "test_epoll",
    "test_threading",
    "test_queue",
    "test_signal",
    "test_socket",
    "test_subprocess",
    "test_asyncio",
    "test_sched",
    "test_timeout",
];
/// test_timeout waits in vain for an answer of a web server in the world, by this name. Here it waits for that of one
/// which never gives any: a child that goes on when the program has ended.
const HOSTS: &str = "127.0.0.1 localhost www.python.org.\n::1 localhost\n";
const SILENT_SERVER: &str =
    "import os, signal, socket; s = socket.create_server(('127.0.0.1', 80)); os.fork() or signal.pause()";
/// A test that takes longer than this, in real time, hangs.
const PATIENCE: Duration = Duration::from_secs(1200);
/// Of a test that ends otherwise than natively, so many lines of what it said are shown.
const LINES: usize = 60;

/// Arguments of `diorama-trials cpython`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only these tests [default: those of clocks, waits, threads, signals and sockets]
    tests: Vec<String>,
    /// The time dilation factor
    // Low, because the tests wait for minutes in all and have bounds of their own on how long they may take; and not
    // whole, so that rounding shows.
    #[arg(long, default_value = "1.5")]
    tdf: String,
    #[command(flatten)]
    page: Page,
}

/// How each case of a test ended.
type Cases = BTreeMap<String, String>;

/// Runs the verb. A case that does not end as it does natively is a failure of this command.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    if let Some(odd) = args.tests.iter().find(|test| !test.starts_with("test_")) {
        return Err(Failure::input(format!("`{odd}` is no test of CPython's: their names begin with test_")));
    }
    let tests = if args.tests.is_empty() { TESTS.map(str::to_owned).to_vec() } else { args.tests };
    let mut table = format!(
        "| test | cases | passed | skipped | failed | `dilate --tdf {}` |\n| --- | ---: | ---: | ---: | ---: | --- |\n",
        args.tdf
    );
    let mut differing = Vec::new();
    for test in &tests {
        eprintln!("{test}, natively");
        let native = run(test, None, &driver)?;
        eprintln!("{test}, dilated");
        let dilated = run(test, Some(&args.tdf), &driver)?;
        let differs = differences(&native, &dilated);
        let count = |outcome: &str| native.cases.values().filter(|o| *o == outcome).count();
        let (all, passed, skipped) = (native.cases.len(), count("passed") + count("output"), count("skipped"));
        let row = format!(
            "| {test} | {all} | {passed} | {skipped} | {} | {} |",
            all - passed - skipped,
            if differs.is_empty() { "all as natively".into() } else { format!("**{}**", differs.join("; ")) }
        );
        eprintln!("{row}");
        if !differs.is_empty() {
            differing.push(test.clone());
            eprintln!("natively:\n{}\ndilated:\n{}", native.tail, dilated.tail);
        }
        let _ = writeln!(table, "{row}");
    }
    let _ = writeln!(table, "\nCPython {}, on {}.", version(), Machine::here());
    args.page.publish("cpython", &table)?;
    match differing.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(format!("not as natively, under dilation: {}", differing.join(", ")))),
    }
}

fn version() -> String {
    let said = Command::new(PYTHON).arg("--version").output().map(|out| out.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).trim().trim_start_matches("Python ").to_owned()
}

/// The outcome of a test.
struct Outcome {
    /// `None`: it hung.
    status: Option<ExitStatus>,
    cases: Cases,
    /// The end of what it said.
    tail: String,
}

/// Differences of the outcomes, a sentence each.
fn differences(native: &Outcome, dilated: &Outcome) -> Vec<String> {
    let mut all = Vec::new();
    if native.cases.is_empty() {
        all.push("runs no case natively".into());
    }
    let how = |outcome: &Outcome| match outcome.status {
        None => "hangs".into(),
        Some(status) => status.code().map_or_else(|| status.to_string(), |code| format!("exit {code}")),
    };
    if native.status != dilated.status {
        all.push(format!("{} natively, {} dilated", how(native), how(dilated)));
    }
    let names: BTreeSet<&String> = native.cases.keys().chain(dilated.cases.keys()).collect();
    let said = |cases: &Cases, name: &String| cases.get(name).cloned().unwrap_or_else(|| "not run".into());
    for name in names {
        let (natively, dilatedly) = (said(&native.cases, name), said(&dilated.cases, name));
        if natively != dilatedly {
            all.push(format!("{name}: {natively} natively, {dilatedly} dilated"));
        }
    }
    all
}

/// Runs one test in a directory of its own.
fn run(test: &str, tdf: Option<&str>, driver: &Driver) -> Result<Outcome, Failure> {
    let directory = tempfile::tempdir().map_err(Failure::failed)?;
    let path = |name: &str| directory.path().join(name);
    let (said, cases) = (path("said"), path("cases.xml"));
    fs::create_dir(path("tmp")).map_err(Failure::failed)?;
    fs::write(path("hosts"), HOSTS).map_err(Failure::failed)?;
    let log = fs::File::create(&said).map_err(Failure::failed)?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--", "sh", "-c"]);
    // Without the right to set the host's date, which test_time would do natively.
    let script = "ip link set lo up && mount --bind \"$0\" /etc/hosts && \"$1\" -c \"$2\" && shift 2 && \
                  exec setpriv --bounding-set=-sys_time \"$@\"";
    command.arg(script).arg(path("hosts")).args([PYTHON, SILENT_SERVER]);
    if let Some(tdf) = tdf {
        command.arg(driver.program()).args(["dilate", "--tdf", tdf, "--"]);
    }
    command.args([PYTHON, "-m", "test", "-u", "network", "--junit-xml"]).arg(&cases);
    // Sockets between virtual machines: natively, too, these hang where the host does not listen.
    command.args(["-i", "*VSOCK*", test]);
    command.current_dir(directory.path()).env("TMPDIR", path("tmp")).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).stderr(log.try_clone().map_err(Failure::failed)?).stdout(log);
    let mut child = apart(&mut command).spawn().map_err(|e| Failure::failed(format!("unshare: {e}")))?;
    let ended = driver.wait(&mut child, test, Some(PATIENCE));
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    let tail = tail(&fs::read(&said).unwrap_or_default());
    Ok(Outcome { status: ended?, cases: read_cases(&cases)?, tail })
}

fn tail(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The cases of a result in JUnit's format. A test that did not come to its end has none.
fn read_cases(xml: &Path) -> Result<Cases, Failure> {
    if !xml.exists() {
        return Ok(Cases::new());
    }
    let script: PathBuf = ["crates/trials/conformance", "cases.py"].iter().collect();
    let out = Command::new(PYTHON).arg(&script).arg(xml).stderr(Stdio::inherit()).output().map_err(Failure::failed)?;
    if !out.status.success() {
        return Err(Failure::failed(format!("{} cannot read {}", script.display(), xml.display())));
    }
    let lines = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(lines.lines().filter_map(|l| l.split_once('\t')).map(|(name, outcome)| (name.into(), outcome.into())).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn outcome(code: i32, cases: &[(&str, &str)]) -> Outcome {
        let cases = cases.iter().map(|(name, outcome)| ((*name).into(), (*outcome).into())).collect();
        Outcome { status: Some(ExitStatus::from_raw(code << 8)), cases, tail: String::new() }
    }

    #[test]
    fn every_case_must_end_alike() {
        let native = outcome(0, &[("a", "passed"), ("b", "skipped")]);
        assert!(differences(&native, &outcome(0, &[("a", "passed"), ("b", "skipped")])).is_empty());
        assert_eq!(differences(&native, &outcome(0, &[("a", "passed")])), ["b: skipped natively, not run dilated"]);
        assert_eq!(
            differences(&native, &outcome(2, &[("a", "failure"), ("b", "skipped")])),
            ["exit 0 natively, exit 2 dilated", "a: passed natively, failure dilated"]
        );
        let hung = Outcome { status: None, ..outcome(0, &[]) };
        assert_eq!(differences(&native, &hung)[0], "exit 0 natively, hangs dilated");
        assert_eq!(differences(&hung, &hung), ["runs no case natively"], "a test that is not there proves nothing");
    }
}
