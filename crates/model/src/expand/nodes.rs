//! Machines and nodes.

use std::collections::HashSet;
use std::path::Path;

use scale::VirtualDuration;

use super::{Entry, MANY, NODES, disk, guests, identity, key_span, ports, select};
use crate::error::Problems;
use crate::experiment::{Beside, ClockOff, Congestion, Machine, Node, Ready, Root};
use crate::file::{self, Command};
use crate::names::{did_you_mean, wrong_label, wrong_node, wrong_word};
use crate::paths;
use crate::tree::{Value, shorten};
use crate::units::{Speed, Time};

/// How many CPUs a machine may have. They are all on one core of a harness, so more of them would be very slow ones.
const CPUS: std::ops::RangeInclusive<u32> = 1..=256;
/// The slowest and the fastest CPU of a target, in cores of this host; the clock can show no other.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
/// Bounds of a speed in units of work per microsecond; what they are in cores of this host, only a plan knows.
const ABSOLUTE_SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=1e6;

/// The machines, each with whether it is right: a name that is known but wrong must not be reported as unknown.
pub(super) fn machines(entries: Vec<Entry<'_, file::Machine>>, problems: &mut Problems) -> Vec<(Machine, bool)> {
    let mut machines = Vec::new();
    for entry in entries {
        if let Some(what) = wrong_word(entry.name()) {
            problems.add(entry.key_span(), what);
        }
        let (mut cpus, mut speed, mut memory_bytes, mut disk) = (1, Speed::OfHost(1.0), 0, None);
        if let Some(read) = &entry.value {
            (cpus, speed, memory_bytes) = (read.cpus, read.speed, read.memory.0);
            disk = read.disk.as_ref().and_then(|disk| disk::disk(disk, &entry, problems));
            if !CPUS.contains(&cpus) {
                let what = format!("a machine has {} to {} CPUs, such as `cpus: 4`", CPUS.start(), CPUS.end());
                problems.add(entry.at("cpus"), what);
            }
            if let Some(what) = wrong_speed(speed) {
                problems.add(entry.at("speed"), what);
            }
        }
        let right = entry.value.is_some();
        machines.push((Machine { name: entry.name().to_owned(), cpus, speed, memory_bytes, disk }, right));
    }
    machines
}

/// The fault of a speed; none if it is right.
fn wrong_speed(speed: Speed) -> Option<String> {
    match speed {
        Speed::OfHost(fraction) if !SPEEDS.contains(&fraction) => Some(format!(
            "a speed is {} to {}: write the fraction of one core of this host that each CPU is worth, such as 0.5",
            SPEEDS.start(),
            SPEEDS.end()
        )),
        Speed::Absolute(units) if !ABSOLUTE_SPEEDS.contains(&units) => Some(format!(
            "an absolute speed is {} to {} units/us: write how much work each CPU does in a microsecond, such as \
             `850 units/us` (`diorama doctor` says how much a core of this host does)",
            ABSOLUTE_SPEEDS.start(),
            ABSOLUTE_SPEEDS.end()
        )),
        _ => None,
    }
}

