//! Runs whose site is at the other end of a stream: a process of its own, which `command` starts.

use std::collections::BTreeSet;
use std::time::Duration;

use record::{RunDir, RunResult, Status};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DIORAMA, Done, ECHO, Lab, left_behind, wait_until};

fn write(lab: &Lab, file: &str, ways: &[(&str, &str)]) {
    let machines: String = ways.iter().map(|(name, way)| format!("  {name}: {{ command: [{way}] }}\n")).collect();
    std::fs::write(lab.path().join(file), format!("machines:\n{machines}")).unwrap();
}

/// A harness file whose one machine is this one, by `diorama site`.
fn here(lab: &Lab) {
    write(lab, "here.yaml", &[("here", &format!("{DIORAMA}, site"))]);
}

#[test]
fn a_run_over_a_stream_has_the_results_of_one_without() {
    // Long enough for all that is measured: a core's caches are tried twice a second.
    let lab = Lab::new(&ECHO.replace("for (1..5)", "for (1..60)"));
    here(&lab);
    let made: Vec<(RunResult, BTreeSet<String>)> = [&[][..], &["--harness", "here.yaml"]]
        .iter()
        .map(|more| {
            let done =
                lab.diorama(&[&["run", "lab", "--out", if more.is_empty() { "near" } else { "far" }], *more].concat());
            assert_eq!(done.code, 0, "{}", done.stderr);
            let dir = RunDir::at(lab.path().join(if more.is_empty() { "near" } else { "far" }));
            let events = dir.events().unwrap().into_iter().map(|event| event.event).collect();
            assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
            (dir.result().unwrap(), events)
        })
        .collect();
    let [(near, happened), (far, happened_there)] = &made[..] else { panic!("two runs") };
    assert_eq!(happened, happened_there);
    for result in [near, far] {
        assert_eq!(result.status, Status::Ok, "{:?}", result.why);
        let (latency, answers) = (&result.metrics["latency"].summary, &result.metrics["answers"].summary);
        assert_eq!((latency.n, answers.mean), (120, 10.0));
        // Twice two crossings of 6 ms, of handshake and answer.
        assert!((24.0..60.0).contains(&latency.p50), "{latency:?}");
    }
    let checks = |r: &RunResult| r.fidelity.checks.iter().map(|c| (c.name, c.value.is_some())).collect::<Vec<_>>();
    assert_eq!(checks(near), checks(far), "the same is known of both");
    let ends = |r: &RunResult| r.nodes.iter().map(|(name, n)| (name.clone(), n.exit, n.ended)).collect::<Vec<_>>();
    assert_eq!(ends(near), ends(far));
    let log = |run: &str| lab.read(&format!("{run}/nodes/client-1/stdout.log"));
    assert_eq!(log("near"), log("far"));
}

#[test]
fn where_a_run_cannot_be_it_is_refused_and_nothing_made() {
    let lab = Lab::new(ECHO);
    write(&lab, "two.yaml", &[("a", "x"), ("b", "y")]);
    write(&lab, "clock.yaml", &[("ahead", &format!("unshare, --time, --fork, --monotonic, \"5\", {DIORAMA}, site"))]);
    write(
        &lab,
        "elsewhere.yaml",
        &[(
            "other",
            &format!(
                "unshare, --mount, sh, -c, \"mount -t tmpfs x {} && exec {DIORAMA} \
        site\"",
                lab.path().display()
            ),
        )],
    );
    write(&lab, "gone.yaml", &[("gone", "\"false\"")]);
    for (file, code, part) in [
        ("two.yaml", 2, "a run takes place on one machine yet, and here are 2"),
        ("clock.yaml", 3, "`ahead` has another clock than this machine"),
        ("elsewhere.yaml", 3, "is not the directory there that it is here"),
        ("gone.yaml", 3, "`gone` cannot be reached: `false` ended with code 1"),
    ] {
        let Done { code: found, stderr, .. } = lab.diorama(&["run", "lab", "--harness", file]);
        assert!(found == code && stderr.contains(part), "{file}: {found}: {stderr}");
        assert!(left_behind(true).is_empty(), "{file}: {:?}", left_behind(true));
    }
}

#[test]
fn nothing_stays_whoever_of_both_is_killed() {
    let lab = Lab::new(&ECHO.replace("for (1..5)", "for (1..500)"));
    here(&lab);
    let begin = |out: &str| {
        let run = lab.start(&["run", "lab", "--harness", "here.yaml", "--out", &format!("runs/{out}")]);
        lab.wait_for_event(out, "all-ready");
        run
    };
    // The coordinator.
    let mut run = begin("one");
    kill_process(Pid::from_child(&run), Signal::KILL).unwrap();
    run.wait().unwrap();
    // Its site hears of it, and leaves not even groups.
    wait_until("all gone after the coordinator was killed", Duration::from_secs(10), || left_behind(false).is_empty());
    // The site: the run fails, and says why.
    let mut run = begin("two");
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).unwrap();
    let is_site =
        |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(b"\0site\0"));
    let sites: Vec<i32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(is_site).collect();
    assert_eq!(sites.len(), 1, "{sites:?}");
    kill_process(Pid::from_raw(sites[0]).unwrap(), Signal::KILL).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1), "{}", lab.said());
    assert!(lab.said().contains("the connection to a machine of the run broke"), "{}", lab.said());
    wait_until("all gone after the site was killed", Duration::from_secs(10), || left_behind(false).is_empty());
    // An interrupt is heard by the coordinator, who has the site end.
    let mut run = begin("three");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", lab.said());
    assert!(left_behind(true).is_empty(), "{:?}", left_behind(true));
}
