//! The experiment's file.

use std::fmt::Write;

use model::yaml::quoted;

use crate::Note;
use crate::lans::Lan;
use crate::node::{Node, Ready};

/// The speed of a machine of which the file says nothing, of a core of the host.
const SPEED: f64 = 0.1;
/// And its memory.
const MEMORY: &str = "256MiB";

pub(crate) fn experiment(name: &str, file: &str, nodes: &[Node], lans: &[Lan], notes: &[Note]) -> String {
    let mut text = format!("# What `diorama convert` made of {file}.\n");
    for note in notes.iter().filter(|note| note.node.is_none()) {
        let _ = writeln!(text, "# {}:{}: {}", called(note), note.line, note.what);
    }
    let _ = write!(text, "name: {name}\ntdf: 1\n");
    text += "# Give machines the speed and memory of the target's; speeds are fractions of a core of this host.\n";
    text += "machines:\n";
    for node in nodes {
        let (cpus, speed) = node.cpus.unwrap_or((1, SPEED));
        let cpus = if cpus == 1 { String::new() } else { format!("cpus: {cpus}, ") };
        let memory = node.memory.as_deref().unwrap_or(MEMORY);
        let _ = writeln!(text, "  {}: {{ {cpus}speed: {speed}, memory: {memory} }}", node.name);
    }
    text += "nodes:\n";
    for node in nodes {
        self::node(&mut text, node, nodes, notes);
    }
    if !lans.is_empty() {
        text += "# Give each network its bandwidth and delay, for instance `bandwidth: 1Gbit/s` and `delay: 50us`.\n";
        text += "lans:\n";
        for lan in lans {
            let members: Vec<String> = lan.members.iter().map(|member| quoted(member)).collect();
            let subnet = lan.subnet.as_ref().map_or(String::new(), |subnet| format!(", subnet: {subnet}"));
            let addresses: Vec<String> =
                lan.addresses.iter().map(|(node, address)| format!("{node}: {}", quoted(address))).collect();
            let addresses = match addresses.is_empty() {
                true => String::new(),
                false => format!(", addresses: {{ {} }}", addresses.join(", ")),
            };
            let _ = writeln!(text, "  {}: {{ members: [{}]{subnet}{addresses} }}", lan.name, members.join(", "));
        }
    }
    text += "# Say what is measured (`metrics`), and when the run is over.\n";
    text += "ends: { limit: 60s }\n";
    text
}

fn node(text: &mut String, node: &Node, nodes: &[Node], notes: &[Note]) {
    let _ = writeln!(text, "  {}:", node.name);
    for note in notes.iter().filter(|note| note.node.as_ref() == Some(&node.name)) {
        let _ = writeln!(text, "    # {}:{}: {}", called(note), note.line, note.what);
    }
    let _ = writeln!(text, "    machine: {}\n    run: {}", node.name, node.run);
    if let Some(count) = node.count {
        let _ = writeln!(text, "    count: {count}");
    }
    if let Some(root) = &node.root {
        let _ = writeln!(text, "    root: {}", quoted(root));
    }
    let pairs = |all: Vec<(&String, &String)>| {
        let pairs = all.into_iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)));
        format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
    };
    if !node.env.is_empty() {
        let _ = writeln!(text, "    env: {}", pairs(node.env.iter().collect()));
    }
    if let Some(cwd) = &node.cwd {
        let _ = writeln!(text, "    cwd: {}", quoted(cwd));
    }
    for (key, value) in [("user", &node.user), ("hostname", &node.hostname), ("stop-signal", &node.stop_signal)] {
        if let Some(value) = value {
            let _ = writeln!(text, "    {key}: {}", quoted(value));
        }
    }
    if !node.names.is_empty() {
        let names: Vec<String> = node.names.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(text, "    names: [{}]", names.join(", "));
    }
    if !node.files.is_empty() {
        let _ = writeln!(text, "    files: {}", pairs(node.files.iter().map(|(to, from)| (to, from)).collect()));
    }
    if !node.after.is_empty() {
        let pattern = |name: &String| nodes.iter().find(|s| s.name == *name).map_or(name.clone(), Node::pattern);
        let after: Vec<String> = node.after.iter().map(|name| quoted(&pattern(name))).collect();
        let _ = writeln!(text, "    after: [{}]", after.join(", "));
    }
    match &node.ready {
        None => {}
        Some(Ready::Tcp(port)) => drop(writeln!(text, "    ready: {{ tcp: {port} }}")),
        Some(Ready::Run { argv, every, limit }) => {
            let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
            let times = [("every", every), ("limit", limit)];
            let times = times.iter().filter_map(|(key, time)| Some(format!(", {key}: {}", quoted(time.as_ref()?))));
            let _ = writeln!(text, "    ready: {{ run: [{}]{} }}", words.join(", "), times.collect::<String>());
        }
    }
}

/// The name of the file that a note is of.
fn called(note: &Note) -> std::borrow::Cow<'_, str> {
    note.file.file_name().unwrap_or_default().to_string_lossy()
}
