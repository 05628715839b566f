//! Queues and sweeps of real runs. Needs root.

use std::path::Path;

use crate::support::{Lab, PATIENCE, TinyDisk, left_behind, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// A node that is over soon, and says how fast it is.
const SOON: &str = r#"
name: soon
tdf: 2
machines: { m: { cpus: 1, speed: 0.2, memory: 64MiB } }
nodes: { a: { machine: m, run: [sh, -c, "sleep 0.1; echo value=$VALUE"], env: { VALUE: "1" } } }
metrics: { value: { nodes: a, line: 'value=(\d+)', from: stdout, combine: sum, unit: "1" } }
ends: { exited: [a], limit: 60s }
"#;

#[test]
fn jobs_are_made_in_turn_and_what_fails_says_so() {
    let lab = Lab::new(SOON);
    let add = |words: &[&str]| lab.diorama(&[&["batch", "add", "--queue", "q"], words].concat());
    assert_eq!(add(&["lab"]).stdout, "1\n");
    assert_eq!(add(&["--priority", "2", "lab", "--set", "nodes.a.run.2=exit 3"]).stdout, "2\n");
    for (words, says) in [
        (&["lab", "--set", "nodes.b.run=x"][..], "there is no `b` in `nodes`"),
        (&["lab", "--out", "x"], "--out cannot be given here"),
        (&["lab", "--variant", "none"], "baseline"),
        (&["nowhere"], "nowhere"),
    ] {
        let refused = add(words);
        assert!(refused.code == 2 && refused.stderr.contains(says), "{words:?}: {}", refused.stderr);
    }
    let done = lab.diorama(&["batch", "run", "--queue", "q"]);
    assert_eq!(done.code, 1, "{}", done.stderr);
    let failed = done.stderr.find("job 2 is failed").expect("it is told");
    assert!(done.stderr.find("job 1 is done").is_some_and(|done| failed < done), "{}", done.stderr);
    let shown = lab.diorama(&["batch", "show", "2", "--queue", "q"]).stdout;
    assert!(shown.contains("node a exited with code 3"), "{shown}");
    assert_eq!(lab.result("batch/1").metrics["value"].summary.mean, 1.0);
    let all: serde_json::Value =
        serde_json::from_str(&lab.diorama(&["batch", "list", "--json", "--queue", "q"]).stdout).unwrap();
    let states: Vec<&str> = all.as_array().unwrap().iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "failed"]);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn a_full_disk_under_a_queue_loses_nothing() {
    let lab = Lab::new(SOON);
    let disk = TinyDisk::with_free(lab.path(), 200_000);
    let queue = disk.0.join("q");
    let add = || lab.diorama(&["batch", "add", "--queue", queue.to_str().unwrap(), "lab"]);
    assert_eq!(add().code, 0);
    let ballast = disk.0.join("ballast");
    fill(&ballast);
    let refused = (0..200).map(|_| add()).find(|added| added.code != 0).expect("there is no room");
    assert!(refused.code == 1 && refused.stderr.contains("full"), "{}", refused.stderr);
    std::fs::remove_file(ballast).unwrap();
    let list = || lab.diorama(&["batch", "list", "--json", "--queue", queue.to_str().unwrap()]).stdout;
    let count = |text: String| serde_json::from_str::<Vec<serde_json::Value>>(&text).unwrap().len();
    let before = count(list());
    assert!(before >= 1 && add().code == 0 && count(list()) == before + 1);
}

/// Takes all the room that there is.
fn fill(file: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(file).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
}

