//! Other people's suites of tests, natively and under `diorama dilate`: each test must end alike, and say the same
//! numbers of passed and failed checks.
//!
//! Each test runs in namespaces of its own, which end with it, and without the right to set the host's date, which some
//! would do natively. Several run side by side, for most of them wait; one that differs is run again, both ways, with
//! nothing beside it. It differs if it does so each time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::choice::Choice;
use crate::driver::{Driver, apart};
use crate::failure::Failure;
use crate::machine::Machine;
use crate::page::Page;

/// A test that takes longer than this, in its own time, hangs. Some of LTP's compute for a minute.
const PATIENCE: Duration = Duration::from_secs(180);
/// How soon an interruption ends a test.
const SLICE: Duration = Duration::from_millis(500);
/// How often a test that differs is run with nothing beside it.
const AGAIN: u32 = 2;
/// Of a test that ends otherwise than natively, so many lines of what it said are shown.
const LINES: usize = 40;
/// The exit code by which a test of LTP's says that it does not apply here.
const SKIPPED: i32 = 32;
/// Starts a test as a child of the first process of its namespaces.
const START: &str = "ip link set lo up && setpriv --bounding-set=-sys_time --inh-caps=-sys_time -- \"$@\"; exit $?";

/// How a suite is run.
#[derive(clap::Args, Debug)]
pub struct How {
    /// Only these tests [default: all that the list in crates/trials/conformance chooses]
    tests: Vec<String>,
    /// The time dilation factor
    #[arg(long, default_value = "10")]
    tdf: String,
    /// How many tests run side by side
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
}

/// One test.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    pub name: String,
    pub command: Vec<String>,
}

/// Passed checks, failed ones and so on, by what the suite calls them.
pub type Counts = BTreeMap<String, u64>;

/// A suite, ready to run.
pub struct Suite {
    /// As its list of chosen tests is called, and the marks in the page of results.
    pub name: &'static str,
    /// The suite's version: the last line of the results begins with it.
    pub version: String,
    pub tests: Vec<Test>,
    pub choice: Choice,
    /// Where its programs are.
    pub programs: Vec<PathBuf>,
    pub environment: Vec<(&'static str, OsString)>,
    /// Finds the counts in what a test said.
    pub count: fn(&str) -> Counts,
    /// Chosen tests that cannot be run, and why.
    pub absent: Vec<String>,
}

/// How a test ended.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// `None`: it hung.
    code: Option<i32>,
    counts: Counts,
    /// Real time.
    took: Duration,
    /// The end of what it said.
    tail: String,
}

/// A test, both ways.
struct Pair {
    name: String,
    native: Outcome,
    dilated: Outcome,
    /// Whether it was run with nothing beside it, after it had differed.
    alone: bool,
}

