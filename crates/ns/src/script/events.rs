//! Events of a script, and their times.

use super::{Event, Happening, Object, Queue, Reader, When, Written, units};
use crate::calls::Call;
use crate::yaml::{self, joined, reset};

/// How deep sequences, timelines and groups may be in one another.
const DEPTH: usize = 16;
/// The most events.
const MOST: usize = 50_000;
/// Methods of the simulator that end an experiment.
const ENDS: &[&str] = &["swapout", "terminate", "halt", "stop", "stoprun", "finish"];
/// A step of a sequence that is none: what it does when a step fails.
const CATCH: &str = "catch";

impl Reader {
    /// `$ns at TIME "WORDS"`, and the same of a timeline.
    pub(super) fn timed(&mut self, call: &Call) -> Result<(), String> {
        if call.word(1) == "swapout" {
            return Err("nothing can be done when a run is over: write a time in seconds".into());
        }
        let at = units::time(call.word(1))?;
        let event = Written { at, words: call.words.get(2..).unwrap_or_default().to_vec(), place: call.place.clone() };
        match self.objects.get(call.word(0)) {
            Some(Object::Timeline(t)) => self.timelines[*t].push(event),
            _ => self.at.push(event),
        }
        Ok(())
    }

    /// A step of a sequence.
    pub(super) fn step(&mut self, call: &Call) -> Result<(), String> {
        if call.word(1) == CATCH {
            self.note_once("what a sequence does when a step fails is ignored: a program that fails fails the run");
        }
        let event =
            Written { at: 0.0, words: call.words.get(1..).unwrap_or_default().to_vec(), place: call.place.clone() };
        if event.words.is_empty() {
            return Ok(());
        }
        if let Some(Object::Sequence(s)) = self.objects.get(call.word(0)) {
            self.sequences[*s].push(event);
        }
        Ok(())
    }

    /// Makes of all events what happens to links, nodes and programs.
    pub(super) fn happenings(&mut self) {
        let mut all = std::mem::take(&mut self.at);
        all.sort_by(|a, b| a.at.total_cmp(&b.at));
        for event in all {
            self.place.clone_from(&event.place);
            if let Err(what) = self.happens(&event, When { after: None, at: event.at }, 0, None) {
                self.problem(what);
            }
            if self.script.events.len() > MOST {
                return self.problem(format!("these are more than {MOST} events"));
            }
        }
        self.place = None;
    }

