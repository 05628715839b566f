//! What a network is made of, as the plan says it: all rates and delays already scaled to the harness.

use scale::{RealDuration, RealRate};

use crate::Error;

/// Nodes and switches, and the links between them, which must form one tree.
#[derive(Clone, Debug, Default)]
pub struct NetworkSpec {
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Names of the switches: they forward at no cost.
    pub switches: Vec<String>,
    /// The links, in the order in which addresses are given out.
    pub links: Vec<LinkSpec>,
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
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeConfig {
    /// Bits per real second; `None` costs no time.
    pub rate: Option<RealRate>,
    /// How long a frame travels once it has been transmitted.
    pub delay: RealDuration,
    /// The probability, from 0 to 1, that a frame is lost on entering.
    pub loss: f64,
    /// How many packets may wait or be in transmission; at least 1. The next one is dropped (DropTail).
    pub queue: usize,
    /// A pipe that is down loses everything.
    pub up: bool,
}

impl Default for PipeConfig {
    /// A perfect wire with a queue of 100 packets.
    fn default() -> Self {
        PipeConfig { rate: None, delay: RealDuration::ZERO, loss: 0.0, queue: 100, up: true }
    }
}

impl PipeConfig {
    /// Whether every number is in its range; the message names `pipe`.
    pub(crate) fn validate(&self, pipe: &str) -> Result<(), Error> {
        if let Some(rate) = self.rate.map(RealRate::bits_per_s)
            && !(rate.is_finite() && rate > 0.0)
        {
            return Err(Error::Input(format!("pipe `{pipe}`: a rate of {rate} bit/s; it must be above 0")));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(Error::Input(format!("pipe `{pipe}`: a loss of {}; it must be from 0 to 1", self.loss)));
        }
        if self.queue == 0 {
            return Err(Error::Input(format!(
                "pipe `{pipe}`: a queue of 0 packets; it counts the packet in transmission, so it must be at least 1"
            )));
        }
        Ok(())
    }
}

/// A change of a pipe at run time; `None` leaves a property as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeChange {
    /// Takes the pipe down, losing what is in it, or up again.
    pub up: Option<bool>,
    /// A new rate (`Some(None)`: no limit), for what has not been transmitted yet.
    pub rate: Option<Option<RealRate>>,
    /// A new delay, for what has not been transmitted yet; frames never overtake one another.
    pub delay: Option<RealDuration>,
    /// A new loss, for frames that enter from now on.
    pub loss: Option<f64>,
    /// A new queue limit, for frames that enter from now on.
    pub queue: Option<usize>,
}

impl PipeChange {
    /// `config` with the change applied.
    pub(crate) fn applied_to(&self, config: &PipeConfig) -> PipeConfig {
        PipeConfig {
            rate: self.rate.unwrap_or(config.rate),
            delay: self.delay.unwrap_or(config.delay),
            loss: self.loss.unwrap_or(config.loss),
            queue: self.queue.unwrap_or(config.queue),
            up: self.up.unwrap_or(config.up),
        }
    }
}
