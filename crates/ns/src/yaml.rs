//! From what a script describes to the experiment's file, each line with the place in the script that it comes from.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use model::yaml::quoted;

use crate::error::{Note, Place};
use crate::hardware::{Hardware, Machine};
use crate::script::{Event, Happening, Link, Node, Pipe, Program, Queue, Said, Script, When, label};
use crate::units::{as_percent, as_rate, as_time};

/// An experiment's file.
#[derive(Clone, Debug, Default)]
pub struct Yaml {
    /// Its text.
    pub text: String,
    /// By line, the place in the script that it comes from.
    pub origins: Vec<Option<Place>>,
}

impl Yaml {
    fn line(&mut self, text: impl AsRef<str>, place: &Option<Place>) {
        for line in text.as_ref().lines() {
            self.text.push_str(line);
            self.text.push('\n');
            self.origins.push(place.clone());
        }
    }
}

/// A text as a comment has it: nothing in it ends the line, or is what YAML does not allow.
fn one_line(text: &str) -> String {
    let plain =
        |c: char| !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if plain(c) { c } else { ' ' }).collect()
}

/// A queue as an experiment writes it.
pub fn queue(queue: &Queue) -> String {
    let mean = queue.number("mean_pktsize_");
    let length = |name: &str| match queue.in_bytes {
        // A queue holds a full packet at least.
        true if name == "limit_" => format!("{}B", (queue.number(name) * mean).round().max(1514.0)),
        true => format!("{}B", (queue.number(name) * mean).round()),
        false => format!("{}", queue.number(name).round()),
    };
    if !queue.red {
        return length("limit_");
    }
    format!(
        "{{ red: {{ min: {}, max: {}, limit: {}, max_p: {}, weight: {}, packet: {}B{} }} }}",
        length("thresh_"),
        length("maxthresh_"),
        length("limit_"),
        as_percent(1.0 / queue.number("linterm_")),
        queue.number("q_weight_"),
        mean.round(),
        if queue.gentle { ", gentle: true" } else { "" },
    )
}

/// The keys of a pipe, as `key: value` pairs.
fn pipe(pipe: &Pipe) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    all.extend(pipe.rate.map(|r| ("bandwidth", as_rate(r - pipe.background))));
    if pipe.delay > 0.0 {
        all.push(("delay", as_time(pipe.delay)));
    }
    if pipe.loss > 0.0 {
        all.push(("loss", as_percent(pipe.loss)));
    }
    all.push(("queue", queue(&pipe.queue)));
    if !pipe.up {
        all.push(("up", "false".into()));
    }
    all
}

/// Pairs of keys and values as they stand in a map.
pub fn joined(pairs: &[(&str, String)]) -> String {
    pairs.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", ")
}

/// All that pipes do, so that nothing is left of what events have changed.
pub fn reset(of: &[Pipe; 2]) -> Vec<(&'static str, String)> {
    let one = |pipe: &Pipe| {
        let mut all = complete(pipe);
        if pipe.up {
            all.push(("up", "true".into()));
        }
        format!("{{ {} }}", joined(&all))
    };
    vec![("ab", one(&of[0])), ("ba", one(&of[1]))]
}

/// The keys of both pipes, and those of each that differ.
fn pipes([ab, ba]: &[Pipe; 2]) -> Vec<(&'static str, String)> {
    if ab == ba {
        return pipe(ab);
    }
    let [ab, ba] = [pipe(ab), pipe(ba)];
    let common: Vec<_> = ab.iter().filter(|p| ba.contains(p)).cloned().collect();
    let rest = |all: Vec<(&'static str, String)>| {
        let own: Vec<_> = all.into_iter().filter(|p| !common.contains(p)).collect();
        format!("{{ {} }}", joined(&own))
    };
    let (ab, ba) = (rest(ab), rest(ba));
    let mut all = common.clone();
    for (key, value) in [("ab", ab), ("ba", ba)] {
        if value != "{  }" {
            all.push((key, value));
        }
    }
    all
}

fn addresses<'a>(of: impl Iterator<Item = (&'a str, &'a Option<Said>)>) -> Option<String> {
    let all: Vec<String> = of.filter_map(|(node, address)| Some(format!("{node}: {}", address.as_ref()?.0))).collect();
    (!all.is_empty()).then(|| format!("addresses: {{ {} }}", all.join(", ")))
}

