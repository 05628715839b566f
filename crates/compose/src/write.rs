//! The experiment's file.

use std::fmt::Write;

use crate::service::{Service, quoted};
use crate::{Network, Note};

/// The speed of a machine of which the file says nothing, of a core of the host.
const SPEED: f64 = 0.1;
/// And its memory.
const MEMORY: &str = "256MiB";

pub(crate) fn experiment(name: &str, file: &str, services: &[Service], networks: &[Network], notes: &[Note]) -> String {
    let mut text = format!("# What `diorama convert` made of {file}.\n");
    for note in notes.iter().filter(|note| note.node.is_none()) {
        let _ = writeln!(text, "# {file}:{}: {}", note.line, note.what);
    }
    let _ = write!(text, "name: {name}\ntdf: 1\n");
    text += "# Give machines the speed and memory of the target's; speeds are fractions of a core of this host.\n";
    text += "machines:\n";
    for service in services {
        let speed = service.cpus.unwrap_or(SPEED);
        let memory = service.memory.as_deref().unwrap_or(MEMORY);
        let _ = writeln!(text, "  {}: {{ speed: {speed}, memory: {memory} }}", service.name);
    }
    text += "nodes:\n";
    for service in services {
        node(&mut text, file, service, services, notes);
    }
    if !networks.is_empty() {
        text += "# Give each network its bandwidth and delay, for instance `bandwidth: 1Gbit/s` and `delay: 50us`.\n";
        text += "lans:\n";
        for network in networks {
            let members: Vec<String> = network.members.iter().map(|member| quoted(member)).collect();
            let subnet = network.subnet.as_ref().map_or(String::new(), |subnet| format!(", subnet: {subnet}"));
            let _ = writeln!(text, "  {}: {{ members: [{}]{subnet} }}", network.name, members.join(", "));
        }
    }
    text += "# Say what is measured (`metrics`), and when the run is over.\n";
    text += "ends: { limit: 60s }\n";
    text
}

fn node(text: &mut String, file: &str, service: &Service, services: &[Service], notes: &[Note]) {
    let _ = writeln!(text, "  {}:", service.name);
    for note in notes.iter().filter(|note| note.node.as_ref() == Some(&service.name)) {
        let _ = writeln!(text, "    # {file}:{}: {}", note.line, note.what);
    }
    let _ = writeln!(text, "    machine: {}\n    run: {}", service.name, service.run);
    if let Some(count) = service.count {
        let _ = writeln!(text, "    count: {count}");
    }
    if let Some(root) = &service.root {
        let _ = writeln!(text, "    root: {}", quoted(root));
    }
    let pairs = |all: Vec<(&String, &String)>| {
        let pairs = all.into_iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value)));
        format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
    };
    if !service.env.is_empty() {
        let _ = writeln!(text, "    env: {}", pairs(service.env.iter().collect()));
    }
    if let Some(cwd) = &service.cwd {
        let _ = writeln!(text, "    cwd: {}", quoted(cwd));
    }
    if !service.files.is_empty() {
        let _ = writeln!(text, "    files: {}", pairs(service.files.iter().map(|(to, from)| (to, from)).collect()));
    }
    if !service.after.is_empty() {
        let pattern = |name: &String| services.iter().find(|s| s.name == *name).map_or(name.clone(), Service::pattern);
        let after: Vec<String> = service.after.iter().map(|name| quoted(&pattern(name))).collect();
        let _ = writeln!(text, "    after: [{}]", after.join(", "));
    }
    if let Some(port) = service.ready {
        let _ = writeln!(text, "    ready: {{ tcp: {port} }}");
    }
}
