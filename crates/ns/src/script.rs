//! A script's description: from the calls that it made to nodes, links, LANs, programs and events.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::calls::Call;
use crate::error::{Note, Place};
use crate::tb::{self, Fate};
use crate::units;

mod commands;
mod events;
mod objects;
mod traffic;

pub use traffic::Flow;
use traffic::{Agent, Traffic};

/// Limits and impairments of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipe {
    /// Bits per second; none: no limit.
    pub rate: Option<f64>,
    /// How many of them traffic takes that is not the experiment's own.
    pub background: f64,
    /// Seconds.
    pub delay: f64,
    /// 0 to 1.
    pub loss: f64,
    /// The queue.
    pub queue: Queue,
    /// Whether there is such a direction.
    pub up: bool,
}

/// A queue, by its variables in ns, which begin with their defaults there.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Whether it drops packets before it is full.
    pub red: bool,
    /// Whether the probability grows on above `maxthresh_`.
    pub gentle: bool,
    /// Whether lengths are counted in bytes, as so many packets of mean size.
    pub in_bytes: bool,
    /// `limit_`, `maxthresh_`, `thresh_`, `q_weight_`, `linterm_`, `mean_pktsize_`.
    pub numbers: BTreeMap<&'static str, f64>,
}

/// The variables of a queue that are numbers, and what they are before they are set.
const QUEUE: [(&str, f64); 6] = [
    ("limit_", 50.0),
    ("thresh_", 5.0),
    ("maxthresh_", 15.0),
    ("q_weight_", 0.002),
    ("linterm_", 10.0),
    ("mean_pktsize_", 500.0),
];

impl Queue {
    fn of(kind: &str) -> Queue {
        let red = matches!(kind, "RED" | "GRED");
        Queue { red, gentle: kind == "GRED", in_bytes: false, numbers: QUEUE.into_iter().collect() }
    }

    /// A variable's number.
    pub fn number(&self, name: &str) -> f64 {
        self.numbers.get(name).copied().unwrap_or_default()
    }

    /// Sets a variable as a script does; what is wrong if it cannot be.
    fn set(&mut self, variable: &str, value: &str) -> Result<(), String> {
        let truth = match value {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        };
        let flag = || truth.ok_or_else(|| format!("`{variable}` is true or false, not `{value}`"));
        match variable {
            "red_" => self.red = flag()?,
            "gentle_" => self.gentle = flag()?,
            "queue-in-bytes_" | "bytes_" => self.in_bytes = flag()?,
            // RED of ns can mark packets and count differently; nothing here depends on these.
            "drop-tail_" | "wait_" | "setbit_" | "summarystats_" | "drop_rand_" => {}
            _ => {
                let Some((name, _)) = QUEUE.iter().find(|(name, _)| *name == variable) else {
                    let known: Vec<&str> = QUEUE.iter().map(|q| q.0).collect();
                    return Err(format!("a queue has no variable `{variable}`: it has {}", known.join(", ")));
                };
                let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
                let number = number.ok_or_else(|| format!("`{variable}` of a queue is a number, not `{value}`"))?;
                self.numbers.insert(name, number);
            }
        }
        Ok(())
    }
}

/// A text and where it stands.
pub type Said = (String, Option<Place>);

/// A node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: Said,
    /// Its type of hardware.
    pub hardware: Option<Said>,
    /// Its operating system.
    pub system: Option<Said>,
    /// Its memory in MiB.
    pub memory: Option<u64>,
    /// Its command from the start.
    pub startup: Option<Said>,
    /// Whether it may end badly.
    pub forgiven: bool,
    /// The command line that Netbed would give its kernel.
    pub cmdline: Option<Said>,
    /// Whether it needs no process: what is sent from and to it exists only in the emulator.
    pub simulated: bool,
    /// Archives: where they are unpacked, and what they are called.
    pub tarfiles: Vec<(String, Said)>,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its name; empty if no variable names it.
    pub name: String,
    /// Whether it is what its node runs from the start.
    pub startup: bool,
    /// Its node.
    pub node: Option<usize>,
    /// Its command.
    pub command: String,
    /// Where.
    pub dir: Option<String>,
    /// For how many seconds at most.
    pub timeout: Option<f64>,
}

/// A link between two nodes.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name.
    pub name: Said,
    /// Whether a variable names it.
    pub named: bool,
    /// The nodes.
    pub ends: [usize; 2],
    /// Its pipes, from the first to the second, and back.
    pub pipes: [Pipe; 2],
    /// The addresses of its ends that were chosen.
    pub addresses: [Option<Said>; 2],
    /// Whether its packets are recorded.
    pub traced: bool,
}

