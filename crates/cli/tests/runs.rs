//! Whole experiments, run by the program as its users run it.

use crate::support::{ECHO, EMPTIED, Lab, PATIENCE, compile, wait_until};
use record::{CheckName, Ended, Status, Verdict};

use std::os::unix::process::CommandExt;
use std::time::Duration;

/// The latencies that a node of a run logged, ms.
fn samples(lab: &Lab, run: &str, node: &str) -> Vec<f64> {
    let rows = lab.read(&format!("runs/{run}/metrics/latency.csv"));
    rows.lines().filter(|l| l.ends_with(node)).map(|l| l.split(',').nth(1).unwrap().parse().unwrap()).collect()
}

/// When something happened to a node, virtual seconds.
fn times_of(events: &str, event: &str, node: &str) -> Vec<f64> {
    let events = events.lines().map(|line| serde_json::from_str::<record::Event>(line).unwrap());
    let of_node = events.filter(|e| e.event == event && e.target.as_deref() == Some(node));
    of_node.map(|e| e.virtual_s.unwrap()).collect()
}

#[test]
fn a_baseline_run_leaves_the_files_that_the_documentation_names() {
    let lab = Lab::new(ECHO);
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 0);
    assert!(done.stdout.contains("verdict: "), "{}", done.stdout);
    let result = lab.result("echo/baseline");
    assert_eq!(result.status, Status::Ok);
    let latency = &result.metrics["latency"];
    assert_eq!((latency.unit.as_str(), latency.summary.n), ("ms", 10));
    // Connecting and asking are two round trips over 1 + 5 ms each way: never less, and on a quiet core not much more.
    assert!(latency.summary.p50 >= 24.0, "{}", latency.summary.p50);
    assert_eq!(result.metrics["answers"].summary.mean, 10.0);
    assert_eq!((result.nodes["client-1"].ended, result.nodes["client-1"].exit), (Ended::Exited, Some(0)));
    assert_eq!(result.nodes["server"].ended, Ended::Stopped);

    let plan: serde_json::Value = serde_json::from_str(&lab.read("runs/echo/baseline/plan.json")).unwrap();
    assert_eq!(plan["nodes"]["client-2"]["share"], 0.1);
    assert_eq!(plan["pipes"]["client-1--core/ab"]["target"]["delay_s"], 0.005);
    let versions = plan["versions"].as_object().unwrap();
    assert!(versions.keys().any(|program| program.ends_with("perl")), "{versions:?}");
    assert!(lab.read("runs/echo/baseline/experiment.yaml").contains("echo"));
    assert!(lab.read("runs/echo/baseline/nodes/client-1/stdout.log").contains("done=5"));
    assert!(lab.read("runs/echo/baseline/metrics/latency.csv").starts_with("virtual_s,value,node\n"));
    let events = lab.read("runs/echo/baseline/events.jsonl");
    for event in ["zero", "start", "ready", "all-ready", "exit"] {
        assert!(events.contains(&format!("\"event\":\"{event}\"")), "no {event} in {events}");
    }
    // A second run moves the first out of the way.
    assert_eq!(lab.diorama(&["run", "lab", "--variant", "baseline"]).code, 0);
    assert_eq!(lab.result("echo/baseline.1").virtual_seconds, result.virtual_seconds);
    assert!(crate::support::left_behind(true).is_empty(), "{:?}", crate::support::left_behind(true));
}

#[test]
fn a_scaled_run_measures_in_virtual_time() {
    let lab = Lab::new(ECHO);
    assert_eq!(lab.diorama(&["run", "lab"]).code, 0);
    let result = lab.result("echo/scaled");
    assert_eq!(result.tdf.to_string(), "5");
    // 24 ms on the target, and more if the nodes have to wait for their core.
    assert!(result.metrics["latency"].summary.p50 >= 24.0, "{}", result.metrics["latency"].summary.p50);
    // A node that counts real time would see its answers take longer than it lives.
    let waited: f64 = samples(&lab, "echo/scaled", "client-1").iter().sum();
    let events: Vec<serde_json::Value> =
        lab.read("runs/echo/scaled/events.jsonl").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let at = |event: &str| {
        let of_client = |e: &&serde_json::Value| e["event"] == event && e["target"] == "client-1";
        events.iter().find(of_client).unwrap()["virtual_s"].as_f64().unwrap() * 1e3
    };
    let lived = at("exit") - at("start");
    assert!(5.0 * 24.0 <= waited && waited <= lived, "waited for {waited} ms of {lived}");
    let ratio = result.real_seconds / result.virtual_seconds;
    assert!((ratio - 5.0).abs() < 0.01, "{ratio}");
    let clock = result.fidelity.check(CheckName::ClockRate).unwrap();
    assert_eq!(clock.ok, Some(true), "{}", clock.says);
}

