//! How much longer, or shorter, than its delay a packet travels.

use serde::{Deserialize, Serialize};

use crate::{Real, Tdf, Time, Virtual};

/// Variation of a delay from packet to packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Jitter<T: Time> {
    /// How deviations from the delay are distributed. Their mean is 0.
    pub distribution: Distribution,
    /// How far they reach: the largest deviation of a uniform distribution, the standard deviation of any other. Zero
    /// is no jitter.
    pub spread: T::Duration,
    /// Whether a packet may overtake those before it. If not, it waits for them.
    pub reorder: bool,
}

impl Jitter<Virtual> {
    /// Stretches the jitter.
    pub fn to_harness(self, tdf: Tdf) -> Jitter<Real> {
        Jitter { distribution: self.distribution, spread: tdf.to_real(self.spread), reorder: self.reorder }
    }
}

/// How deviations are distributed, in units of the spread. The mean of each is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Equally likely from −1 to 1.
    #[default]
    Uniform,
    /// Gauss's, with a standard deviation of 1.
    Normal,
    /// Pareto's with an exponent of 3 (the one that netem's table has), moved to mean 0 and scaled to a standard
    /// deviation of 1: none below −0.58, one in a hundred above 3.6, one in a million above 114.
    Pareto,
}

impl Distribution {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Normal => "normal",
            Distribution::Pareto => "pareto",
        }
    }
}