/// The nodes, `count` expanded. A node with a mistake is still there, so that its name is known.
pub(super) fn nodes(
    entries: Vec<Entry<'_, file::Node>>,
    machines: &[(Machine, bool)],
    dir: &Path,
    problems: &mut Problems,
) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut taken: HashSet<String> = HashSet::new();
    // For every entry, the places in `nodes` that it became.
    let mut places = Vec::new();
    for entry in &entries {
        let first = nodes.len();
        let node = node(entry, machines, dir, problems);
        let count = entry.value.as_ref().and_then(|n| n.count);
        if count == Some(0) {
            problems.add(entry.at("count"), "a count is at least 1: to leave a node out, remove it");
        }
        let count = count.map(|c| c as usize);
        if nodes.len().saturating_add(count.unwrap_or(1)) > NODES {
            let what = format!("this makes more than {NODES} nodes, the most that an experiment may have");
            problems.add(entry.at("count"), what);
            // One stands for all, so that its name is known.
            nodes.push(Node { name: format!("{}-1", entry.name()), ..node });
            places.push(first..nodes.len());
            continue;
        }
        let copies = count.filter(|count| !problems.may_copy(entry.node.length(), *count, entry.at("count")));
        if copies.is_some() {
            nodes.push(Node { name: format!("{}-1", entry.name()), ..node });
            places.push(first..nodes.len());
            continue;
        }
        for name in expanded(entry.name(), count) {
            if let Some(what) = wrong_node(&name) {
                problems.add(entry.key_span(), what);
                if count.is_some() {
                    break;
                }
            }
            if !taken.insert(name.clone()) {
                problems.add(entry.key_span(), format!("there are two nodes `{}`: rename one", shorten(&name)));
            }
            nodes.push(Node { name, ..node.clone() });
        }
        places.push(first..nodes.len());
    }
    let names: Vec<String> = nodes.iter().map(|n| n.name.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (entry, range) in entries.iter().zip(&places) {
        let Some(read) = &entry.value else { continue };
        for (i, name) in read.names.iter().enumerate().filter(|(_, name)| taken.contains(*name)) {
            let what = format!("`{}` is a node's own name: give it to that one only", shorten(name));
            problems.add(entry.at_item("names", i), what);
        }
        let mut after = Vec::new();
        for (i, pattern) in read.after.iter().enumerate() {
            after.extend(select(pattern, &names, "node", entry.at_item("after", i), problems));
        }
        after.sort_unstable();
        after.dedup();
        if problems.may_name(after.len() * range.len(), entry.at("after")) {
            range.clone().for_each(|place| nodes[place].after.clone_from(&after));
        }
    }
    ports::that_meet(&entries, problems);
    if let Some(cycle) = cycle(&nodes) {
        let way: Vec<&str> = cycle.iter().map(|i| nodes[*i].name.as_str()).collect();
        let entry = entries.iter().zip(&places).find(|(_, range)| range.contains(&cycle[0]));
        let at = entry.map_or_else(Default::default, |(entry, _)| entry.at("after"));
        let what = match way.as_slice() {
            [one, _] => format!("`{one}` waits for itself: remove it from `after`"),
            _ => format!("these nodes wait for one another: {}; remove one `after`", way.join(" after ")),
        };
        problems.add(at, what);
    }
    nodes
}

/// The node that serves barriers, which runs what that takes beside its own program; and all nodes know its name.
pub(super) fn serving_barriers(name: &str, nodes: &mut [Node], root: &Value, problems: &mut Problems) -> Option<usize> {
    let at = root.get("barriers").unwrap_or(root).span;
    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let found = select(name, &names, "node", at, problems);
    let &[server] = found.as_slice() else {
        if found.len() > 1 {
            problems.add(at, format!("`{}` are several nodes: name the one that serves barriers", shorten(name)));
        }
        return None;
    };
    let named = nodes[server].name.clone();
    for node in nodes.iter_mut().filter(|n| n.env.iter().all(|(key, _)| key != barrier::SERVER)) {
        node.env.push((barrier::SERVER.to_owned(), named.clone()));
    }
    let (program, argv) = ("barrier.server".to_owned(), barrier::serving());
    nodes[server].beside.push(Beside { program, argv, receives: true });
    Some(server)
}

/// The hosts that exist only in the emulator, `count` expanded.
pub(super) fn simulated(
    entries: Vec<Entry<'_, file::Simulated>>,
    nodes: &[&str],
    switches: &[String],
    problems: &mut Problems,
) -> Vec<String> {
    let mut taken: HashSet<String> = nodes.iter().map(|n| (*n).to_owned()).chain(switches.iter().cloned()).collect();
    let mut names = Vec::new();
    for entry in &entries {
        let count = entry.value.as_ref().and_then(|s| s.count);
        if let Some(what) = wrong_label(entry.name()) {
            problems.add(entry.key_span(), what);
            continue;
        }
        if count == Some(0) {
            problems.add(entry.at("count"), "a count is at least 1: to leave these out, remove them");
        }
        let count = count.map(|c| c as usize);
        if names.len().saturating_add(count.unwrap_or(1)) > MANY {
            problems.add(entry.at("count"), format!("these are more than {MANY} simulated hosts"));
            continue;
        }
        for name in expanded(entry.name(), count) {
            if taken.insert(name.clone()) {
                names.push(name);
            } else {
                let what = format!("`{name}` is also a node or a switch, or simulated already: rename one");
                problems.add(entry.key_span(), what);
            }
        }
    }
    names
}