/// The sources of the whole file.
pub struct Source<'a> {
    /// The script's description.
    pub script: &'a Script,
    /// The hardware that is known here.
    pub hardware: &'a Hardware,
    /// The experiment's name.
    pub name: &'a str,
    /// The script's name.
    pub file: &'a str,
    /// The time dilation factor, as it is written.
    pub tdf: &'a str,
}

/// The experiment's file, or what of the script cannot be in one.
pub fn file(source: &Source<'_>) -> Result<(Yaml, Vec<Note>), Vec<Note>> {
    let Source { script, hardware, .. } = source;
    let mut problems: Vec<Note> = Vec::new();
    let mut notes = script.notes.clone();
    let mut classes: BTreeMap<String, Machine> = BTreeMap::new();
    let mut nodes = Vec::new();
    for node in script.nodes.iter().filter(|n| !n.simulated) {
        let machine = class(node, source, &mut classes, &mut notes).unwrap_or_else(|problem| {
            problems.push(problem);
            String::new()
        });
        let root = match &node.system {
            None => None,
            Some((system, place)) => match hardware.system(system) {
                Some(root) => Some((root.to_owned(), place.clone())),
                None => {
                    let what = hardware.unknown("operating system", system, "systems", "host");
                    problems.push(Note { place: place.clone(), what });
                    None
                }
            },
        };
        nodes.push((node, machine, root));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    note_programs(script, &mut notes);
    for lan in script.lans.iter().filter(|lan| lan.members.iter().all(|m| m.address.is_none())) {
        if let Some((_, place)) = &lan.bits {
            let what = format!("the netmask of `{}` is ignored: none of its addresses was chosen", lan.name.0);
            notes.push(Note { place: place.clone(), what });
        }
    }
    notes.sort_by(|a, b| a.place.cmp(&b.place));

    let mut yaml = Yaml::default();
    let none = None;
    let file = one_line(source.file);
    yaml.line(format!("# What {file} describes, as `diorama convert` has it."), &none);
    if !notes.is_empty() {
        yaml.line("#", &none);
        yaml.line("# What differs here from what was asked for:", &none);
    }
    for note in &notes {
        yaml.line(format!("#   {}", one_line(&note.to_string())), &note.place);
    }
    yaml.line(format!("name: {}", source.name), &none);
    yaml.line(format!("tdf: {}", source.tdf), &none);
    yaml.line("machines:", &none);
    for (name, machine) in &classes {
        let cpus = machine.cpus.map_or(String::new(), |cpus| format!("cpus: {cpus}, "));
        yaml.line(format!("  {name}: {{ {cpus}speed: {}, memory: {} }}", machine.speed, machine.memory), &none);
    }
    yaml.line("nodes:", &none);
    for (node, machine, root) in &nodes {
        write_node(&mut yaml, node, machine, root.as_ref(), script);
    }
    let mut simulated = script.nodes.iter().filter(|n| n.simulated).peekable();
    if simulated.peek().is_some() {
        yaml.line("simulated:", &none);
    }
    for node in simulated {
        yaml.line(format!("  {}: {{}}", node.name.0), &node.name.1);
    }
    if !script.links.is_empty() {
        yaml.line("links:", &none);
    }
    let names = link_names(script);
    for (link, name) in script.links.iter().zip(&names) {
        write_link(&mut yaml, link, name, script);
    }
    if let Some(place) = &script.apart {
        yaml.line("apart: true", place);
    }
    if !script.lans.is_empty() {
        yaml.line("lans:", &none);
        write_lans(&mut yaml, script);
    }
    if let Some((node, place)) = &script.barriers {
        yaml.line(format!("barriers: {}", script.nodes[*node].name.0), place);
    }
    if let Some((most, place)) = &script.colocate {
        yaml.line(format!("colocate: {most}"), place);
    }
    if !script.flows.is_empty() {
        yaml.line("traffic:", &none);
    }
    for flow in &script.flows {
        let [from, to] = flow.ends.map(|e| script.nodes[e].name.0.as_str());
        let (name, place) = &flow.name;
        yaml.line(format!("  {name}: {{ from: {from}, to: {to}, {} }}", joined(&flow.keys)), place);
    }
    let limit = limit(script, hardware);
    // An event at the very end makes no difference.
    let before_the_end =
        |e: &&Event| script.end.as_ref().is_none_or(|(end, _)| e.when != When { after: None, at: *end });
    let events: Vec<&Event> = script.events.iter().filter(before_the_end).collect();
    if !events.is_empty() {
        yaml.line("events:", &none);
    }
    for event in events {
        let what = match &event.what {
            Happening::Link(l, change) => format!("link: {}, set: {{ {change} }}", names[*l].0),
            Happening::Lan(l, None, change) => {
                format!("link: \"*--{}\", set: {{ {change} }}", script.lans[*l].name.0)
            }
            Happening::Lan(l, Some(m), change) => {
                let lan = &script.lans[*l];
                let node = &script.nodes[lan.members[*m].node].name.0;
                format!("link: {node}--{}, set: {{ {change} }}", lan.name.0)
            }
            Happening::Signal(p, signal) => format!("{}, signal: {signal}", of_program(script, *p)),
            Happening::Run(p, what, step) => {
                let step = step.map_or(String::new(), |step| format!(", as: {}", step_name(step)));
                let (shell, text) = (shell_for(&what.command), quoted(&command(what)));
                format!("{}, run: [{shell}, -c, {text}]{step}", of_program(script, *p))
            }
            Happening::End => "do: end".into(),
            Happening::Flow(t, what) => {
                let flow = script.flows.iter().find(|f| f.traffic == *t).map_or("", |f| &f.name.0);
                format!("flow: {flow}, {what}")
            }
            Happening::Node(n, act) => format!("node: {}, do: {act}", script.nodes[*n].name.0),
        };
        let after = event.when.after.map_or(String::new(), |step| format!("after: {}, ", step_name(step)));
        yaml.line(format!("  - {{ {after}at: {}, {what} }}", as_time(event.when.at)), &event.place);
    }
    let end = script.end.as_ref().and_then(|(_, place)| place.clone());
    yaml.line(format!("ends: {{ limit: {limit} }}"), &end);
    Ok((yaml, notes))
}

/// The class of machine that a node is of; it is among `classes` afterwards.
fn class(
    node: &Node,
    source: &Source<'_>,
    classes: &mut BTreeMap<String, Machine>,
    notes: &mut Vec<Note>,
) -> Result<String, Note> {
    let Source { script, hardware, .. } = source;
    let (written, place) = match &node.hardware {
        Some((kind, place)) => (kind.as_str(), place.clone()),
        None => (hardware.usual.as_str(), node.name.1.clone()),
    };
    let problem = |what: String| Note { place: place.clone(), what };
    // `tb-fix-node` names a single machine, which need not be known.
    let (kind, fixed) = match written.strip_suffix('?') {
        Some(machine) => (machine, true),
        None => (written, false),
    };
    let types = script.types.get(kind);
    let known = |kind: &&str| hardware.machines.contains_key(*kind);
    let found = match types {
        Some(types) => types.iter().map(String::as_str).find(known),
        None => Some(kind).filter(known),
    };
    let kind = match found {
        Some(kind) => kind,
        None if fixed => {
            let what = format!("`tb-fix-node` is ignored: {} has no machine `{kind}`", hardware.file.display());
            notes.push(problem(what));
            hardware.usual.as_str()
        }
        None => {
            let name = types.and_then(|t| t.first()).map_or(kind, String::as_str);
            return Err(problem(hardware.unknown("hardware", name, "machines", "{ speed: 0.1, memory: 256MiB }")));
        }
    };
    let Some(machine) = hardware.machines.get(kind) else {
        return Err(problem(hardware.unknown("hardware", kind, "machines", "{ speed: 0.1, memory: 256MiB }")));
    };
    let (name, machine) = match node.memory {
        None => (kind.to_owned(), machine.clone()),
        Some(mebibytes) => {
            (format!("{kind}-{mebibytes}MiB"), Machine { memory: format!("{mebibytes}MiB"), ..machine.clone() })
        }
    };
    classes.insert(name.clone(), machine);
    Ok(name)
}

fn note_programs(script: &Script, notes: &mut Vec<Note>) {
    if script.end.is_none() && !script.events.iter().any(|e| e.what == Happening::End) {
        let what = "the script does not say when it is over: `$ns at 60.0 \"$ns swapout\"` would";
        notes.push(Note { place: None, what: what.into() });
    }
}

/// When the run is over.
fn limit(script: &Script, hardware: &Hardware) -> String {
    if let Some((end, _)) = script.end {
        return as_time(end);
    }
    let last = script.events.iter().map(|e| e.when.at).fold(0.0, f64::max);
    let usual = crate::units::time(hardware.limit.trim_end_matches('s')).unwrap_or(60.0);
    // Some time for what the last event does.
    if last + 10.0 > usual { as_time(last + 10.0) } else { hardware.limit.clone() }
}

fn write_node(yaml: &mut Yaml, node: &Node, machine: &str, root: Option<&Said>, script: &Script) {
    let (name, place) = &node.name;
    yaml.line(format!("  {name}:"), place);
    let hardware = node.hardware.as_ref().map_or(place, |(_, place)| place);
    yaml.line(format!("    machine: {machine}"), hardware);
    if let Some((root, place)) = root.filter(|(root, _)| root != "host") {
        yaml.line(format!("    root: {}", quoted(root)), place);
    }
    let run = words(node);
    let list: Vec<String> = run.iter().map(|w| quoted(w)).collect();
    let place = node.startup.as_ref().map_or(place, |(_, place)| place);
    yaml.line(format!("    run: [{}]", list.join(", ")), place);
    let cmdline = node.cmdline.iter().map(|(text, place)| ("CMDLINE", text, place));
    let options = script.environment.iter().map(|(name, (value, place))| (name.as_str(), value, place));
    let mut environment = options.chain(cmdline).peekable();
    if environment.peek().is_some() {
        yaml.line("    env:", place);
    }
    for (name, value, place) in environment {
        yaml.line(format!("      {}: {}", quoted(name), quoted(value)), place);
    }
    if !node.tarfiles.is_empty() {
        yaml.line("    files:", place);
    }
    let mut seen: Vec<&str> = Vec::new();
    for (_, (file, place)) in &node.tarfiles {
        let name = last(file);
        if !seen.contains(&name) {
            seen.push(name);
            yaml.line(format!("      {}: {}", quoted(&format!("{ARCHIVES}/{name}")), quoted(name)), place);
        }
    }
}

/// Where archives lie in a node.
const ARCHIVES: &str = "/netbed";

/// The last part of a path.
pub fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A word as a shell reads it back.
fn shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The command line of a node.
fn words(node: &Node) -> Vec<String> {
    let sh = |text: &str| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()];
    let startup = node.startup.as_ref().map(|(command, _)| command.as_str());
    if node.tarfiles.is_empty() && startup.is_none() {
        return vec!["sleep".to_owned(), "infinity".to_owned()];
    }
    let mut text = String::new();
    for (dir, (file, _)) in &node.tarfiles {
        let (dir, file) = (shell(dir), shell(&format!("{ARCHIVES}/{}", last(file))));
        let _ = writeln!(text, "mkdir -p {dir} && tar -xf {file} -C {dir} || exit 1");
    }
    match startup {
        Some(startup) => {
            let _ = writeln!(text, "{BEFORE}$plain {} -c {} & job=$!", shell_for(startup), shell(startup));
            text.push_str("wait $job; code=$?\n");
            text.push_str("[ -z \"$over\" ] || { wait $job; exit; }\n");
            if !node.forgiven {
                text.push_str("[ $code = 0 ] || exit $code\n");
            }
            text.push_str("sleep infinity & job=$!\nwait $job\n");
        }
        None => text.push_str("exec sleep infinity\n"),
    }
    sh(&text)
}

