//! A run that was not faithful must say so, every time.

mod support;

use fidelity::record::{Check, Verdict};
use support::{ECHO, Hog, Lab};

/// How often each infidelity is provoked.
const TIMES: usize = 5;

/// Clients that keep at it for 6 real seconds.
fn lasting() -> String {
    ECHO.replace("tdf: 5", "tdf: 3").replace("for (1..5)", "for ($z = time; time - $z < 2;)")
}

fn breaches(lab: &Lab) -> Vec<Check> {
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0, "a suspect run is a run that was done");
    let result = lab.result("echo/scaled");
    let breaches: Vec<_> = result.fidelity.breaches().cloned().collect();
    assert_eq!(result.fidelity.verdict == Verdict::Suspect, !breaches.is_empty());
    breaches
}

fn always_caught(yaml: &str, hog: Option<usize>, check: &str, says: &str) {
    let lab = Lab::new(yaml);
    let _hog = hog.map(Hog::on);
    for time in 1..=TIMES {
        let breaches = breaches(&lab);
        let caught = breaches.iter().find(|c| c.name == check);
        let caught = caught.unwrap_or_else(|| panic!("time {time}: {check} is not among {breaches:?}"));
        assert!(caught.says.contains(says), "{}", caught.says);
    }
}

#[test]
fn a_hog_on_the_harness_core_is_caught() {
    always_caught(&lasting(), Some(1), "foreign-load-harness", "harness core");
}

#[test]
fn a_hog_on_the_nodes_core_is_caught() {
    always_caught(&lasting(), Some(0), "foreign-load-nodes", "nodes' core");
}

/// Clients that write each request in two pieces: Nagle's algorithm keeps the second back until the first is acknowledged,
/// which the server's kernel puts off for 40 real ms.
fn piecemeal() -> String {
    let serve = "$SIG{CHLD} = \"IGNORE\"; while ($c = $s->accept) { next if fork; while (<$c>) { print $c $_ } exit }";
    let client = r#"$c = IO::Socket::INET->new("server:7") or die; for ($z = time; time - $z < 3;) { $t = time; syswrite $c, "hel"; syswrite $c, "lo\n"; "#;
    let yaml = lasting()
        .replace("while ($c = $s->accept) { print $c scalar <$c>; close $c }", serve)
        .replace("for ($z = time; time - $z < 2;) { $t = time; $c = IO::Socket::INET->new(\"server:7\") or die \"no server: $!\"; print $c \"hello\\n\"; ", client)
        .replace("count: 2", "count: 4");
    assert!(yaml.contains("next if fork") && yaml.contains("syswrite") && yaml.contains("count: 4"), "{yaml}");
    yaml
}

#[test]
fn a_kernel_timer_that_fires_unscaled_is_caught() {
    always_caught(&piecemeal(), None, "kernel-timers", "timer of 40 ms");
}
