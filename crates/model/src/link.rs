//! Links of the target: what each direction does to packets.

use scale::{VirtualDuration, VirtualRate};

/// A link of the target between two nodes or switches.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// `A--B`, or the name given.
    pub name: String,
    /// The name of the node or switch at its first end.
    pub a: String,
    /// The name of the node or switch at its second end.
    pub b: String,
    /// What happens to packets from the first end to the second.
    pub ab: Pipe,
    /// What happens to packets from the second end to the first.
    pub ba: Pipe,
    /// The longest IP packet, in bytes.
    pub mtu: u16,
    /// Whether the nodes' TCP sends bursts of several segments at once (segmentation offload).
    pub tso: bool,
    /// How many bytes of each packet are recorded; `None`: nothing is.
    pub capture: Option<u64>,
}

impl Link {
    /// What it does to packets from one of its ends to the other.
    pub fn pipe_from(&self, end: &str) -> &Pipe {
        if self.a == end { &self.ab } else { &self.ba }
    }
}

/// One direction of a link, on the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipe {
    /// None: a packet takes no time to transmit.
    pub bandwidth: Option<VirtualRate>,
    /// Propagation delay, on average.
    pub delay: VirtualDuration,
    /// How the delay varies from packet to packet.
    pub jitter: Jitter,
    /// Which packets are lost.
    pub loss: Loss,
    /// Probability that a packet arrives twice, 0 to 1.
    pub duplicate: f64,
    /// Probability that one bit of a packet is flipped, 0 to 1.
    pub corrupt: f64,
    /// What may wait for transmission.
    pub queue: Queue,
    /// Whether it carries anything.
    pub up: bool,
}

impl Default for Pipe {
    /// What a link is where the file says nothing.
    fn default() -> Self {
        Pipe {
            bandwidth: None,
            delay: VirtualDuration::ZERO,
            jitter: Jitter::default(),
            loss: Loss::Random(0.0),
            duplicate: 0.0,
            corrupt: 0.0,
            queue: Queue::DropTail(Limit::Packets(100)),
            up: true,
        }
    }
}

impl Pipe {
    /// The pipe after a change.
    pub fn with(&self, change: &PipeChange) -> Pipe {
        Pipe {
            bandwidth: change.bandwidth.or(self.bandwidth),
            delay: change.delay.unwrap_or(self.delay),
            jitter: change.jitter.unwrap_or(self.jitter),
            loss: change.loss.as_ref().unwrap_or(&self.loss).clone(),
            duplicate: change.duplicate.unwrap_or(self.duplicate),
            corrupt: change.corrupt.unwrap_or(self.corrupt),
            queue: change.queue.unwrap_or(self.queue),
            up: change.up.unwrap_or(self.up),
        }
    }
}

/// Variation of a delay from packet to packet; its mean is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    /// How deviations are distributed.
    pub distribution: Distribution,
    /// The largest deviation of a uniform distribution, the standard deviation of any other. Zero: no jitter.
    pub spread: VirtualDuration,
    /// Whether packets may overtake one another.
    pub reorder: bool,
}

/// How deviations from a delay are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distribution {
    /// All equally likely.
    #[default]
    Uniform,
    /// Gauss's.
    Normal,
    /// Pareto's with exponent 3.
    Pareto,
}

impl Distribution {
    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Normal => "normal",
            Distribution::Pareto => "pareto",
        }
    }
}

/// How packets are lost.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Each with this probability, 0 to 1.
    Random(f64),
    /// In bursts (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability, per packet, of passing from the good state to the bad one.
        p: f64,
        /// Probability, per packet, of passing from the bad state to the good one.
        r: f64,
        /// Probability of loss in the good state.
        good: f64,
        /// Probability of loss in the bad state.
        bad: f64,
    },
    /// Every packet whose ordinal number is a multiple of this, at least 1.
    Every(u64),
    /// The packets with these ordinal numbers, from 1, in ascending order.
    Packets(Vec<u64>),
}

