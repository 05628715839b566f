//! Instants and durations in real and in virtual time, in whole nanoseconds.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! duration {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// No time at all.
            pub const ZERO: Self = Self(0);
            /// The longest duration that can be expressed, some 584 years.
            pub const MAX: Self = Self(u64::MAX);

            /// A duration of `ns` nanoseconds.
            pub const fn from_nanos(ns: u64) -> Self {
                Self(ns)
            }

            /// A duration of `s` seconds, to the nearest nanosecond; negative or NaN becomes zero.
            pub fn from_secs_f64(s: f64) -> Self {
                Self((s * 1e9).round() as u64)
            }

            /// The duration in nanoseconds.
            pub const fn as_nanos(self) -> u64 {
                self.0
            }

            /// The duration in seconds.
            pub fn as_secs_f64(self) -> f64 {
                self.0 as f64 / 1e9
            }

            /// `self - other`, or zero if `other` is longer.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// `self + other`, or [`Self::MAX`] if that cannot be expressed.
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                self.saturating_add(other)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&Duration::from_nanos(self.0), f)
            }
        }
    };
}

duration!(
    /// A span of virtual time: what a clock inside a node shows.
    VirtualDuration
);
duration!(
    /// A span of real time: what a clock on the harness shows.
    RealDuration
);

impl From<RealDuration> for Duration {
    fn from(d: RealDuration) -> Duration {
        Duration::from_nanos(d.0)
    }
}

impl From<Duration> for RealDuration {
    fn from(d: Duration) -> RealDuration {
        RealDuration(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

macro_rules! instant {
    ($(#[$doc:meta])* $name:ident, $duration:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The origin of this clock.
            pub const ZERO: Self = Self(0);

            /// The instant `ns` nanoseconds after the origin.
            pub const fn from_nanos(ns: u64) -> Self {
                Self(ns)
            }

            /// Nanoseconds since the origin.
            pub const fn as_nanos(self) -> u64 {
                self.0
            }

            /// Seconds since the origin.
            pub fn as_secs_f64(self) -> f64 {
                self.0 as f64 / 1e9
            }

            /// The time from `earlier` to `self`, or zero if `earlier` is later.
            pub const fn since(self, earlier: Self) -> $duration {
                $duration::from_nanos(self.0.saturating_sub(earlier.0))
            }
        }

        impl Add<$duration> for $name {
            type Output = Self;
            fn add(self, d: $duration) -> Self {
                Self(self.0.saturating_add(d.as_nanos()))
            }
        }

        impl Sub<$duration> for $name {
            type Output = Self;
            fn sub(self, d: $duration) -> Self {
                Self(self.0.saturating_sub(d.as_nanos()))
            }
        }
    };
}

instant!(
    /// An instant of virtual time, counted from virtual zero (t = 0) of a run.
    VirtualInstant,
    VirtualDuration
);
instant!(
    /// An instant of real time: the harness's `CLOCK_MONOTONIC`.
    RealInstant,
    RealDuration
);