impl Suite {
    /// Runs all chosen tests both ways and publishes the results. Fails if some differ although nobody has written down
    /// why; `whose` tests they are is for the message.
    pub fn publish(&self, whose: &str, how: &How, page: &Page, driver: &Driver) -> Result<(), Failure> {
        let (text, wrong) = self.run(how, driver)?;
        page.publish(self.name, &text)?;
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Failure::failed(format!("tests of {whose}'s that are not as natively: {}", wrong.join(", ")))),
        }
    }

    /// Runs all chosen tests both ways and gives the results as Markdown, and the tests that differ although nobody has
    /// written down why.
    fn run(&self, how: &How, driver: &Driver) -> Result<(String, Vec<String>), Failure> {
        let tdf: f64 = how.tdf.parse().map_err(|_| Failure::input(format!("--tdf {}: no number", how.tdf)))?;
        let chosen = self.chosen(how)?;
        let mut pairs = self.side_by_side(&chosen, how, tdf, driver)?;
        for pair in pairs.iter_mut().filter(|pair| !self.choice.differ.contains_key(&pair.name)) {
            let test = chosen.iter().find(|test| test.name == pair.name).expect("it was run");
            for _ in 0..AGAIN {
                if self.differences(pair, tdf).is_empty() {
                    break;
                }
                eprintln!("{}, alone", pair.name);
                *pair = Pair { alone: true, ..self.pair(test, &how.tdf, tdf, driver)? };
            }
        }
        let (text, wrong) = self.results(&pairs, how, tdf);
        for pair in pairs.iter().filter(|pair| wrong.contains(&pair.name)) {
            eprintln!("{}, natively:\n{}\ndilated:\n{}", pair.name, pair.native.tail, pair.dilated.tail);
        }
        Ok((text, wrong))
    }

    fn chosen(&self, how: &How) -> Result<Vec<Test>, Failure> {
        if let Some(unknown) = how.tests.iter().find(|name| !self.tests.iter().any(|test| test.name == **name)) {
            return Err(Failure::input(format!("there is no test `{unknown}` that can be run: {}", self.without())));
        }
        let wanted = |test: &&Test| match how.tests.is_empty() {
            true => self.choice.takes(&test.name),
            false => how.tests.contains(&test.name),
        };
        let mut chosen: Vec<Test> = self.tests.iter().filter(wanted).cloned().collect();
        // The longest first, so that nobody waits for one of them in the end.
        chosen.sort_by_key(|test| Reverse(self.choice.waits.get(&test.name)));
        match chosen.is_empty() {
            false => Ok(chosen),
            true => Err(Failure::failed(format!("none of the chosen tests can be run: {}", self.without()))),
        }
    }

    /// The tests that cannot be run, in a sentence.
    fn without(&self) -> String {
        if self.absent.is_empty() {
            "nothing is missing".into()
        } else {
            format!("missing are {}", self.absent.join(", "))
        }
    }

    fn side_by_side(&self, chosen: &[Test], how: &How, tdf: f64, driver: &Driver) -> Result<Vec<Pair>, Failure> {
        let left = Mutex::new(chosen.iter());
        let next = || left.lock().expect("nobody panics with it").next();
        let work = || {
            let mut pairs = Vec::new();
            while let Some(test) = next() {
                pairs.push(self.pair(test, &how.tdf, tdf, driver)?);
            }
            Ok(pairs)
        };
        let done = thread::scope(|scope| {
            let workers: Vec<_> = (0..how.jobs).map(|_| scope.spawn(work)).collect();
            let join = |worker: thread::ScopedJoinHandle<'_, Result<Vec<Pair>, Failure>>| {
                worker.join().unwrap_or_else(|_| Err(Failure::failed("a worker panicked")))
            };
            workers.into_iter().map(join).collect::<Result<Vec<_>, _>>()
        })?;
        let mut pairs: Vec<Pair> = done.into_iter().flatten().collect();
        pairs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pairs)
    }

    fn pair(&self, test: &Test, factor: &str, tdf: f64, driver: &Driver) -> Result<Pair, Failure> {
        let native = self.outcome(test, None, PATIENCE, driver)?;
        let dilated = self.outcome(test, Some(factor), PATIENCE.mul_f64(tdf), driver)?;
        let pair = Pair { name: test.name.clone(), native, dilated, alone: false };
        let differs = self.differences(&pair, tdf).join("; ");
        let said = if differs.is_empty() { how_ended(&pair.native) } else { differs };
        let [native, dilated] = [&pair.native, &pair.dilated].map(|outcome| outcome.took.as_secs_f64());
        eprintln!("{}: {said} ({native:.1} and {dilated:.1} s)", test.name);
        Ok(pair)
    }

    fn differences(&self, pair: &Pair, tdf: f64) -> Vec<String> {
        let waits = self.choice.waits.get(&pair.name).copied().unwrap_or_default();
        differences(&pair.native, &pair.dilated, waits.mul_f64(tdf))
    }

    /// Runs one test in a directory of its own.
    fn outcome(&self, test: &Test, tdf: Option<&str>, patience: Duration, driver: &Driver) -> Result<Outcome, Failure> {
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        // Some tests go on as a user without rights.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).map_err(Failure::failed)?;
        let said = directory.path().join(".said");
        let log = fs::File::create(&said).map_err(Failure::failed)?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        command.args(["sh", "-c", START, "sh"]);
        if let Some(tdf) = tdf {
            command.arg(driver.program()).args(["dilate", "--tdf", tdf, "--"]);
        }
        command.args(&test.command).current_dir(directory.path());
        command.env("PATH", self.search_path()).env("TMPDIR", directory.path()).env("LC_ALL", "C.UTF-8");
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command.stdin(Stdio::null()).stderr(log.try_clone().map_err(Failure::failed)?).stdout(log);
        let start = Instant::now();
        let mut child = apart(&mut command).spawn().map_err(|e| Failure::failed(format!("unshare: {e}")))?;
        // unshare does not end by TERM, but all that it has started ends with it.
        let ended = loop {
            match driver.wait(&mut child, &test.name, Some(SLICE)) {
                Ok(None) if start.elapsed() < patience => {}
                ended => break ended,
            }
        };
        let took = start.elapsed();
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        let text = String::from_utf8_lossy(&fs::read(&said).unwrap_or_default()).into_owned();
        let code = ended?.map(|status| status.code().unwrap_or(-1));
        Ok(Outcome { code, counts: (self.count)(&text), took, tail: tail(&text) })
    }

    fn search_path(&self) -> OsString {
        let known = std::env::var_os("PATH").unwrap_or_default();
        let all = self.programs.iter().cloned().chain(std::env::split_paths(&known));
        std::env::join_paths(all).unwrap_or(known)
    }

    /// The table, what is to be said about it, and the tests that differ for no known reason.
    fn results(&self, pairs: &[Pair], how: &How, tdf: f64) -> (String, Vec<String>) {
        let mut text = format!(
            "| natively | tests | `dilate --tdf {}`: alike | different |\n| --- | ---: | ---: | ---: |\n",
            how.tdf
        );
        let differs = |pair: &Pair| !self.differences(pair, tdf).is_empty();
        for kind in ["passes", "skips itself", "fails"] {
            let of_kind: Vec<&Pair> = pairs.iter().filter(|pair| kind_of(&pair.native) == kind).collect();
            let different = of_kind.iter().filter(|pair| differs(pair)).count();
            let _ = writeln!(text, "| {kind} | {} | {} | {different} |", of_kind.len(), of_kind.len() - different);
        }
        let real = |outcome: fn(&Pair) -> &Outcome| pairs.iter().map(|p| outcome(p).took.as_secs_f64()).sum::<f64>();
        let checks: u64 = pairs.iter().filter_map(|pair| pair.native.counts.get("passed")).sum();
        let (native, dilated) = (real(|pair| &pair.native), real(|pair| &pair.dilated));
        let _ = writeln!(
            text,
            "\nNatively {checks} checks pass. All tests together last {native:.0} s natively, {dilated:.0} s dilated."
        );
        let mut wrong = Vec::new();
        let mut different = Vec::new();
        for pair in pairs.iter().filter(|pair| differs(pair)) {
            let what = self.differences(pair, tdf).join("; ");
            let line = match self.choice.differ.get(&pair.name) {
                Some(why) => {
                    format!("`{}`: {what}: {why}", pair.name)
                }
                None => {
                    wrong.push(pair.name.clone());
                    format!("**`{}`: {what}**", pair.name)
                }
            };
            different.push(format!("- {line}"));
        }
        if !different.is_empty() {
            let _ = writeln!(text, "\nDifferent:\n\n{}", different.join("\n"));
        }
        let mut list = |title: &str, all: Vec<String>| {
            if !all.is_empty() {
                let _ = writeln!(text, "\n{title}: {}.", all.join(", "));
            }
        };
        let names = |all: &mut dyn Iterator<Item = &Pair>| all.map(|pair| format!("`{}`", pair.name)).collect();
        list("Alike only when nothing ran beside them", names(&mut pairs.iter().filter(|p| p.alone && !differs(p))));
        let documented = |p: &&Pair| self.choice.differ.contains_key(&p.name) && !differs(p);
        list("Known to be different, and alike this time", names(&mut pairs.iter().filter(documented)));
        list("Natively failing", names(&mut pairs.iter().filter(|p| kind_of(&p.native) == "fails")));
        if how.tests.is_empty() {
            list("Not there", self.absent.clone());
            list("Left out", self.choice.leave.iter().map(|(name, why)| format!("`{name}` ({why})")).collect());
        }
        let _ = writeln!(text, "\n{}, on {}.", self.version, Machine::here());
        (text, wrong)
    }
}

