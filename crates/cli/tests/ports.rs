//! Nodes from outside: ports of the loopback that lead to them, and events as they happen.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::support::{Lab, left_behind, wait_until};

/// A server that answers each connection with what it said, in upper case, until it is told to end.
const SHOUT: &str = r#"
name: shout
tdf: 5
machines: { pc: { speed: 0.3, memory: 128MiB } }
nodes:
  server:
    machine: pc
    run: [perl, -MIO::Socket::INET, -e, '$s = IO::Socket::INET->new(LocalPort => 7, Listen => 9,
      ReuseAddr => 1) or die; while ($c = $s->accept) { $l = <$c>; print $c uc $l; close $c; exit if $l eq "end\n" }']
    ready: { tcp: 7 }
    ports: { PORT: 7 }
  other: { machine: pc, run: sleep 100 }
links: [{ from: server, to: other, bandwidth: 10Mbit/s, delay: 100ms }]
ends: { exited: [server], limit: 60s }
"#;

/// A port that nobody has.
fn free() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn say(port: u16, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_port_of_the_loopback_leads_to_a_node_while_the_run_lives() {
    let port = free();
    let lab = Lab::new(&SHOUT.replace("PORT", &port.to_string()));
    let checked = lab.diorama(&["check", "lab"]);
    assert!(checked.stdout.contains(&format!("127.0.0.1:{port} leads to port 7 of server")), "{}", checked.stdout);

    let mut run = lab.start(&["run", "lab"]);
    lab.wait_for_event("shout/scaled", "all-ready");
    let mut follower = lab.command(&["events", "shout", "--follow", "--json"]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
    let events = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut events = events.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()).unwrap());
    assert!(events.any(|event| event["event"] == "zero"));

    assert_eq!(say(port, "hello\n"), "HELLO\n");
    let outside = events.find(|event| event["event"] == "from-outside").expect("who came is told while the run lives");
    assert_eq!((&outside["target"], &outside["detail"]["port"]), (&"server".into(), &port.into()));
    // One that is still open is no reason to go on.
    let idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    drop(idle);
    assert_eq!(say(port, "end\n"), "END\n");

    assert!(run.wait().unwrap().success(), "{}", lab.said());
    assert!(events.any(|event| event["event"] == "end"));
    assert!(follower.wait().unwrap().success(), "who follows hears of the end");
    wait_until("the port is free again", crate::support::PATIENCE, || TcpListener::bind(("127.0.0.1", port)).is_ok());
    assert_eq!(left_behind(true), Vec::<String>::new());
    let told = lab.diorama(&["events", "runs/shout/scaled"]);
    assert!(told.stdout.lines().any(|line| line.contains("from-outside  server")), "{}", told.stdout);
}

#[test]
fn a_port_that_somebody_has_is_refused_with_his_name() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let lab = Lab::new(&SHOUT.replace("PORT", &port.to_string()));
    let done = lab.diorama(&["run", "lab"]);
    assert_eq!(done.code, 3, "{}", done.stderr);
    let who = format!("(process {})", std::process::id());
    for part in [&format!("port {port} of 127.0.0.1"), "`server`", who.as_str(), "`ports`"] {
        assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
    }
    assert_eq!(left_behind(true), Vec::<String>::new());
}