#[test]
fn time_stamps_of_packets_and_the_counter_that_a_node_asks_for_are_virtual() {
    let lab = Lab::new(
        r#"
name: stamps
tdf: 5
machines: { m: { speed: 0.3, memory: 64MiB } }
nodes:
  plain: { machine: m, run: /srv/stamps, files: { /srv/stamps: stamps } }
  dilated: { machine: m, tsc: dilated, run: /srv/stamps, files: { /srv/stamps: stamps } }
ends: { exited: [plain, dilated], limit: 20s }
"#,
    );
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/stamps.c");
    compile(source, lab.path().join("lab/stamps"), &["-O1", "-static"]);
    assert_eq!(lab.diorama(&["run", "lab"]).code, 0);
    let said = |node: &str| lab.read(&format!("runs/stamps/scaled/nodes/{node}/stdout.log"));
    let ticks = |node: &str| -> f64 {
        let said = said(node);
        let ticks = said.lines().find_map(|l| l.strip_prefix("ticks per ns "));
        ticks.and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("{node} said {said}"))
    };
    let ratio = ticks("plain") / ticks("dilated");
    assert!((4.5..5.5).contains(&ratio), "the real counter is five times as fast, not {ratio}");
    for node in ["plain", "dilated"] {
        assert!(said(node).contains("stamped in between"), "{}", said(node));
    }
}

#[test]
fn repeated_runs_lie_side_by_side() {
    let lab = Lab::new(ECHO);
    assert_eq!(lab.diorama(&["run", "lab", "--variant", "baseline", "--repeat", "2"]).code, 0);
    for n in [1, 2] {
        assert_eq!(lab.result(&format!("echo/baseline/{n}")).status, Status::Ok);
    }
}

#[test]
fn a_node_that_dies_at_its_start_fails_the_run_with_its_last_words() {
    let lab = Lab::new(&ECHO.replace("or die; while", "or die; die \"not today\\n\"; while"));
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 1);
    assert!(
        done.stderr.contains("node server exited with code") && done.stderr.contains("not today"),
        "{}",
        done.stderr
    );
    let result = lab.result("echo/baseline");
    assert_eq!(result.status, Status::Failed);
    assert_eq!(result.nodes["client-1"].ended, Ended::Stopped);
    assert!(crate::support::left_behind(true).is_empty(), "{:?}", crate::support::left_behind(true));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    for variant in ["baseline", "scaled"] {
        let lab = Lab::new(&ECHO.replace("run: [perl, -MIO::Socket::INET, -e", "run: [/no/such/program, -e"));
        let done = lab.diorama(&["run", "lab", "--variant", variant]);
        assert_eq!(done.code, 1, "{variant}");
        assert!(
            done.stderr.contains("server") && done.stderr.contains("/no/such/program"),
            "{variant}: {}",
            done.stderr
        );
        // Whoever reads only the directory finds it there too.
        let result = lab.result(&format!("echo/{variant}"));
        assert_eq!(result.status, Status::Failed);
        assert!(result.why.as_ref().is_some_and(|why| why.contains("/no/such/program")), "{variant}: {:?}", result.why);
    }
}

#[test]
fn a_metric_that_matches_nothing_fails_the_run() {
    let lab = Lab::new(&ECHO.replace("done=(\\d+)'", "finished=(\\d+)'"));
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("metric answers: no line matches"), "{}", done.stderr);
    // Metrics that could be measured are not lost.
    assert_eq!(lab.result("echo/baseline").metrics["latency"].summary.n, 10);
}

