//! Types that differ on target and harness by their time only, written once.

use std::fmt::Debug;
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{RealDuration, RealRate, VirtualDuration, VirtualRate};

/// One of the two times: [`Virtual`], the target's, or [`Real`], the harness's.
///
/// A value that is generic over it exists in both, and only a [`Tdf`](crate::Tdf) makes one of the other.
pub trait Time: Copy + Debug + Default + PartialEq + Eq + Send + Sync + 'static {
    /// A span of this time; the default is none at all.
    type Duration: Copy + Debug + Default + Ord + Hash + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Bits per second of this time.
    type Rate: Copy + Debug + PartialEq + PartialOrd + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// A span in seconds.
    fn seconds(duration: Self::Duration) -> f64;

    /// A rate in bits per second.
    fn bits_per_s(rate: Self::Rate) -> f64;
}

/// The target's time: what a clock inside a node shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtual;

/// The harness's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Real;

macro_rules! time {
    ($name:ident, $duration:ident, $rate:ident) => {
        impl Time for $name {
            type Duration = $duration;
            type Rate = $rate;

            fn seconds(duration: $duration) -> f64 {
                duration.as_secs_f64()
            }

            fn bits_per_s(rate: $rate) -> f64 {
                rate.bits_per_s()
            }
        }
    };
}

time!(Virtual, VirtualDuration, VirtualRate);
time!(Real, RealDuration, RealRate);
