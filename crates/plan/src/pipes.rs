//! Directions of links in `plan.json`: on the target in virtual time, on the harness in real time.
//!
//! Plain values as the file has them; they are made from the vocabulary of [`scale::link`], which both times share.

use record::plan::{JitterValues, LossModel, PipeValues, PlannedPipe, RedValues};
use scale::link::{GilbertElliott, Limit, Link, Loss, Pipe, Queue, Red};
use scale::{Tdf, Time, Virtual};

/// The record of one direction of a link, `pipe`, from one of its `ends` to the other, at a TDF.
pub(super) fn planned(pipe: &Pipe<Virtual>, ends: [&String; 2], link: &Link<Virtual>, tdf: Tdf) -> PlannedPipe {
    PlannedPipe {
        ends: Some(ends.map(String::clone)),
        target: values(pipe),
        harness: values(&pipe.to_harness(tdf)),
        mtu: link.mtu,
        tso: link.tso,
    }
}

fn values<T: Time>(pipe: &Pipe<T>) -> PipeValues {
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
            distribution: pipe.jitter.distribution,
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
