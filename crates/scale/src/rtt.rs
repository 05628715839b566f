//! How long a round trip may be under dilation.

use crate::rto::{RTO_MAX, initial_rto};
use crate::{RealDuration, Tdf, VirtualDuration};

/// The longest round trip, in real time, that a dilated network may have where the initial retransmission time-out is
/// the kernel's constant.
///
/// A connection is opened with a retransmission time-out of 1 s (RFC 6298, §2.1), which the kernel counts in real time:
/// a longer round trip would resend every SYN, which the target does not. A fifth is kept for queues.
const WITHIN_INITIAL_RTO: RealDuration = RealDuration::from_nanos(800_000_000);

/// The limit where that time-out is scaled, but beyond what the kernel allows.
const WITHIN_RTO_MAX: RealDuration = RealDuration::from_nanos(RTO_MAX.as_nanos() / 5 * 4);

/// The largest factor at which a scaled initial time-out is within what the kernel allows.
const EXACT_UP_TO: u64 = 120;

impl Tdf {
    /// The longest round trip in real time; `None` if there is no such bound, because connections are opened as on the
    /// target. `scaled`: whether the initial retransmission time-out is multiplied by the factor.
    pub fn longest_rtt(self, scaled: bool) -> Option<RealDuration> {
        match scaled {
            _ if self == Tdf::ONE => None,
            false => Some(WITHIN_INITIAL_RTO),
            true => initial_rto(self).wanted.map(|_| WITHIN_RTO_MAX),
        }
    }

    /// Whether a round trip of the target stays within [`Tdf::longest_rtt`].
    pub fn allows_rtt(self, rtt: VirtualDuration, scaled: bool) -> bool {
        self.longest_rtt(scaled).is_none_or(|longest| self.to_real(rtt) <= longest)
    }

    /// The largest TDF, in tenths, that allows a round trip; `None` if only [`Tdf::ONE`] does.
    pub fn that_allows_rtt(rtt: VirtualDuration, scaled: bool) -> Option<Tdf> {
        let bound = if scaled { WITHIN_RTO_MAX } else { WITHIN_INITIAL_RTO };
        let fits = Tdf::at_most(bound.as_secs_f64() / rtt.as_secs_f64());
        match scaled {
            true => fits.max(Tdf::new(EXACT_UP_TO, 1).ok()),
            false => fits.filter(|fits| *fits != Tdf::ONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> VirtualDuration {
        VirtualDuration::from_nanos(n * 1_000_000)
    }

    fn tdf(s: &str) -> Tdf {
        s.parse().unwrap()
    }

    #[test]
    fn the_bound_is_on_real_time() {
        assert!(tdf("10").allows_rtt(ms(80), false));
        assert!(!tdf("10").allows_rtt(ms(81), false));
        assert!(Tdf::ONE.allows_rtt(ms(5000), false));
        assert_eq!(Tdf::that_allows_rtt(ms(81), false), Some(tdf("9.8")));
        assert_eq!(Tdf::that_allows_rtt(ms(900), false), None);
    }

    #[test]
    fn a_scaled_time_out_bounds_nothing_until_the_kernels_own_limit() {
        assert!(tdf("120").allows_rtt(ms(900), true), "as the target itself");
        assert!(tdf("121").allows_rtt(ms(790), true) && !tdf("121").allows_rtt(ms(900), true));
        assert_eq!(Tdf::that_allows_rtt(ms(900), true), Some(tdf("120")));
        assert_eq!(Tdf::that_allows_rtt(ms(100), true), Some(tdf("960")));
    }
}
