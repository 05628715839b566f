//! The harness to map to: machines, switches, cables, and what was measured between far machines.

use model::Speed;

use crate::way::Way;

/// A harness of several machines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Harness {
    /// Machines and switches, in the order of their file.
    pub places: Vec<Place>,
    /// The cables that join them.
    pub cables: Vec<Cable>,
    /// How many nodes may have a type, over all machines.
    pub type_limits: Vec<(String, u32)>,
    /// The paths measured between machines that no cable of ours joins; in each direction.
    pub paths: Vec<MeasuredPath>,
    /// The notes for a reader on how the file was taken.
    pub notes: Vec<String>,
}

impl Harness {
    /// The place of this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.places.iter().position(|p| p.name == name)
    }
}

/// A machine or a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Whether it forwards what is not for it.
    pub switch: bool,
    /// How many nodes it takes at most; none: as many as its other limits allow.
    pub slots: Option<u32>,
    /// The number of nodes that ask for a type and can be there.
    pub types: Vec<TypeSlots>,
    /// Its CPU; none: nodes' CPUs are not counted.
    pub cpu: Option<Cpu>,
    /// Its memory for nodes, in bytes; none: not counted.
    pub memory_bytes: Option<u64>,
    /// The rate that all links inside it carry together, in real bit/s; none: anything.
    pub inside_bits_per_s: Option<f64>,
    /// The features that nodes may want of it.
    pub features: Vec<Feature>,
    /// Whether it differs from all others in a way that is not written.
    pub unique: bool,
    /// How it is reached, if that is written.
    pub way: Option<Way>,
}

impl Place {
    /// A machine of this name that takes anything.
    pub fn machine(name: impl Into<String>) -> Place {
        Place {
            name: name.into(),
            switch: false,
            slots: None,
            types: Vec::new(),
            cpu: None,
            memory_bytes: None,
            inside_bits_per_s: None,
            features: Vec::new(),
            unique: false,
            way: None,
        }
    }

    /// A switch of this name, on which no node can be.
    pub fn switch(name: impl Into<String>) -> Place {
        Place { switch: true, slots: Some(0), ..Place::machine(name) }
    }
}

/// The CPU of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    /// Its cores that are for nodes.
    pub cores: u32,
    /// How fast each is.
    pub speed: Speed,
}

/// A type that nodes can have on a machine. A machine is of one type at a time, for all nodes that are on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSlots {
    /// Its name.
    pub name: String,
    /// How many nodes of it the machine takes; none: any number.
    pub slots: Option<u32>,
    /// Whether the machine is of this type whatever else it is.
    pub always: bool,
}

/// Something about a machine that nodes may want.
#[derive(Clone, Debug, PartialEq)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// The price that the plan pays for each node there that does not want it; of one that is used up, how much there
    /// is.
    pub value: f64,
    /// Whether nodes use it up: what they want of it is summed.
    pub used_up: bool,
}

/// A cable, with the same rate in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Cable {
    /// Its name, for plans.
    pub name: String,
    /// The places at its ends.
    pub ends: [usize; 2],
    /// Its rate in each direction, in real bit/s.
    pub bits_per_s: f64,
    /// The kinds of links it can be; empty: any.
    pub kinds: Vec<String>,
}

/// The path measured from one machine to another, in real time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPath {
    /// The place that sends.
    pub from: usize,
    /// The place that receives.
    pub to: usize,
    /// Delay one way, in seconds.
    pub delay_s: f64,
    /// Bandwidth, in bit/s; none: not measured.
    pub bits_per_s: Option<f64>,
    /// The part of packets that is lost.
    pub loss: f64,
}