fn expanded(name: &str, count: Option<usize>) -> Vec<String> {
    match count {
        None => vec![name.to_owned()],
        Some(n) => (1..=n).map(|i| format!("{name}-{i}")).collect(),
    }
}

/// The node that an entry describes, without its final name and without `after`.
fn node(entry: &Entry<'_, file::Node>, machines: &[(Machine, bool)], dir: &Path, problems: &mut Problems) -> Node {
    let mut node = Node {
        name: entry.name().to_owned(),
        group: entry.name().to_owned(),
        machine: 0,
        root: Root::Host,
        argv: Vec::new(),
        guest: None,
        env: Vec::new(),
        cwd: None,
        user: (0, 0),
        hostname: None,
        names: Vec::new(),
        stop_signal: None,
        ports: Vec::new(),
        congestion: None,
        after: Vec::new(),
        ready: None,
        files: Vec::new(),
        clock: None,
        dilated_tsc: false,
        observes_calls: false,
        observes_packets: false,
        place: problems.line(entry.key_span()),
        beside: Vec::new(),
    };
    let Some(read) = &entry.value else { return node };
    node.congestion = read.congestion.map(|c| match c {
        file::Congestion::Cubic => Congestion::Cubic,
        file::Congestion::Reno => Congestion::Reno,
    });
    match machines.iter().position(|(m, _)| m.name == read.machine) {
        Some(place) => node.machine = place,
        None if problems.full() => {}
        None => {
            let known: Vec<&str> = machines.iter().map(|(m, _)| m.name.as_str()).collect();
            let near = did_you_mean(&read.machine, &known);
            let near = if near.is_empty() { format!(": there are {}", shorten(&known.join(", "))) } else { near };
            problems.add(entry.at("machine"), format!("there is no machine `{}`{near}", shorten(&read.machine)));
        }
    }
    match (&read.run, &read.guest) {
        (_, Some(guest)) => node.guest = guests::guest(guest, entry, dir, problems),
        (Some(run), None) => match argv(run) {
            Ok(argv) => node.argv = argv,
            Err(what) => problems.add(entry.at("run"), what),
        },
        (None, None) => {
            let what = "the key `run` is missing here: add `run: WORDS`, or for a whole machine `guest: { … }`";
            problems.add(entry.at("run"), what);
        }
    }
    if let Some(root) = &read.root {
        match paths::root(dir, root) {
            Ok(root) => node.root = root,
            Err(what) => problems.add(entry.at("root"), what),
        }
    }
    for (name, value) in &read.env {
        let right = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b'=');
        if !right || value.contains('\0') {
            let what = format!("`{}` cannot be an environment variable: write a name such as `LANG`", shorten(name));
            problems.add(key_span(entry.node, "env", name), what);
        }
        node.env.push((name.clone(), value.clone()));
    }
    if let Some(cwd) = &read.cwd {
        if cwd != "/"
            && let Some(what) = paths::wrong_inside(cwd)
        {
            problems.add(entry.at("cwd"), what);
        }
        node.cwd = Some(cwd.clone());
    }
    identity::identity(entry, read, &mut node, problems);
    node.clock = read.clock.map(|clock| {
        if clock.offset.is_none() && clock.drift.is_none() {
            problems
                .add(entry.at("clock"), "this clock is right: write by how much it is off, such as `offset: 250ms`");
        }
        let drift = Some(clock.drift.map_or(0.0, |drift| drift.0));
        ClockOff { offset_ns: Some(clock.offset.map_or(0, |offset| offset.0)), drift }
    });
    ports::ports(entry, read, &mut node, problems);
    node.dilated_tsc = matches!(read.tsc, Some(file::Tsc::Dilated));
    node.observes_calls = read.observe.is_some_and(|observe| observe.calls);
    node.observes_packets = read.observe.is_some_and(|observe| observe.packets);
    if let Some(ready) = &read.ready {
        node.ready = self::ready(ready, entry, problems);
    }
    for (inside, path) in &read.files {
        if let Some(what) = paths::wrong_inside(inside) {
            problems.add(key_span(entry.node, "files", inside), what);
        }
        match paths::in_folder(dir, path) {
            Ok(full) => node.files.push((inside.clone(), full)),
            Err(what) => {
                let at = entry.node.get("files").and_then(|f| f.get(inside)).map_or(entry.node.span, |v| v.span);
                problems.add(at, what);
            }
        }
    }
    node
}