/// The beginning of a node's shell, before it starts the node's command: TERM is passed on to that command's shell, and
/// it is to be able to use INT and QUIT, which a shell has what runs in the background ignore.
const BEFORE: &str = "trap 'over=1; kill $job' TERM\n\
                      plain='env --default-signal=INT,QUIT'; $plain true 2>/dev/null || plain=\n";

/// The shell of a command. Netbed's is csh, of which most commands use nothing that is not in `sh`, too, but for how
/// both outputs go to one file.
fn shell_for(command: &str) -> &'static str {
    let after = |at: usize| command[at + 2..].trim_start().chars().next();
    let to_file = |at: usize| after(at).is_some_and(|c| !c.is_ascii_digit() && c != '-');
    if command.match_indices(">&").any(|(at, _)| to_file(at)) || command.contains("|&") { "bash" } else { "sh" }
}

/// The name of a step that others wait for.
fn step_name(step: usize) -> String {
    format!("step-{step}")
}

/// The node and the name of a program.
fn of_program(script: &Script, program: usize) -> String {
    let node = script.programs[program].node.map_or("", |n| script.nodes[n].name.0.as_str());
    format!("node: {node}, program: {}", program_name(script, program))
}

/// The command of a program, as a shell reads it.
fn command(program: &Program) -> String {
    let timed = |t: f64| format!("exec timeout {t} {} -c {}", shell_for(&program.command), shell(&program.command));
    let timed = program.timeout.map(timed);
    let inner = timed.unwrap_or_else(|| program.command.clone());
    program.dir.as_ref().map_or(inner.clone(), |dir| format!("cd {} && {inner}", shell(dir)))
}