#[test]
fn a_sweep_that_is_interrupted_goes_on_by_the_same_command() {
    let lab = Lab::new(SOON);
    let words = ["sweep", "lab", "--over", "nodes.a.env.VALUE=3,5", "--over", "tdf=2,3", "--out", "out"];
    let mut sweep = lab.start(&words);
    wait_until("the first run", PATIENCE, || lab.said().contains("1 of 4"));
    kill_process(Pid::from_child(&sweep), Signal::INT).unwrap();
    assert_eq!(sweep.wait().unwrap().code(), Some(130), "{}", lab.said());
    assert!(lab.read("out/table.md").contains("no result"), "{}", lab.read("out/table.md"));
    let other = lab.diorama(&["sweep", "lab", "--over", "tdf=2,4", "--out", "out"]);
    assert!(other.code == 2 && other.stderr.contains("another sweep"), "{}", other.stderr);
    let done = lab.diorama(&words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(!done.stderr.contains("1 of 4:"), "the first is not made again: {}", done.stderr);
    let rows: Vec<String> = lab.read("out/sweep.csv").lines().map(str::to_owned).collect();
    assert_eq!(rows.len(), 5, "{rows:?}");
    assert!(rows[0].starts_with("nodes.a.env.VALUE,tdf,repetition,run,status,verdict"), "{rows:?}");
    assert!(rows[1].starts_with("3,2,1,runs/1/1,ok,") && rows[4].starts_with("5,3,1,runs/4/1,ok,"), "{rows:?}");
    assert!(lab.read("out/sweep.html").contains("<svg") && !done.stdout.contains("no result"));
    let wrong = lab.diorama(&["sweep", "lab", "--over", "nodes.a.evn.VALUE=3,5"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("there is no key `evn`"), "{}", wrong.stderr);
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn live_runs_are_listed() {
    let lab = Lab::new(&SOON.replace("sleep 0.1", "sleep 20"));
    let mut run = lab.start(&["run", "lab"]);
    lab.wait_for_event("soon/scaled", "all-ready");
    let all: Vec<serde_json::Value> = serde_json::from_str(&lab.diorama(&["ps", "--json"]).stdout).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((all[0]["name"].as_str(), all[0]["tdf"].as_f64()), (Some("soon"), Some(2.0)));
    assert_eq!((all[0]["nodes"].as_u64(), all[0]["pid"].as_u64()), (Some(1), Some(run.id().into())));
    // It sleeps, and nobody else is there.
    let idle = || {
        let all: Vec<serde_json::Value> = serde_json::from_str(&lab.diorama(&["ps", "--json"]).stdout).unwrap();
        all[0]["idle_s"].as_f64()
    };
    wait_until("a virtual second without anything", PATIENCE, || idle().is_some_and(|s| s > 1.0));
    let table = lab.diorama(&["ps"]).stdout;
    assert!(table.lines().nth(1).is_some_and(|line| line.starts_with("soon  scaled")), "{table}");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    run.wait().unwrap();
    assert_eq!(lab.diorama(&["ps", "--json"]).stdout.trim(), "[]");
}

/// As many writers as are asked for, each of which says what it wrote; a mistake is made where there are more than 5.
const CROWD: &str = r#"
name: crowd
tdf: 2
machines: { m: { cpus: 1, speed: 0.02, memory: 32MiB } }
nodes:
  a: { machine: m, count: 2, run: [sh, -c, "sleep 0.1; echo value=$VALUE"], env: { VALUE: "1" } }
metrics: { value: { nodes: "a-*", line: 'value=(\d+)', from: stdout, combine: sum, unit: "1" } }
ends: { exited: ["a-*"], limit: 60s }
"#;

#[test]
fn capacity_is_the_last_value_at_which_a_metric_holds() {
    let lab = Lab::new(CROWD);
    let words = |more: &[&'static str]| {
        [&["capacity", "lab", "--vary", "nodes.a.count=2..60", "--repeat", "1", "--precision", "0%"][..], more].concat()
    };
    // The sum of what n nodes say is n: within 150 % of 2 are those up to 5.
    let asked = words(&["--hold", "value=150%", "--out", "out"]);
    let mut search = lab.start(&asked);
    wait_until("the first run", PATIENCE, || lab.said().contains("nodes.a.count=2/1: done"));
    kill_process(Pid::from_child(&search), Signal::INT).unwrap();
    assert_eq!(search.wait().unwrap().code(), Some(130), "{}", lab.said());
    let done = lab.diorama(&asked);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(!done.stderr.contains("count=2/1:"), "the first is not made again: {}", done.stderr);
    assert!(
        done.stdout.contains("capacity of crowd over nodes.a.count (value=150%): 5 holds, 6 does not"),
        "{}",
        done.stdout
    );
    assert!(done.stdout.contains("value.mean is 6.000 1 (+200.0 %)"), "{}", done.stdout);
    let found: serde_json::Value = serde_json::from_str(&lab.read("out/capacity.json")).unwrap();
    let tried: Vec<&str> =
        found["tried"].as_array().unwrap().iter().map(|tried| tried["value"].as_str().unwrap()).collect();
    assert_eq!(tried, ["2", "4", "5", "6", "8"], "twice as many each time, and halves of what is between");
    assert!(lab.read("out/capacity.html").contains("<svg"));
    assert_eq!(lab.read("out/capacity.csv").lines().count(), 6);
    // Other words with the same runs: nothing is run again. And a node more than the machine can hold.
    let again = lab.diorama(&words(&["--hold", "value=350%", "--out", "out"]));
    assert!(again.code == 0 && again.stdout.contains("9 holds, 10 does not"), "{}{}", again.stdout, again.stderr);
    let none = lab.diorama(&words(&["--hold", "value=0%", "--out", "out", "--", "--set", "nodes.a.run.2=exit 3"]));
    assert!(none.code == 2 && none.stderr.contains("another sweep"), "{}", none.stderr);
    for (more, says) in [
        (&["--hold", "errors=5%"][..], "no metric `errors`: it has value"),
        (&["--hold", "value"], "METRIC=5%"),
        (&["--", "--set", "nodes.b.run=x"], "there is no `b` in `nodes`"),
    ] {
        let refused = lab.diorama(&words(more));
        assert!(refused.code == 2 && refused.stderr.contains(says), "{more:?}: {}", refused.stderr);
    }
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn what_cannot_be_planned_ends_a_search_and_is_named() {
    let lab = Lab::new(CROWD);
    // Fifty times 0.02 of a core at TDF 2 do not fit on half of a core.
    let words = ["capacity", "lab", "--vary", "nodes.a.count=2..400", "--hold", "value=100000%", "--repeat", "1"];
    let done = lab.diorama(&[&words[..], &["--precision", "50%"]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stdout.contains("ended by the plan: "), "{}", done.stdout);
    assert!(done.stdout.contains("| refused | –"), "{}", done.stdout);
    let failing = lab.diorama(&[&words[..], &["--out", "bad", "--", "--set", "nodes.a.run.2=exit 3"]].concat());
    assert!(
        failing.code == 1 && failing.stdout.contains("2, the first value asked for, does not hold"),
        "{}",
        failing.stdout
    );
    assert!(failing.stdout.contains("exited with code 3"), "{}", failing.stdout);
}
