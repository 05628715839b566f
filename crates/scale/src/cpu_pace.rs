//! How CPU clocks relate to the CPU time that the host's kernel counts.

use crate::{Fixed, Tdf};

/// Real CPU time over virtual CPU time, an exact ratio.
///
/// A virtual CPU of speed 0.5 needs twice the CPU time of this host's core for the same work, so its clocks are divided
/// by 0.5 whatever the TDF: the share of the core that the node gets (speed / TDF, [`crate::TargetCpu::share`]) takes
/// care of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuPace {
    num: u64,
    den: u64,
}

impl CpuPace {
    /// CPU time is what the kernel says: a virtual CPU of speed 1.
    pub const NATIVE: CpuPace = CpuPace { num: 1, den: 1 };

    /// The clocks of a virtual CPU of `speed`, a fraction of one core of this host between 0.001 and 1000, to the
    /// nearest billionth; `None` for any other speed.
    pub fn of_speed(speed: f64) -> Option<CpuPace> {
        const UNIT: u64 = 1_000_000_000;
        (0.001..=1000.0).contains(&speed).then(|| CpuPace::reduced((speed * UNIT as f64).round() as u64, UNIT))
    }

    /// The clocks of a process that is dilated but has the whole core: a core that is TDF times as fast.
    pub fn undivided(tdf: Tdf) -> CpuPace {
        let (num, den) = tdf.ratio();
        CpuPace { num, den }
    }

    /// Real over virtual CPU time as numerator and denominator, in lowest terms.
    pub const fn ratio(self) -> (u64, u64) {
        (self.num, self.den)
    }

    /// Virtual over real CPU time, rounded up to 2^-64.
    pub fn forward(self) -> Fixed {
        Fixed::ratio_up(self.den, self.num)
    }

    fn reduced(num: u64, den: u64) -> CpuPace {
        let g = crate::tdf::gcd(num, den);
        CpuPace { num: num / g, den: den / g }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_cpu_shows_more_cpu_time() {
        let pace = CpuPace::of_speed(0.08).unwrap();
        assert_eq!(pace.ratio(), (2, 25));
        assert_eq!(pace.forward().times(80_000_000), 1_000_000_000);
        for wrong in [0.0, -1.0, 1e9, f64::NAN, f64::INFINITY] {
            assert_eq!(CpuPace::of_speed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_undivided_core_is_tdf_times_as_fast() {
        let pace = CpuPace::undivided("1.5".parse().unwrap());
        assert_eq!(pace.forward().times(1500), 1000);
        assert_eq!(CpuPace::undivided(Tdf::ONE), CpuPace::NATIVE);
    }
}