#[test]
fn a_metric_that_one_node_has_nothing_for_fails_the_run_unless_an_event_ended_that_node() {
    // The sum of the others would look like a result.
    let silent = ECHO.replace(r#"print "done=5\n"'"#, r#"print "done=5\n" if `hostname` =~ /1/'"#);
    assert_ne!(silent, ECHO);
    let lab = Lab::new(&silent);
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("no line matches `done=(\\d+)` on client-2"), "{}", done.stderr);
    drop(lab);

    let killed = ECHO
        .replace("for (1..5)", "for (1..(`hostname` =~ /1/ ? 5 : 5000))")
        .replace("ends:", "events: [{ at: 2s, node: client-2, do: kill }]\nends:");
    let lab = Lab::new(&killed);
    assert_eq!(lab.diorama(&["run", "lab", "--variant", "baseline"]).code, 0);
    assert_eq!(lab.result("echo/baseline").metrics["answers"].summary.mean, 5.0);
    let events = lab.read("runs/echo/baseline/events.jsonl");
    assert!(events.contains("\"event\":\"metric-without\",\"target\":\"client-2\""), "{events}");
}

#[test]
fn a_node_that_never_is_ready_is_named_with_those_that_wait_for_it() {
    let lab = Lab::new(&ECHO.replace("ready: { tcp: 7 }", "ready: { tcp: 8 }").replace("limit: 60s", "limit: 1s"));
    let done = lab.diorama(&["run", "lab", "--variant", "baseline", "--set", "measure=0s..900ms"]);
    assert_eq!(done.code, 1);
    for part in ["node server never listened on TCP port 8 (`ready`)", "never started", "client-1, client-2"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
}

#[test]
fn nodes_have_as_much_of_their_own_time_to_end_in_every_variant() {
    // 0.5 virtual s after TERM are 2.5 real ones at TDF 5.
    let slow = ECHO
        .replace(
            "$s = IO::Socket",
            "$SIG{TERM} = sub { select undef, undef, undef, 0.5; print \"bye=1\\n\"; exit 0 }; $s = IO::Socket",
        )
        .replace(
            "  answers:",
            "  bye: { nodes: server, line: 'bye=(\\d)', from: stdout, combine: sum, unit: \"1\" }\n  answers:",
        );
    let lab = Lab::new(&slow);
    for variant in ["baseline", "scaled"] {
        assert_eq!(lab.diorama(&["run", "lab", "--variant", variant]).code, 0, "{variant}");
        assert_eq!(lab.result(&format!("echo/{variant}")).metrics["bye"].summary.mean, 1.0);
    }
}

/// As shells and systemd have it, a limit that a program raises by itself if it needs more.
#[test]
fn a_run_has_as_many_files_open_as_it_may_and_its_nodes_at_least_as_many_as_they_need() {
    let lab = Lab::new(
        "name: many\ntdf: 2\nmachines: { m: { speed: 0.05, memory: 32MiB } }\n\
         nodes: { n: { count: 12, machine: m, run: [sh, -c, 'echo files=$(ulimit -Sn)'] } }\n\
         metrics: { files: { nodes: \"n-*\", line: 'files=(\\d+)', from: stdout, combine: mean, unit: \"1\" } }\n\
         ends: { exited: [\"n-*\"], limit: 60s }\n",
    );
    let mut command = lab.command(&["run", "lab", "--variant", "baseline"]);
    let few = || {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let few = rustix::process::Rlimit { current: Some(64), ..limit };
        Ok(rustix::process::setrlimit(rustix::process::Resource::Nofile, few)?)
    };
    // SAFETY: between fork and exec the child makes two system calls.
    unsafe { command.pre_exec(few) };
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(
        lab.result("many/baseline").metrics["files"].summary.mean,
        256.0,
        "which the shell gives fewer than a node needs"
    );
}

#[test]
fn a_run_does_not_depend_on_anybody_listening() {
    let lab = Lab::new(ECHO);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = lab.command(&["run", "lab", "--variant", "baseline"]);
    let code = command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap().code();
    assert_eq!(code, Some(0));
    assert_eq!(lab.result("echo/baseline").status, Status::Ok);
}

#[test]
fn the_limit_fails_a_run_that_somebody_has_not_finished() {
    let lab = Lab::new(
        &ECHO
            .replace("limit: 60s", "limit: 2s")
            .replace("for (1..5)", "for (1..5000)")
            .replace("0s..30s", "0s..1900ms"),
    );
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("limit of 2 s was reached before client-1, client-2"), "{}", done.stderr);
}

