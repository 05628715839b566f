//! How long a run's nodes take to make, to start and to tear down: `hundred [NODES]`, with each runtime.
//!
//! Their network is an empty namespace each, and their program is `sleep`.

use std::fs::File;
use std::time::{Duration, Instant};

use diorama_node::{Enclosure, EnclosureOptions, Io, Node, NodeSpec, Runtime};
use host::NetNamespace;
use host::cgroup::Tree;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|a| a == "__init") {
        diorama_node::init_main();
    }
    let nodes = args.get(1).map_or(100, |n| n.parse().expect("a number of nodes"));
    for runtime in Runtime::available() {
        measure(&runtime, nodes);
    }
}

fn measure(runtime: &Runtime, nodes: usize) {
    let state = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let begin = Instant::now();
    let mut last = begin;
    let mut lap = |what: &str| {
        println!("{:8} {nodes} nodes {what:24} {:7.3} s", runtime.name(), last.elapsed().as_secs_f64());
        last = Instant::now();
    };
    let options = EnclosureOptions {
        state: state.path().into(),
        init: "/proc/self/exe".into(),
        core: None,
        hide: Vec::new(),
        user_namespaces: false,
    };
    let enclosure = Enclosure::open(options).expect("an enclosure");
    lap("enclosure");
    let namespaces: Vec<_> = (0..nodes).map(|_| NetNamespace::create().expect("a network namespace")).collect();
    lap("network namespaces");
    let groups = Tree::of(&format!("hundred-{}", std::process::id())).expect("control groups");
    let null = || File::options().write(true).open("/dev/null").expect("/dev/null");
    let spec = |(n, netns): (usize, NetNamespace)| {
        let name = format!("node-{n}");
        let spec = NodeSpec::plain(&name, &["sleep", "1000"], 128 << 20, groups.path(&name), netns);
        (spec, Io { stdout: null(), stderr: null(), preserve: Vec::new(), gate: None })
    };
    let specs = namespaces.into_iter().enumerate().map(spec).collect();
    let created = Node::create_all(&enclosure, runtime, specs).expect("nodes");
    lap("created");
    Node::start_all(&created).expect("starts");
    lap("started");
    drop(created);
    drop(enclosure);
    lap("enclosure gone");
    diorama_node::remove_tree(state.path()).expect("a removal");
    std::thread::sleep(Duration::from_millis(20));
    groups.sweep().expect("the groups can be removed");
    lap("files and groups gone");
    println!("{:8} {nodes} nodes {:24} {:7.3} s", runtime.name(), "in all", begin.elapsed().as_secs_f64());
}
