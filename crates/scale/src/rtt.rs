//! How long a round trip may be under dilation.

use crate::{RealDuration, Tdf, VirtualDuration};

/// The longest round trip, in real time, that a dilated network may have.
///
/// A connection is opened with a retransmission time-out of 1 s (RFC 6298, §2.1), which the kernel counts in real time:
/// a longer round trip would resend every SYN, which the target does not. A fifth is kept for queues.
pub const LONGEST_RTT: RealDuration = RealDuration::from_nanos(800_000_000);

impl Tdf {
    /// Whether a round trip of the target stays within [`LONGEST_RTT`]. Without dilation every round trip does: the
    /// kernel's time-out is then the target's own.
    pub fn allows_rtt(self, rtt: VirtualDuration) -> bool {
        self == Tdf::ONE || self.to_real(rtt) <= LONGEST_RTT
    }

    /// The largest TDF, in tenths, that allows a round trip; `None` if only [`Tdf::ONE`] does.
    pub fn that_allows_rtt(rtt: VirtualDuration) -> Option<Tdf> {
        let fits = Tdf::at_most(LONGEST_RTT.as_secs_f64() / rtt.as_secs_f64())?;
        (fits != Tdf::ONE).then_some(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_on_real_time() {
        let ms = |n: u64| VirtualDuration::from_nanos(n * 1_000_000);
        let ten = Tdf::new(10, 1).unwrap();
        assert!(ten.allows_rtt(ms(80)));
        assert!(!ten.allows_rtt(ms(81)));
        assert!(Tdf::ONE.allows_rtt(ms(5000)));
        assert_eq!(Tdf::that_allows_rtt(ms(81)), Some("9.8".parse().unwrap()));
        assert_eq!(Tdf::that_allows_rtt(ms(900)), None);
    }
}
