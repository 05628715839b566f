//! Agents of ns, and the applications that send over them: flows of packets.

use std::collections::BTreeMap;

use super::{Happening, Object, Reader, Said, When, Written, expected, label};
use crate::error::Note;
use crate::units;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Its name.
    name: String,
    carries: Carries,
    /// Whether it can send.
    sends: bool,
    node: Option<usize>,
    peer: Option<usize>,
    /// `packetSize_`, in bytes.
    packet: Option<f64>,
}

/// The transport of an agent's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Carries {
    Udp,
    Tcp,
}

/// A source of traffic, and its pattern.
#[derive(Clone, Debug)]
pub struct Traffic {
    name: Said,
    kind: Kind,
    agent: Option<usize>,
    /// The keys of its packets, as an experiment writes them.
    keys: BTreeMap<&'static str, String>,
    /// Whether anything ever happens to it.
    used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Cbr,
    Poisson,
    Exponential,
    Pareto,
    Telnet,
    Ftp,
}

/// Keys of an experiment, and what they are.
type Words = &'static [(&'static str, &'static str)];
/// The keys of one flow, with their values.
type Keys = Vec<(&'static str, String)>;

/// The applications of ns, what they are called in an experiment, and how they begin there.
const KINDS: [(&str, Kind, &str, Words); 6] = [
    ("Traffic/CBR", Kind::Cbr, "cbr", &[("rate", "448kbit/s"), ("packet", "210B")]),
    ("Traffic/Poisson", Kind::Poisson, "poisson", &[("rate", "64kbit/s"), ("packet", "210B")]),
    ("Traffic/Exponential", Kind::Exponential, "exponential", BURSTS),
    ("Traffic/Pareto", Kind::Pareto, "pareto", BURSTS),
    ("Telnet", Kind::Telnet, "telnet", &[]),
    ("FTP", Kind::Ftp, "ftp", &[]),
];
const BURSTS: Words = &[("rate", "64kbit/s"), ("packet", "210B"), ("on", "0.5s"), ("off", "0.5s")];

/// The default payload of a packet of TCP, in bytes.
const PACKET: f64 = 1000.0;
/// So many packets are no limit: what ns has where nothing is set.
const ENDLESS: f64 = 268_435_456.0;

/// A flow as the experiment has it.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The number of its [`Traffic`].
    pub traffic: usize,
    /// Its name.
    pub name: Said,
    /// The nodes.
    pub ends: [usize; 2],
    /// Its `key: value` pairs.
    pub keys: Keys,
}

impl Reader {
    /// `new Agent/…` and `new Application/…`; none if the class is another.
    pub(super) fn create_traffic(&mut self, class: &str) -> Result<Option<Object>, String> {
        if let Some(kind) = class.strip_prefix("Agent/") {
            return self.agent(kind).map(Some);
        }
        class.strip_prefix("Application/").map(|kind| self.application(kind, None)).transpose()
    }

    fn agent(&mut self, kind: &str) -> Result<Object, String> {
        let (carries, sends) = match kind {
            "UDP" => (Carries::Udp, true),
            "Null" | "LossMonitor" => (Carries::Udp, false),
            // Emulab's own tutorial writes it so.
            "TCPSINK" => (Carries::Tcp, false),
            _ if kind == "TCPSink" || kind.starts_with("TCPSink/") => (Carries::Tcp, false),
            _ if kind == "TCP" || kind.starts_with("TCP/") => (Carries::Tcp, true),
            _ => {
                return Err(format!(
                    "there is no agent `{kind}` here: write Agent/UDP and Agent/Null, or Agent/TCP and Agent/TCPSink"
                ));
            }
        };
        if carries == Carries::Tcp && !["TCP", "TCPSink", "TCPSINK"].contains(&kind) {
            self.note_once("TCP is the kernel's of the nodes, whatever variant of it ns would simulate");
        }
        let agent = Agent { name: String::new(), carries, sends, node: None, peer: None, packet: None };
        self.agents.push(agent);
        Ok(Object::Agent(self.agents.len() - 1))
    }

