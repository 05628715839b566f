//! Rates as the guest image multiplies by them: 64.64-bit fixed point.

use scale::Tdf;

use crate::{Error, tsc};

/// A non-negative factor, `whole + frac / 2^64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub whole: u64,
    pub frac: u64,
}

impl Fixed {
    /// `num / den`, rounded up to 2^-64.
    pub fn ratio_up(num: u64, den: u64) -> Fixed {
        let rest = u128::from(num % den) << 64;
        let frac = rest.div_ceil(u128::from(den));
        match u64::try_from(frac) {
            Ok(frac) => Fixed { whole: num / den, frac },
            Err(_) => Fixed { whole: num / den + 1, frac: 0 },
        }
    }

    /// `value` times this, rounded down.
    pub fn times(self, value: u64) -> u64 {
        let high = (u128::from(value) * u128::from(self.frac)) >> 64;
        value.wrapping_mul(self.whole).wrapping_add(high as u64)
    }
}

/// How a node's CPU clocks relate to the CPU time that the kernel counts: virtual = real / divisor.
///
/// A virtual CPU of speed 0.5 needs twice the CPU time of this host's core for the same work, so its clocks are divided
/// by 0.5 whatever the TDF: the share of the core that the node gets (speed / TDF) takes care of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuRate {
    pub(crate) forward: Fixed,
    pub(crate) back: Fixed,
    /// Of the time-stamp counter per virtual ns, times 2^32; 0 leaves the instructions that read it alone.
    pub(crate) tsc_cycles: u64,
}

impl CpuRate {
    /// CPU time is what the kernel says: a virtual CPU of speed 1.
    pub const NATIVE: CpuRate =
        CpuRate { forward: Fixed { whole: 1, frac: 0 }, back: Fixed { whole: 1, frac: 0 }, tsc_cycles: 0 };

    /// The clocks of a virtual CPU of `speed`, a fraction of one core of this host, to the nearest billionth.
    pub fn speed(speed: f64) -> Result<CpuRate, Error> {
        const UNIT: u64 = 1_000_000_000;
        if !(0.001..=1000.0).contains(&speed) {
            return Err(Error::Speed(speed));
        }
        Ok(CpuRate::divided_by((speed * UNIT as f64).round() as u64, UNIT))
    }

    /// The clocks of a process that is dilated but has the whole core: a core that is TDF times as fast.
    pub fn undivided(tdf: Tdf) -> CpuRate {
        let (num, den) = tdf.ratio();
        CpuRate::divided_by(num, den)
    }

    /// The time-stamp counter too shows virtual time, at the processor's own frequency: `rdtsc` and `rdtscp` are answered from the
    /// clock, and every clock that is read costs a system call.
    pub fn with_dilated_tsc(self) -> CpuRate {
        CpuRate { tsc_cycles: tsc::cycles_per_ns(), ..self }
    }

    fn divided_by(num: u64, den: u64) -> CpuRate {
        CpuRate { forward: Fixed::ratio_up(den, num), back: Fixed::ratio_up(num, den), tsc_cycles: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_point_is_exact_where_the_ratio_is() {
        assert_eq!(Fixed::ratio_up(1, 1), Fixed { whole: 1, frac: 0 });
        assert_eq!(Fixed::ratio_up(1, 2).times(7), 3);
        for tdf in [1u64, 3, 7, 10, 1000] {
            let rate = Fixed::ratio_up(1, tdf);
            for ns in [0, 1, tdf - 1, tdf, tdf + 1, 86_400_000_000_000 * tdf, 10_000_000_000 * tdf + tdf - 1] {
                assert_eq!(rate.times(ns), ns / tdf, "{ns} ns at TDF {tdf}");
            }
        }
    }

    #[test]
    fn a_slow_cpu_shows_more_cpu_time() {
        let rate = CpuRate::speed(0.08).unwrap();
        assert_eq!(rate.forward.times(80_000_000), 1_000_000_000);
        assert!(rate.back.times(1_000_000_000).abs_diff(80_000_000) <= 1);
        assert!(matches!(CpuRate::speed(0.0), Err(Error::Speed(_))));
        assert!(matches!(CpuRate::speed(f64::NAN), Err(Error::Speed(_))));
    }

    #[test]
    fn an_undivided_core_is_tdf_times_as_fast() {
        let rate = CpuRate::undivided("1.5".parse().unwrap());
        assert_eq!(rate.forward.times(1500), 1000);
        assert_eq!(CpuRate::undivided(Tdf::ONE), CpuRate::NATIVE);
    }
}
