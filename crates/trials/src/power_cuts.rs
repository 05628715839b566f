//! `diorama-trials power-cuts`: is everything there that databases have acknowledged, after their power was cut again
//! and again, and are their file systems sound?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use record::{Event, LogStream, RunDir, Variant};

use crate::driver::Driver;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::results;

/// Arguments of the trial.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How often the power of each database is cut
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    cuts: u32,
    /// Decides when
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// With drives that say that they have flushed, and have not: something has to be lost
    #[arg(long)]
    lies: bool,
}

/// The nodes whose power is cut.
const DATABASES: [&str; 2] = ["postgres", "sqlite"];
/// How many connections the client of PostgreSQL has, each of which looks for its rows after each cut.
const CONNECTIONS: f64 = 4.0;
/// When a database has certainly been made; how long it then runs before the next cut, at least and at most; for how
/// long it has no power; and what is left after the last cut to look. Virtual s.
const FIRST: f64 = 8.0;
const RUNS: (f64, f64) = (2.0, 5.0);
const OFF: f64 = 1.5;
const LAST: f64 = 6.0;
/// How often the run is asked whether there was a cut.
const TICK: Duration = Duration::from_millis(50);

/// Runs the trial.
pub fn main(args: Args) -> Result<(), Failure> {
    let driver = Driver::new()?;
    let experiment = results::experiment("postgres")?.join("power-cuts.yaml");
    let out = results::fresh(Path::new("runs"), "power-cuts-trial")?.join("run");
    let (events, limit) = schedule(args.cuts, args.seed);
    let mut set = vec![("events", events.as_str()), ("ends.limit", limit.as_str())];
    if args.lies {
        set.push(("machines.server.disk.write-cache", "lies"));
    }
    let watch = Watch { program: driver.program().to_path_buf(), out: out.clone(), over: AtomicBool::new(false) };
    let (ended, checks) = thread::scope(|scope| {
        let checks = scope.spawn(|| watch.check_all());
        let ended = driver.run_with(&experiment, Variant::Scaled, &set, &out, false);
        watch.over.store(true, Ordering::Relaxed);
        (ended, checks.join().unwrap_or_default())
    });
    // What lies may be no file system, or no database, any more: then the run ends there, and its results say why.
    let why = match ended {
        Ok(_) => None,
        Err(failure) if failure.code == 1 && RunDir::at(&out).has_result() => Some(failure.message),
        Err(failure) => return Err(failure),
    };
    let found = Found::read(&RunDir::at(&out), checks)?;
    println!("power cuts, seed {}, on {}\n\n{}", args.seed, Machine::here(), found.told());
    if let Some(why) = &why {
        println!("the run ended early: {why}");
    }
    match (args.lies, found.missing(args.cuts), why) {
        (false, Some(what), _) => Err(Failure::failed(what)),
        (false, None, Some(why)) => Err(Failure::failed(why)),
        (true, None, None) => Err(Failure::failed("drives that lie have lost nothing: the trial sees no loss")),
        _ => Ok(()),
    }
}

/// The events of a run, and its limit.
fn schedule(cuts: u32, seed: u64) -> (String, String) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut events, mut end) = (Vec::new(), 0.0_f64);
    for node in DATABASES {
        let mut on = FIRST;
        for _ in 0..cuts {
            let off = on + RUNS.0 + (RUNS.1 - RUNS.0) * random.random::<f64>();
            on = off + OFF;
            events.push(format!("{{ at: {off:.6}s, node: {node}, do: power-off }}"));
            events.push(format!("{{ at: {on:.6}s, node: {node}, do: power-on }}"));
        }
        end = end.max(on);
    }
    (format!("[{}]", events.join(", ")), format!("{:.0}s", end + LAST))
}

/// Checks the file systems of nodes while they have no power.
struct Watch {
    program: PathBuf,
    out: PathBuf,
    over: AtomicBool,
}

/// What was found of a file system after a cut.
#[derive(Clone, Debug, PartialEq)]
enum Check {
    Sound,
    /// The node had its power again before this was done.
    TooLate,
    /// What the check said.
    Broken(String),
}

