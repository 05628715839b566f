//! Objects of ns and their methods.

use super::{Lan, Link, Member, Node, Object, Pipe, Program, Queue, Reader, expected, label, names};
use crate::calls::Call;
use crate::units;

/// The most nodes of a script, as of an experiment.
const NODES: usize = 10_000;

/// Methods that only say how something is drawn or written down by ns itself.
const DRAWING: &[&str] = &[
    "color",
    "shape",
    "label",
    "label-color",
    "orient",
    "queuePos",
    "trace-all",
    "namtrace-all",
    "flush-trace",
    "duplex-link-op",
    "simplex-link-op",
    "trace-queue",
    "namtrace-queue",
    "monitor-queue",
    "initial_node_pos",
    "use-newtrace",
    "node-config",
    "use-scheduler",
    "add-mark",
    "delete-mark",
    "nam-end-wireless",
    "X_",
    "Y_",
    "Z_",
];

impl Reader {
    /// `new CLASS`.
    pub(super) fn create(&mut self, call: &Call) -> Result<(), String> {
        let (id, class) = (call.word(0).to_owned(), call.word(1));
        let object = match class {
            "Simulator" if self.objects.values().any(|o| *o == Object::Simulator) => {
                return Err("there is a simulator already: an experiment has one".into());
            }
            "Simulator" => Object::Simulator,
            "Program" => {
                self.script.programs.push(Program::default());
                Object::Program(self.script.programs.len() - 1)
            }
            "EventSequence" => self.sequence(),
            "EventTimeline" => self.timeline(),
            "EventGroup" => self.group(&[]),
            "RandomVariable" | "RNG" => Object::Other(class.to_owned()),
            _ => {
                let unknown = || format!("there is no class `{class}` here: a script begins with `new Simulator`");
                self.create_traffic(class)?.ok_or_else(unknown)?
            }
        };
        self.objects.insert(id, object);
        Ok(())
    }

    /// A method of an object: the object that it makes (or nothing), the object, the method, and what is said with it.
    pub(super) fn method(&mut self, call: &Call) -> Result<(), String> {
        let (made, object, method) = (call.word(0), call.word(1), call.word(2));
        let words: Vec<&str> = call.words.iter().skip(3).map(String::as_str).collect();
        // This object's creation was wrong, which has been said.
        let Some(of) = self.objects.get(object).cloned() else { return Ok(()) };
        let new = match of {
            Object::Simulator => self.simulator(made, method, &words)?,
            Object::Node(n) => self.of_node(n, method, &words)?,
            Object::Link(_) | Object::Lan(_) | Object::Member(..) | Object::Simplex(..) => {
                self.of_link(&of, method, &words)?
            }
            Object::Queue(..) | Object::LanQueue(..) => self.of_queue(&of, method, &words)?,
            Object::Program(p) => self.of_program(p, method, &words)?,
            Object::Agent(a) => self.of_agent(a, method, &words)?,
            Object::Traffic(t) => self.of_traffic(t, method, &words)?,
            Object::Group(g) if method == "add" => {
                self.groups[g].extend(words.iter().map(|w| (*w).to_owned()));
                None
            }
            Object::Sequence(_) | Object::Timeline(_) | Object::Group(_) | Object::Other(_) if method == "set" => None,
            Object::Other(_) => None,
            _ => return Err(format!("`{object}` cannot `{method}`")),
        };
        if let Some(new) = new {
            self.objects.insert(made.to_owned(), new);
        }
        Ok(())
    }