/// When a node is ready; none, with a note, if that is wrong.
fn ready(read: &file::Ready, entry: &Entry<'_, file::Node>, problems: &mut Problems) -> Option<Ready> {
    const SECOND: u64 = 1_000_000_000;
    let at = entry.at("ready");
    let time = |time: Option<Time>, otherwise| time.map_or(VirtualDuration::from_nanos(otherwise), |time| time.0);
    match (read.tcp, &read.run) {
        (Some(0), None) => {
            problems.add(at, "a TCP port is 1 to 65535: write the one that the program listens on");
        }
        (Some(_), None) if read.every.is_some() || read.limit.is_some() => {
            problems.add(at, "`every` and `limit` are for a command, `run: WORDS`: remove them");
        }
        (Some(port), None) => return Some(Ready::Tcp(port)),
        (None, Some(run)) => {
            let (every, limit) = (time(read.every, SECOND), time(read.limit, 30 * SECOND));
            if every.as_nanos() < SECOND / 100 || limit.as_nanos() < SECOND / 100 {
                problems.add(at, "a command is run again after 10ms at least, and may take so long: `every: 1s`");
            }
            match argv(run) {
                Ok(argv) => return Some(Ready::Run { argv, every, limit }),
                Err(what) => problems.add(at, what),
            }
        }
        _ => problems.add(at, "a node is ready either by `tcp: PORT` or by a command, `run: WORDS`: write one of them"),
    }
    None
}

pub(super) fn argv(run: &Command) -> Result<Vec<String>, String> {
    let words = match run {
        Command::Words(words) => words.clone(),
        Command::Line(line) => shlex::split(line).ok_or_else(|| {
            format!("a quotation in `{}` does not end: close it, or write a list of words", shorten(line))
        })?,
    };
    match words.first() {
        None => Err("there is no command here: write one, such as `nginx -c /srv/nginx.conf`".into()),
        Some(program) if program.is_empty() => Err("the name of the program is empty: write one".into()),
        Some(_) if words.iter().any(|w| w.contains('\0')) => Err("a command cannot contain a NUL character".into()),
        Some(_) => Ok(words),
    }
}

/// A cycle of `after`, its first node again at the end.
fn cycle(nodes: &[Node]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::No; nodes.len()];
    for start in 0..nodes.len() {
        if seen[start] != Seen::No {
            continue;
        }
        // Depth first, without recursion: each step is a node and how many of its `after` have been followed.
        let mut way: Vec<(usize, usize)> = vec![(start, 0)];
        seen[start] = Seen::OnTheWay;
        while let Some((here, followed)) = way.last_mut() {
            let here = *here;
            match nodes[here].after.get(*followed) {
                None => {
                    seen[here] = Seen::Done;
                    way.pop();
                }
                Some(&next) => {
                    *followed += 1;
                    match seen[next] {
                        Seen::No => {
                            seen[next] = Seen::OnTheWay;
                            way.push((next, 0));
                        }
                        Seen::OnTheWay => {
                            let from = way.iter().position(|(n, _)| *n == next).unwrap_or(0);
                            let mut cycle: Vec<usize> = way[from..].iter().map(|(n, _)| *n).collect();
                            cycle.push(next);
                            return Some(cycle);
                        }
                        Seen::Done => {}
                    }
                }
            }
        }
    }
    None
}