    /// Says when it is over, for what follows it in a sequence: at once, but for what is told to `run`. `step` is the
    /// number of the step that it is, where something waits for its end.
    fn happens(&mut self, event: &Written, when: When, depth: usize, step: Option<usize>) -> Result<When, String> {
        self.place.clone_from(&event.place);
        if depth > DEPTH {
            return Err(format!("sequences, timelines and groups are more than {DEPTH} deep in one another"));
        }
        let words: Vec<&str> = event.words.iter().map(String::as_str).collect();
        let (name, what, rest) = match words.as_slice() {
            [name, what, rest @ ..] => (*name, *what, rest),
            [name] => (*name, "", [].as_slice()),
            [] => return Ok(when),
        };
        let place = event.place.clone();
        let Some(object) = self.objects.get(name).cloned() else {
            self.procedure(name, what, when)?;
            return Ok(when);
        };
        let needs = |n: usize| {
            let text = format!("wrong words: write `\"${name} {what} VALUE\"`");
            rest.get(n).copied().ok_or(text)
        };
        match object {
            Object::Link(l) | Object::Simplex(l, _) if what == "reset" => {
                let change = joined(&reset(&self.script.links[l].pipes));
                self.push(when, Happening::Link(l, change), place);
            }
            Object::Link(l) | Object::Simplex(l, _) => match change(name, what, || needs(0))? {
                Some(change) => self.push(when, Happening::Link(l, change), place),
                None => self.traced(name, what)?,
            },
            Object::Lan(l) if what == "reset" => {
                for member in 0..self.script.lans[l].members.len() {
                    let change = joined(&reset(&self.script.lans[l].members[member].pipes));
                    self.push(when, Happening::Lan(l, Some(member), change), place.clone());
                }
            }
            Object::Lan(l) => match change(name, what, || needs(0))? {
                Some(change) => self.push(when, Happening::Lan(l, None, change), place),
                None => self.traced(name, what)?,
            },
            Object::Member(l, m) => match change(name, what, || needs(0))? {
                Some(change) => self.push(when, Happening::Lan(l, Some(m), change), place),
                None => self.traced(name, what)?,
            },
            Object::Queue(..) | Object::LanQueue(..) if what == "set" => {
                let (variable, value) = (needs(0)?, needs(1)?);
                // A value that an event sets stays set for those that follow it.
                let first = self.queue_of(&object).cloned().unwrap_or_else(|| Queue::of("DropTail"));
                let queue = self.queues.entry(format!("{object:?}")).or_insert(first);
                queue.set(variable, value)?;
                let change = format!("queue: {}", yaml::queue(queue));
                let happening = match object {
                    Object::Queue(l, direction) => Happening::Link(l, directed(direction, &change)),
                    Object::LanQueue(l, m, direction) => Happening::Lan(l, Some(m), directed(direction, &change)),
                    _ => return Ok(when),
                };
                self.push(when, happening, place);
            }
            Object::Node(n) => match what {
                "reboot" => {
                    self.push(when, Happening::Node(n, "kill"), place.clone());
                    self.push(when, Happening::Node(n, "start"), place);
                }
                "halt" | "down" | "kill" => self.push(when, Happening::Node(n, "kill"), place),
                "up" | "start" => self.push(when, Happening::Node(n, "start"), place),
                "reload" | "snapshot-to" | "setdest" => {
                    return Err(format!("`{what}` of a node cannot be carried out: it has reboot, halt and start"));
                }
                _ => return Err(format!("a node cannot `{what}` at a time: it has reboot, halt and start")),
            },
            Object::Program(program) => return self.program_happens(program, event, when, step),
            Object::Traffic(t) => self.traffic_happens(t, event, when)?,
            Object::Group(g) => {
                let mut over = None;
                for member in self.groups[g].clone() {
                    let mut words = event.words.clone();
                    words[0] = member;
                    let one = self.happens(&Written { at: 0.0, words, place: place.clone() }, when, depth + 1, step)?;
                    if *over.get_or_insert(one) != one && step.is_some() {
                        return Err(format!(
                            "the members of `{name}` end in different ways, which no step can wait for"
                        ));
                    }
                }
                return Ok(over.unwrap_or(when));
            }
            Object::Sequence(s) if ["start", "run"].contains(&what) => {
                let over = self.steps_happen(s, when, depth, step.filter(|_| what == "run"))?;
                return Ok(if what == "run" { over } else { when });
            }
            Object::Timeline(t) if ["start", "run"].contains(&what) => {
                let mut over = when;
                for event in self.timelines[t].clone() {
                    let its = When { at: when.at + event.at, ..when };
                    self.happens(&event, its, depth + 1, None)?;
                    over.at = over.at.max(its.at);
                }
                return Ok(if what == "run" { over } else { when });
            }
            Object::Simulator if ENDS.contains(&what) => self.ends(when),
            Object::Simulator => {
                self.note_once(&format!("`$ns {what}` at a time is ignored"));
            }
            _ => return Err(format!("`{name}` cannot `{what}` at a time")),
        }
        Ok(when)
    }

    /// The steps of a sequence, each when the one before it is over; the last one is the step `step` of another
    /// sequence.
    fn steps_happen(&mut self, s: usize, when: When, depth: usize, step: Option<usize>) -> Result<When, String> {
        let steps: Vec<Written> = self.sequences[s].iter().filter(|s| s.words[0] != CATCH).cloned().collect();
        let mut over = when;
        for (i, one) in steps.iter().enumerate() {
            let waited_for = if i + 1 == steps.len() { step } else { Some(self.another_step()) };
            over = self.happens(one, over, depth + 1, waited_for)?;
        }
        Ok(over)
    }

    fn another_step(&mut self) -> usize {
        self.steps += 1;
        self.steps
    }

    /// Adds an event of a program.
    fn program_happens(
        &mut self,
        number: usize,
        event: &Written,
        when: When,
        step: Option<usize>,
    ) -> Result<When, String> {
        let words: Vec<&str> = event.words.iter().map(String::as_str).collect();
        let [name, what, rest @ ..] = words.as_slice() else { return Ok(when) };
        let program = &self.script.programs[number];
        let Some(node) = program.node else {
            return Err(format!("`{name}` has no node: set one with `${name} set node $n0`"));
        };
        let happening = match (*what, program.startup) {
            ("start" | "run", false) => {
                let mut program = Box::new(program.clone());
                program.run_options(rest)?;
                // Only `run` is waited for.
                Happening::Run(number, program, step.filter(|_| *what == "run"))
            }
            ("run", true) if step.is_some() => {
                return Err(format!(
                    "nothing can wait for the end of `{name}`, for it is what its node runs from the start: use a \
                     program agent"
                ));
            }
            ("start" | "run", true) if rest.is_empty() => Happening::Node(node, "start"),
            ("start" | "run", true) => {
                return Err("what a node runs from the start is started as it is: use a program agent".into());
            }
            ("stop" | "halt", false) => Happening::Signal(number, "TERM".into()),
            ("stop" | "halt", true) => Happening::Node(node, "stop"),
            ("kill", startup) => match (signal(rest)?, startup) {
                (signal, false) => Happening::Signal(number, signal),
                (signal, true) if signal == "TERM" => Happening::Node(node, "stop"),
                (signal, true) if signal == "KILL" => Happening::Node(node, "kill"),
                (other, true) => {
                    return Err(format!(
                        "what a node runs from the start can be sent TERM and KILL, not {other}: use a program agent"
                    ));
                }
            },
            _ => return Err(format!("a program cannot `{what}`: it has start, run, stop and kill")),
        };
        let over = match &happening {
            Happening::Run(_, _, Some(step)) => When { after: Some(*step), at: 0.0 },
            _ => when,
        };
        self.push(when, happening, event.place.clone());
        Ok(over)
    }