fn kind_of(outcome: &Outcome) -> &'static str {
    match outcome.code {
        Some(0) => "passes",
        Some(SKIPPED) => "skips itself",
        _ => "fails",
    }
}

/// `exit 0, 3 passed, 1 skipped`.
fn how_ended(outcome: &Outcome) -> String {
    let mut said = outcome.code.map_or_else(|| "hangs".into(), |code| format!("exit {code}"));
    for (name, count) in outcome.counts.iter().filter(|(_, count)| **count > 0) {
        let _ = write!(said, ", {count} {name}");
    }
    said
}

/// Differences of the outcomes, a sentence each; `least` is how long the test must have lasted, dilated.
fn differences(native: &Outcome, dilated: &Outcome, least: Duration) -> Vec<String> {
    let mut all = Vec::new();
    if (native.code, &native.counts) != (dilated.code, &dilated.counts) {
        all.push(format!("{} natively, {} dilated", how_ended(native), how_ended(dilated)));
    }
    if dilated.took < least {
        let (least, took) = (least.as_secs_f64(), dilated.took.as_secs_f64());
        all.push(format!("lasts {took:.1} s dilated, {least:.1} at least were right"));
    }
    all
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// `DIRECTORY` itself, absolute, if it has what makes it the right one.
pub fn place(directory: &Path, has: &str, what: &str) -> Result<PathBuf, Failure> {
    let found = directory.canonicalize().ok().filter(|directory| directory.join(has).exists());
    found.ok_or_else(|| Failure::input(format!("{} has no {has}: {what}", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: Option<i32>, passed: u64) -> Outcome {
        let counts = Counts::from([("passed".to_string(), passed)]);
        Outcome { code, counts, took: Duration::from_secs(20), tail: String::new() }
    }

    #[test]
    fn tests_must_end_and_count_alike() {
        let native = outcome(Some(0), 3);
        let differences = |dilated: &Outcome| differences(&native, dilated, Duration::ZERO);
        assert!(differences(&native).is_empty());
        assert_eq!(differences(&outcome(Some(0), 2)), ["exit 0, 3 passed natively, exit 0, 2 passed dilated"]);
        assert_eq!(differences(&outcome(None, 0)), ["exit 0, 3 passed natively, hangs dilated"]);
    }

    #[test]
    fn a_wait_must_last_longer_outside() {
        let all = outcome(Some(0), 1);
        assert!(differences(&all, &all, Duration::from_secs(20)).is_empty());
        let short = differences(&all, &all, Duration::from_secs(80));
        assert_eq!(short, ["lasts 20.0 s dilated, 80.0 at least were right"]);
    }
}