impl Loss {
    /// The part of all packets that is lost in the long run, 0 to 1.
    pub fn mean(&self) -> f64 {
        match self {
            Loss::Random(p) => *p,
            // It begins in the good state; one that it never leaves is all that counts.
            Loss::GilbertElliott { p, good, .. } if *p == 0.0 => *good,
            Loss::GilbertElliott { p, r, good, bad } => (r * good + p * bad) / (p + r),
            Loss::Every(k) => 1.0 / *k as f64,
            Loss::Packets(_) => 0.0,
        }
    }
}

/// How a queue is kept short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Queue {
    /// A packet that finds it full is dropped.
    DropTail(Limit),
    /// Random early detection (Floyd and Jacobson 1993).
    Red(Red),
}

impl Queue {
    /// The most that it holds.
    pub fn limit(&self) -> Limit {
        match self {
            Queue::DropTail(limit) => *limit,
            Queue::Red(red) => red.limit,
        }
    }
}

/// The most that a queue holds, the packet in transmission included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(u32),
    /// So many bytes.
    Bytes(u64),
}

/// The parameters of a RED queue; thresholds count what the limit counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// The average length from which on packets are dropped at random (`min_th`).
    pub min: u64,
    /// The average length from which on all are dropped (`max_th`).
    pub max: u64,
    /// The most that the queue holds.
    pub limit: Limit,
    /// The probability of dropping just below `max`, 0 to 1.
    pub max_p: f64,
    /// The weight of each new length in the average (`w_q`), 0 to 1.
    pub weight: f64,
    /// The size of a typical packet in bytes, by which idle times are counted.
    pub packet: u64,
    /// Whether the probability grows on to 1 between `max` and twice that.
    pub gentle: bool,
}

/// A change of one direction of a link; what is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeChange {
    /// The new bandwidth.
    pub bandwidth: Option<VirtualRate>,
    /// The new propagation delay.
    pub delay: Option<VirtualDuration>,
    /// The new jitter.
    pub jitter: Option<Jitter>,
    /// The new loss; ordinal numbers count from the change.
    pub loss: Option<Loss>,
    /// The new probability of duplication.
    pub duplicate: Option<f64>,
    /// The new probability of corruption.
    pub corrupt: Option<f64>,
    /// The new queue.
    pub queue: Option<Queue>,
    /// Whether it carries anything.
    pub up: Option<bool>,
}

impl PipeChange {
    /// This change, but for what `other` says.
    pub fn but(&self, other: &PipeChange) -> PipeChange {
        PipeChange {
            bandwidth: other.bandwidth.or(self.bandwidth),
            delay: other.delay.or(self.delay),
            jitter: other.jitter.or(self.jitter),
            loss: other.loss.as_ref().or(self.loss.as_ref()).cloned(),
            duplicate: other.duplicate.or(self.duplicate),
            corrupt: other.corrupt.or(self.corrupt),
            queue: other.queue.or(self.queue),
            up: other.up.or(self.up),
        }
    }
}

/// A change of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// What changes from its first end to its second.
    pub ab: PipeChange,
    /// What changes from its second end to its first.
    pub ba: PipeChange,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_loss_is_that_of_the_long_run() {
        let chain = |p, r, good, bad| Loss::GilbertElliott { p, r, good, bad }.mean();
        assert_eq!(Loss::Random(0.25).mean(), 0.25);
        assert_eq!(Loss::Every(4).mean(), 0.25);
        assert_eq!(Loss::Packets(vec![1, 2]).mean(), 0.0);
        assert!((chain(0.01, 0.03, 0.0, 1.0) - 0.25).abs() < 1e-12);
        assert!((chain(0.01, 0.03, 0.1, 0.5) - 0.2).abs() < 1e-12);
        assert_eq!((chain(0.0, 0.0, 0.1, 1.0), chain(0.1, 0.0, 0.1, 1.0)), (0.1, 1.0));
    }
}
