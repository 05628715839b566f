//! A run that was not faithful must say so, every time.

use crate::support::{ECHO, Hog, Lab};
use record::{Check, CheckName, RunResult, Verdict};

/// How often each infidelity is provoked.
const TIMES: usize = 2;

/// Clients that keep at it for 4.5 real seconds.
fn lasting() -> String {
    ECHO.replace("tdf: 5", "tdf: 3").replace("for (1..5)", "for ($z = time; time - $z < 1.5;)")
}

/// A node that computes for two virtual seconds, six real ones, and logs how long each stretch of it took.
const COMPUTING: &str = r#"
name: echo
tdf: 3
machines: { m: { speed: 0.6, memory: 64MiB } }
nodes:
  worker:
    machine: m
    run: [perl, -MTime::HiRes=time, -e, 'open L, ">/out/log"; for ($z = time; ($t = time) - $z < 2;) {
      $x = 0; $x += $_ for 1..20000; printf L "%.6f %.6f\n", $t, time - $t }']
metrics:
  stretch: { nodes: worker, rows: /out/log, start: 1, value: 2, unit: s }
ends: { exited: [worker], limit: 60s }
"#;

fn run(lab: &Lab) -> RunResult {
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 0, "a suspect run is a run that was done");
    let result = lab.result("echo/scaled");
    let verdict = result.fidelity.verdict;
    assert_eq!(verdict == Verdict::Suspect, !result.fidelity.why.is_empty(), "{:?}", result.fidelity.why);
    assert!(result.fidelity.breaches().next().is_none() || verdict == Verdict::Suspect, "a breach is a reason");
    assert!(done.stdout.contains(&format!("verdict: {verdict}")), "{}", done.stdout);
    assert!(result.fidelity.why.iter().all(|why| done.stdout.contains(why)), "{}", done.stdout);
    result
}

fn check(result: &RunResult, name: CheckName) -> &Check {
    result.fidelity.check(name).unwrap()
}

/// Asserts that each run is suspect for what is provoked, because of `name`, whose sentence says so.
fn always_caught(lab: &Lab, name: CheckName, says: &str, and: impl Fn(&RunResult)) {
    for time in 1..=TIMES {
        let result = run(lab);
        let caught = check(&result, name);
        assert_eq!(caught.ok, Some(false), "time {time}: {name} holds: {:?}", result.fidelity.checks);
        assert!(caught.says.contains(says), "{}", caught.says);
        and(&result);
    }
}

/// An effect that is known is among the reasons of the verdict.
fn is_a_reason(result: &RunResult, name: CheckName) {
    assert!(result.fidelity.why.iter().any(|why| why.contains(name.as_str())), "{:?}", result.fidelity.why);
}

#[test]
fn a_hog_that_keeps_the_emulator_waiting_is_caught_and_named() {
    let lab = Lab::new(&lasting());
    let _hog = Hog::in_real_time_on(1);
    always_caught(&lab, CheckName::EmulatorLateness, "virtual ms", |result| {
        is_a_reason(result, CheckName::EmulatorLateness);
        let later = check(result, CheckName::EmulatorLateness).effect_percent;
        assert!(later.is_none_or(|percent| percent > 5.0), "or so much that nobody can say: {later:?}");
        let load = check(result, CheckName::ForeignLoadHarness);
        assert!(load.value.is_some_and(|percent| percent > 20.0), "{load:?}");
        assert!(load.says.contains("harness core") && load.says.contains("mostly perl"), "{}", load.says);
    });
}

#[test]
fn a_hog_on_the_harness_core_that_everybody_comes_before_is_told_and_no_reason() {
    let lab = Lab::new(&lasting());
    let _hog = Hog::on(1);
    for _ in 0..TIMES {
        let result = run(&lab);
        let load = check(&result, CheckName::ForeignLoadHarness);
        assert!(load.value.is_some_and(|percent| percent > 20.0) && load.says.contains("harness core"), "{load:?}");
        assert_eq!((load.ok, load.effect_percent), (Some(true), Some(0.0)), "it is late frames that matter");
    }
}

