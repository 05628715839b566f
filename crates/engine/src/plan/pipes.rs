//! What the directions of links do: on the target in virtual time, on the harness in real time.

use model::{Link, LinkChange, Loss, Pipe, Queue};
use net::{PipeChange, PipeConfig};
use scale::Tdf;
use serde::Serialize;

/// What one direction of a link does, on the target in virtual time, and on the harness in real time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedPipe {
    /// As the experiment says.
    pub target: PipeValues,
    /// As the emulator does it.
    pub harness: PipeValues,
    /// The longest IP packet, in bytes.
    pub mtu: u16,
    /// Whether nodes send bursts of several segments into it (segmentation offload).
    pub tso: bool,
}

impl PlannedPipe {
    pub(super) fn new(pipe: &Pipe, link: &Link, tdf: Tdf) -> PlannedPipe {
        PlannedPipe {
            target: PipeValues::new(pipe, Tdf::ONE),
            harness: PipeValues::new(pipe, tdf),
            mtu: link.mtu,
            tso: link.tso,
        }
    }
}

/// What a pipe does to packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PipeValues {
    /// Bandwidth; null if transmission takes no time.
    pub bits_per_s: Option<f64>,
    /// Propagation delay, on average, s.
    pub delay_s: f64,
    /// Probability of loss in the long run, 0 to 1.
    pub loss: f64,
    /// Packets that may wait; null if bytes are counted.
    pub queue_packets: Option<u32>,
    /// Bytes that may wait, if they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes: Option<u64>,
    /// How packets are dropped before the queue is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub red: Option<RedValues>,
    /// How the delay varies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<JitterValues>,
    /// Which packets are lost, if not each with the same probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_model: Option<LossModel>,
    /// Probability of duplication, 0 to 1.
    #[serde(skip_serializing_if = "is_nought")]
    pub duplicate: f64,
    /// Probability of corruption, 0 to 1.
    #[serde(skip_serializing_if = "is_nought")]
    pub corrupt: f64,
}

/// Random early detection; thresholds count what the queue's limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RedValues {
    /// Average length from which on packets are dropped at random.
    pub min: u64,
    /// Average length from which on all are dropped.
    pub max: u64,
    /// Probability of dropping just below `max`, 0 to 1.
    pub max_p: f64,
    /// Weight of each new length in the average.
    pub weight: f64,
    /// Size of a typical packet, bytes.
    pub packet_bytes: u64,
    /// Whether the probability grows on to 1 between `max` and twice that.
    pub gentle: bool,
}

/// Variation of the delay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JitterValues {
    /// `uniform`, `normal` or `pareto`.
    pub distribution: &'static str,
    /// The largest deviation of a uniform distribution, the standard deviation of any other, s.
    pub spread_s: f64,
    /// Whether packets may overtake one another.
    pub reorder: bool,
}

/// Losses that are not independent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossModel {
    /// In bursts.
    GilbertElliott {
        /// Probability of passing from the good state to the bad one.
        p: f64,
        /// Probability of passing from the bad state to the good one.
        r: f64,
        /// Probability of loss in the good state.
        good: f64,
        /// Probability of loss in the bad state.
        bad: f64,
    },
    /// One of so many packets.
    Every(u64),
    /// The packets with these ordinal numbers.
    Packets(Vec<u64>),
}

/// For keys that are only there where they are used; serde hands over a reference.
fn is_nought(p: &f64) -> bool {
    *p == 0.0
}