    fn application(&mut self, kind: &str, agent: Option<usize>) -> Result<Object, String> {
        let Some((_, kind, _, keys)) = KINDS.iter().find(|(name, ..)| *name == kind) else {
            let known: Vec<&str> = KINDS.iter().map(|k| k.0).collect();
            return Err(format!("there is no application `{kind}` here: there are {}", known.join(", ")));
        };
        let keys = keys.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        let name = self.said("");
        self.traffic.push(Traffic { name, kind: *kind, agent, keys, used: false });
        Ok(Object::Traffic(self.traffic.len() - 1))
    }

    pub(super) fn rename_traffic(&mut self, object: &Object, name: &str) {
        match object {
            Object::Agent(a) => self.agents[*a].name = name.to_owned(),
            Object::Traffic(t) => self.traffic[*t].name.0 = label(name),
            _ => {}
        }
    }

    fn agent_of(&self, name: &str) -> Result<usize, String> {
        match self.object(name)? {
            Object::Agent(a) => Ok(*a),
            _ => Err(format!("`{name}` is no agent, where one is meant: agents are such as of `new Agent/UDP`")),
        }
    }

    /// The simulator's methods that connect agents; none if this is something else.
    pub(super) fn connecting(&mut self, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (method, words) {
            ("attach-agent", [node, agent]) => {
                let (node, agent) = (self.node(node)?, self.agent_of(agent)?);
                self.agents[agent].node = Some(node);
                Ok(None)
            }
            ("connect", [one, other]) => {
                let (one, other) = (self.agent_of(one)?, self.agent_of(other)?);
                self.join(one, other)?;
                Ok(None)
            }
            ("create-connection", [source, from, sink, to, ..]) => {
                let (from, to) = (self.node(from)?, self.node(to)?);
                let source = self.agent(source)?;
                let sink = self.agent(sink)?;
                let (Object::Agent(one), Object::Agent(other)) = (&source, &sink) else { return Ok(None) };
                (self.agents[*one].node, self.agents[*other].node) = (Some(from), Some(to));
                self.join(*one, *other)?;
                Ok(Some(source))
            }
            ("attach-agent", _) => Err(expected("$ns attach-agent $n0 $udp0")),
            ("connect", _) => Err(expected("$ns connect $udp0 $null0")),
            ("create-connection", _) => Err(expected("$ns create-connection TCP $n0 TCPSink $n1 0")),
            _ => Err(format!("`{method}` is not carried out: an agent stays where it is attached")),
        }
    }

    fn join(&mut self, one: usize, other: usize) -> Result<(), String> {
        let [a, b] = [one, other].map(|i| &self.agents[i]);
        // A sink that only takes packets takes those of TCP, too.
        let takes = [(a, one), (b, other)].into_iter().find(|(agent, _)| agent.carries == Carries::Udp && !agent.sends);
        if let (true, Some((_, sink))) = (a.carries != b.carries, takes) {
            self.agents[sink].carries = Carries::Tcp;
            self.note_once("an Agent/Null at the end of an Agent/TCP receives as an Agent/TCPSink does");
        } else if a.carries != b.carries {
            return Err(
                "one of these agents is for TCP and the other is not: connect Agent/TCP to Agent/TCPSink, and \
                        Agent/UDP to Agent/Null"
                    .into(),
            );
        }
        (self.agents[one].peer, self.agents[other].peer) = (Some(other), Some(one));
        Ok(())
    }

    /// A method of an agent.
    pub(super) fn of_agent(&mut self, a: usize, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (method, words) {
            ("set", ["packetSize_", value]) => self.agents[a].packet = Some(number("packetSize_", value)?),
            ("set", _) | ("trace" | "attach" | "tracevar", _) => {
                self.note_once(
                    "of agents only packetSize_ is looked at: what carries packets is the kernel's own TCP and UDP",
                );
            }
            ("attach-app", [kind]) => return self.application(kind, Some(a)).map(Some),
            // The receiver always does.
            ("listen", []) => {}
            _ => return Err(format!("an agent has no `{method}` here: it has attach-app and set")),
        }
        Ok(None)
    }