#[test]
fn a_hog_that_takes_the_nodes_core_is_caught() {
    let lab = Lab::new(COMPUTING);
    let _hog = Hog::in_real_time_on(0);
    always_caught(&lab, CheckName::ForeignLoadNodes, "nodes' core", |result| {
        is_a_reason(result, CheckName::ForeignLoadNodes);
        assert!(check(result, CheckName::ForeignLoadNodes).says.contains("mostly perl"), "who it was");
    });
}

#[test]
fn a_hog_that_only_wants_the_nodes_core_is_told_and_no_reason() {
    let lab = Lab::new(COMPUTING);
    let _hog = Hog::on(0);
    for _ in 0..TIMES {
        let result = run(&lab);
        let load = check(&result, CheckName::ForeignLoadNodes);
        // It wants all of the core, gets less than a hundredth, and that is what work takes longer.
        assert!(load.says.contains("had or wanted it for the longest"), "{}", load.says);
        assert!(load.ok == Some(true) && load.effect_percent.is_some_and(|percent| percent < 5.0), "{load:?}");
    }
}

/// Clients that write each request in two pieces: Nagle's algorithm keeps the second back until the first is
/// acknowledged, which the server's kernel puts off for 40 real ms.
fn piecemeal() -> String {
    let serve = "$SIG{CHLD} = \"IGNORE\"; while ($c = $s->accept) { next if fork; while (<$c>) { print $c $_ } exit }";
    let connect = r#"$c = IO::Socket::INET->new("server:7") or die"#;
    let all_at_once = format!(r#"{connect} "no server: $!"; print $c "hello\n";"#);
    let yaml = lasting()
        .replace("while ($c = $s->accept) { print $c scalar <$c>; close $c }", serve)
        .replace(&all_at_once, r#"syswrite $c, "hel"; syswrite $c, "lo\n";"#)
        .replace("for ($z = time; time - $z < 1.5;)", &format!("{connect}; for ($z = time; time - $z < 2.5;)"))
        .replace("count: 2", "count: 4");
    assert!(yaml.contains("next if fork") && yaml.contains("syswrite") && yaml.contains("count: 4"), "{yaml}");
    yaml
}

/// A node that sends 64-byte frames as fast as it can, 512 a call, for longer than a busy engine takes from one look at
/// the emulator to the next, through so many switches that the emulator has no time for them even if others leave the
/// node only a part of its core.
fn flood() -> String {
    const SWITCHES: usize = 40;
    let names: Vec<String> = (1..=SWITCHES).map(|n| format!("s{n}")).collect();
    let ends = [vec!["source".to_string()], names.clone(), vec!["sink".to_string()]].concat();
    let links: String = ends.windows(2).map(|two| format!("  - {{ from: {}, to: {} }}\n", two[0], two[1])).collect();
    format!("{FLOOD}switches: [{}]\nlinks:\n{links}", names.join(", "))
}

const FLOOD: &str = r#"
name: echo
tdf: 1
machines: { big: { speed: 0.8, memory: 64MiB }, small: { speed: 0.05, memory: 64MiB } }
nodes:
  sink: { machine: small, run: sleep 60 }
  source:
    machine: big
    run: [perl, -MSocket, -e, 'socket(S, PF_INET, SOCK_DGRAM, 0);
      connect(S, pack_sockaddr_in(9, inet_aton("sink"))) or die; $data = "x" x 18; $iov = pack("pJ", $data, 18);
      $one = pack("JLx4pJJJLx4Lx4", 0, 0, $iov, 1, 0, 0, 0, 0); $many = $one x 512;
      for ($end = time + 5; time < $end;) { syscall(307, fileno(S), $many, 512, 0) }']
ends: { exited: [source], limit: 30s }
"#;

#[test]
fn an_emulator_with_more_to_do_than_it_can_is_caught_and_named() {
    let lab = Lab::new(&flood());
    always_caught(&lab, CheckName::RingDrops, "The emulator had more to do than its one thread can", |result| {
        is_a_reason(result, CheckName::RingDrops);
    });
}

#[test]
fn a_kernel_timer_that_fires_unscaled_is_caught() {
    let lab = Lab::new(&piecemeal());
    always_caught(&lab, CheckName::KernelTimers, "timer of 40 ms", |result| {
        is_a_reason(result, CheckName::KernelTimers);
        let sooner = check(result, CheckName::KernelTimers).effect_percent;
        assert!(sooner.is_none_or(|percent| percent < -5.0), "acknowledgements come too soon: {sooner:?}");
    });
}