/// A LAN.
#[derive(Clone, Debug)]
pub struct Lan {
    /// Its name.
    pub name: Said,
    /// Its members.
    pub members: Vec<Member>,
    /// How many bits its members' addresses have in common, if that was said.
    pub bits: Option<Said>,
    /// Whether its packets are recorded.
    pub traced: bool,
}

/// A member of a LAN.
#[derive(Clone, Debug)]
pub struct Member {
    /// The node.
    pub node: usize,
    /// To the LAN, and from it.
    pub pipes: [Pipe; 2],
    /// Its address, if it was chosen.
    pub address: Option<Said>,
}

/// When something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct When {
    /// The step whose end it waits for; none: the start of the run.
    pub after: Option<usize>,
    /// So many seconds after that.
    pub at: f64,
}

/// An event that the experiment has.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub when: When,
    /// The event itself.
    pub what: Happening,
    /// Where that stands.
    pub place: Option<Place>,
}

/// An event itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// To a link: its number, and the change as an experiment writes it.
    Link(usize, String),
    /// To a LAN, or to one of its members, by their numbers.
    Lan(usize, Option<usize>, String),
    /// To a node: `kill`, `stop` or `start`.
    Node(usize, &'static str),
    /// To a flow, by the number of what sends it: as an experiment writes it.
    Flow(usize, String),
    /// To a program, by its number: a signal that it is sent.
    Signal(usize, String),
    /// A program is started: its number, and what is run. The step, if there is one, is over when it has ended.
    Run(usize, Box<Program>, Option<usize>),
    /// The run ends.
    End,
}

/// The description that a script makes.
#[derive(Debug, Default)]
pub struct Script {
    /// Whether the network is in parts, and where the second begins.
    pub apart: Option<Option<Place>>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The links.
    pub links: Vec<Link>,
    /// The LANs.
    pub lans: Vec<Lan>,
    /// The programs.
    pub programs: Vec<Program>,
    /// Flows from node to node.
    pub flows: Vec<Flow>,
    /// Events of links and nodes.
    pub events: Vec<Event>,
    /// When it is over, in seconds, if that was said.
    pub end: Option<(f64, Option<Place>)>,
    /// The node that serves barriers.
    pub barriers: Option<(usize, Option<Place>)>,
    /// The most nodes on one machine.
    pub colocate: Option<Said>,
    /// Variables in the environment of programs: names and values.
    pub environment: Vec<(String, Said)>,
    /// Types that stand for one of several others.
    pub types: HashMap<String, Vec<String>>,
    /// Differences from the script.
    pub notes: Vec<Note>,
    /// Lines that the script prints.
    pub printed: Vec<String>,
}

/// The kind of an object of the script.
#[derive(Clone, Debug, PartialEq)]
enum Object {
    Simulator,
    Node(usize),
    Link(usize),
    Lan(usize),
    /// A member of a LAN.
    Member(usize, usize),
    /// One direction of a link.
    Simplex(usize, usize),
    /// The queue of one direction of a link, or of a member of a LAN.
    Queue(usize, usize),
    LanQueue(usize, usize, usize),
    Program(usize),
    Agent(usize),
    Traffic(usize),
    /// Steps, which follow one another; or events at their times.
    Sequence(usize),
    Timeline(usize),
    Group(usize),
    /// An object of a class that is not known here.
    Other(String),
}

/// An event as it is written.
#[derive(Clone, Debug)]
struct Written {
    at: f64,
    words: Vec<String>,
    place: Option<Place>,
}

/// Reads calls.
#[derive(Default)]
struct Reader {
    /// Whether what cannot be carried out is noted, and no mistake.
    lenient: bool,
    script: Script,
    problems: Vec<Note>,
    objects: HashMap<String, Object>,
    agents: Vec<Agent>,
    traffic: Vec<Traffic>,
    sequences: Vec<Vec<Written>>,
    timelines: Vec<Vec<Written>>,
    groups: Vec<Vec<String>>,
    at: Vec<Written>,
    procedures: HashSet<String>,
    /// Archives that all nodes have.
    everywhere: Vec<(String, Said)>,
    /// Steps of sequences that others wait for, so far.
    steps: usize,
    /// Queues as events have left them.
    queues: HashMap<String, Queue>,
    /// Whether nodes that are made now are simulated.
    simulating: bool,
    ran: bool,
    exited: bool,
    /// Notes that were made already.
    noted: HashSet<String>,
    /// Where the call that is being read stands.
    place: Option<Place>,
}

