//! A run that was not faithful must say so, every time.

mod support;

use record::{Check, Verdict};
use support::{ECHO, Hog, Lab};

/// How often each infidelity is provoked.
const TIMES: usize = 5;

/// Clients that keep at it for 6 real seconds.
fn lasting() -> String {
    lasting_for(2)
}

/// Clients that keep at it for so many virtual seconds, three times as many real ones.
fn lasting_for(seconds: u32) -> String {
    ECHO.replace("tdf: 5", "tdf: 3").replace("for (1..5)", &format!("for ($z = time; time - $z < {seconds};)"))
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
        let caught = breaches.iter().find(|c| c.name.as_str() == check);
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
    // The kernel books what a thread has waited for when it gets its turn, which beside a run and others like it, as on
    // a busy machine, may be after seconds.
    always_caught(&lasting_for(5), Some(0), "foreign-load-nodes", "nodes' core");
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
        .replace("for ($z = time; time - $z < 2;)", &format!("{connect}; for ($z = time; time - $z < 3;)"))
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
    always_caught(&flood(), None, "ring-drops", "The emulator had more to do than its one thread can");
}

#[test]
fn a_kernel_timer_that_fires_unscaled_is_caught() {
    always_caught(&piecemeal(), None, "kernel-timers", "timer of 40 ms");
}