#[test]
fn nodes_and_links_obey_the_events() {
    let lab = Lab::new(
        &ECHO
            // Asks until an answer takes so long, and waits for the server to listen again.
            .replace("for (1..5)", "for (1..50)")
            .replace("$t = time;", "sleep 1; until ($c) { $t = time;")
            .replace("or die \"no server: $!\"; print $c", "or sleep 1 } print $c")
            .replace("printf L", "undef $c; printf L")
            .replace("time - $t }", "time - $t; last if time - $t > 2.4 }")
            .replace(
                "ends:",
                "events:\n  \
                 - { at: 400ms, node: server, do: stop }\n  \
                 - { at: 1500ms, node: server, do: start }\n  \
                 - { at: 3s, link: server--core, set: { up: false } }\n  \
                 - { at: 3500ms, link: server--core, set: { up: true } }\n  \
                 - { at: 4s, link: server--core, set: { delay: 600ms } }\n\
                 ends:",
            ),
    );
    let done = lab.diorama(&["run", "lab", "--variant", "baseline"]);
    assert_eq!(done.code, 0);
    let of_client = samples(&lab, "echo/baseline", "client-1");
    // The last request met a delay of 600 ms on the server's link: two round trips over 605 ms each way.
    assert!(of_client.len() < 50 && of_client.last().is_some_and(|last| *last >= 2420.0), "{of_client:?}");
    assert!(of_client[0] < 2420.0, "{of_client:?}");
    let events = lab.read("runs/echo/baseline/events.jsonl");
    // On a machine that is busy enough, the time to stop it comes before its first start, which then does not happen.
    let starts = times_of(&events, "start", "server");
    let (last, earlier) = starts.split_last().expect("the server started");
    assert!(*last >= 1.5 && earlier.len() <= 1 && earlier.iter().all(|first| *first < 1.5), "{events}");
    assert_eq!(times_of(&events, "stop", "server").len(), earlier.len(), "{events}");
    assert_eq!(events.matches("\"event\":\"link\"").count(), 3, "{events}");
}

