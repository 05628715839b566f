//! A link's treatment of packets: one vocabulary for the target, in virtual time, and for the harness, in real time.
//!
//! An experiment says what links of the target do ([`Link`] of [`Virtual`]); [`Link::to_harness`] says what the
//! emulator has to do so that nodes see that through a TDF ([`Link`] of [`Real`]). Only what has a time in it differs:
//! rates are divided, delays and jitters multiplied. Probabilities, ordinal numbers and lengths of queues stay what
//! they are; RED counts idle times in packets of the pipe's own rate, so it scales with that.
//!
//! `docs/links.md` says what each property means for a packet.

mod jitter;
mod loss;
mod pipe;
mod queue;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use self::jitter::{Distribution, Jitter};
pub use self::loss::{GilbertElliott, Loss};
pub use self::pipe::{Pipe, PipeChange};
pub use self::queue::{Limit, Queue, Red};
use crate::{Real, Tdf, Time, Virtual};

/// The longest IP packet of a link of which nothing else is said.
pub const DEFAULT_MTU: u16 = 1500;
/// From the least that IPv4 allows (RFC 791, §3.1) to the longest packet that there is.
pub const MTUS: RangeInclusive<u16> = 68..=u16::MAX;
/// The most that a TAP interface takes: Linux counts its header of Ethernet to 65,535 bytes (drivers/net/tun.c).
pub const LARGEST_OF_INTERFACES: u16 = u16::MAX - ETHERNET_HEADER as u16;
/// The header of an Ethernet frame, in bytes.
pub const ETHERNET_HEADER: usize = 14;

/// The largest frame, in bytes, of a link with this MTU.
pub const fn largest_frame(mtu: u16) -> usize {
    mtu as usize + ETHERNET_HEADER
}

/// A link between two nodes or switches: two pipes, one in each direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Link<T: Time> {
    /// `A--B`, or the name given; its pipes are called `A--B/ab` and `A--B/ba`.
    pub name: String,
    /// The name of the node or switch at its first end.
    pub a: String,
    /// The name of the node or switch at its second end.
    pub b: String,
    /// The direction from `a` to `b`.
    pub ab: Pipe<T>,
    /// The direction from `b` to `a`.
    pub ba: Pipe<T>,
    /// The longest IP packet, in bytes, that either direction carries: one of [`MTUS`].
    pub mtu: u16,
    /// Whether the nodes' TCP hands bursts of several segments to the interface at once (segmentation offload).
    pub tso: bool,
}

impl<T: Time> Link<T> {
    /// The pipe from one of its ends to the other.
    pub fn pipe_from(&self, end: &str) -> &Pipe<T> {
        if self.a == end { &self.ab } else { &self.ba }
    }
}

impl Link<Virtual> {
    /// The link of the harness that nodes see as this one.
    pub fn to_harness(&self, tdf: Tdf) -> Link<Real> {
        Link {
            name: self.name.clone(),
            a: self.a.clone(),
            b: self.b.clone(),
            ab: self.ab.to_harness(tdf),
            ba: self.ba.to_harness(tdf),
            mtu: self.mtu,
            tso: self.tso,
        }
    }
}

/// A change of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct LinkChange<T: Time> {
    /// The change from its first end to its second.
    pub ab: PipeChange<T>,
    /// The change from its second end to its first.
    pub ba: PipeChange<T>,
}

impl<T: Time> Default for LinkChange<T> {
    /// Everything stays as it is.
    fn default() -> Self {
        LinkChange { ab: PipeChange::default(), ba: PipeChange::default() }
    }
}

impl<T: Time> LinkChange<T> {
    /// Undoes this change: gives all that it changes the values of a link.
    pub fn back_to(&self, link: &Link<T>) -> LinkChange<T> {
        LinkChange { ab: self.ab.back_to(&link.ab), ba: self.ba.back_to(&link.ba) }
    }
}

impl LinkChange<Virtual> {
    /// The change on the harness that nodes see as this one.
    pub fn to_harness(&self, tdf: Tdf) -> LinkChange<Real> {
        LinkChange { ab: self.ab.to_harness(tdf), ba: self.ba.to_harness(tdf) }
    }
}
