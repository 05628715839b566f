//! Bit rates per virtual and per real second.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{RealDuration, VirtualDuration};

macro_rules! rate {
    ($(#[$doc:meta])* $name:ident, $duration:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// A rate of `bits` per second; must be positive and finite.
            pub fn from_bits_per_s(bits: f64) -> Self {
                debug_assert!(bits.is_finite() && bits > 0.0);
                Self(bits)
            }

            /// The rate in bits per second.
            pub fn bits_per_s(self) -> f64 {
                self.0
            }

            /// How long a frame of `bytes` occupies a link of this rate, rounded up to a nanosecond.
            pub fn transmission(self, bytes: usize) -> $duration {
                $duration::from_nanos((bytes as f64 * 8e9 / self.0).ceil() as u64)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (value, unit) = match self.0 {
                    v if v >= 1e9 => (v / 1e9, "Gbit/s"),
                    v if v >= 1e6 => (v / 1e6, "Mbit/s"),
                    v if v >= 1e3 => (v / 1e3, "kbit/s"),
                    v => (v, "bit/s"),
                };
                write!(f, "{value}{unit}")
            }
        }
    };
}

rate!(
    /// Bits per virtual second: what a link of the target carries.
    VirtualRate,
    VirtualDuration
);
rate!(
    /// Bits per real second: what the emulator carries.
    RealRate,
    RealDuration
);
