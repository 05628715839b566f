//! Runs as tests: what is required of them decides how they end, and is written for continuous integration.

use crate::support::{ECHO, Lab};

#[test]
fn a_run_that_misses_a_requirement_ends_with_1_and_says_which() {
    let lab = Lab::new(ECHO);
    let within = ["--require", "answers>=10", "--require", "latency.p50 < 1 s"];
    let args = ["run", "lab", "--variant", "baseline", "--junit", "model.xml"];
    let met = lab.diorama(&[&args[..], &within].concat());
    assert_eq!(met.code, 0, "{}", met.stderr);
    assert!(met.stdout.contains("required: answers>=10: met: it is 10.00 1"), "{}", met.stdout);
    let xml = lab.read("model.xml");
    assert!(xml.contains("tests=\"3\"") && xml.contains("failures=\"0\""), "{xml}");

    let missed = lab.diorama(&[&args[..], &within, &["--require", "latency<1ms"]].concat());
    assert_eq!(missed.code, 1, "{}", missed.stderr);
    assert!(missed.stdout.contains("required: latency<1ms: not met: it is "), "{}", missed.stdout);
    let xml = lab.read("model.xml");
    assert!(xml.contains("failures=\"1\"") && xml.contains("<testcase name=\"latency&lt;1ms\""), "{xml}");
}

#[test]
fn requirements_that_mean_nothing_here_are_refused_before_the_run() {
    let lab = Lab::new(ECHO);
    for (what, says) in [
        ("latencies<3ms", "it has latency, answers"),
        ("answers<3ms", "answers is in 1"),
        ("latency", "write trustworthy, or a metric"),
    ] {
        let done = lab.diorama(&["run", "lab", "--require", what]);
        assert_eq!(done.code, 2, "{what}: {}", done.stderr);
        assert!(done.stderr.contains(says), "{what}: {}", done.stderr);
    }
    assert!(!lab.path().join("runs").exists());
}