/// The name of a program: the variable that names it, where no other is called so.
fn program_name(script: &Script, program: usize) -> String {
    let own = &script.programs[program].name;
    let shared = own.is_empty() || script.programs.iter().filter(|p| p.name == *own).count() > 1;
    if shared { format!("{own}{}program-{}", if own.is_empty() { "" } else { "-" }, program + 1) } else { own.clone() }
}

/// The name of each link, and whether it has to be written.
fn link_names(script: &Script) -> Vec<(String, bool)> {
    let mut seen: HashMap<[usize; 2], usize> = HashMap::new();
    let mut names = Vec::new();
    for link in &script.links {
        let [a, b] = link.ends.map(|e| script.nodes[e].name.0.as_str());
        let mut ends = link.ends;
        ends.sort_unstable();
        let count = seen.entry(ends).and_modify(|n| *n += 1).or_insert(1);
        names.push(match link.named || *count > 1 {
            true => (label(&link.name.0), true),
            false => (format!("{a}--{b}"), false),
        });
    }
    names
}

fn write_link(yaml: &mut Yaml, link: &Link, (name, said): &(String, bool), script: &Script) {
    let [a, b] = link.ends.map(|e| script.nodes[e].name.0.as_str());
    let mut parts = vec![format!("from: {a}, to: {b}")];
    if *said {
        parts.push(format!("name: {name}"));
    }
    parts.push(joined(&pipes(&link.pipes)));
    if link.traced {
        parts.push("capture: true".into());
    }
    let [first, second] = &link.addresses;
    parts.extend(addresses([(a, first), (b, second)].into_iter()));
    let chosen = link.addresses.iter().flatten().next().and_then(|(_, place)| place.clone());
    let place = if chosen.is_some() { &chosen } else { &link.name.1 };
    yaml.line(format!("  - {{ {} }}", parts.join(", ")), place);
}

