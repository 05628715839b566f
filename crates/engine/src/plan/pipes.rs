//! What `plan.json` says of each direction of a link: on the target in virtual time, on the harness in real time.
//!
//! Plain values as the file has them; they are made from the vocabulary of [`scale::link`], which both times share.

use scale::link::{GilbertElliott, Limit, Link, Loss, Pipe, Queue, Red};
use scale::{Tdf, Time, Virtual};
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
    /// What `plan.json` says of one direction of a link, `pipe`, at a TDF.
    pub fn new(pipe: &Pipe<Virtual>, link: &Link<Virtual>, tdf: Tdf) -> PlannedPipe {
        PlannedPipe { target: pipe.into(), harness: (&pipe.to_harness(tdf)).into(), mtu: link.mtu, tso: link.tso }
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

impl<T: Time> From<&Pipe<T>> for PipeValues {
    fn from(pipe: &Pipe<T>) -> PipeValues {
        let (queue_packets, queue_bytes) = match pipe.queue.limit() {
            Limit::Packets(n) => (Some(n), None),
            Limit::Bytes(n) => (None, Some(n)),
        };
        PipeValues {
            bits_per_s: pipe.rate.map(T::bits_per_s),
            delay_s: T::seconds(pipe.delay),
            loss: pipe.loss.mean(),
            queue_packets,
            queue_bytes,
            red: match pipe.queue {
                Queue::DropTail(_) => None,
                Queue::Red(Red { min, max, max_p, weight, packet, gentle, limit: _ }) => {
                    Some(RedValues { min, max, max_p, weight, packet_bytes: packet, gentle })
                }
            },
            jitter: (pipe.jitter.spread > T::Duration::default()).then(|| JitterValues {
                distribution: pipe.jitter.distribution.name(),
                spread_s: T::seconds(pipe.jitter.spread),
                reorder: pipe.jitter.reorder,
            }),
            loss_model: match &pipe.loss {
                Loss::Random(_) => None,
                Loss::GilbertElliott(GilbertElliott { p, r, good, bad }) => {
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
