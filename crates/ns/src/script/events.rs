//! What happens, and when.

use super::{Event, Happening, Object, Queue, Reader, Written, units};
use crate::calls::Call;
use crate::yaml;

/// How deep sequences, timelines and groups may be in one another.
const DEPTH: usize = 16;
/// The most events.
const MOST: usize = 50_000;
/// What ends an experiment, said to the simulator.
const ENDS: &[&str] = &["swapout", "terminate", "halt", "stop", "finish"];

impl Reader {
    /// `$ns at TIME "WORDS"`, and the same of a timeline.
    pub(super) fn timed(&mut self, call: &Call) -> Result<(), String> {
        let at = units::time(call.word(1))?;
        let event = Written { at, words: call.words[2..].to_vec(), place: call.place.clone() };
        match self.objects.get(call.word(0)) {
            Some(Object::Timeline(t)) => self.timelines[*t].push(event),
            _ => self.at.push(event),
        }
        Ok(())
    }

    /// A step of a sequence.
    pub(super) fn step(&mut self, call: &Call) -> Result<(), String> {
        if call.word(1) == "catch" {
            self.note_once("what a sequence does when a step fails is ignored: a program that fails fails the run");
        }
        let event = Written { at: 0.0, words: call.words[1..].to_vec(), place: call.place.clone() };
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
            if let Err(what) = self.happens(&event, event.at, 0, true) {
                self.problem(what);
            }
            if self.script.events.len() > MOST {
                return self.problem(format!("these are more than {MOST} events"));
            }
        }
        self.place = None;
    }

    /// `last`: whether nothing waits for the end of this.
    fn happens(&mut self, event: &Written, at: f64, depth: usize, last: bool) -> Result<(), String> {
        self.place.clone_from(&event.place);
        if depth > DEPTH {
            return Err(format!("sequences, timelines and groups are more than {DEPTH} deep in one another"));
        }
        let words: Vec<&str> = event.words.iter().map(String::as_str).collect();
        let (name, what, rest) = match words.as_slice() {
            [name, what, rest @ ..] => (*name, *what, rest),
            [name] => (*name, "", [].as_slice()),
            [] => return Ok(()),
        };
        let place = event.place.clone();
        let Some(object) = self.objects.get(name).cloned() else { return self.procedure(name, what, at) };
        let needs = |n: usize| {
            let text = format!("wrong words: write `\"${name} {what} VALUE\"`");
            rest.get(n).copied().ok_or(text)
        };
        match object {
            Object::Link(l) | Object::Simplex(l, _) => {
                let change = change(name, what, || needs(0))?;
                let Some(change) = change else { return self.traced(name, what) };
                self.push(at, Happening::Link(l, change), place);
            }
            Object::Lan(l) => {
                let Some(change) = change(name, what, || needs(0))? else { return self.traced(name, what) };
                self.push(at, Happening::Lan(l, None, change), place);
            }
            Object::Member(l, m) => {
                let Some(change) = change(name, what, || needs(0))? else { return self.traced(name, what) };
                self.push(at, Happening::Lan(l, Some(m), change), place);
            }
            Object::Queue(..) | Object::LanQueue(..) if what == "set" => {
                let (variable, value) = (needs(0)?, needs(1)?);
                // What an event sets stays set for those that follow it.
                let first = self.queue_of(&object).cloned().unwrap_or_else(|| Queue::of("DropTail"));
                let queue = self.queues.entry(format!("{object:?}")).or_insert(first);
                queue.set(variable, value)?;
                let change = format!("queue: {}", yaml::queue(queue));
                let happening = match object {
                    Object::Queue(l, direction) => Happening::Link(l, directed(direction, &change)),
                    Object::LanQueue(l, m, direction) => Happening::Lan(l, Some(m), directed(direction, &change)),
                    _ => return Ok(()),
                };
                self.push(at, happening, place);
            }
            Object::Node(n) => match what {
                "reboot" => {
                    self.push(at, Happening::Node(n, "kill"), place.clone());
                    self.push(at, Happening::Node(n, "start"), place);
                }
                "halt" | "down" | "kill" => self.push(at, Happening::Node(n, "kill"), place),
                "up" | "start" => self.push(at, Happening::Node(n, "start"), place),
                "reload" | "snapshot-to" | "setdest" => {
                    return Err(format!("`{what}` of a node cannot be carried out: it has reboot, halt and start"));
                }
                _ => return Err(format!("a node cannot `{what}` at a time: it has reboot, halt and start")),
            },
            Object::Program(program) => {
                let signal = match what {
                    "start" | "run" => None,
                    "stop" | "halt" => Some("TERM".to_owned()),
                    "kill" => Some(signal(rest)?),
                    _ => return Err(format!("a program cannot `{what}`: it has start, run, stop and kill")),
                };
                if signal.is_none() && !last {
                    return Err(format!(
                        "`{name}` would have to end before the next step of the sequence, and when it does only the \
                         run shows: write both into one command, or give the next step a time with `$ns at`"
                    ));
                }
                self.script.programs[program].run_options(rest)?;
                let Some(node) = self.script.programs[program].node else {
                    return Err(format!("`{name}` has no node: set one with `${name} set node $n0`"));
                };
                let happening = match signal.as_deref() {
                    _ if !self.script.programs[program].startup => Happening::Program(program, signal),
                    None => Happening::Node(node, "start"),
                    Some("TERM") => Happening::Node(node, "stop"),
                    Some("KILL") => Happening::Node(node, "kill"),
                    Some(other) => {
                        return Err(format!(
                            "what a node runs from the start can be sent TERM and KILL, not {other}: use a \
                             program agent"
                        ));
                    }
                };
                self.push(at, happening, place);
            }
            Object::Traffic(t) => self.traffic_happens(t, event, at)?,
            Object::Group(g) => {
                for member in self.groups[g].clone() {
                    let mut words = event.words.clone();
                    words[0] = member;
                    self.happens(&Written { at, words, place: place.clone() }, at, depth + 1, last)?;
                }
            }
            Object::Sequence(s) if ["start", "run"].contains(&what) => {
                let steps = self.sequences[s].clone();
                for (i, step) in steps.iter().enumerate() {
                    let follows = steps[i + 1..].iter().any(|s| s.words.first().is_some_and(|w| w != "catch"));
                    if step.words.first().is_some_and(|w| w == "catch") {
                        continue;
                    }
                    self.happens(step, at, depth + 1, last && !follows)?;
                }
            }
            Object::Timeline(t) if ["start", "run"].contains(&what) => {
                if !last {
                    return Err(format!("`{name}` takes time, and is not the last step of its sequence"));
                }
                for event in self.timelines[t].clone() {
                    self.happens(&event, at + event.at, depth + 1, true)?;
                }
            }
            Object::Simulator if ENDS.contains(&what) => self.ends(at),
            Object::Simulator => {
                self.note_once(&format!("`$ns {what}` at a time is ignored"));
            }
            _ => return Err(format!("`{name}` cannot `{what}` at a time")),
        }
        Ok(())
    }

    /// What is no object: in ns a procedure is called, which here can only mean the end.
    fn procedure(&mut self, name: &str, what: &str, at: f64) -> Result<(), String> {
        if self.procedures.contains(name) || (name == "exit") {
            let ends =
                ["finish", "done", "end", "stop", "exit", "quit"].iter().any(|w| name.to_lowercase().contains(w));
            if ends {
                self.ends(at);
                return Ok(());
            }
            return Err(format!(
                "procedures cannot be called during a run, and `{name}` is one: events are for links, nodes, programs \
                 and queues (a procedure called `finish` ends the run)"
            ));
        }
        if !self.problems.is_empty() {
            // What made it was wrong, most likely.
            return Ok(());
        }
        Err(format!("there is no `{name}` that could `{what}`: name an object of the script, as of `\"$link0 down\"`"))
    }

    fn ends(&mut self, at: f64) {
        let earlier = self.script.end.as_ref().is_some_and(|(end, _)| *end <= at);
        if !earlier {
            self.script.end = Some((at, self.place.clone()));
        }
    }

    fn traced(&mut self, name: &str, what: &str) -> Result<(), String> {
        match what {
            "trace" => self.note_once("tracing is on for the whole run where it is on"),
            _ => return Err(format!("`{name}` cannot `{what}`: a link has up, down, bandwidth, delay and plr")),
        }
        Ok(())
    }

    pub(super) fn push(&mut self, at: f64, what: Happening, place: Option<crate::error::Place>) {
        self.script.events.push(Event { at, what, place });
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
    /// What `start` and `run` may say besides.
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