fn write_lans(yaml: &mut Yaml, script: &Script) {
    for lan in &script.lans {
        let (name, place) = &lan.name;
        yaml.line(format!("  {name}:"), place);
        let members: Vec<&str> = lan.members.iter().map(|m| script.nodes[m.node].name.0.as_str()).collect();
        yaml.line(format!("    members: [{}]", members.join(", ")), place);
        // Settings of most members are written once.
        let usual =
            &lan.members.iter().map(|m| &m.pipes).max_by_key(|p| lan.members.iter().filter(|m| m.pipes == **p).count());
        let Some(usual) = usual else { continue };
        for (key, value) in pipes(usual) {
            yaml.line(format!("    {key}: {value}"), place);
        }
        if lan.traced {
            yaml.line("    capture: true", place);
        }
        let different: Vec<_> = lan.members.iter().filter(|m| m.pipes != **usual).collect();
        if !different.is_empty() {
            yaml.line("    except:", place);
        }
        for member in different {
            let each = |i: usize| joined(&complete(&member.pipes[i]));
            let node = &script.nodes[member.node].name.0;
            yaml.line(format!("      {node}: {{ ab: {{ {} }}, ba: {{ {} }} }}", each(0), each(1)), place);
        }
        if let Some((bits, place)) = &lan.bits {
            let first = lan.members.iter().find_map(|m| m.address.as_ref());
            let parsed = first.and_then(|(a, _)| a.parse::<std::net::Ipv4Addr>().ok()).zip(bits.parse::<u32>().ok());
            if let Some((address, bits)) = parsed {
                let block = std::net::Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - bits)));
                yaml.line(format!("    subnet: {block}/{bits}"), place);
            }
        }
        let chosen = addresses(lan.members.iter().zip(&members).map(|(m, name)| (*name, &m.address)));
        if let Some(chosen) = chosen {
            let at = lan.members.iter().find_map(|m| m.address.as_ref()).and_then(|(_, place)| place.clone());
            yaml.line(format!("    {chosen}"), &at);
        }
    }
}

/// The keys of a pipe, with those that are off, too: it takes the place of what others do.
fn complete(of: &Pipe) -> Vec<(&'static str, String)> {
    let mut all = pipe(of);
    if of.rate.is_none() {
        all.push(("bandwidth", "unlimited".into()));
    }
    if of.delay == 0.0 {
        all.push(("delay", "0ms".into()));
    }
    if of.loss == 0.0 {
        all.push(("loss", "0%".into()));
    }
    all
}
