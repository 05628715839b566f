//! The target to be mapped: nodes, and the links between them.

use std::collections::HashMap;

use model::{Experiment, Speed};
use scale::Tdf;

/// The target to be mapped, at one TDF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// The nodes; of an experiment its switches, too, which some machine's emulator has to be.
    pub nodes: Vec<Wanted>,
    /// The links between them.
    pub links: Vec<WantedLink>,
    /// Who is to be with whom.
    pub groups: Vec<Group>,
    /// Sets of types of which nodes may have any, and should have the same.
    pub classes: Vec<Class>,
    /// The notes for a reader on how the file was taken.
    pub notes: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// The file and the line, counted from 1, that ask for it, where that is known.
    pub place: Option<(String, usize)>,
    /// The type that its machine must have.
    pub kind: Kind,
    /// How many slots of a machine it takes.
    pub slots: u32,
    /// Its part of a core; none: its CPU is not counted.
    pub cpu: Option<Share>,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// The wishes for its machine, and with which weight; with 1 it must. Of what nodes use up, how much of it.
    pub wants: Vec<(String, f64)>,
    /// The machine that it must be on.
    pub on: Option<String>,
    /// The machine where the search begins with it.
    pub hint: Option<String>,
}

/// A share of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// How fast the node's CPU is, and relative to what.
    pub speed: Speed,
    /// How much of a core it gets that is as fast as a node of speed 1, per unit of `speed`.
    pub per_speed: f64,
}

/// Which type a machine must have for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Any.
    #[default]
    Any,
    /// This.
    Type(String),
    /// One of [`Request::classes`].
    Class(usize),
}

/// A set of types.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// The price that a plan pays if its nodes have different types; with 1 they must not.
    pub weight: f64,
    /// The types.
    pub types: Vec<String>,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedLink {
    /// Its name.
    pub name: String,
    /// The nodes at its ends.
    pub ends: [usize; 2],
    /// Its need of a cable, in the larger of its two directions, in real bit/s; none: no bound is known.
    pub bits_per_s: Option<f64>,
    /// Whether it may share a cable with others; else it needs one of its own.
    pub shares: bool,
    /// Whether its two nodes may be on one machine.
    pub inside: bool,
    /// The kind that its cables must have; none: any.
    pub kind: Option<String>,
    /// The path that it should have, each way, if it is mapped to measured paths.
    pub target: [Target; 2],
}

/// The properties that one direction of a link should have, in real time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Target {
    /// Delay, in seconds.
    pub delay_s: f64,
    /// Bandwidth, in bit/s; none: it does not matter.
    pub bits_per_s: Option<f64>,
    /// The part of packets that is lost.
    pub loss: f64,
}

/// Nodes that are to be together, or apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The nodes.
    pub nodes: Vec<usize>,
    /// Whether they are to be on one machine; else each on its own.
    pub together: bool,
    /// The price that a plan pays for each machine too many, or each node too many on a machine; with 1 there must be
    /// none.
    pub weight: f64,
}

impl Request {
    /// The demand of an experiment on a harness at this TDF: CPUs and links divided by it, memory as it is.
    ///
    /// Its switches and LANs are nodes, too, that need no CPU and no slot.
    pub fn of(experiment: &Experiment, tdf: Tdf) -> Request {
        let mut nodes: Vec<Wanted> = experiment
            .nodes
            .iter()
            .map(|node| {
                let machine = &experiment.machines[node.machine];
                let whole = scale::TargetCpu { cpus: machine.cpus, speed: 1.0 };
                Wanted {
                    name: node.name.clone(),
                    place: node.place.clone(),
                    slots: 1,
                    cpu: Some(Share { speed: machine.speed, per_speed: whole.share(tdf) }),
                    memory_bytes: machine.memory_bytes,
                    ..Wanted::default()
                }
            })
            .collect();
        let places = experiment.switches.iter().chain(experiment.lans.iter().map(|lan| &lan.name));
        nodes.extend(places.map(|name| Wanted { name: name.clone(), ..Wanted::default() }));
        let at: HashMap<String, usize> = nodes.iter().enumerate().map(|(i, node)| (node.name.clone(), i)).collect();
        let links = experiment.links.iter().map(|link| {
            let real = [&link.ab, &link.ba].map(|pipe| pipe.rate.map(|rate| tdf.to_real_rate(rate).bits_per_s()));
            let larger = match real {
                [Some(ab), Some(ba)] => Some(ab.max(ba)),
                [ab, ba] => ab.or(ba),
            };
            WantedLink {
                name: link.name.clone(),
                ends: [at[&link.a], at[&link.b]],
                bits_per_s: larger,
                shares: true,
                inside: true,
                kind: None,
                target: [&link.ab, &link.ba].map(|pipe| Target {
                    delay_s: tdf.to_real(pipe.delay).as_secs_f64(),
                    bits_per_s: pipe.rate.map(|rate| tdf.to_real_rate(rate).bits_per_s()),
                    loss: pipe.loss.mean(),
                }),
            }
        });
        let links = links.collect();
        let mut groups = Vec::new();
        for rule in &experiment.placement {
            let about: Vec<usize> = rule.nodes.iter().map(|name| at[name]).collect();
            for node in &about {
                let node = &mut nodes[*node];
                if let Some(kind) = &rule.kind {
                    node.kind = Kind::Type(kind.clone());
                }
                if rule.on.is_some() {
                    node.on.clone_from(&rule.on);
                }
                node.wants.extend(rule.wants.iter().cloned());
            }
            for (together, weight) in [(true, rule.together), (false, rule.apart)] {
                groups.extend(weight.map(|weight| Group { nodes: about.clone(), together, weight }));
            }
        }
        Request { name: experiment.name.clone(), nodes, links, groups, classes: Vec::new(), notes: Vec::new() }
    }
}