/// Reads a script's description from the calls that it made.
///
/// # Errors
///
/// All that is wrong with it, with the lines of the script.
pub fn read(calls: &[Call], lenient: bool) -> Result<Script, Vec<Note>> {
    let mut reader = Reader { lenient, ..Reader::default() };
    for call in calls {
        reader.place.clone_from(&call.place);
        if let Err(what) = reader.call(call) {
            reader.problem(what);
        }
    }
    reader.place = None;
    if !reader.ran {
        let what = "the script never says `$ns run`, with which an experiment begins: add it as the last line";
        reader.problem(what.into());
    } else if reader.script.nodes.is_empty() {
        reader.problem("the script makes no node: an experiment has at least one, as of `set n [$ns node]`".into());
    }
    reader.whole();
    reader.check_background();
    reader.happenings();
    reader.flows();
    reader.simulated();
    for node in reader.script.nodes.iter_mut().filter(|n| !n.simulated) {
        node.tarfiles.splice(0..0, reader.everywhere.iter().cloned());
    }
    reader.check_names();
    match reader.problems.is_empty() {
        true => Ok(reader.script),
        false => Err(reader.problems),
    }
}

impl Reader {
    fn problem(&mut self, what: String) {
        self.problems.push(Note { place: self.place.clone(), what });
    }

    fn note(&mut self, what: impl Into<String>) {
        let what = what.into();
        self.script.notes.push(Note { place: self.place.clone(), what });
    }

    /// Notes something once, however often it comes.
    fn note_once(&mut self, what: &str) {
        if self.noted.insert(what.to_owned()) {
            self.note(what);
        }
    }

    fn said(&self, text: &str) -> Said {
        (text.to_owned(), self.place.clone())
    }

