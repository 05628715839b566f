//! Flows that exist only here: their packets take their part of pipes and queues, and no node sends or receives them.
//!
//! A packet goes from pipe to pipe as a frame does, by the route between its ends, which may be nodes and switches. At
//! a node it arrives or passes at no cost: no kernel sees it. So a switch at which flows begin and end is a host that
//! needs no process (White and others, OSDI 2002, section 5.5, have the simulator of ns for that).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use scale::{RealDuration, RealInstant};
use traffic::{Departures, Pattern};

use crate::Error;
use crate::links::flow::{FlowChange, FlowCounters, FlowInterval, FlowSpec, Load};
use crate::links::frame::Frame;
use crate::links::ids::{PipeId, PortId};
use crate::links::pipe::draws::{Draws, Purpose};
use crate::links::topology::Topology;

/// The most sources of all flows together.
const MOST: usize = 1 << 20;

#[derive(Debug)]
struct Flow {
    load: Load,
    /// Its sources, by their places.
    sources: std::ops::Range<u32>,
    running: bool,
    /// How many of them have something left to send.
    active: usize,
    /// Whether it has run since the interval began.
    whole: bool,
    counters: FlowCounters,
    /// The counters at the beginning of the interval.
    before: FlowCounters,
}

#[derive(Debug)]
struct Source {
    flow: u32,
    way: Box<[PipeId]>,
    seed: u64,
    begun: RealInstant,
    departures: Departures,
    /// Which life of it is running: what is due of an earlier one is not.
    life: u32,
}

/// All flows.
#[derive(Debug, Default)]
pub(crate) struct Background {
    flows: Vec<Flow>,
    sources: Vec<Source>,
    /// When the next packet of each source leaves: the source, and its life.
    due: BinaryHeap<Reverse<(RealInstant, u32, u32)>>,
}

/// A packet that leaves its source.
pub(crate) struct Departure {
    pub at: RealInstant,
    pub pipe: PipeId,
    pub to: PortId,
    pub frame: usize,
}

impl Background {
    /// Fails if a flow leads nowhere, there are too many of them, or frames are longer than `most` bytes.
    pub fn new(specs: &[FlowSpec], topology: &Topology, most: usize) -> Result<Background, Error> {
        let mut all = Background::default();
        for (number, spec) in specs.iter().enumerate() {
            let first = all.sources.len() as u32;
            let draws = Draws::new(spec.seed, &spec.name);
            for (from, to) in &spec.ways {
                let way = topology.route_of_any(from, to).filter(|way| !way.is_empty());
                let way = way.ok_or_else(|| {
                    Error::Input(format!("flow `{}`: there is no way from `{from}` to `{to}`", spec.name))
                })?;
                if all.sources.len() == MOST {
                    return Err(Error::Input(format!("these are more than {MOST} sources of flows")));
                }
                // One draw for each source; what the stream is called makes no difference here.
                let seed = draws.bits(Purpose::Jitter, all.sources.len() as u64 - u64::from(first) + 1);
                let departures = Departures::new(spec.load.pattern, seed);
                let (flow, begun) = (number as u32, RealInstant::ZERO);
                all.sources.push(Source { flow, way: way.into(), seed, begun, departures, life: 0 });
            }
            let sources = first..all.sources.len() as u32;
            let (counters, before) = Default::default();
            all.flows.push(Flow {
                load: spec.load,
                sources,
                running: false,
                active: 0,
                whole: false,
                counters,
                before,
            });
            all.allows(number, &FlowChange::Load(spec.load), most)?;
        }
        Ok(all)
    }

    /// Whether a change would be taken; what is wrong with it if not.
    pub fn allows(&self, flow: usize, change: &FlowChange, most: usize) -> Result<(), Error> {
        if flow >= self.flows.len() {
            return Err(Error::Input(format!("there is no flow number {flow}")));
        }
        match change {
            FlowChange::Load(load) if load.frame > most => {
                Err(Error::Input(format!("a frame of {} bytes, where {most} are the most of any link", load.frame)))
            }
            FlowChange::Load(load) if load.pattern.shape == traffic::Shape::Greedy => {
                Err(Error::Input("a flow without programs sends at a rate of its own".into()))
            }
            _ => Ok(()),
        }
    }

