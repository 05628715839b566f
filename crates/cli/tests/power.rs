//! A run in which the power of PostgreSQL's machine is cut.
//!

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{Lab, PATIENCE, left_behind, wait_until};
use record::{LogStream, RunDir};
use rustix::process::{Pid, Signal, kill_process};

/// How many connections the client has, each of which looks for its rows whenever the server is back.
const CONNECTIONS: u64 = 4;

/// A count of PostgreSQL's client, by the name that it has for it.
fn counted(dir: &RunDir, name: &str) -> u64 {
    let log = std::fs::read_to_string(dir.log("client", LogStream::Stdout)).unwrap_or_default();
    let last = log.lines().rev().skip(1).find(|line| line.starts_with("acknowledged ")).unwrap_or_default();
    last.split(' ').skip_while(|word| *word != name).nth(1).map_or(0, |number| number.parse().unwrap())
}

/// Cuts the power so often, each time after another thirty rows were acknowledged, and gives it back. With drives that
/// lie, it is enough that the server does not come back, or without some of the rows.
fn cut(lab: &Lab, name: &str, cuts: u64, lies: bool) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/postgres/power-cuts.yaml");
    // Disks remember what a cut would undo where the file says that there will be one.
    let set = ["name", "events", "ends.limit"].into_iter().zip([
        name,
        "[{ at: 900s, node: postgres, do: power-off }]",
        "1000s",
    ]);
    let mut words = vec!["run".to_string(), file.to_str().unwrap().into(), "--variant".into(), "baseline".into()];
    words.extend(set.map(|(key, value)| format!("--set={key}={value}")));
    if lies {
        // Too slow to have written by themselves what was last acknowledged.
        words.extend(["write-cache=lies", "rpm=1000"].map(|what| format!("--set=machines.server.disk.{what}")));
    }
    let mut run = lab.start(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let dir = RunDir::at(lab.path().join("runs").join(name).join("baseline"));
    let mut ended = || run.try_wait().unwrap().is_some();
    for done in 0..cuts {
        let before = counted(&dir, "acknowledged");
        wait_until("rows to be acknowledged", PATIENCE, || {
            assert!(!ended(), "{}", lab.said());
            counted(&dir, "looks") >= CONNECTIONS * (done + 1) && counted(&dir, "acknowledged") >= before + 30
        });
        for what in ["power-off", "power-on"] {
            let told = lab.diorama(&["event", name, &format!("node: postgres, do: {what}")]);
            assert_eq!(told.code, 0, "{}", told.stderr);
        }
    }
    let back = || counted(&dir, "looks") >= CONNECTIONS * (cuts + 1);
    if lies {
        // One that is still not back by then has not come back.
        let until = Instant::now() + PATIENCE;
        while !(back() || ended() || counted(&dir, "lost") > 0 || Instant::now() > until) {
            sleep(Duration::from_millis(100));
        }
    } else {
        wait_until("the database to be back", PATIENCE, &back);
    }
    let (acknowledged, lost) = (counted(&dir, "acknowledged"), counted(&dir, "lost"));
    println!("{name}: {acknowledged} rows acknowledged, {lost} of them lost");
    assert!(acknowledged >= 30 * cuts);
    match lies {
        false => assert_eq!(lost, 0, "of {acknowledged} rows"),
        true => assert!(lost > 0 || !back(), "nothing is lost of {acknowledged} rows"),
    }
    let _ = kill_process(Pid::from_child(&run), Signal::INT);
    run.wait().unwrap();
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}

#[test]
fn postgresql_has_what_it_has_acknowledged_after_power_cuts() {
    cut(&Lab::new(""), "honest", 3, false);
}

#[test]
fn postgresql_has_lost_rows_when_a_drive_has_lied() {
    cut(&Lab::new(""), "lies", 1, true);
}