    fn simulator(&mut self, made: &str, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        let object = match (method, words) {
            ("node" | "nsenode", _) => {
                if self.script.nodes.len() == NODES {
                    return Err(format!("this is the node after {NODES} others, which are the most"));
                }
                let name = (label(made), self.place.clone());
                let simulated = self.simulating || method == "nsenode";
                self.script.nodes.push(Node { name, simulated, ..Node::default() });
                Object::Node(self.script.nodes.len() - 1)
            }
            ("duplex-link" | "simplex-link", [a, b, rate, delay, rest @ ..]) => {
                self.link(made, method == "simplex-link", [a, b], rate, delay, rest)?
            }
            ("duplex-link" | "simplex-link", _) => {
                return Err(expected(&format!("$ns {method} $n0 $n1 10Mb 20ms DropTail")));
            }
            ("make-lan" | "make-cloud" | "newLan", [members, rate, delay, rest @ ..]) => {
                if !rest.is_empty() {
                    self.note_once("what follows the delay of a LAN says how ns simulates it, and is not needed here");
                }
                self.lan(made, members, rate, delay)?
            }
            ("make-san", [members]) => self.lan(made, members, "*", "0ms")?,
            ("make-lan" | "make-cloud" | "newLan" | "make-san", _) => {
                return Err(expected("$ns make-lan \"$n0 $n1 $n2\" 100Mb 0ms"));
            }
            ("link", [a, b]) => {
                let (link, direction) = self.between(a, b)?;
                Object::Simplex(link, direction)
            }
            ("lanlink", [lan, node]) => {
                let (lan, member) = self.member(lan, node)?;
                Object::Member(lan, member)
            }
            ("event-sequence", _) => self.sequence(),
            ("event-timeline", _) => self.timeline(),
            ("event-group", list) => {
                let members: Vec<String> = list.iter().flat_map(|l| names(l)).map(str::to_owned).collect();
                self.group(&members)
            }
            ("rtproto", [kind, ..]) => {
                self.routing(kind)?;
                return Ok(None);
            }
            ("run", _) => {
                if std::mem::replace(&mut self.ran, true) {
                    return Err("the script has said `$ns run` before: say it once, at the end".into());
                }
                return Ok(None);
            }
            ("queue-limit", [a, b, limit]) => {
                let (link, direction) = self.between(a, b)?;
                self.script.links[link].pipes[direction].queue.set("limit_", limit)?;
                return Ok(None);
            }
            ("attach-agent" | "connect" | "detach-agent" | "create-connection", _) => {
                return self.connecting(method, words);
            }
            ("make-simulated", [begins]) => {
                self.simulating = *begins == "1";
                return Ok(None);
            }
            ("cost", _) => {
                self.note_once("costs of links are ignored: routes are the shortest by delay");
                return Ok(None);
            }
            ("set", _) => return Ok(None),
            (drawing, _) if DRAWING.contains(&drawing) => {
                self.note_once(&format!("`{method}` says how ns draws or records, and is ignored"));
                return Ok(None);
            }
            _ => return Err(unknown("simulator", method, SIMULATOR)),
        };
        Ok(Some(object))
    }

    fn link(
        &mut self,
        made: &str,
        simplex: bool,
        ends: [&&str; 2],
        rate: &str,
        delay: &str,
        kind: &[&str],
    ) -> Result<Object, String> {
        let [a, b] = [self.node(ends[0])?, self.node(ends[1])?];
        if a == b {
            let name = &self.script.nodes[a].name.0;
            return Err(format!("this link leads from `{name}` to itself: name two different nodes"));
        }
        let kind = kind.first().copied().unwrap_or("DropTail");
        if !["DropTail", "RED", "GRED"].contains(&kind) {
            self.note(format!("there are no queues of kind {kind}: this link has DropTail"));
        }
        let pipe = Pipe {
            background: 0.0,
            rate: units::bandwidth(rate)?,
            delay: units::delay(delay)?,
            loss: 0.0,
            queue: Queue::of(kind),
            up: true,
        };
        let back = Pipe { up: !simplex, ..pipe.clone() };
        if simplex {
            // The other direction of one that is there already.
            let half = |l: &&mut Link| l.ends == [b, a] && !l.pipes[1].up;
            let place = self.script.links.iter().position(|l| l.ends == [b, a] && !l.pipes[1].up);
            if let (Some(there), Some(number)) = (self.script.links.iter_mut().find(half), place) {
                there.pipes[1] = pipe;
                return Ok(Object::Simplex(number, 1));
            }
        }
        self.script.links.push(Link {
            name: (label(made), self.place.clone()),
            named: false,
            ends: [a, b],
            pipes: [pipe, back],
            addresses: [None, None],
            traced: false,
        });
        Ok(Object::Link(self.script.links.len() - 1))
    }