impl Watch {
    /// Checks after every cut, until the run is over.
    fn check_all(&self) -> Vec<Check> {
        let mut checks: Vec<Check> = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let cuts: Vec<Event> = self.events().into_iter().filter(|event| event.event == "power-off").collect();
            for cut in cuts.iter().skip(checks.len()) {
                checks.push(cut.target.as_deref().map_or(Check::TooLate, |node| self.check(node)));
            }
            thread::sleep(TICK);
        }
        checks
    }

    fn events(&self) -> Vec<Event> {
        RunDir::at(&self.out).events().unwrap_or_default()
    }

    /// Checks a copy of what a node's disk holds, after its journal has been played back as at a boot.
    fn check(&self, node: &str) -> Check {
        let Some(disk) = self.disk(node) else { return Check::TooLate };
        let copy = self.out.with_file_name(format!("{node}.img"));
        let copied = quiet(Command::new("cp").arg("--sparse=always").arg(&disk).arg(&copy));
        let events = self.events();
        // Its program's end is an event of its own, and comes after the cut.
        let of_power = |e: &&Event| e.target.as_deref() == Some(node) && e.event.starts_with("power-");
        let last = events.iter().rev().find(of_power);
        if copied.is_err() || last.is_none_or(|event| event.event != "power-off") {
            return Check::TooLate;
        }
        let _ = quiet(Command::new("e2fsck").args(["-p", "-E", "journal_only"]).arg(&copy));
        let found = quiet(Command::new("e2fsck").args(["-f", "-n"]).arg(&copy));
        let _ = fs::remove_file(&copy);
        found.map_or_else(Check::Broken, |()| Check::Sound)
    }

    /// The file behind a node's disk.
    fn disk(&self, node: &str) -> Option<PathBuf> {
        let live = Command::new(&self.program).args(["ps", "--json"]).stderr(Stdio::null()).output().ok()?;
        let live: Vec<serde_json::Value> = serde_json::from_slice(&live.stdout).ok()?;
        let here = fs::canonicalize(&self.out).ok()?;
        let run = live.iter().find(|run| run["out"].as_str().map(Path::new) == Some(&here))?;
        Some(Path::new("/var/lib/diorama").join(run["id"].as_str()?).join("disks").join(format!("{node}.img")))
    }
}

/// Runs a command that must succeed; else, what it said.
fn quiet(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(said.trim().to_string()) }
}

/// What the run and the checks beside it have seen.
#[derive(Debug)]
struct Found {
    /// By database: how often its power was cut, and how many complete writes of its disk went with it.
    cuts: [(u32, u64); 2],
    /// Of PostgreSQL: rows that were acknowledged, rows of these that were missing, and how often that was looked for.
    postgres: (f64, f64, f64),
    sqlite: Rows,
    checks: Vec<Check>,
}

/// What an SQLite database has said.
#[derive(Debug, Default, PartialEq)]
struct Rows {
    acknowledged: u64,
    missing: u64,
    /// How often it was opened again.
    boots: u32,
    unsound: u32,
}

impl Found {
    fn read(dir: &RunDir, checks: Vec<Check>) -> Result<Found, Failure> {
        let events = dir.events().map_err(Failure::failed)?;
        let cuts = DATABASES.map(|node| {
            let of_node = events.iter().filter(|e| e.event == "power-off" && e.target.as_deref() == Some(node));
            of_node.fold((0, 0), |(n, lost), e| (n + 1, lost + e.detail["lost"].as_u64().unwrap_or(0)))
        });
        let log = |node| fs::read_to_string(dir.log(node, LogStream::Stdout)).unwrap_or_default();
        let client = log("client");
        let last = client.lines().rev().find(|line| line.starts_with("acknowledged ")).unwrap_or_default();
        let total = |name: &str| {
            let mut words = last.split(' ').skip_while(|word| *word != name).skip(1);
            words.next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
        };
        let postgres = (total("acknowledged"), total("lost"), total("looks"));
        Ok(Found { cuts, postgres, sqlite: rows(&log("sqlite")), checks })
    }

    fn told(&self) -> String {
        let [(postgres_cuts, postgres_lost), (sqlite_cuts, sqlite_lost)] = self.cuts;
        let (acknowledged, missing, looks) = self.postgres;
        let Rows { acknowledged: rows, missing: rows_missing, boots, unsound } = &self.sqlite;
        let count = |is: fn(&Check) -> bool| self.checks.iter().filter(|check| is(check)).count();
        let mut text = format!(
            "PostgreSQL: {postgres_cuts} cuts took {postgres_lost} writes that the disk had said to be complete; \
             {acknowledged} rows acknowledged, {missing} of them missing, looked for {looks} times\n\
             SQLite: {sqlite_cuts} cuts took {sqlite_lost} writes; {rows} rows acknowledged, {rows_missing} of them \
             missing; opened {boots} times, {unsound} times not sound\n\
             file systems, after each cut: {} sound, {} broken, {} not looked at in time\n",
            count(|c| *c == Check::Sound),
            count(|c| matches!(c, Check::Broken(_))),
            count(|c| *c == Check::TooLate),
        );
        for check in &self.checks {
            if let Check::Broken(said) = check {
                text += &format!("  {}\n", said.lines().next_back().unwrap_or_default());
            }
        }
        text
    }

