//! The sum of several causes that put a value off: an uncertainty budget (JCGM 100:2008, *Guide to the Expression
//! of Uncertainty in Measurement*, 4.3.7, 5.1.2 and G.4).
//!
//! Of an effect only its bounds are known, so any value between them is as likely as another. Causes that have nothing
//! to do with one another are seldom at their worst together: variances are added, not bounds. Of few causes the bounds
//! say more, and then they count.

/// Standard deviations on one side of an interval of 95 %.
const DEVIATIONS: f64 = 1.96;

/// Contributions that have nothing to do with one another, in per cent of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Budget {
    middle: f64,
    /// Half of all bounds together.
    half: f64,
    variance: f64,
}

impl Budget {
    /// Of effects, each between two bounds.
    pub fn of_effects(ranges: impl IntoIterator<Item = [f64; 2]>) -> Budget {
        ranges.into_iter().fold(Budget::default(), Budget::and_effect)
    }

    /// Something between two bounds, of which nothing else is known.
    pub fn and_effect(self, [low, high]: [f64; 2]) -> Budget {
        let half = (high - low) / 2.0;
        self.plus((low + high) / 2.0, half, half * half / 3.0)
    }

    /// Chance, of which 95 of 100 cases are between two bounds.
    pub fn and_chance(self, [low, high]: [f64; 2]) -> Budget {
        let half = (high - low) / 2.0;
        self.plus((low + high) / 2.0, half, (half / DEVIATIONS).powi(2))
    }

    fn plus(self, middle: f64, half: f64, variance: f64) -> Budget {
        Budget { middle: self.middle + middle, half: self.half + half, variance: self.variance + variance }
    }

    /// From where to where all of it lies in 95 of 100 cases. Without bounds if one contribution has none.
    pub fn range(&self) -> [f64; 2] {
        let half = self.half.min(DEVIATIONS * self.variance.sqrt());
        match (self.middle.is_finite(), half.is_finite()) {
            (true, true) => [self.middle - half, self.middle + half],
            _ => [f64::NEG_INFINITY, f64::INFINITY],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(range: [f64; 2], expected: [f64; 2]) {
        let off = range.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 0.005, "{range:?}, not {expected:?}");
    }

    #[test]
    fn one_cause_is_within_its_bounds() {
        near(Budget::of_effects([[-1.0, 5.0]]).range(), [-1.0, 5.0]);
        near(Budget::default().and_chance([-2.0, 1.0]).range(), [-2.0, 1.0]);
        near(Budget::default().range(), [0.0, 0.0]);
    }

    #[test]
    fn many_are_seldom_at_their_worst_together() {
        // Four of ± 1: a deviation of √(4/3).
        near(Budget::of_effects([[-1.0, 1.0]; 4]).range(), [-2.263, 2.263]);
        // Two bounds say nearly as much as two variances.
        near(Budget::of_effects([[0.0, 2.0]; 2]).range(), [0.4, 3.6]);
        near(Budget::of_effects([[0.0, 6.0]]).and_chance([-4.0, 4.0]).range(), [-2.248, 8.248]);
    }

    #[test]
    fn something_known_shifts_all() {
        near(Budget::of_effects([[3.0, 3.0], [-1.0, 1.0]]).range(), [2.0, 4.0]);
    }

    #[test]
    fn what_has_no_bounds_leaves_none() {
        assert_eq!(Budget::of_effects([[0.0, f64::INFINITY], [1.0, 2.0]]).range(), [f64::NEG_INFINITY, f64::INFINITY]);
        assert_eq!(Budget::of_effects([[f64::NAN, 1.0]]).range(), [f64::NEG_INFINITY, f64::INFINITY]);
    }
}