    fn call(&mut self, call: &Call) -> Result<(), String> {
        match call.kind.as_str() {
            "new" => self.create(call),
            "call" => self.method(call),
            "tb" => self.command(call),
            "name" => {
                self.rename(call.word(0), call.word(1));
                Ok(())
            }
            "at" => self.timed(call),
            "step" => self.step(call),
            "proc" => {
                self.procedures.insert(call.word(0).to_owned());
                Ok(())
            }
            "opt" => {
                let value = self.said(call.word(1));
                let all = &mut self.script.environment;
                match all.iter_mut().find(|(name, _)| name == call.word(0)) {
                    Some((_, there)) => *there = value,
                    None => all.push((call.word(0).to_owned(), value)),
                }
                Ok(())
            }
            "puts" => {
                self.script.printed.push(call.word(0).to_owned());
                Ok(())
            }
            "exit" => {
                self.exited = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn rename(&mut self, id: &str, name: &str) {
        let Some(object) = self.objects.get(id).cloned() else { return };
        let said = (label(name), self.place.clone());
        match object {
            Object::Node(n) => self.script.nodes[n].name.0 = said.0,
            Object::Link(l) => {
                self.script.links[l].name.0 = said.0;
                self.script.links[l].named = true;
            }
            Object::Lan(l) => self.script.lans[l].name.0 = said.0,
            Object::Program(p) => self.script.programs[p].name = said.0,
            _ => self.rename_traffic(&object, name),
        }
        self.objects.insert(name.to_owned(), object);
    }

    fn object(&self, name: &str) -> Result<&Object, String> {
        self.objects.get(name).ok_or_else(|| {
            let shown = if name.is_empty() { "nothing".to_owned() } else { format!("`{name}`") };
            format!("{shown} is no object of the script: make it first, as of `set {} [$ns node]`", plain(name))
        })
    }

    fn node(&self, name: &str) -> Result<usize, String> {
        match self.object(name)? {
            Object::Node(n) => Ok(*n),
            _ => Err(format!("`{name}` is no node, where a node is meant")),
        }
    }

    /// Makes ordinary nodes of simulated ones that need a kernel or a program.
    fn simulated(&mut self) {
        let script = &mut self.script;
        let all = script.nodes.iter().all(|n| n.simulated);
        for number in 0..script.nodes.len() {
            let node = &script.nodes[number];
            if !node.simulated {
                continue;
            }
            let is = |n: &usize| *n == number;
            let on_lan = script.lans.iter().any(|l| l.members.iter().any(|m| m.node == number));
            let chosen = |l: &Link| l.ends.iter().zip(&l.addresses).any(|(end, address)| is(end) && address.is_some());
            let connected = |f: &Flow| f.ends.contains(&number) && f.keys.contains(&("over", "tcp".into()));
            let happens = |event: &Event| matches!(&event.what, Happening::Node(n, _) if is(n));
            let why = match () {
                () if all => "the experiment has no other",
                () if on_lan => "it is on a LAN",
                () if script.links.iter().any(chosen) => "it has an address",
                () if script.flows.iter().any(connected) => "TCP needs a kernel",
                () if node.startup.is_some() || script.programs.iter().any(|p| p.node == Some(number)) => {
                    "a program runs on it"
                }
                () if script.barriers.as_ref().is_some_and(|b| is(&b.0)) => "it serves barriers",
                () if !node.tarfiles.is_empty() => "archives are unpacked on it",
                () if script.events.iter().any(happens) => "events happen to it",
                () => continue,
            };
            let (name, place) = node.name.clone();
            let what = format!("`{name}` is a node like any other, and not simulated: {why}");
            script.notes.push(Note { place, what });
            script.nodes[number].simulated = false;
        }
    }

    /// Notes where a part of the network begins that no links join with the first, as on Emulab it may be.
    fn whole(&mut self) {
        let script = &self.script;
        if script.links.is_empty() && script.lans.is_empty() || !self.problems.is_empty() {
            return;
        }
        let mut part: Vec<usize> = (0..script.nodes.len()).collect();
        fn root(part: &mut [usize], mut of: usize) -> usize {
            while part[of] != of {
                part[of] = part[part[of]];
                of = part[of];
            }
            of
        }
        let mut join = |a: usize, b: usize| {
            let (a, b) = (root(&mut part, a), root(&mut part, b));
            part[a.max(b)] = a.min(b);
        };
        script.links.iter().for_each(|l| join(l.ends[0], l.ends[1]));
        script.lans.iter().for_each(|l| l.members.iter().for_each(|m| join(l.members[0].node, m.node)));
        let apart: Vec<usize> = (0..script.nodes.len()).filter(|n| root(&mut part, *n) != 0).collect();
        let Some(first) = apart.first() else { return };
        let (name, home) = (&script.nodes[*first].name, &script.nodes[0].name.0);
        let more = if apart.len() > 1 { format!(", nor do they to {} more", apart.len() - 1) } else { String::new() };
        let what = format!(
            "no links lead from `{home}` to `{}`{more}: nodes have no other network here, so what is sent from one \
             part to another is lost",
            name.0
        );
        let place = name.1.clone();
        self.script.apart = Some(place.clone());
        self.script.notes.push(Note { place, what });
    }

    /// Checks that background traffic finds its bandwidth, and leaves some.
    fn check_background(&mut self) {
        let script = &self.script;
        let links = script.links.iter().map(|l| (&l.name, l.pipes.iter().collect::<Vec<_>>()));
        let lans = script.lans.iter().map(|l| (&l.name, l.members.iter().flat_map(|m| &m.pipes).collect()));
        let mut wrong = Vec::new();
        for ((name, place), pipes) in links.chain(lans) {
            // The least that an experiment may have is a bit per second.
            let short = |p: &&&Pipe| p.background > 0.0 && p.rate.is_none_or(|rate| rate - p.background < 1.0);
            let Some(pipe) = pipes.iter().find(short) else { continue };
            let has = pipe.rate.map_or("no bandwidth at all".to_owned(), |r| format!("only {}", units::as_rate(r)));
            let what = format!(
                "background traffic would take {} of `{name}`, which has {has}: it has to leave something",
                units::as_rate(pipe.background)
            );
            wrong.push(Note { place: place.clone(), what });
        }
        self.problems.extend(wrong);
    }

    /// Names are unique, without regard to case, as those of hosts are.
    fn check_names(&mut self) {
        let script = &self.script;
        let places = script.nodes.iter().map(|n| &n.name).chain(script.lans.iter().map(|l| &l.name));
        let links = script.links.iter().filter(|l| l.named).map(|l| &l.name);
        let mut seen: HashMap<&str, &Option<Place>> = HashMap::new();
        let mut twice = Vec::new();
        for (name, place) in places.chain(links) {
            if seen.insert(name, place).is_some() {
                let what = format!(
                    "there are two objects called `{name}`: names are those of hosts, in lower case, and without signs \
                     but `-`; use another variable"
                );
                twice.push(Note { place: place.clone(), what });
            }
        }
        self.problems.extend(twice);
    }
}

/// A name that hosts can have.
pub fn label(name: &str) -> String {
    let mut label = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        if c != '-' || !(label.is_empty() || label.ends_with('-')) {
            label.push(c);
        }
    }
    label.trim_end_matches('-').chars().take(63).collect()
}

/// A name for an example.
fn plain(name: &str) -> &str {
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric()) { "n0" } else { name }
}

fn expected(usage: &str) -> String {
    format!("wrong words: write `{usage}`")
}

/// The words of a Tcl list that is simple enough to be a list of names.
fn names(list: &str) -> Vec<&str> {
    list.split_whitespace().map(|w| w.trim_matches(['{', '}'])).filter(|w| !w.is_empty()).collect()
}

#[cfg(test)]
mod tests;