    /// What is missing of all that has to be there after as many cuts.
    fn missing(&self, cuts: u32) -> Option<String> {
        let (acknowledged, missing, looks) = self.postgres;
        let done = self.cuts.iter().all(|(n, _)| *n == cuts);
        let again = f64::from(cuts + 1) * CONNECTIONS;
        let wrong = [
            (!done, "the power was not cut as often as it should be"),
            (acknowledged == 0.0 || self.sqlite.acknowledged == 0, "nothing was acknowledged"),
            (missing > 0.0, "PostgreSQL has lost rows that it had acknowledged"),
            (looks < again, "PostgreSQL was not there again after each cut"),
            (self.sqlite.missing > 0, "SQLite has lost rows that it had acknowledged"),
            (self.sqlite.unsound > 0, "an SQLite database was not sound"),
            (self.sqlite.boots != cuts + 1, "SQLite was not there again after each cut"),
            (self.checks.iter().any(|c| matches!(c, Check::Broken(_))), "a file system was broken"),
            (!self.checks.contains(&Check::Sound), "no file system was looked at in time"),
        ];
        let wrong: Vec<&str> = wrong.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

/// Reads what an SQLite database has said: `added N`, and at each boot `found COUNT LAST SOUND`.
fn rows(log: &str) -> Rows {
    let mut rows = Rows::default();
    let mut last = 0;
    for line in log.lines() {
        match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
            ["added", n] => {
                last = n.parse().unwrap_or(last);
                rows.acknowledged += 1;
            }
            ["found", count, _, sound] => {
                rows.boots += 1;
                rows.unsound += u32::from(sound != "ok");
                let count: u64 = count.parse().unwrap_or(0);
                rows.missing += u64::saturating_sub(last, count);
                // What is lost is not to be missed once more.
                last = count;
            }
            _ => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_schedule() {
        let (events, limit) = schedule(20, 1);
        assert_eq!((events.clone(), limit.clone()), schedule(20, 1));
        assert_ne!(events, schedule(20, 2).0);
        assert_eq!(events.matches("node: postgres, do: power-off").count(), 20);
        let limit: f64 = limit.trim_end_matches('s').parse().unwrap();
        assert!((90.0..150.0).contains(&limit), "{limit}");
    }

    #[test]
    fn rows_that_were_acknowledged_and_are_not_there_are_missed() {
        let sound = rows("found 0 0 ok\nadded 1\nadded 2\nfound 3 3 ok\nadded 4\n");
        assert_eq!(sound, Rows { acknowledged: 3, missing: 0, boots: 2, unsound: 0 });
        let lossy = rows("found 0 0 ok\nadded 1\nadded 2\nadded 3\nfound 1 1 ok\nadded 2\nfound 2 2 row missing\n");
        assert_eq!((lossy.missing, lossy.boots, lossy.unsound), (2, 3, 1), "{lossy:?}");
    }

    fn found(lost: f64, sqlite: u64, checks: Vec<Check>) -> Found {
        let sqlite = Rows { acknowledged: 50, missing: sqlite, boots: 3, unsound: 0 };
        Found { cuts: [(2, 9), (2, 9)], postgres: (100.0, lost, 12.0), sqlite, checks }
    }

    #[test]
    fn whatever_is_missing_is_said() {
        assert_eq!(found(0.0, 0, vec![Check::Sound]).missing(2), None);
        let said = |found: Found| found.missing(2).unwrap_or_default();
        assert!(said(found(1.0, 0, vec![Check::Sound])).contains("PostgreSQL has lost"));
        assert!(said(found(0.0, 1, vec![Check::Sound])).contains("SQLite has lost"));
        assert!(said(found(0.0, 0, vec![Check::Sound, Check::Broken("bad".into())])).contains("broken"));
        assert!(said(found(0.0, 0, vec![])).contains("in time"));
        assert!(found(0.0, 0, vec![Check::Sound]).missing(3).unwrap().contains("as often as it should"));
    }
}