    fn lan(&mut self, made: &str, members: &str, rate: &str, delay: &str) -> Result<Object, String> {
        let (rate, delay) = (units::bandwidth(rate)?, units::delay(delay)?);
        let mut lan = Lan { name: (label(made), self.place.clone()), members: vec![], bits: None, traced: false };
        for name in names(members) {
            let node = self.node(name)?;
            if lan.members.iter().any(|m| m.node == node) {
                return Err(format!("`{name}` is in this LAN twice: a node has one interface on a LAN"));
            }
            // From one member to another it is the whole delay.
            let queue = Queue::of("DropTail");
            let pipe = Pipe { rate, background: 0.0, delay: delay / 2.0, loss: 0.0, queue, up: true };
            lan.members.push(Member { node, pipes: [pipe.clone(), pipe], address: None });
        }
        if lan.members.len() < 2 {
            return Err(format!(
                "a LAN has at least two members, and this one has {}: name them in one list, as of `$ns make-lan \
                 \"$n0 $n1\" 100Mb 0ms`",
                lan.members.len()
            ));
        }
        self.script.lans.push(lan);
        Ok(Object::Lan(self.script.lans.len() - 1))
    }

    /// The link between two nodes that was made last, and the direction from the first to the second.
    pub(super) fn between(&self, a: &str, b: &str) -> Result<(usize, usize), String> {
        let (from, to) = (self.node(a)?, self.node(b)?);
        let links = self.script.links.iter().enumerate().rev();
        let found = links.into_iter().find_map(|(l, link)| match link.ends {
            ends if ends == [from, to] => Some((l, 0)),
            ends if ends == [to, from] => Some((l, 1)),
            _ => None,
        });
        found.ok_or_else(|| format!("no link joins `{a}` and `{b}`: make one first with `$ns duplex-link`"))
    }

    /// A LAN and the place of a node among its members.
    pub(super) fn member(&self, lan: &str, node: &str) -> Result<(usize, usize), String> {
        let Object::Lan(l) = *self.object(lan)? else {
            return Err(format!("`{lan}` is no LAN, where a LAN is meant: LANs are made with `$ns make-lan`"));
        };
        let n = self.node(node)?;
        let place = self.script.lans[l].members.iter().position(|m| m.node == n);
        place.map(|m| (l, m)).ok_or_else(|| format!("`{node}` is not a member of `{lan}`"))
    }

    pub(super) fn routing(&mut self, kind: &str) -> Result<(), String> {
        match kind {
            "Static" | "Static-old" | "Static-ddijk" | "none" => {
                self.note_once("routes are the shortest by delay; Netbed's are those with the fewest links");
            }
            "Session" | "ospf" => self
                .note_once("routes do not follow links that go down, as those of OSPF would: they are worked out once"),
            "Manual" => self.note_once("routes are there without being made: all nodes reach one another"),
            _ => return Err(format!("there is no routing `{kind}`: write Static, Session or Manual")),
        }
        Ok(())
    }

    fn of_node(&mut self, n: usize, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (method, words) {
            ("program-agent", options) => {
                let mut program = Program { node: Some(n), ..Program::default() };
                for option in options.chunks(2) {
                    let [name, value] = option else {
                        return Err(expected("$node program-agent -command \"WORDS\""));
                    };
                    program.set(name.trim_start_matches('-'), value)?;
                }
                self.script.programs.push(program);
                Ok(Some(Object::Program(self.script.programs.len() - 1)))
            }
            ("start-command", [command]) => self.startup(n, command).map(Some),
            ("add-route", _) => {
                self.note_once("`add-route` is ignored: all nodes reach one another, by the shortest way");
                Ok(None)
            }
            ("add-desire" | "set" | "set_hwtype" | "set_fixed" | "topography" | "attach", _) => {
                self.note_once(&format!("`{method}` of a node is ignored"));
                Ok(None)
            }
            ("console", _) => Err("nodes have no console: use `diorama exec` while it runs".into()),
            (drawing, _) if DRAWING.contains(&drawing) => {
                self.note_once(&format!("`{method}` says how ns draws or records, and is ignored"));
                Ok(None)
            }
            _ => Err(unknown("node", method, &["program-agent", "start-command", "add-route", "add-desire", "set"])),
        }
    }

    /// Sets the command of a node from the start.
    pub(super) fn startup(&mut self, n: usize, command: &str) -> Result<Object, String> {
        if command.trim().is_empty() {
            return Err("a startup command has at least one word".into());
        }
        let said = self.said(command);
        if self.script.nodes[n].startup.replace(said).is_some() {
            self.note(format!(
                "`{}` had another startup command, which this one replaces",
                self.script.nodes[n].name.0
            ));
        }
        let command = command.to_owned();
        self.script.programs.push(Program { node: Some(n), command, startup: true, ..Program::default() });
        Ok(Object::Program(self.script.programs.len() - 1))
    }