    /// A method of an application.
    pub(super) fn of_traffic(&mut self, t: usize, method: &str, words: &[&str]) -> Result<Option<Object>, String> {
        match (method, words) {
            ("attach-agent", [agent]) => self.traffic[t].agent = Some(self.agent_of(agent)?),
            ("set", ["agent_" | "agent", agent]) => self.traffic[t].agent = Some(self.agent_of(agent)?),
            ("set", [variable, value]) => {
                let kind = self.traffic[t].kind;
                if let Some((key, value)) = kind.says(variable, value)? {
                    self.traffic[t].say(key, value);
                } else {
                    self.note_once(&format!("`{variable}` of an application is ignored"));
                }
            }
            ("set", _) => {}
            ("start" | "stop" | "send" | "produce", _) => {
                return Err(format!("what sends does so at a time: write `$ns at 1.0 \"$it {method}\"`"));
            }
            _ => return Err(format!("an application has no `{method}` here: it has attach-agent and set")),
        }
        Ok(None)
    }

    /// Adds an event of an application.
    pub(super) fn traffic_happens(&mut self, t: usize, event: &Written, when: When) -> Result<(), String> {
        let words: Vec<&str> = event.words.iter().map(String::as_str).collect();
        let [name, what, rest @ ..] = words.as_slice() else { return Ok(()) };
        self.traffic[t].used = true;
        let kind = self.traffic[t].kind;
        let deeds = match (*what, rest) {
            ("start" | "run", _) => vec!["do: start".to_owned()],
            ("stop" | "halt", _) => vec!["do: stop".to_owned()],
            ("set", [variable, value]) => match kind.says(variable, value)? {
                Some((key, value)) => vec![format!("change: {{ {key}: {value} }}")],
                None => return Err(format!("`{variable}` of `{name}` cannot be set at a time")),
            },
            ("produce" | "send", [count]) if kind == Kind::Ftp => {
                let count = number(what, count)?;
                let packet = self.traffic[t].agent.and_then(|a| self.agents[a].packet).unwrap_or(PACKET);
                let packets = if *what == "send" { (count / packet).ceil() } else { count };
                vec![format!("change: {{ packets: {} }}", packets.max(1.0)), "do: start".to_owned()]
            }
            _ => {
                return Err(format!(
                    "`{name}` cannot `{what}`: what sends has start, stop and set, and FTP produce and send"
                ));
            }
        };
        for deed in deeds {
            self.push(when, Happening::Flow(t, deed), event.place.clone());
        }
        Ok(())
    }

    /// Makes flows of the applications, whose agents are to be attached and connected.
    pub(super) fn flows(&mut self) {
        let mut names: Vec<String> = Vec::new();
        for (t, traffic) in self.traffic.iter().enumerate() {
            let mut name = traffic.name.0.chars().take(32).collect::<String>();
            if name.is_empty() || names.contains(&name) {
                name = format!("{name}{}flow-{}", if name.is_empty() { "" } else { "-" }, t + 1);
            }
            names.push(name.clone());
            let place = traffic.name.1.clone();
            match self.ends_of(traffic) {
                Ok((ends, keys)) => {
                    self.script.flows.push(Flow { traffic: t, name: (name, place), ends, keys });
                }
                Err(what) if traffic.used => self.problems.push(Note { place, what }),
                Err(what) => {
                    let what = format!("`{name}` sends nothing, for no event starts it; and {what}");
                    self.script.notes.push(Note { place, what });
                }
            }
        }
    }

