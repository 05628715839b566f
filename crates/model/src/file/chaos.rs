//! Faults at random.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::units::{Off, Size, Time};

/// Faults at random: from this and the seed a schedule of events is drawn, which the run's record has in its place
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chaos {
    /// Of all that is drawn; another one draws another schedule
    #[serde(default)]
    pub(crate) seed: u64,
    /// The nodes that faults happen to; `*` stands for any characters; without it all
    pub(crate) nodes: Option<String>,
    /// The links that faults happen to; `*` stands for any characters; without it all
    pub(crate) links: Option<String>,
    /// Time without faults
    pub(crate) quiet: Option<Quiet>,
    /// The kinds of faults, and how often they come
    pub(crate) faults: BTreeMap<ChaosKind, ChaosFault>,
}

/// Time without faults
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quiet {
    /// From the start of the run on
    pub(crate) begin: Option<Time>,
    /// Up to the limit of the run: all faults have ended before
    pub(crate) end: Option<Time>,
}

/// A kind of faults at random: `partition` divides the nodes in two, `down` and `loss` concern one link, and the others
/// one node
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChaosKind {
    Partition,
    Kill,
    Pause,
    Clock,
    SlowDisk,
    PowerOff,
    Down,
    Loss,
    Speed,
    Memory,
}

/// How often one kind of faults comes, and how it is
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChaosFault {
    /// The time from the end of one to the next, in the mean; it is drawn from an exponential distribution
    pub(crate) every: Time,
    /// How long each lasts, in the mean; it is drawn between half of that and half as much again
    #[serde(rename = "for")]
    pub(crate) lasts: Time,
    /// With `clock`: by how much dates are off at most, either way
    pub(crate) offset: Option<Off>,
    /// With `slow-disk`: how many times as slow; with `speed`: which part of its machine's speed a CPU has
    #[schemars(range(min = 0.001, max = 1000))]
    pub(crate) factor: Option<f64>,
    /// With `memory`: how much is left
    pub(crate) limit: Option<Size>,
    /// With `loss`: the probability that a packet is lost
    #[schemars(range(min = 0, max = 1))]
    pub(crate) probability: Option<f64>,
}