    /// Changes a flow at `now`.
    pub fn change(&mut self, flow: usize, now: RealInstant, change: FlowChange) {
        let of = &mut self.flows[flow];
        let starts = match change {
            FlowChange::Start => {
                of.whole = of.running;
                !std::mem::replace(&mut of.running, true)
            }
            FlowChange::Load(load) => {
                of.load = load;
                of.running
            }
            FlowChange::Stop => {
                of.running = false;
                false
            }
        };
        let (load, sources) = (of.load, of.sources.clone());
        if starts {
            of.active = sources.len();
        }
        let alone = sources.len() == 1;
        for number in sources {
            let source = &mut self.sources[number as usize];
            source.life = source.life.wrapping_add(1);
            if !starts {
                continue;
            }
            source.departures = Departures::new(load.pattern, source.seed);
            // Many that begin at one moment would go on in step.
            let wait = if alone { 0.0 } else { phase(source.seed) * cycle(&load.pattern) };
            source.begun = now + RealDuration::from_secs_f64(wait);
            self.schedule(number);
        }
    }

    fn schedule(&mut self, number: u32) {
        let source = &mut self.sources[number as usize];
        if let Some(after) = source.departures.next() {
            let at = source.begun + RealDuration::from_secs_f64(after);
            self.due.push(Reverse((at, number, source.life)));
            return;
        }
        let of = &mut self.flows[source.flow as usize];
        of.active -= 1;
        of.running &= of.active > 0;
    }

    /// When the next packet leaves, or something is due that no longer counts.
    pub fn next(&self) -> Option<RealInstant> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the packet that leaves next.
    pub fn depart(&mut self) -> Option<Departure> {
        let Reverse((at, number, life)) = self.due.pop()?;
        let source = &self.sources[number as usize];
        if source.life != life {
            return None;
        }
        let (pipe, flow) = (*source.way.first()?, source.flow as usize);
        self.schedule(number);
        let of = &mut self.flows[flow];
        of.counters.sent += 1;
        Some(Departure { at, pipe, to: PortId::source(number), frame: of.load.frame })
    }

    /// Where a packet goes on that has passed a pipe at `now`; none if it has arrived, which is counted.
    pub fn hop(&mut self, number: u32, now: RealInstant, frame: &mut Frame) -> Option<PipeId> {
        let source = &self.sources[number as usize];
        let (sent, hop) = read(frame);
        let next = usize::from(hop) + 1;
        match source.way.get(next) {
            Some(pipe) => {
                write(frame, sent, next as u16);
                Some(*pipe)
            }
            None => {
                let counters = &mut self.flows[source.flow as usize].counters;
                counters.arrived += 1;
                counters.delay += now.since(sent).as_nanos();
                None
            }
        }
    }

    /// Counts a packet that was dropped.
    pub fn lost(&mut self, number: u32) {
        self.flows[self.sources[number as usize].flow as usize].counters.lost += 1;
    }

    /// Work of flows in the interval from … to …, which ends.
    pub fn note(&mut self, from: RealInstant, to: RealInstant, ready: &mut Vec<FlowInterval>) {
        for (flow, of) in self.flows.iter_mut().enumerate() {
            let grew = of.counters.since(&std::mem::replace(&mut of.before, of.counters));
            let whole = std::mem::replace(&mut of.whole, of.running) && of.running;
            if of.running || grew != FlowCounters::default() {
                ready.push(FlowInterval { flow, from, to, whole, grew, frame: of.load.frame });
            }
        }
    }
}

/// From 0 to 1, by a seed of which other things are drawn, too.
fn phase(seed: u64) -> f64 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64 / (1_u64 << 53) as f64
}

/// After how many seconds a source does about the same again.
fn cycle(pattern: &Pattern) -> f64 {
    match pattern.shape {
        traffic::Shape::Constant { interval, .. } | traffic::Shape::Poisson { interval } => interval,
        traffic::Shape::Bursts { on, off, .. } => on + off,
        traffic::Shape::Greedy => 0.0,
    }
}

/// How long the part of a frame is in which a packet says when it left and how many pipes it has passed. It stands
/// where other frames have hardware addresses; that nothing follows keeps pipes from damaging it.
const HEAD: usize = 20;

/// Makes a frame a packet that leaves now.
pub(crate) fn fill(frame: &mut Frame, length: usize, now: RealInstant) {
    frame.space()[..HEAD].fill(0);
    frame.set_len(length.max(HEAD));
    write(frame, now, 0);
}

fn write(frame: &mut Frame, sent: RealInstant, hop: u16) {
    frame.space()[..8].copy_from_slice(&sent.as_nanos().to_ne_bytes());
    frame.space()[8..10].copy_from_slice(&hop.to_ne_bytes());
}

fn read(frame: &Frame) -> (RealInstant, u16) {
    let bytes = frame.bytes();
    let sent = bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
    let hop = bytes.get(8..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_ne_bytes(*b));
    (RealInstant::from_nanos(sent), hop)
}