    /// Handles a command that is no object: in ns a procedure is called, which here can only mean the end.
    fn procedure(&mut self, name: &str, what: &str, when: When) -> Result<(), String> {
        if self.procedures.contains(name) || (name == "exit") {
            let ends =
                ["finish", "done", "end", "stop", "exit", "quit"].iter().any(|w| name.to_lowercase().contains(w));
            if ends {
                self.ends(when);
                return Ok(());
            }
            return Err(format!(
                "procedures cannot be called during a run, and `{name}` is one: events are for links, nodes, programs \
                 and queues (a procedure called `finish` ends the run)"
            ));
        }
        if !self.problems.is_empty() {
            // Its creation was wrong, most likely.
            return Ok(());
        }
        Err(format!("there is no `{name}` that could `{what}`: name an object of the script, as of `\"$link0 down\"`"))
    }

    fn ends(&mut self, when: When) {
        if when.after.is_some() {
            return self.push(when, Happening::End, self.place.clone());
        }
        let earlier = self.script.end.as_ref().is_some_and(|(end, _)| *end <= when.at);
        if !earlier {
            self.script.end = Some((when.at, self.place.clone()));
        }
    }

    fn traced(&mut self, name: &str, what: &str) -> Result<(), String> {
        match what {
            "trace" => self.note_once("tracing is on for the whole run where it is on"),
            _ => return Err(format!("`{name}` cannot `{what}`: a link has up, down, bandwidth, delay, plr and reset")),
        }
        Ok(())
    }

    pub(super) fn push(&mut self, when: When, what: Happening, place: Option<crate::error::Place>) {
        self.script.events.push(Event { when, what, place });
    }
}

/// The change of a link that an event makes, as an experiment writes it; none if it makes none.
fn change<'a>(name: &str, what: &str, value: impl Fn() -> Result<&'a str, String>) -> Result<Option<String>, String> {
    Ok(Some(match what {
        "up" => "up: true".to_owned(),
        "down" => "up: false".to_owned(),
        "bandwidth" => match units::bandwidth(value()?)? {
            Some(rate) => format!("bandwidth: {}", units::as_rate(rate)),
            None => return Err(format!("`{name}` needs a bandwidth such as `10Mb`")),
        },
        "delay" => {
            let value = value()?;
            // The event system of Netbed counts delays in milliseconds.
            let seconds = value.parse::<f64>().map(|ms| ms / 1e3).or_else(|_| units::delay(value))?;
            format!("delay: {}", units::as_time(seconds))
        }
        "plr" | "loss" => format!("loss: {}", units::as_percent(units::loss(value()?)?)),
        _ => return Ok(None),
    }))
}

fn directed(direction: usize, change: &str) -> String {
    format!("{}: {{ {change} }}", ["ab", "ba"][direction])
}

/// The signal of `kill -signal INT` and the like.
fn signal(words: &[&str]) -> Result<String, String> {
    let name = match words {
        [] => "TERM",
        [option, name] if option.trim_start_matches('-').eq_ignore_ascii_case("signal") => name,
        [name] => name.trim_start_matches('-'),
        _ => return Err("wrong words: write `\"$prog kill -signal INT\"`".into()),
    };
    let name = name.trim_start_matches("SIG").to_uppercase();
    match ["TERM", "INT", "HUP", "KILL", "QUIT", "USR1", "USR2", "STOP", "CONT"].contains(&name.as_str()) {
        true => Ok(name),
        false => Err(format!("there is no signal `{name}`: write one such as TERM, INT or KILL")),
    }
}

impl super::Program {
    /// Reads the options of `start` and `run`.
    fn run_options(&mut self, words: &[&str]) -> Result<(), String> {
        if words.first().is_none_or(|w| !w.starts_with('-') || w.eq_ignore_ascii_case("-signal")) {
            return Ok(());
        }
        for option in words.chunks(2) {
            let [name, value] = option else { return Err("an option of a program has a value".into()) };
            self.set(name.trim_start_matches('-'), value)?;
        }
        Ok(())
    }
}
