//! Runs in which the power of PostgreSQL's machine is cut.
//!
//! Twenty cuts at random, SQLite and file systems beside it, are `diorama-trials power-cuts`.

mod support;

use std::path::Path;

use record::{LogStream, RunDir};
use support::{Lab, left_behind};

/// A run of `experiments/postgres/power-cuts.yaml` in which only PostgreSQL's power is cut, at these virtual seconds.
fn run(lab: &Lab, out: &str, cuts: &[f64], more: &[&str]) -> (i32, RunDir) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/postgres/power-cuts.yaml");
    let at = |at: f64, what: &str| format!("{{ at: {at}s, node: postgres, do: power-{what} }}");
    let events: Vec<_> = cuts.iter().flat_map(|cut| [at(*cut, "off"), at(cut + 0.5, "on")]).collect();
    let events = format!("events=[{}]", events.join(", "));
    let limit = format!("ends.limit={}s", cuts.last().unwrap() + 4.0);
    let mut words = vec!["run", file.to_str().unwrap(), "--variant", "baseline", "--set", &events, "--set", &limit];
    words.extend(["--out", out]);
    words.extend(more);
    let done = lab.diorama(&words);
    (done.code, RunDir::at(lab.path().join(out)))
}

/// What the client of PostgreSQL has counted, by the name that it has for it.
fn counted(dir: &RunDir, name: &str) -> u64 {
    let log = std::fs::read_to_string(dir.log("client", LogStream::Stdout)).unwrap();
    let last = log.lines().rev().find(|line| line.starts_with("acknowledged ")).unwrap_or_else(|| panic!("{log}"));
    last.split(' ').skip_while(|word| *word != name).nth(1).unwrap().parse().unwrap()
}

#[test]
fn postgresql_has_what_it_has_acknowledged_after_power_cuts() {
    let lab = Lab::new("");
    let cuts = [8.0, 10.9, 13.7];
    let (code, dir) = run(&lab, "honest", &cuts, &[]);
    assert_eq!(code, 0, "{:?}", dir.result().map(|result| result.why));
    let acknowledged = counted(&dir, "acknowledged");
    assert!(acknowledged >= 20, "{acknowledged}");
    // Each of four connections has looked for all its rows at the beginning and after each cut.
    let looks = counted(&dir, "looks");
    assert!(looks >= 4 * (cuts.len() as u64 + 1), "{looks} looks: the database was not there again after each cut");
    assert_eq!(counted(&dir, "lost"), 0, "of {acknowledged} rows");
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));

    // Drives that ignore flushes, and are too slow to have written by themselves what was last acknowledged.
    let lies = ["--set", "machines.server.disk.write-cache=lies", "--set", "machines.server.disk.rpm=1000"];
    let (code, dir) = run(&lab, "lies", &cuts[..1], &lies);
    let lost = counted(&dir, "lost");
    // What is left may be no database any more: then it does not come back, and the run has failed.
    assert!(lost > 0 || code == 1, "nothing is lost of {} rows", counted(&dir, "acknowledged"));
    assert!(counted(&dir, "acknowledged") > 0);
}
