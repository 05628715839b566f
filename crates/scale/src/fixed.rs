//! Factors as the guests of the clock multiply by them: 64.64-bit fixed point.

/// A non-negative factor, `whole + frac / 2^64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The whole part.
    pub whole: u64,
    /// The rest, in units of 2^-64.
    pub frac: u64,
}

impl Fixed {
    /// `num / den`, rounded up to 2^-64.
    ///
    /// # Panics
    /// If `den` is 0.
    pub fn ratio_up(num: u64, den: u64) -> Fixed {
        let rest = u128::from(num % den) << 64;
        let frac = rest.div_ceil(u128::from(den));
        match u64::try_from(frac) {
            Ok(frac) => Fixed { whole: num / den, frac },
            Err(_) => Fixed { whole: num / den + 1, frac: 0 },
        }
    }

    /// `value` times this, rounded down; modulo 2^64.
    pub fn times(self, value: u64) -> u64 {
        let high = (u128::from(value) * u128::from(self.frac)) >> 64;
        value.wrapping_mul(self.whole).wrapping_add(high as u64)
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
    fn a_ratio_that_is_all_but_whole_is_rounded_up_to_it() {
        assert_eq!(Fixed::ratio_up(u64::MAX, u64::MAX), Fixed { whole: 1, frac: 0 });
        let almost = Fixed::ratio_up(u64::MAX - 1, u64::MAX);
        assert_eq!((almost.whole, almost.frac), (0, u64::MAX));
    }
}