    fn of_link(&mut self, of: &Object, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (of, method, words) {
            (Object::Link(l), "queue", _) => Ok(Some(Object::Queue(*l, 0))),
            (Object::Simplex(l, direction), "queue", _) => Ok(Some(Object::Queue(*l, *direction))),
            (Object::Member(l, m), "queue", _) => Ok(Some(Object::LanQueue(*l, *m, 0))),
            (Object::Link(l), "trace" | "trace_endnode", _) => {
                self.script.links[*l].traced = true;
                Ok(None)
            }
            (Object::Lan(l), "trace" | "trace_endnode", _) => {
                self.script.lans[*l].traced = true;
                Ok(None)
            }
            (_, "cost", _) => {
                self.note_once("costs of links are ignored: routes are the shortest by delay");
                Ok(None)
            }
            (_, "set" | "trace_filter" | "trace_snaplen" | "trace_expr" | "implemented_by", _) => {
                self.note_once(&format!("`{method}` of a link is ignored"));
                Ok(None)
            }
            (_, drawing, _) if DRAWING.contains(&drawing) => {
                self.note_once(&format!("`{method}` says how ns draws or records, and is ignored"));
                Ok(None)
            }
            _ => Err(unknown("link", method, &["queue", "trace", "cost", "set"])),
        }
    }

    pub(super) fn queue_of(&mut self, of: &Object) -> Option<&mut Queue> {
        match *of {
            Object::Queue(l, direction) => Some(&mut self.script.links[l].pipes[direction].queue),
            Object::LanQueue(l, m, direction) => Some(&mut self.script.lans[l].members[m].pipes[direction].queue),
            _ => None,
        }
    }

    fn of_queue(&mut self, of: &Object, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (method, words) {
            ("set", [_]) => {}
            ("set", [variable, value]) => {
                if let Some(queue) = self.queue_of(of) {
                    queue.set(variable, value)?;
                }
            }
            ("trace" | "monitor", _) => self.note_once("queues are recorded in every run, whatever the script says"),
            _ => return Err(unknown("queue", method, &["set"])),
        }
        Ok(None)
    }

    fn of_program(&mut self, p: usize, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (method, words) {
            ("set", ["node", node]) => self.script.programs[p].node = Some(self.node(node)?),
            ("set", [variable, value]) => self.script.programs[p].set(variable, value)?,
            ("set", _) => {}
            _ => return Err(unknown("program", method, &["set"])),
        }
        Ok(None)
    }

    pub(super) fn sequence(&mut self) -> Object {
        self.sequences.push(Vec::new());
        Object::Sequence(self.sequences.len() - 1)
    }

    fn timeline(&mut self) -> Object {
        self.timelines.push(Vec::new());
        Object::Timeline(self.timelines.len() - 1)
    }

    fn group(&mut self, members: &[String]) -> Object {
        self.groups.push(members.to_vec());
        Object::Group(self.groups.len() - 1)
    }
}

impl Program {
    /// Sets a variable of a program as a script does.
    pub(super) fn set(&mut self, variable: &str, value: &str) -> Result<(), String> {
        match variable {
            "command" => self.command = value.to_owned(),
            "dir" => self.dir = Some(value.to_owned()),
            "timeout" => self.timeout = Some(units::time(value)?),
            "tag" | "expected-exit-code" => {}
            _ => {
                let what = format!("a program has no variable `{variable}`: it has command, dir, timeout and node");
                return Err(what);
            }
        }
        Ok(())
    }
}

const SIMULATOR: &[&str] = &[
    "node",
    "duplex-link",
    "simplex-link",
    "make-lan",
    "link",
    "lanlink",
    "rtproto",
    "at",
    "run",
    "event-sequence",
    "event-timeline",
    "event-group",
    "queue-limit",
];

fn unknown(what: &str, method: &str, known: &[&str]) -> String {
    let near = model::nearest(method, known).map_or(String::new(), |near| format!(": did you mean `{near}`?"));
    format!("a {what} has no `{method}`{near}")
}
