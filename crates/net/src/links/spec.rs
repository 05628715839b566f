//! What a network is made of, as the plan says it: all rates and delays already scaled to the harness.

use scale::{RealDuration, RealRate};

use crate::Error;
use crate::links::pipe::jitter::Jitter;
use crate::links::pipe::loss::Loss;
use crate::links::queue::Queue;

/// The longest IP packet of a link of which nothing else is said.
pub const DEFAULT_MTU: u16 = 1500;
/// The least that IPv4 allows (RFC 791, §3.1).
pub(crate) const LEAST_MTU: u16 = 68;
/// What common hardware with jumbo frames carries.
pub(crate) const LARGEST_MTU: u16 = 9216;

/// Nodes and switches, and the links between them, by which every one must reach every other.
#[derive(Clone, Debug, Default)]
pub struct NetworkSpec {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Names of the switches: they forward at no cost.
    pub switches: Vec<String>,
    /// The links, in the order in which addresses are given out.
    pub links: Vec<LinkSpec>,
    /// Routes that take the place of the shortest ones.
    pub routes: Vec<RouteSpec>,
}

/// A link: two pipes, one in each direction.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Its name, `A--B`; its pipes are called `A--B/ab` and `A--B/ba`.
    pub name: String,
    /// The node or switch at one end.
    pub a: String,
    /// The node or switch at the other end.
    pub b: String,
    /// The direction from `a` to `b`.
    pub ab: PipeConfig,
    /// The direction from `b` to `a`.
    pub ba: PipeConfig,
    /// The longest IP packet, in bytes, that either direction carries: 68 to 9216.
    pub mtu: u16,
    /// Whether the nodes' kernels hand bursts of several segments to the interface at once (segmentation offload).
    pub tso: bool,
}

/// The way of all packets that one node sends to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// The node that sends.
    pub from: String,
    /// The node that the packets are for.
    pub to: String,
    /// The names of the links to be passed, in order.
    pub links: Vec<String>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeConfig {
    /// Bits per real second; `None` costs no time.
    pub rate: Option<RealRate>,
    /// How long a frame travels, on average, once it has been transmitted.
    pub delay: RealDuration,
    /// How much longer or shorter each one travels.
    pub jitter: Jitter,
    /// Which frames are lost on entering.
    pub loss: Loss,
    /// The probability, from 0 to 1, that a frame is followed by a copy of itself.
    pub duplicate: f64,
    /// The probability, from 0 to 1, that one bit of a frame is flipped.
    pub corrupt: f64,
    /// How much may wait or be in transmission.
    pub queue: Queue,
    /// A pipe that is down loses everything.
    pub up: bool,
}

impl Default for PipeConfig {
    /// A perfect wire with a queue of 100 packets.
    fn default() -> Self {
        PipeConfig {
            rate: None,
            delay: RealDuration::ZERO,
            jitter: Jitter::default(),
            loss: Loss::NONE,
            duplicate: 0.0,
            corrupt: 0.0,
            queue: Queue::packets(100),
            up: true,
        }
    }
}

impl PipeConfig {
    /// Whether every number is in its range, for a link whose largest frame has this many bytes; the message names `pipe`.
    pub(crate) fn validate(&self, pipe: &str, largest: usize) -> Result<(), Error> {
        let rate = self.rate.map(RealRate::bits_per_s).filter(|rate| !(rate.is_finite() && *rate > 0.0));
        let chance = |name: &str, p: f64| {
            (!(0.0..=1.0).contains(&p)).then(|| format!("a probability of {name} of {p}; it must be from 0 to 1"))
        };
        let wrong = rate
            .map(|rate| format!("a rate of {rate} bit/s; it must be above 0"))
            .or_else(|| self.loss.wrong())
            .or_else(|| chance("duplication", self.duplicate))
            .or_else(|| chance("corruption", self.corrupt))
            .or_else(|| self.queue.wrong(largest));
        wrong.map_or(Ok(()), |wrong| Err(Error::Input(format!("pipe `{pipe}`: {wrong}"))))
    }
}

/// A change of a pipe at run time; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeChange {
    /// Takes the pipe down, losing what is in it, or up again.
    pub up: Option<bool>,
    /// A new rate (`Some(None)`: no limit), for what has not been transmitted yet.
    pub rate: Option<Option<RealRate>>,
    /// A new delay, for what has not been transmitted yet; frames overtake one another only where the jitter lets them.
    pub delay: Option<RealDuration>,
    /// A new jitter, for what has not been transmitted yet.
    pub jitter: Option<Jitter>,
    /// A new loss, for frames that enter from now on; it starts from its beginning, even if it is the same as before.
    pub loss: Option<Loss>,
    /// A new probability of duplication, for frames that enter from now on.
    pub duplicate: Option<f64>,
    /// A new probability of corruption, for frames that enter from now on.
    pub corrupt: Option<f64>,
    /// A new queue, for frames that enter from now on; what waits already keeps its place.
    pub queue: Option<Queue>,
}

impl PipeChange {
    /// `config` with the change applied.
    pub(crate) fn applied_to(&self, config: &PipeConfig) -> PipeConfig {
        PipeConfig {
            rate: self.rate.unwrap_or(config.rate),
            delay: self.delay.unwrap_or(config.delay),
            jitter: self.jitter.unwrap_or(config.jitter),
            loss: self.loss.as_ref().unwrap_or(&config.loss).clone(),
            duplicate: self.duplicate.unwrap_or(config.duplicate),
            corrupt: self.corrupt.unwrap_or(config.corrupt),
            queue: self.queue.as_ref().unwrap_or(&config.queue).clone(),
            up: self.up.unwrap_or(config.up),
        }
    }
}
