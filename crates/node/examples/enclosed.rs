//! The program of the tests: PID 1 of an enclosure, an engine that is killed, and an intruder.
//!
//! `enclosed __init` answers as the `diorama` binary does. `enclosed hold STATE CGROUP` opens an
//! enclosure, starts a node in it, prints `ready` and sleeps. `enclosed attack` runs in a node, tries
//! to break out of it and prints what it could do. `enclosed hoard` takes all that it
//! gets of what is counted per user. `enclosed eat BYTES` uses that much memory.

#[path = "enclosed/attack.rs"]
mod attack;
#[path = "enclosed/hoard.rs"]
mod hoard;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use diorama_node::{Enclosure, EnclosureOptions, Io, Node, NodeSpec, Runtime};
use host::NetNamespace;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("__init") => diorama_node::init_main(),
        Some("hold") => hold(&args[2], &args[3]),
        Some("attack") => attack::main(),
        Some("hoard") => hoard::main(),
        Some("eat") => attack::eat(args[2].parse().expect("a number of bytes")),
        _ => panic!("usage: enclosed __init | hold STATE CGROUP | attack | hoard | eat BYTES"),
    }
}

fn hold(state: &str, cgroup: &str) {
    let options = EnclosureOptions {
        state: PathBuf::from(state),
        init: "/proc/self/exe".into(),
        core: None,
        hide: Vec::new(),
        user_namespaces: false,
    };
    let enclosure = Enclosure::open(options).expect("an enclosure");
    let netns = NetNamespace::create().expect("a network namespace");
    let argv = ["sh", "-c", "sleep 7654 & sleep 7654; :"];
    let spec = NodeSpec::plain("held", &argv, 64 << 20, cgroup.into(), netns);
    let null = || File::options().write(true).open("/dev/null").expect("/dev/null");
    let io = Io { stdout: null(), stderr: null(), preserve: Vec::new(), gate: None };
    let runtime = Runtime::detect().expect("a runtime");
    let node = Node::create(&enclosure, &runtime, spec, io).expect("a node");
    node.start().expect("a start");
    println!("ready");
    std::thread::sleep(Duration::from_secs(600));
}