impl PipeValues {
    fn new(pipe: &Pipe, tdf: Tdf) -> PipeValues {
        let config = config(pipe, tdf);
        let (queue_packets, queue_bytes) = match pipe.queue.limit() {
            model::Limit::Packets(n) => (Some(n), None),
            model::Limit::Bytes(n) => (None, Some(n)),
        };
        PipeValues {
            bits_per_s: config.rate.map(|r| r.bits_per_s()),
            delay_s: config.delay.as_secs_f64(),
            loss: pipe.loss.mean(),
            queue_packets,
            queue_bytes,
            red: match pipe.queue {
                Queue::DropTail(_) => None,
                Queue::Red(model::Red { min, max, max_p, weight, packet, gentle, limit: _ }) => {
                    Some(RedValues { min, max, max_p, weight, packet_bytes: packet, gentle })
                }
            },
            jitter: (config.jitter.spread > scale::RealDuration::ZERO).then(|| JitterValues {
                distribution: pipe.jitter.distribution.name(),
                spread_s: config.jitter.spread.as_secs_f64(),
                reorder: pipe.jitter.reorder,
            }),
            loss_model: match &pipe.loss {
                Loss::Random(_) => None,
                Loss::GilbertElliott { p, r, good, bad } => {
                    Some(LossModel::GilbertElliott { p: *p, r: *r, good: *good, bad: *bad })
                }
                Loss::Every(k) => Some(LossModel::Every(*k)),
                Loss::Packets(list) => Some(LossModel::Packets(list.clone())),
            },
            duplicate: pipe.duplicate,
            corrupt: pipe.corrupt,
        }
    }
}

/// A link of the target as the emulator builds it.
pub(super) fn link(link: &Link, tdf: Tdf) -> net::LinkSpec {
    net::LinkSpec {
        name: link.name.clone(),
        a: link.a.clone(),
        b: link.b.clone(),
        ab: config(&link.ab, tdf),
        ba: config(&link.ba, tdf),
        mtu: link.mtu,
        tso: link.tso,
    }
}

/// What the emulator does when the experiment changes a link: from its first end to its second, and back.
pub(super) fn changes(change: &LinkChange, tdf: Tdf) -> [PipeChange; 2] {
    [&change.ab, &change.ba].map(|change| PipeChange {
        up: change.up,
        rate: change.bandwidth.map(|b| Some(tdf.to_real_rate(b))),
        delay: change.delay.map(|d| tdf.to_real(d)),
        jitter: change.jitter.map(|j| jitter(j, tdf)),
        loss: change.loss.as_ref().map(loss),
        duplicate: change.duplicate,
        corrupt: change.corrupt,
        queue: change.queue.map(queue),
    })
}

fn config(pipe: &Pipe, tdf: Tdf) -> PipeConfig {
    PipeConfig {
        rate: pipe.bandwidth.map(|b| tdf.to_real_rate(b)),
        delay: tdf.to_real(pipe.delay),
        jitter: jitter(pipe.jitter, tdf),
        loss: loss(&pipe.loss),
        duplicate: pipe.duplicate,
        corrupt: pipe.corrupt,
        queue: queue(pipe.queue),
        up: pipe.up,
    }
}

fn jitter(jitter: model::Jitter, tdf: Tdf) -> net::Jitter {
    let distribution = match jitter.distribution {
        model::Distribution::Uniform => net::Distribution::Uniform,
        model::Distribution::Normal => net::Distribution::Normal,
        model::Distribution::Pareto => net::Distribution::Pareto,
    };
    net::Jitter { distribution, spread: tdf.to_real(jitter.spread), reorder: jitter.reorder }
}

fn loss(loss: &Loss) -> net::Loss {
    match loss {
        Loss::Random(p) => net::Loss::Random(*p),
        Loss::GilbertElliott { p, r, good, bad } => {
            net::Loss::GilbertElliott(net::GilbertElliott { p: *p, r: *r, good: *good, bad: *bad })
        }
        Loss::Every(k) => net::Loss::Every(*k),
        Loss::Packets(list) => net::Loss::Packets(list.clone()),
    }
}

/// No time enters: RED counts idle times in packets of the pipe's own, real, rate.
fn queue(queue: Queue) -> net::Queue {
    let limit = match queue.limit() {
        model::Limit::Packets(n) => net::Limit::Packets(n as usize),
        model::Limit::Bytes(n) => net::Limit::Bytes(n as usize),
    };
    match queue {
        Queue::DropTail(_) => net::Queue::DropTail(limit),
        Queue::Red(red) => net::Queue::Red(net::Red {
            min: red.min as f64,
            max: red.max as f64,
            max_p: red.max_p,
            weight: red.weight,
            limit,
            mean_packet: red.packet as usize,
            gentle: red.gentle,
        }),
    }
}