    /// The nodes of a flow, and what is said of it.
    fn ends_of(&self, traffic: &Traffic) -> Result<([usize; 2], Keys), String> {
        let shown = if traffic.name.0.is_empty() { "this" } else { &traffic.name.0 };
        let agent = traffic.agent.map(|a| &self.agents[a]);
        let agent = agent.ok_or_else(|| format!("`{shown}` has no agent: `$app attach-agent $udp0` gives it one"))?;
        let named =
            |agent: &Agent| if agent.name.is_empty() { "its agent".into() } else { format!("`{}`", agent.name) };
        let of = named(agent);
        let peer = agent.peer.map(|p| &self.agents[p]).ok_or_else(|| {
            format!("{of}, over which `{shown}` sends, is connected to nothing: `$ns connect $udp0 $null0` does that")
        })?;
        let node = |agent: &Agent| {
            let missing = || format!("{} is on no node: `$ns attach-agent $n0 $udp0` puts it there", named(agent));
            agent.node.ok_or_else(missing)
        };
        if !agent.sends {
            return Err(format!(
                "{of} only receives, and `{shown}` is to send: attach it to an Agent/UDP or Agent/TCP"
            ));
        }
        let connected = agent.carries == Carries::Tcp;
        if !connected && matches!(traffic.kind, Kind::Ftp | Kind::Telnet) {
            return Err(format!("`{shown}` sends over TCP: attach it to an Agent/TCP, not to {of}"));
        }
        let (_, _, kind, _) = KINDS.iter().find(|k| k.1 == traffic.kind).ok_or("there is no such kind")?;
        let over = if connected { "tcp" } else { "udp" };
        let mut keys = vec![("kind", (*kind).to_owned()), ("over", over.to_owned())];
        keys.extend(traffic.keys.iter().map(|(key, value)| (*key, value.clone())));
        if !traffic.keys.contains_key("packet") {
            keys.push(("packet", format!("{}B", agent.packet.unwrap_or(PACKET).round())));
        }
        keys.push(("start", "event".into()));
        Ok(([node(agent)?, node(peer)?], keys))
    }
}

impl Traffic {
    /// Sets a key; the last value holds, and a rate and an interval are one key.
    fn say(&mut self, key: &'static str, value: String) {
        match key {
            "rate" => self.keys.remove("interval"),
            "interval" => self.keys.remove("rate"),
            _ => None,
        };
        self.keys.insert(key, value);
    }
}

impl Kind {
    /// A variable as an experiment writes it; none if there is nothing like it.
    fn says(self, variable: &str, value: &str) -> Result<Option<(&'static str, String)>, String> {
        let bursts = matches!(self, Kind::Exponential | Kind::Pareto);
        Ok(Some(match variable {
            "rate_" | "rate" if self != Kind::Ftp => match units::bandwidth(value)? {
                Some(rate) => ("rate", units::as_rate(rate)),
                None => return Err(format!("`{variable}` is a bandwidth such as `1Mb`, not `{value}`")),
            },
            "interval_" | "interval" if self == Kind::Telnet && number(variable, value).is_ok_and(|n| n == 0.0) => {
                return Err("intervals of tcplib are not there: set `interval_` to their mean in seconds".into());
            }
            "interval_" | "interval" if self != Kind::Ftp => ("interval", units::as_time(units::delay(value)?)),
            "packetSize_" | "packetSize" | "packetsize" => ("packet", format!("{}B", number(variable, value)?.round())),
            "burst_time_" if bursts => ("on", units::as_time(units::delay(value)?)),
            "idle_time_" if bursts => ("off", units::as_time(units::delay(value)?)),
            "shape_" if self == Kind::Pareto => ("shape", number(variable, value)?.to_string()),
            "random_" if self == Kind::Cbr => ("noise", (number(variable, value)? != 0.0).to_string()),
            "maxpkts_" if number(variable, value)? < ENDLESS => {
                ("packets", number(variable, value)?.round().to_string())
            }
            _ => return Ok(None),
        }))
    }
}

fn number(variable: &str, value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| format!("`{variable}` is a number, not `{value}`"))
}