#[test]
fn what_is_asked_for_by_hand_happens_in_a_live_run() {
    // Nothing but what is done by hand keeps the server from waiting for ever.
    let yaml = r#"
name: waiting
tdf: 2
machines: { small: { cpus: 1, speed: 0.1, memory: 64MiB } }
nodes:
  server: { machine: small, run: [sh, -c, 'echo begun; exec sleep infinity'] }
  client: { machine: small, run: [sh, -c, 'trap exit TERM; while :; do sleep 0.1; done'] }
links: [{ from: server, to: client, delay: 5ms }]
ends: { exited: [client], limit: 1000s }
"#;
    let lab = Lab::new(yaml);
    let mut started = lab.start(&["run", "lab"]);
    let log = || {
        let path = lab.path().join("runs/waiting/scaled/nodes/server/stdout.log");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    wait_until("the server begins", PATIENCE, || log() == "begun\n");
    let event = |text: &str| lab.diorama(&["event", "waiting", text]);
    for (wrong, part) in [
        ("link: server--client, set: { delay: soon }", "soon"),
        ("link: server--nobody, set: { up: false }", "there is no link `server--nobody`"),
        ("node: server, do: dance", "`dance` is not one of"),
        ("at: 5s, node: server, do: kill", "at"),
        ("node: server, do: kill }, { node: client, do: kill", ""),
        ("link: server--client, set: { bandwidth: 1000Tbit/s }", ""),
        ("", ""),
    ] {
        let done = event(wrong);
        assert!(done.code == 2 && done.stderr.contains(part), "`{wrong}`: {} {}", done.code, done.stderr);
    }
    let done = event("link: server--*, set: { delay: 20ms, ab: { loss: 10% } }");
    assert!(done.code == 0 && done.stdout.starts_with("at ") && done.stdout.contains("virtual"), "{}", done.stdout);
    assert_eq!(event("node: server, do: kill").code, 0);
    assert_eq!(event("node: server, do: start").code, 0);
    wait_until("the server begins again", PATIENCE, || log() == "begun\nbegun\n");
    // A program beside the node's own, and what it has started, get a signal that ends them.
    let run =
        r#"node: client, program: pair, run: [sh, -c, "trap 'echo over; exit' USR1; echo both; sleep 500 & wait"]"#;
    assert_eq!(event(run).code, 0);
    let of_client = || {
        let path = lab.path().join("runs/waiting/scaled/nodes/client/stdout.log");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    wait_until("the program runs", PATIENCE, || of_client() == "both\n");
    assert_eq!(event(run).code, 0);
    assert_eq!(event("node: client, program: pair, signal: USR1").code, 0);
    wait_until("the program ends", PATIENCE, || of_client() == "both\nover\n");
    assert_eq!(event("node: client, do: stop").code, 0);
    let code = started.wait().unwrap().code();
    let events = lab.read("runs/waiting/scaled/events.jsonl");
    assert_eq!(code, Some(0), "{}\n{events}", lab.said());
    assert_eq!(events.matches("\"event\":\"by-hand\"").count(), 7, "{events}");
    assert!(events.contains("set: { delay: 20ms, ab: { loss: 10% } }"), "{events}");
    // The second time it ran already.
    assert_eq!(events.matches("\"event\":\"program\"").count(), 2, "{events}");
    assert_eq!(events.matches("\"event\":\"no-effect\"").count(), 1, "{events}");
    assert_eq!(events.matches("\"event\":\"link\"").count(), 1, "{events}");
    assert_eq!(event("node: client, do: stop").code, 2);
}

#[test]
fn an_ns_script_is_run_as_it_is() {
    let lab = Lab::new("");
    let script = r#"
set ns [new Simulator]
source tb_compat.tcl
set west [$ns node]
set east [$ns node]
tb-set-hardware $west tiny
tb-set-hardware $east tiny
set line [$ns duplex-link $west $east 1Mb 5ms DropTail]
tb-set-node-startcmd $east "echo up on `hostname`; exec sleep 1000"
set prog [$west program-agent -command "echo program"]
$ns at 0.2 "$prog start"
$ns at 0.4 "$line down"
$ns at 0.6 "$line up; $line delay 9ms"
$ns at 1.5 "$ns swapout"
$ns run
"#;
    std::fs::write(lab.path().join("short.ns"), script).unwrap();
    std::fs::write(lab.path().join("mine.yaml"), "machines: { tiny: { speed: 0.1, memory: 64MiB } }").unwrap();
    let done = lab.diorama(&["run", "short.ns", "--machines", "mine.yaml", "--set", "tdf=2"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let log = |node: &str| lab.read(&format!("runs/short/scaled/nodes/{node}/stdout.log"));
    assert_eq!((log("east").as_str(), log("west").as_str()), ("up on east\n", "program\n"));
    let events = lab.read("runs/short/scaled/events.jsonl");
    assert_eq!(events.matches("\"event\":\"link\"").count(), 3, "{events}");
    // The experiment's file of the run directory is what the script became.
    assert!(lab.read("runs/short/scaled/experiment.yaml").contains("west"));
    assert_eq!(lab.result("short/scaled").tdf.to_string(), "2");
}

#[test]
fn a_sequence_waits_for_the_ends_of_programs_and_a_node_outlives_its_startup_command() {
    let lab = Lab::new("");
    let script = r#"
set ns [new Simulator]
set west [$ns node]
set east [$ns node]
set opt(GREETING) {hello there}
tb-set-hardware $west tiny
tb-set-hardware $east tiny
set line [$ns duplex-link $west $east 1Mb 5ms DropTail]
tb-set-node-startcmd $west "echo begun >& /tmp/both; cat /tmp/both"
set slow [$west program-agent -command {sleep 1; echo "$GREETING"}]
set other [$east program-agent -command "sleep 0.5"]
set last [$west program-agent -command "echo last"]
set both [$ns event-group [list $slow $other]]
set steps [$ns event-sequence {
    $both run
    $line down
    $last run
    $ns swapout
}]
$ns at 0.5 "$steps start"
$ns run
"#;
    std::fs::write(lab.path().join("steps.ns"), script).unwrap();
    std::fs::write(lab.path().join("hardware.yaml"), "machines: { tiny: { speed: 0.1, memory: 64MiB } }").unwrap();
    let done = lab.diorama(&["run", "steps.ns", "--set", "tdf=2"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(lab.read("runs/steps/scaled/nodes/west/stdout.log"), "begun\nhello there\nlast\n");
    let events = lab.read("runs/steps/scaled/events.jsonl");
    let events: Vec<record::Event> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let when = |what: &str| events.iter().find(|e| e.event == what).unwrap().virtual_s.unwrap();
    let (begun, over, down) = (when("program"), when("step-over"), when("link"));
    // Not before the slower one has ended, and soon after that, however busy the machine is.
    assert!((begun + 1.0..begun + 5.0).contains(&over) && (over..over + 2.0).contains(&down), "{begun} {over} {down}");
    let result = lab.result("steps/scaled");
    assert!(result.virtual_seconds < 30.0, "the limit is a minute: {}", result.virtual_seconds);
    assert_eq!(result.nodes["west"].ended, Ended::Stopped);
}

#[test]
fn one_can_look_into_a_live_run() {
    let lab = Lab::new(ECHO);
    let mut run = lab.start(&["run", "lab", "--keep", "--tdf", "10"]);
    lab.wait_for_event("echo/scaled", "all-ready");
    let done = lab.diorama(&["exec", "echo", "server", "--", "hostname"]);
    assert_eq!((done.code, done.stdout.trim()), (0, "server"));
    assert_eq!(lab.diorama(&["exec", "runs/echo/scaled", "client-1", "--", "sh", "-c", "exit 7"]).code, 7);
    // A command of exec is dilated as the node is: a virtual second takes ten real ones, and half of one takes five.
    let began = std::time::Instant::now();
    assert_eq!(lab.diorama(&["exec", "echo", "server", "--", "sleep", "0.5"]).code, 0);
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    let done = lab.diorama(&["exec", "echo", "server", "--", "ping", "-6", "-n", "-c", "1", "client-1.ip6"]);
    assert!(done.code == 0 && done.stdout.contains(" 1 received"), "{} {}", done.stdout, done.stderr);
    // Inputs and outputs of any length, and one whose reader goes away.
    let script =
        "head -c 3000000 /dev/zero | \"$0\" exec echo server -- sh -c 'cat; exit 5' | wc -c; echo ${PIPESTATUS[1]}
                  \"$0\" exec echo server -- yes | head -n 1; echo ${PIPESTATUS[0]}";
    let mut shell = std::process::Command::new("bash");
    let done = shell.args(["-c", script, crate::support::DIORAMA]).current_dir(lab.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "3000000\n5\ny\n141\n");
    let done = lab.diorama(&["exec", "echo", "nobody", "--", "true"]);
    assert_eq!(done.code, 2);
    assert!(done.stderr.contains("client-1, client-2, server"), "{}", done.stderr);

    wait_until("the results", PATIENCE, || lab.said().contains("kept until Ctrl-C"));
    let late = lab.diorama(&["event", "echo", "node: server, do: kill"]);
    assert!(late.code == 2 && late.stderr.contains("its virtual time is over"), "{}", late.stderr);
    assert!(lab.diorama(&["logs", "echo", "client-1"]).stdout.contains("done=5"));
    assert_eq!(lab.diorama(&["exec", "echo", "server", "--", "true"]).code, 0);
    // A command that is cut off with its node takes what it has started with it, and its client is told.
    let exec = lab.command(&["exec", "echo", "server", "--", "sh", "-c", "sleep 777 & sleep 777"]).spawn().unwrap();
    let sleepers = || {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        all.filter(|p| std::fs::read(p.path().join("cmdline")).is_ok_and(|c| c == b"sleep\x00777\x00")).count()
    };
    wait_until("both have started", PATIENCE, || sleepers() == 2);
    rustix::process::kill_process(rustix::process::Pid::from_child(&exec), rustix::process::Signal::KILL).unwrap();
    { exec }.wait().unwrap();
    wait_until("both have ended", PATIENCE, || sleepers() == 0);
    rustix::process::kill_process(rustix::process::Pid::from_child(&run), rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert!(lab.diorama(&["logs", "runs/echo/scaled"]).stdout.contains("client-2 | done=5"));
    assert_eq!(lab.diorama(&["exec", "echo", "server", "--", "true"]).code, 2);
    assert!(crate::support::left_behind(true).is_empty(), "{:?}", crate::support::left_behind(true));
}

#[test]
fn a_run_is_confirmed_by_another_at_twice_its_factor() {
    let lab = Lab::new(ECHO);
    let done = lab.diorama(&["run", "lab", "--tdf", "3", "--confirm", "--lead", "2ms", "--accuracy", "p99=30%"]);
    assert_eq!(done.code, 0);
    let [first, second] = ["echo/scaled", "echo/scaled/confirm"].map(|run| lab.result(run));
    assert_eq!([&first, &second].map(|result| result.tdf.to_string()), ["3", "6"]);
    let lead = |run: &str| {
        let plan: serde_json::Value = serde_json::from_str(&lab.read(&format!("runs/{run}/plan.json"))).unwrap();
        plan["timeslice"]["lead_s"].as_f64().unwrap()
    };
    // In slices of 2.4 ms, in which the server of 0.4 gets ahead by the path of 6 ms, clients of 0.1 do by 24; and
    // what the option says.
    assert_eq!((lead("echo/scaled"), lead("echo/scaled/confirm")), (0.024, 0.002));
    assert_eq!(first.fidelity.accuracy_percent.map(|a| (a.mean, a.p99)), Some((5.0, 30.0)));
    let events: Vec<serde_json::Value> =
        lab.read("runs/echo/scaled/events.jsonl").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let said = &events.iter().find(|e| e["event"] == "confirm").unwrap()["detail"];
    assert_eq!(said["tdf"], 6.0);
    let moved = said["moved"].as_array().unwrap();
    assert_eq!(said["confirmed"] == "no", !moved.is_empty(), "{said}");
    for sentence in moved {
        assert_eq!(first.fidelity.verdict, Verdict::Suspect);
        let sentence = sentence.as_str().unwrap().to_owned();
        assert!(first.fidelity.why.contains(&sentence) && done.stdout.contains(&sentence), "{sentence}");
    }
    assert!(done.stdout.contains("confirmed"), "{}", done.stdout);
    assert!(crate::support::left_behind(true).is_empty(), "{:?}", crate::support::left_behind(true));
}

#[test]
fn what_is_learned_of_cores_is_kept() {
    // Ten seconds of real time.
    let lasting = ECHO.replace("for (1..5)", "for ($z = time; time - $z < 2;)").replace("0s..30s", "0s..1s");
    let name = format!("learning-{}", std::process::id());
    let lab = Lab::new(&lasting.replace("name: echo", &format!("name: {name}")));
    assert_eq!(lab.diorama(&["run", "lab", "--out", "runs/echo/scaled"]).code, 0);
    let speed = lab.read("runs/echo/scaled/speed.csv");
    assert!(speed.starts_with("virtual_s,core,units_per_us,percent_of_reference,k,capped\n"), "{speed}");
    let plan: serde_json::Value = serde_json::from_str(&lab.read("runs/echo/scaled/plan.json")).unwrap();
    let reference = plan["cpu"]["reference_units_per_us"].as_f64().unwrap();
    let row: Vec<&str> = speed.lines().nth(1).unwrap().split(',').collect();
    let [units, percent]: [f64; 2] = [row[2], row[3]].map(|cell| cell.parse().unwrap());
    assert!((percent - 100.0 * units / reference).abs() < 0.1, "{speed}");
    let kept: serde_json::Value =
        serde_json::from_slice(&std::fs::read("/var/lib/diorama/speed.json").unwrap()).unwrap();
    let usual: Vec<_> = kept["usual"].as_object().unwrap().values().collect();
    // This run itself may have moved it.
    let moved = lab.read("runs/echo/scaled/events.jsonl").contains("host-usual");
    assert!(moved || usual.iter().any(|u| u["reference_units_per_us"].as_f64() == Some(reference)), "{kept}");
    let seconds =
        |u: &serde_json::Value| u["seconds"].as_object().unwrap().values().filter_map(|s| s.as_f64()).sum::<f64>();
    assert!(usual.into_iter().any(|u| seconds(u) > 4.0), "{kept}");
}

#[test]
fn what_the_user_wrote_wrong_is_exit_2_and_changes_nothing() {
    let lab = Lab::new(ECHO);
    let refused = |args: &[&str], says: &str| {
        let done = lab.diorama(args);
        assert_eq!(done.code, 2, "{args:?}");
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
    };
    refused(&["run", "nowhere"], "nowhere");
    refused(&["run", "lab", "--set", "machines.server.cpus=0"], "cpus: 4");
    refused(&["run", "lab", "--set", "machines.server.spead=0.2"], "speed");
    refused(&["run", "lab", "--variant", "baseline", "--tdf", "3"], "--tdf");
    refused(&["run", "lab", "--tdf", "0.5"], "at least 1");
    refused(&["run", "lab", "--tdf", "1000"], "TDF");
    refused(&["run", "lab", "--set", "machines.server.speed=5"], "TDF of");
    refused(&["run", "lab", "--set", "lead=1us"], "the nearest lead that can be had is 1ms");
    refused(&["run", "lab", "--set", "machines.client.speed=900000 units/us"], "a core of this host usually does");
    refused(&["run", "lab", "--accuracy", "p95=5%"], "write 5%, or mean=5%");
    refused(&["run", "lab", "--accuracy", "0%"], "from 0.1% to 100%");
    refused(&["run", "lab", "--confirm", "--variant", "baseline"], "--confirm needs another TDF");
    refused(&["run", "lab", "--confirm", "--lead", "1s"], "the nearest lead that can be had is 30ms");
    refused(&["run", "lab", "--confirm", "--repeat", "2"], "--repeat");
    refused(&["run", "lab", "--lead", "5ms"], "--confirm");
    refused(&["run", "lab", "--out", "lab"], "not empty");
    refused(&["logs", "nowhere"], "nowhere");
    assert!(!lab.path().join("runs").exists());
    // As with env and timeout, so that it is not taken for the command's own code.
    assert_eq!(lab.diorama(&["dilate", "--tdf", "0.5", "--", "true"]).code, 125);
}

/// A program that takes away what dilates it is ended with a sentence, which is its node's last words; one that empties
/// its memory of all else goes on.
#[test]
fn a_node_whose_program_takes_away_what_dilates_it_says_so() {
    let lab = Lab::new(
        "name: emptied\ntdf: 3\nmachines: { m: { speed: 0.3, memory: 64MiB } }\nnodes:\n  \
         a: { machine: m, run: /emptied parts, files: { /emptied: emptied } }\n  \
         b: { machine: m, run: [sh, -c, sleep 1; exec /emptied over], files: { /emptied: emptied } }\n\
         ends: { exited: [a, b], limit: 60s }\n",
    );
    compile(EMPTIED, lab.path().join("lab/emptied"), &["-static"]);
    let done = lab.diorama(&["run", "lab"]);
    let sentence = "puts memory of its own (MAP_FIXED) where what dilates it is";
    assert!(done.code == 1 && done.stderr.contains("node b: emptied (process "), "{}", done.stderr);
    let log = |file: &str| lab.read(&format!("runs/emptied/scaled/nodes/{file}"));
    assert!(log("b/stderr.log").contains(sentence) && log("b/stdout.log") == "beside\n", "{}", log("b/stderr.log"));
    let slept = log("a/stdout.log");
    assert!(slept.ends_with("\n77\n") && slept.starts_with(|c: char| c.is_ascii_digit()), "{slept}");
    let result = lab.result("emptied/scaled");
    assert!(result.why.is_some_and(|why| why.contains(sentence)), "its last words are told");
}
